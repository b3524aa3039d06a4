"""Definitions that the cluster has: the same as ours, newer, too old, none."""

import asyncio
from typing import Any, cast

from iggy_operator.cluster import ClusterError, NotFoundError, UnreachableError
from iggy_operator.program.api_client import ApiClient
from iggy_operator.program.definitions import compared, trouble_with_definitions
from published_kinds import published


def fields(document: dict[str, Any], kind: str, *path: str) -> dict[str, Any]:
    node = document["components"]["schemas"][f"dev.iggykube.v1alpha1.{kind}"]
    for step in path:
        node = node["items"] if step == "[]" else node["properties"][step]
    return cast(dict[str, Any], node["properties"])


def test_the_same_definitions_are_fine() -> None:
    assert compared(published()) == ""


def test_newer_ones_are_fine() -> None:
    document = published()
    fields(document, "IggyTopic", "spec")["later"] = {"type": "string"}

    assert compared(document) == ""


def test_a_field_that_is_missing_is_named_with_the_fix() -> None:
    document = published()
    del fields(document, "IggyTopic", "status")["sinksSummary"]
    del fields(document, "IggyTopic", "spec", "sinks", "[]")["trigger"]

    text = compared(document)

    assert "IggyTopic.status.sinksSummary" in text
    assert "IggyTopic.spec.sinks[].trigger" in text
    assert "kubectl apply --server-side -f crds/" in text


def test_many_missing_fields_are_counted() -> None:
    document = published()
    fields(document, "IggyBroker", "status").clear()

    assert " more: " in compared(document)


def test_a_kind_that_is_missing_is_named() -> None:
    document = published()
    del document["components"]["schemas"]["dev.iggykube.v1alpha1.IggySink"]

    assert "kind IggySink" in compared(document)


def test_a_cluster_without_our_kinds_and_one_that_does_not_answer() -> None:
    class Client:
        def __init__(self, error: ClusterError) -> None:
            self.error = error

        async def get(self, path: str) -> Any:
            raise self.error

    def told(error: ClusterError) -> str:
        return asyncio.run(trouble_with_definitions(cast(ApiClient, Client(error))))

    assert "does not know our kinds" in told(NotFoundError("404"))
    assert "down" in told(UnreachableError("it is down"))

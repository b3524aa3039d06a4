"""The fake is honest where it matters: else the tests on it would prove nothing."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fake_cluster import FakeCluster
from iggy_operator.cluster import ConflictError, InvalidError, NotFoundError, Ref
from iggy_operator.desired.metadata import owner_of
from operator_world import HandClock
from resource_documents import topic

REF = Ref("IggyTopic", "shop", "orders")
READY = {
    "type": "Ready",
    "status": "True",
    "reason": "Synced",
    "message": "",
    "lastTransitionTime": "2026-05-01T12:00:00Z",
}


def run(scenario: Callable[[FakeCluster], Awaitable[None]]) -> None:
    asyncio.run(scenario(FakeCluster(HandClock())))  # type: ignore[arg-type]


def body(cluster: FakeCluster, **parts: Any) -> dict[str, Any]:
    uid = cluster.objects[REF]["metadata"]["uid"]
    metadata = {"name": REF.name, "namespace": REF.namespace, "uid": uid}
    return {"apiVersion": "iggykube.dev/v1alpha1", "kind": REF.kind, "metadata": metadata} | parts


def version(cluster: FakeCluster) -> str:
    return str(cluster.objects[REF]["metadata"]["resourceVersion"])


def test_a_new_object_has_defaults_and_waits_for_the_operator() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        value = cluster.put(topic())

        assert value["spec"]["partitions"] == 1
        assert value["status"]["conditions"][0]["reason"] == "Pending"
        assert value["metadata"]["generation"] == 1

    run(scenario)


def test_the_version_moves_with_every_change_and_the_generation_with_the_spec() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.put(topic())
        versions = [version(cluster)]
        cluster.annotate(REF, "paused", "true")
        versions.append(version(cluster))
        cluster.change_spec(REF, partitions=2)
        versions.append(version(cluster))
        cluster.change_spec(REF, partitions=2)

        assert len(set(versions)) == 3
        assert version(cluster) == versions[-1]
        assert cluster.objects[REF]["metadata"]["generation"] == 2

    run(scenario)


def test_an_apply_that_changes_nothing_writes_nothing() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.put(topic())
        status = body(cluster, status={"conditions": [READY], "partitions": 3})
        await cluster.apply_status(status)
        before = version(cluster)

        await cluster.apply_status(status)

        assert version(cluster) == before

    run(scenario)


def test_what_we_applied_and_apply_no_more_is_gone_and_the_default_is_replaced() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.put(topic())
        await cluster.apply_status(body(cluster, status={"conditions": [READY], "messages": 3}))

        await cluster.apply_status(body(cluster, status={"conditions": [READY]}))

        assert cluster.objects[REF]["status"] == {"conditions": [READY]}
        assert cluster.objects[REF]["spec"]["partitions"] == 1

    run(scenario)


def test_an_apply_of_metadata_leaves_what_others_wrote() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.put(topic())
        cluster.annotate(REF, "paused", "true")
        mine = body(cluster)
        mine["metadata"] = {**mine["metadata"], "labels": {"a": "b"}}
        await cluster.apply(mine)
        await cluster.apply(body(cluster))

        metadata = cluster.objects[REF]["metadata"]
        assert metadata["annotations"] == {"iggykube.dev/paused": "true"}
        assert not metadata.get("labels")

    run(scenario)


@pytest.mark.parametrize("uid", ["another", ""])
def test_another_uid_is_a_conflict(uid: str) -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.put(topic())
        wrong = body(cluster, status={})
        wrong["metadata"]["uid"] = uid
        with pytest.raises(ConflictError):
            await cluster.apply_status(wrong)
        with pytest.raises(ConflictError):
            await cluster.delete(REF, uid=uid)
        with pytest.raises(ConflictError):
            await cluster.remove_finalizer(REF, uid=uid, finalizer="x")

    run(scenario)


def test_a_status_that_the_schema_does_not_know_is_refused() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.put(topic())
        with pytest.raises(InvalidError, match="phase"):
            await cluster.apply_status(body(cluster, status={"phase": "Running"}))

    run(scenario)


def test_a_finalizer_holds_a_deletion_up_and_cannot_be_added_then() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        uid = cluster.put(topic())["metadata"]["uid"]
        await cluster.add_finalizer(REF, uid=uid, finalizer="a/b")
        cluster.remove(REF)
        assert cluster.objects[REF]["metadata"]["deletionTimestamp"]
        with pytest.raises(InvalidError):
            await cluster.add_finalizer(REF, uid=uid, finalizer="c/d")

        await cluster.remove_finalizer(REF, uid=uid, finalizer="a/b")

        with pytest.raises(NotFoundError):
            await cluster.get(REF)

    run(scenario)


@pytest.mark.parametrize(("propagation", "is_left"), [("Background", False), ("Orphan", True)])
def test_children_go_with_their_owner_unless_orphaned(propagation: Any, is_left: bool) -> None:
    async def scenario(cluster: FakeCluster) -> None:
        owner = cluster.put(topic())
        metadata = {
            "name": "child",
            "namespace": "shop",
            "ownerReferences": [owner_of(owner).reference],
        }
        await cluster.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})

        await cluster.delete(REF, uid=owner["metadata"]["uid"], propagation=propagation)

        assert (cluster.names("Secret") == ["child"]) == is_left

    run(scenario)


def test_lists_select_by_namespace_and_label() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        for namespace, color in (("a", "red"), ("b", "red"), ("b", "blue")):
            value = topic(color)
            value["metadata"]["labels"] = {"color": color}
            cluster.put(value, namespace=namespace)

        found = await cluster.list("IggyTopic", namespace="b", labels={"color": "red"})

        assert [item["metadata"]["namespace"] for item in found] == ["b"]
        assert len(await cluster.list("IggyTopic")) == 3

    run(scenario)

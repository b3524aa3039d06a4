"""Brokers and users as values, and what surrounds them, for tests of what is rendered."""

from collections.abc import Mapping
from typing import Any

from iggy_operator import API_VERSION
from iggy_operator.desired.broker import broker_children
from iggy_operator.desired.metadata import Manifest, Owner
from iggy_operator.desired.release import Release
from iggy_operator.documents import Document
from iggy_operator.resources import Broker, Resources, User, parse
from iggy_operator.validation import check
from resource_documents import document

RELEASE = Release(
    broker_image="iggykube/broker:1.0.0",
    spark_image="iggykube/spark:1.0.0",
    spark_version="4.3.0",
    operator_namespace="iggy-system",
)
NEXT_RELEASE = Release(
    broker_image="iggykube/broker:1.1.0",
    spark_image="iggykube/spark:1.1.0",
    spark_version="4.3.1",
    operator_namespace="iggy-system",
)
UID = "0d9f3a6c-5b1e-4c57-9f0a-2f1d3c4b5a69"


def parsed(kind: str, name: str, namespace: str, spec: Mapping[str, Any]) -> Resources:
    """One object, checked as the API server would."""
    value = document(kind, spec, name=name)
    value["metadata"]["namespace"] = namespace
    checked = check(value)
    assert not checked.problems, checked.problems
    return parse([Document(checked.value, {})])


def broker_of(name: str = "main", namespace: str = "messaging", **spec: Any) -> Broker:
    return parsed("IggyBroker", name, namespace, spec).brokers[0]


def user_of(name: str = "fraud", namespace: str = "shop", **spec: Any) -> User:
    spec = {"brokerRef": {"name": "main", "namespace": "messaging"}, **spec}
    return parsed("IggyUser", name, namespace, spec).users[0]


def owner_of_broker(broker: Broker) -> Owner:
    return Owner(API_VERSION, "IggyBroker", broker.key.name, UID)


def children_of(
    broker: Broker, release: Release = RELEASE, *, restart_at: str = ""
) -> dict[str, Manifest]:
    """The children of a broker by kind; the headless Service as `Headless`."""
    children = broker_children(broker, owner_of_broker(broker), release, restart_at=restart_at)
    found = {}
    for child in children:
        is_headless = child["kind"] == "Service" and child["spec"].get("clusterIP") == "None"
        found["Headless" if is_headless else child["kind"]] = child
    assert len(found) == len(children)
    return found

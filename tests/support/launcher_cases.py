"""Sinks of a cluster as values, and what surrounds them, for tests of their jobs."""

from typing import Any

from desired_cases import RELEASE, UID, parsed
from iggy_operator import API_VERSION
from iggy_operator.desired.metadata import Owner
from iggy_operator.launchers.job import Access, ConnectorJob
from iggy_operator.resources import Connector, Sink, Source
from resource_documents import sink, source

ACCESS = Access("main.messaging.svc:8090", "shop", "Orders.V2", "orders-lake-iggy")
LAKE_TEMPLATE: dict[str, Any] = {
    "spec": {
        "volumes": [{"name": "lake", "persistentVolumeClaim": {"claimName": "lake"}}],
        "containers": [{"volumeMounts": [{"name": "lake", "mountPath": "/lake"}]}],
    }
}
"""Where the files of a Files sink lie in a cluster."""
SMALLEST = {"files": {"path": "/lake/orders"}, "spark": {"podTemplate": LAKE_TEMPLATE}}


def sink_of(name: str = "orders.lake", namespace: str = "shop", **spec: Any) -> Sink:
    value = sink(**(SMALLEST | spec))
    return parsed("IggySink", name, namespace, value["spec"]).sinks[0]


def source_of(name: str = "orders.made", namespace: str = "shop", **spec: Any) -> Source:
    return parsed("IggySource", name, namespace, source(**spec)["spec"]).sources[0]


def job_of(desired: Connector | None = None, **changes: Any) -> ConnectorJob:
    desired = desired or sink_of()
    owner = Owner(API_VERSION, desired.kind, desired.key.name, changes.pop("uid", UID))
    fields: dict[str, Any] = {"access": ACCESS, "release": RELEASE, **changes}
    return ConnectorJob(connector=desired, owner=owner, **fields)

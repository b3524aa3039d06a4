"""Documents of our kinds for tests: as small as they may be, and with some fields set."""

import copy
from collections.abc import Mapping
from typing import Any

from iggy_operator import API_VERSION
from iggy_operator.schema import schemas
from schema_samples import whole


def document(kind: str, spec: Mapping[str, Any], *, name: str = "orders") -> dict[str, Any]:
    """A whole document around a spec."""
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {"name": name},
        "spec": copy.deepcopy(dict(spec)),
    }


def broker(**spec: Any) -> dict[str, Any]:
    return document("IggyBroker", spec, name="main")


def stream(**spec: Any) -> dict[str, Any]:
    return document("IggyStream", spec, name="shop")


def topic(name: str = "orders", **spec: Any) -> dict[str, Any]:
    return document("IggyTopic", {"streamRef": {"name": "shop"}} | spec, name=name)


def user(name: str = "fraud", **spec: Any) -> dict[str, Any]:
    return document("IggyUser", spec, name=name)


LAKE: dict[str, Any] = {
    "name": "lake",
    "type": "Files",
    "files": {"path": "lake/orders"},
    "checkpoint": {"volume": {}},
}


def with_sink(**fields: Any) -> dict[str, Any]:
    """A topic with one sink: LAKE with some fields replaced, or removed by None."""
    sink = {name: value for name, value in (LAKE | fields).items() if value is not None}
    return topic(sinks=[sink])


def sink(**fields: Any) -> dict[str, Any]:
    """An IggySink, LAKE with some fields replaced, or removed by None."""
    spec = {"topicRef": {"name": "orders"}, **{k: v for k, v in LAKE.items() if k != "name"}}
    spec = {name: value for name, value in (spec | fields).items() if value is not None}
    return document("IggySink", spec, name="orders.lake")


MADE: dict[str, Any] = {
    "name": "made",
    "type": "Random",
    "random": {},
    "checkpoint": {"volume": {}},
}


def with_source(**fields: Any) -> dict[str, Any]:
    """A topic with one source: MADE with some fields replaced, or removed by None."""
    source = {name: value for name, value in (MADE | fields).items() if value is not None}
    return topic(sources=[source])


def source(**fields: Any) -> dict[str, Any]:
    """An IggySource, MADE with some fields replaced, or removed by None."""
    spec = {"topicRef": {"name": "orders"}, **{k: v for k, v in MADE.items() if k != "name"}}
    spec = {name: value for name, value in (spec | fields).items() if value is not None}
    return document("IggySource", spec, name="orders.made")


def full_topic(name: str = "full") -> dict[str, Any]:
    """A topic with sixteen sinks, each with every field that a Files sink may have."""
    properties = schemas()["IggySink"].root["properties"]["spec"]["properties"]
    others = {kind.lower() for kind in properties["type"]["enum"]} - {"files"}
    fields = {k: v for k, v in properties.items() if k not in {*others, "topicRef"}}
    entry = whole({"type": "object", "properties": fields})
    entry["files"]["path"] = "s3a://lake/orders"
    entry["checkpoint"] = S3 | {"s3": entry["files"]["s3"]}
    entry["errors"]["tolerance"] = "Data"
    entry["transforms"] = [{"flatten": {}}, {"delete_fields": {"fields": ["password"]}}]
    return topic(name, sinks=[{**entry, "name": f"sink-{index}"} for index in range(16)])


S3 = {"location": "s3a://lake/_ckpt/orders"}
EXTERNAL = {
    "tcp": "iggy.example:8090",
    "http": "https://iggy.example:3000",
    "credentialsSecretName": "legacy-root",
}

"""Walks through a schema: every node of it, and a value for every field."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from iggy_operator.schema import Node

CONDITION: Final = {
    "type": "Ready",
    "status": "True",
    "observedGeneration": 1,
    "lastTransitionTime": "2026-01-01T00:00:00Z",
    "reason": "Synced",
    "message": "as the spec says",
}
# One text that fits each pattern of the schemas; a test shows which one is missing.
_FITTING: Final = {
    "^([0-9]+(ms|s|m|h|d))+$": "10s",
    "^(never|([0-9]+(ms|s|m|h|d|w))+)$": "7d",
    "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$": "some-name",
    "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$": "some.name",
    "^jdbc:[a-z0-9]+:": "jdbc:postgresql://pg:5432/shop",
    "^https?://[^/@?#]+([/?#].*)?$": "https://example.com/some/path",
    "^https?://[^/@]+/?$": "http://s3:8333",
    "^mongodb(\\+srv)?://[^@]+$": "mongodb://mongo:27017",
    "^postgres(ql)?://[^/@?#]+/[^/@?#]+$": "postgresql://pg:5432/shop",
    "^[^.\\s]+\\.[^.\\s]+$": "public.orders",
    "^[a-z0-9_]{1,63}$": "some_name",
    "^[^.]+(\\.[^.]+)*$": "customer.id",
    "^[0-9]+\\.[0-9]+\\.[0-9]+$": "4.3.0",
    "^[0-9]+[kKmMgGtT]?$": "1g",
}


def nodes(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every node of a schema with its path: `.spec.sinks[].files`, `{}` for the values of a map."""
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    if "items" in node:
        yield from nodes(node["items"], f"{path}[]")
    if isinstance(node.get("additionalProperties"), dict):
        yield from nodes(node["additionalProperties"], f"{path}{{}}")


def whole(node: Node) -> Any:
    """A value with every field of `node`; a default where it has one."""
    if "default" in node and node.get("type") != "object":
        return node["default"]
    if "enum" in node:
        return node["enum"][0]
    plain = {"integer": node.get("minimum") or 1, "number": 1.5, "boolean": True}
    match node.get("type"):
        case "object":
            return _object(node)
        case "array":
            return [whole(node["items"])]
        case "string":
            return _text(node)
    return plain[node["type"]]


def _object(node: Node) -> dict[str, Any]:
    extra = node.get("additionalProperties")
    if isinstance(extra, Mapping):
        return {"some.key": whole(extra)}
    return {name: whole(child) for name, child in node.get("properties", {}).items()}


def _text(node: Node) -> str:
    if node.get("format") == "date-time":
        return "2026-01-01T00:00:00Z"
    if "pattern" in node:
        return _FITTING[node["pattern"]]
    return "some text"[: node.get("maxLength")]


def whole_status(node: Node) -> dict[str, Any]:
    """Every field of a status."""
    rest = {name: item for name, item in node["properties"].items() if name != "conditions"}
    return {"conditions": [dict(CONDITION)], **{name: whole(item) for name, item in rest.items()}}

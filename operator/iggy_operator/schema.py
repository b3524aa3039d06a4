"""The schemas of our kinds, read from the very files that are applied to a cluster (`crds/`)."""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final, TypeAlias

import yaml

Node: TypeAlias = Mapping[str, Any]

_INT64_MAX: Final = (1 << 63) - 1
# What of Kubernetes' ObjectMeta may stand in a file; the rest is written by the API server.
_METADATA: Final[Node] = {
    "type": "object",
    "properties": {
        "name": {
            "description": "Name of the object.",
            "type": "string",
            "minLength": 1,
            "maxLength": 253,
            "pattern": "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
        },
        "namespace": {
            "type": "string",
            "minLength": 1,
            "maxLength": 63,
            "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        },
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
        "finalizers": {"type": "array", "items": {"type": "string"}},
        "ownerReferences": {
            "type": "array",
            "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
        "managedFields": {
            "type": "array",
            "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
        **{
            name: {"type": "string"}
            for name in ("uid", "resourceVersion", "creationTimestamp", "selfLink", "generateName")
        },
        "generation": {"type": "integer"},
    },
    "required": ["name"],
}
_COPIED: Final = (
    "enum", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems",
    "minProperties", "maxProperties", "required",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Schema:
    """One kind: its names and its schema in both forms."""

    kind: str
    plural: str
    short_name: str
    api_version: str
    root: Node
    """As in the file, with the metadata that Kubernetes adds."""
    json_schema: Node
    """As JSON Schema 2020-12, with unknown fields refused."""


def crd_texts() -> Iterator[tuple[str, str]]:
    """Name and text of every resource definition, in the order of their names."""
    folder = files("iggy_operator") / "crds"
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".yaml"):
            yield entry.name, entry.read_text(encoding="utf-8")


@cache
def schemas() -> Mapping[str, Schema]:
    """All kinds by name."""
    # The loader in C takes a tenth of the time; not every build of PyYAML has it.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found = [_schema(yaml.load(text, Loader=loader)) for _, text in crd_texts()]
    return {schema.kind: schema for schema in found}


def _schema(definition: Node) -> Schema:
    spec = definition["spec"]
    version = spec["versions"][0]
    root = copy.deepcopy(version["schema"]["openAPIV3Schema"])
    api_version = f"{spec['group']}/{version['name']}"
    root["properties"]["metadata"] = _METADATA
    root["properties"]["apiVersion"]["enum"] = [api_version]
    root["properties"]["kind"]["enum"] = [spec["names"]["kind"]]
    root["required"] = [*root.get("required", []), "apiVersion", "kind", "metadata"]
    names = spec["names"]
    return Schema(
        kind=names["kind"],
        plural=names["plural"],
        short_name=names["shortNames"][0],
        api_version=api_version,
        root=root,
        json_schema=_json_schema(root),
    )


def _json_schema(node: Node) -> Node:
    """The same node as JSON Schema. A structural schema says less than JSON Schema can."""
    if node.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    result: dict[str, Any] = {key: node[key] for key in _COPIED if key in node}
    if "type" in node:
        result["type"] = node["type"]
    if node.get("type") == "integer":
        result.setdefault("minimum", -_INT64_MAX - 1)
        result.setdefault("maximum", _INT64_MAX)
    if "pattern" in node:
        # In Python `$` also matches before a final line break; the API server's does not.
        pattern = node["pattern"]
        result["pattern"] = pattern[:-1] + r"\Z" if pattern.endswith("$") else pattern
    if "items" in node:
        result["items"] = _json_schema(node["items"])
    if node.get("type") == "object":
        result |= _object_parts(node)
    return result


def _object_parts(node: Node) -> dict[str, Any]:
    properties = {key: _json_schema(value) for key, value in node.get("properties", {}).items()}
    extra = node.get("additionalProperties")
    if isinstance(extra, Mapping):
        return {"additionalProperties": _json_schema(extra)}
    if node.get("x-kubernetes-preserve-unknown-fields"):
        return {"properties": properties}
    return {"properties": properties, "additionalProperties": False}


def with_defaults(value: Any, node: Node) -> Any:
    """A copy with every default filled in; a null where none is allowed counts as left out."""
    if isinstance(value, dict):
        properties: Node = node.get("properties", {})
        filled = {
            key: item for key, item in value.items() if item is not None or key not in properties
        }
        for key, child in properties.items():
            if key not in filled and "default" in child:
                filled[key] = copy.deepcopy(child["default"])
        extra = node.get("additionalProperties")
        extra = extra if isinstance(extra, Mapping) else {}
        return {
            key: with_defaults(item, properties.get(key, extra)) for key, item in filled.items()
        }
    if isinstance(value, list):
        return [with_defaults(item, node.get("items", {})) for item in value]
    return copy.deepcopy(value)

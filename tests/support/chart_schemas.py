"""The parts of the charts' schemas that are the resources' own fields, made from crds/."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
CRDS = ROOT / "crds"
OPERATOR = ROOT / "charts" / "iggy-operator" / "values.schema.json"
TOPOLOGY = ROOT / "charts" / "iggy-topology" / "values.schema.json"
PARTS = {
    "brokers": "IggyBroker",
    "streams": "IggyStream",
    "topics": "IggyTopic",
    "users": "IggyUser",
}
KEPT = (
    "type", "description", "enum", "pattern", "minimum", "maximum", "minLength", "maxLength",
    "minItems", "maxItems", "minProperties", "maxProperties", "required",
)  # fmt: skip
DRAFT = "http://json-schema.org/draft-07/schema#"
NAME: dict[str, Any] = {
    "type": "string",
    "description": "Name of the object.",
    "maxLength": 63,
    "pattern": r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
}
TEXTS: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "string"}}
# Beside the fields of the spec. No kind has one of these names in its spec.
BESIDE: dict[str, dict[str, Any]] = {
    "namespace": {
        "type": "string",
        "description": "Namespace of the object; the release's own if left out.",
        "maxLength": 63,
        "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    },
    "labels": {**TEXTS, "description": "Labels of the object."},
    "annotations": {**TEXTS, "description": "Annotations of the object."},
}


def spec_of(kind: str) -> Mapping[str, Any]:
    """The schema of a kind's spec as the API server has it."""
    definition = yaml.safe_load((CRDS / f"{kind.lower()}s.yaml").read_text(encoding="utf-8"))
    version = definition["spec"]["versions"][0]
    spec: Mapping[str, Any] = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return spec


def json_schema(node: Mapping[str, Any]) -> dict[str, Any]:
    """One node for Helm: unknown fields are refused, rules (CEL) are left to the API server."""
    result: dict[str, Any] = {name: node[name] for name in KEPT if name in node}
    if node.get("x-kubernetes-int-or-string"):
        result["type"] = ["integer", "string"]
    if "properties" in node:
        required = node.get("required", ())
        result["properties"] = {
            name: json_schema(child) if name in required else or_null(json_schema(child))
            for name, child in node["properties"].items()
        }
        result["additionalProperties"] = False
    elif isinstance(node.get("additionalProperties"), Mapping):
        result["additionalProperties"] = json_schema(node["additionalProperties"])
    if "items" in node:
        result["items"] = json_schema(node["items"])
    return result


def or_null(node: dict[str, Any]) -> dict[str, Any]:
    """The API server takes null for a field as its default."""
    result = dict(node)
    if isinstance(node.get("type"), str):
        result["type"] = [node["type"], "null"]
    if "enum" in node:
        result["enum"] = [*node["enum"], None]
    return result


def operator_definitions() -> dict[str, Any]:
    """What the operator's values say of the broker `iggy`."""
    return {"IggyBroker": json_schema(spec_of("IggyBroker"))}


def topology_schema() -> dict[str, Any]:
    """All of it: each part a mapping by name, or a list of entries with a name."""
    definitions: dict[str, Any] = {}
    properties: dict[str, Any] = {
        "namespace": {**BESIDE["namespace"], "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$"},
        "labels": {**TEXTS, "description": "Labels of every object."},
        "annotations": {**TEXTS, "description": "Annotations of every object."},
        "global": {"type": "object", "description": "For a chart that has this one as a part."},
    }
    for part, kind in PARTS.items():
        entry = json_schema(spec_of(kind))
        entry["properties"] = {**BESIDE, **entry["properties"]}
        if kind == "IggyBroker":
            # Numbers are written out as text, digit for digit.
            scalar = {"type": ["string", "number", "boolean"]}
            entry["properties"]["config"]["additionalProperties"] = scalar
        # `shop:` alone is a stream with its defaults.
        kinds = "object" if "required" in entry else ["object", "null"]
        definitions[kind] = {**entry, "type": kinds}
        definitions[f"{kind}Item"] = {
            **entry,
            "properties": {"name": NAME, **entry["properties"]},
            "required": ["name", *entry.get("required", ())],
        }
        properties[part] = {
            "description": f"One {kind} for each: a mapping by name, or a list with names.",
            "type": ["object", "array"],
            "propertyNames": {key: NAME[key] for key in ("maxLength", "pattern")},
            "additionalProperties": {"$ref": f"#/definitions/{kind}"},
            "items": {"$ref": f"#/definitions/{kind}Item"},
        }
    return {
        "$schema": DRAFT,
        "title": "Values of the chart iggy-topology",
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "definitions": definitions,
    }


def texts() -> dict[Path, str]:
    """The files as they should be."""
    operator = json.loads(OPERATOR.read_text(encoding="utf-8"))
    operator["definitions"] = operator_definitions()
    return {
        OPERATOR: json.dumps(operator, indent=2) + "\n",
        TOPOLOGY: json.dumps(topology_schema(), indent=1) + "\n",
    }

"""Schemas of other projects' resource definitions, where somebody has put them.

In the folder that `SPARK_CRDS` names, else in `../shared/crds` beside this repository.
"""

import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from iggy_operator.documents import LOADER

FOLDER_VARIABLE = "SPARK_CRDS"
KUBEFLOW_FILE = "sparkoperator.k8s.io_sparkapplications.yaml"
APACHE_FILE = "sparkapplications.spark.apache.org-v1.yaml"
_BESIDE = Path(__file__).resolve().parents[2].parent / "shared" / "crds"
_TYPES = {
    "object": Mapping, "array": list, "string": str, "integer": int, "boolean": bool,
    "number": int | float,
}  # fmt: skip

Node = Mapping[str, Any]


def definition(file: str) -> Path:
    """The file. Skips the test where it is not there."""
    path = _folder() / file
    if not path.is_file():
        pytest.skip(f"{file} is not in {path.parent}: let {FOLDER_VARIABLE} name its folder")
    return path


def are_there() -> bool:
    """Whether those of both Spark operators are."""
    return all((_folder() / file).is_file() for file in (KUBEFLOW_FILE, APACHE_FILE))


def _folder() -> Path:
    return Path(os.environ.get(FOLDER_VARIABLE) or _BESIDE)


@cache
def spec_schema(file: str, version: str) -> Node:
    """The schema of `spec`. Skips the test where the file is not there."""
    value = yaml.load(definition(file).read_text(encoding="utf-8"), Loader=LOADER)
    for entry in value["spec"]["versions"]:
        if entry["name"] == version:
            schema: Node = entry["schema"]["openAPIV3Schema"]["properties"]["spec"]
            return schema
    raise AssertionError(f"{file} has no version {version}")


def pod_schema() -> Node:
    """Of a pod template, as Kubernetes has it: Apache's definition repeats all of it."""
    driver = spec_schema(APACHE_FILE, "v1")["properties"]["driverSpec"]
    template: Node = driver["properties"]["podTemplateSpec"]
    return template


def misfits(value: Any, node: Node, path: str = "") -> Iterator[str]:
    """What of a value the API server would refuse, or drop as unknown."""
    if node.get("x-kubernetes-int-or-string"):
        if not isinstance(value, int | str):
            yield f"{path}: neither number nor text"
        return
    kind = node.get("type", "object")
    if not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "boolean"):
        yield f"{path}: {value!r} is no {kind}"
    elif isinstance(value, Mapping):
        yield from _object_misfits(value, node, path)
    elif isinstance(value, list):
        for item in value:
            yield from misfits(item, node.get("items", {}), f"{path}[]")
    elif value not in node.get("enum", [value]) or (kind == "integer" and _is_small(value, node)):
        yield f"{path}: {value!r} is not allowed"


def _is_small(value: Any, node: Node) -> bool:
    return bool(value < node.get("minimum", value))


def _object_misfits(value: Node, node: Node, path: str) -> Iterator[str]:
    known, extra = node.get("properties", {}), node.get("additionalProperties")
    for name in set(node.get("required", ())) - set(value):
        yield f"{path}.{name}: is missing"
    for name, item in value.items():
        if name in known:
            yield from misfits(item, known[name], f"{path}.{name}")
        elif isinstance(extra, Mapping):
            yield from misfits(item, extra, f"{path}.{name}")
        elif not node.get("x-kubernetes-preserve-unknown-fields"):
            yield f"{path}.{name}: unknown"

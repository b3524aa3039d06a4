"""Our definitions as an API server publishes them for everybody who is logged in."""

from __future__ import annotations

import copy
from typing import Any

from iggy_operator.schema import schemas


def published() -> dict[str, Any]:
    """As the API server publishes what lies in `crds`."""
    found = {}
    for kind, schema in schemas().items():
        node = copy.deepcopy(dict(schema.root))
        node["x-kubernetes-group-version-kind"] = [
            {"group": "iggykube.dev", "version": "v1alpha1", "kind": kind}
        ]
        found[f"dev.iggykube.v1alpha1.{kind}"] = node
        found[f"dev.iggykube.v1alpha1.{kind}List"] = {"type": "object"}
    return {"components": {"schemas": found}}

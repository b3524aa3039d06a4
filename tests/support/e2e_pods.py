"""Pods as strict as a cluster can ask for: a user that no image knows, and no place to write."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from e2e_kubectl import Kubectl

Document = dict[str, Any]

STRANGER: Final = 12345
"""A user and a group that no image of ours has a name for."""
CONTAINER_SECURITY: Final[Document] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
POD_SECURITY: Final[Document] = {
    "runAsNonRoot": True,
    "runAsUser": STRANGER,
    "runAsGroup": STRANGER,
    "fsGroup": STRANGER,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def strict_spec(
    image: str, arguments: list[str], *, env: Mapping[str, str] | None = None
) -> Document:
    """A pod's spec that runs the image's own entrypoint; only /tmp may be written to."""
    container: Document = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": arguments,
        "env": [{"name": name, "value": value} for name, value in (env or {}).items()],
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 30,
        "securityContext": POD_SECURITY,
        "containers": [container],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    }


def with_volume(spec: Document, source: Document, *, name: str, path: str) -> Document:
    """The spec with one more volume in its container."""
    (container,) = spec["containers"]
    mounts = [*container["volumeMounts"], {"name": name, "mountPath": path}]
    return {
        **spec,
        "containers": [{**container, "volumeMounts": mounts}],
        "volumes": [*spec["volumes"], {"name": name, **source}],
    }


def as_pod(name: str, spec: Document) -> Document:
    metadata = {"name": name, "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def memory_mib(kubectl: Kubectl, pod: Document) -> float:
    """What the kubelet counts for a pod and cannot take back from it."""
    path = f"/api/v1/nodes/{pod['spec']['nodeName']}/proxy/stats/summary"
    uid = pod["metadata"]["uid"]
    pods = json.loads(kubectl("get", "--raw", path))["pods"]
    (found,) = (one for one in pods if one["podRef"]["uid"] == uid)
    return float(found["memory"]["workingSetBytes"]) / (1 << 20)

"""What a failed test leaves: everything in its namespace, as files for a person to read."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from e2e_kubectl import Document, Kubectl, Refused

RUN = os.environ.get("E2E_RUN") or secrets.token_hex(2)
"""Tells what this run makes from what another made. Processes may be parts of one run."""
PART = RUN + secrets.token_hex(2)
"""The same for this process alone."""
KINDS = (
    "pods", "services", "statefulsets", "deployments", "jobs", "configmaps", "networkpolicies",
    "persistentvolumeclaims", "serviceaccounts", "roles", "rolebindings",
)  # fmt: skip
LOG_LINES_MAX = 5000


def write(kubectl: Kubectl, folder: Path) -> None:
    """Write objects, events, descriptions and logs; no Secret, for people send these around."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind in (*KINDS, *own_kinds(kubectl)):
        _write(folder / f"{kind}.yaml", kubectl, "get", kind, "--output=yaml")
    order = "--sort-by=.lastTimestamp"
    _write(folder / "events.txt", kubectl, "get", "events", order, "--output=wide")
    _write(folder / "pods.txt", kubectl, "describe", "pods")
    for pod in _items(kubectl, "pods"):
        name = pod["metadata"]["name"]
        for container in _containers(pod):
            words = ("logs", name, f"--container={container}", f"--tail={LOG_LINES_MAX}")
            _write(folder / f"{name}.{container}.log", kubectl, *words)
            _write(folder / f"{name}.{container}.previous.log", kubectl, *words, "--previous")


def own_kinds(kubectl: Kubectl) -> list[str]:
    """The kinds of the project and of Spark operators that this cluster has."""
    groups = ("iggykube.dev", "sparkoperator.k8s.io", "spark.apache.org")
    found = kubectl("api-resources", "--namespaced", "--verbs=list", "--output=name").split()
    return [name for name in found if name.partition(".")[2] in groups]


def _containers(pod: Document) -> list[str]:
    spec = pod["spec"]
    return [one["name"] for one in (*spec.get("initContainers", []), *spec["containers"])]


def _items(kubectl: Kubectl, kind: str) -> list[Document]:
    try:
        return kubectl.items(kind)
    except Refused:
        return []


def _write(path: Path, kubectl: Kubectl, *words: str) -> None:
    try:
        text = kubectl(*words)
    except Refused as refused:
        if "--previous" in words:
            return  # it has never ended, so it has no earlier life
        text = str(refused)
    path.write_text(text)

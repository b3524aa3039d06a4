"""What the volume provisioner does about a claim or a volume. Pure: documents in, decisions out.

A volume is a folder of this machine. Its size is a promise that nobody enforces. That it grows is
told to the API server in the steps of a real driver, and the kubelet does the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import places
from .rendered import PROVISIONER

Document = dict[str, Any]

SELECTED_NODE = "volume.kubernetes.io/selected-node"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
RESIZE_PENDING = "NodeResizePending"

_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_UNITS |= {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}


@dataclass(frozen=True, slots=True)
class Provide:
    """Make the folder and the volume of a claim."""

    folder: Path
    volume: Document


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete a released volume with its folder."""

    folder: Path
    volume: str


@dataclass(frozen=True, slots=True)
class Grow:
    """Give a volume its claim's new size; the kubelet then finishes the claim."""

    namespace: str
    claim: str
    volume: str
    size: str


Decision = Provide | Remove | Grow


def decide(
    claims: Iterable[Document], volumes: Iterable[Document], classes: Iterable[Document], root: Path
) -> Iterator[Decision]:
    """All that is to be done now; what was done before is not among it."""
    ours = {
        one["metadata"]["name"]: one for one in classes if one.get("provisioner") == PROVISIONER
    }
    by_name = {volume["metadata"]["name"]: volume for volume in volumes}
    for claim in claims:
        cls = ours.get(claim["spec"].get("storageClassName", ""))
        if cls is None or "deletionTimestamp" in claim["metadata"]:
            continue
        if volume := by_name.get(claim["spec"].get("volumeName", "")):
            yield from _growth(claim, volume)
        elif _waits_for_us(claim) and volume_name(claim) not in by_name:
            yield Provide(root / volume_name(claim), volume_of(claim, cls, root))
    for volume in by_name.values():
        if _is_to_be_removed(volume):
            yield Remove(root / volume["metadata"]["name"], volume["metadata"]["name"])


def volume_name(claim: Document) -> str:
    return f"pvc-{claim['metadata']['uid']}"


def volume_of(claim: Document, cls: Document, root: Path) -> Document:
    """The volume that a claim gets: a local one, so that fsGroup works as on a real disk."""
    metadata = claim["metadata"]
    name = volume_name(claim)
    hostname = {"key": "kubernetes.io/hostname", "operator": "In", "values": [places.NODE]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "storageClassName": cls["metadata"]["name"],
            "persistentVolumeReclaimPolicy": cls["reclaimPolicy"],
            "capacity": {"storage": _requested(claim)},
            "accessModes": claim["spec"]["accessModes"],
            "volumeMode": "Filesystem",
            "local": {"path": str(root / name)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [hostname]}]}},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
        },
    }


def quantity(text: str) -> int:
    """Bytes of a size as Kubernetes writes it, `10Gi` for example."""
    digits = text.rstrip("".join({letter for unit in _UNITS for letter in unit}))
    return int(float(digits) * _UNITS[text[len(digits) :]])


def _requested(claim: Document) -> str:
    return str(claim["spec"]["resources"]["requests"]["storage"])


def _waits_for_us(claim: Document) -> bool:
    """Its pod has been given a node; a claim that no pod uses waits, as its class says."""
    annotations: Mapping[str, str] = claim["metadata"].get("annotations", {})
    return claim["status"].get("phase") == "Pending" and SELECTED_NODE in annotations


def _growth(claim: Document, volume: Document) -> Iterator[Grow]:
    # The API server lets a claim grow only if its class allows that.
    status, requested = claim["status"], _requested(claim)
    has = status.get("capacity", {}).get("storage")
    told = status.get("allocatedResources", {}).get("storage")
    if status.get("phase") != "Bound" or has is None or quantity(has) >= quantity(requested):
        return
    if told != requested or quantity(volume["spec"]["capacity"]["storage"]) < quantity(requested):
        metadata = claim["metadata"]
        yield Grow(metadata["namespace"], metadata["name"], volume["metadata"]["name"], requested)


def growing_status(size: str) -> Document:
    """What a claim is told when its volume has grown and the node has yet to notice."""
    return {
        "status": {
            "allocatedResources": {"storage": size},
            "allocatedResourceStatuses": {"storage": RESIZE_PENDING},
            "conditions": [
                {
                    "type": "FileSystemResizePending",
                    "status": "True",
                    "message": "the node grows the file system when a pod uses the volume",
                }
            ],
        }
    }


def _is_to_be_removed(volume: Document) -> bool:
    annotations = volume["metadata"].get("annotations", {})
    return (
        annotations.get(PROVISIONED_BY) == PROVISIONER
        and volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete"
        and volume["status"].get("phase") == "Released"
        and "deletionTimestamp" not in volume["metadata"]
    )

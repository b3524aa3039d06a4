"""The test cluster's provisioner: what it decides about claims and volumes."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e_cluster.rendered import GROWING_CLASS, PROVISIONER, storage_classes
from e2e_cluster.volumes import (
    PROVISIONED_BY,
    SELECTED_NODE,
    Document,
    Grow,
    Provide,
    Remove,
    decide,
    growing_status,
    quantity,
    volume_of,
)

ROOT = Path("/volumes")
CLASSES = storage_classes()
CLASS = CLASSES[0]


def a_claim(cls: str = CLASS["metadata"]["name"], *, selected: bool = True) -> Document:
    return {
        "metadata": {
            "name": "data",
            "namespace": "shop",
            "uid": "1-2",
            "annotations": {SELECTED_NODE: "node"} if selected else {},
        },
        "spec": {
            "storageClassName": cls,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "10Gi"}},
        },
        "status": {"phase": "Pending"},
    }


def bound(cls: str, asked: str, has: str) -> tuple[Document, Document]:
    """A claim with its volume, both of size `has`, that now asks for `asked`."""
    claim = a_claim(cls)
    volume = volume_of(claim, CLASS, ROOT) | {"status": {"phase": "Bound"}}
    volume["spec"]["capacity"]["storage"] = has
    claim["spec"] |= {"volumeName": "pvc-1-2", "resources": {"requests": {"storage": asked}}}
    claim["status"] = {"phase": "Bound", "capacity": {"storage": has}}
    return claim, volume


def released(policy: str) -> Document:
    volume = volume_of(a_claim(), CLASS | {"reclaimPolicy": policy}, ROOT)
    return volume | {"status": {"phase": "Released"}}


def test_a_claim_whose_pod_has_a_node_gets_a_folder_and_a_volume() -> None:
    (decision,) = decide([a_claim()], [], CLASSES, ROOT)

    assert isinstance(decision, Provide)
    assert decision.folder == ROOT / "pvc-1-2"
    spec = decision.volume["spec"]
    assert spec["local"] == {"path": "/volumes/pvc-1-2"}
    assert spec["capacity"] == {"storage": "10Gi"}
    assert spec["persistentVolumeReclaimPolicy"] == "Delete"
    assert (spec["claimRef"]["namespace"], spec["claimRef"]["uid"]) == ("shop", "1-2")


def test_a_claim_that_no_pod_uses_waits() -> None:
    assert list(decide([a_claim(selected=False)], [], CLASSES, ROOT)) == []


def test_claims_of_other_classes_are_not_ours() -> None:
    foreign = {"metadata": {"name": "cloud"}, "provisioner": "somebody.else/disks"}

    assert list(decide([a_claim("cloud")], [], [*CLASSES, foreign], ROOT)) == []


def test_a_claim_that_is_being_deleted_gets_nothing() -> None:
    claim = a_claim()
    claim["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    assert list(decide([claim], [], CLASSES, ROOT)) == []


def test_what_was_made_is_not_made_again() -> None:
    volume = volume_of(a_claim(), CLASS, ROOT) | {"status": {"phase": "Available"}}

    assert list(decide([a_claim()], [volume], CLASSES, ROOT)) == []


def test_a_released_volume_goes_with_its_folder() -> None:
    assert list(decide([], [released("Delete")], CLASSES, ROOT)) == [
        Remove(ROOT / "pvc-1-2", "pvc-1-2")
    ]


def test_a_retained_volume_stays() -> None:
    assert list(decide([], [released("Retain")], CLASSES, ROOT)) == []


def test_no_volume_of_others_and_no_folder_elsewhere_is_removed() -> None:
    theirs, moved = released("Delete"), released("Delete")
    theirs["metadata"]["annotations"][PROVISIONED_BY] = "somebody.else/disks"
    moved["spec"]["local"]["path"] = "/etc"

    assert list(decide([], [theirs], CLASSES, ROOT)) == []
    assert list(decide([], [moved], CLASSES, ROOT)) == [Remove(ROOT / "pvc-1-2", "pvc-1-2")]


def test_a_claim_that_asks_for_more_grows_once() -> None:
    claim, volume = bound(GROWING_CLASS, "20Gi", "10Gi")

    (decision,) = decide([claim], [volume], CLASSES, ROOT)
    claim["status"] |= growing_status("20Gi")["status"]
    volume["spec"]["capacity"]["storage"] = "20Gi"

    assert decision == Grow("shop", "data", "pvc-1-2", "20Gi")
    assert list(decide([claim], [volume], CLASSES, ROOT)) == []


def test_a_growth_that_was_cut_short_is_finished() -> None:
    claim, volume = bound(GROWING_CLASS, "20Gi", "10Gi")
    volume["spec"]["capacity"]["storage"] = "20Gi"

    assert list(decide([claim], [volume], CLASSES, ROOT)) == [
        Grow("shop", "data", "pvc-1-2", "20Gi")
    ]


@pytest.mark.parametrize("asked", ["10Gi", "5Gi"])
def test_a_claim_that_has_enough_is_left_alone(asked: str) -> None:
    claim, volume = bound(GROWING_CLASS, asked, "10Gi")

    assert list(decide([claim], [volume], CLASSES, ROOT)) == []


@pytest.mark.parametrize(
    ("text", "expected"), [("5", 5), ("2k", 2000), ("1.5Gi", 3 << 29), ("10Mi", 10 << 20)]
)
def test_sizes_are_read_as_kubernetes_writes_them(text: str, expected: int) -> None:
    assert quantity(text) == expected


def test_one_class_is_the_default_and_one_grows() -> None:
    key = "storageclass.kubernetes.io/is-default-class"

    assert {one["provisioner"] for one in CLASSES} == {PROVISIONER}
    assert [one["metadata"]["annotations"][key] for one in CLASSES].count("true") == 1
    assert [one["metadata"]["name"] for one in CLASSES if one["allowVolumeExpansion"]] == [
        GROWING_CLASS
    ]

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iggy_operator.desired.metadata import (
    Family,
    Owner,
    content_hash,
    dns_label,
    label_value,
    labels,
    owner_of,
    without_defaults,
)

# Kubernetes: what a label's value may be.
LABEL_VALUE = r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
OBJECT_NAME = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,250}[a-z0-9])?", fullmatch=True)
OWNER = Owner("iggykube.dev/v1alpha1", "IggyBroker", "main", "uid-1")


@given(OBJECT_NAME)
def test_any_name_becomes_a_value_of_a_label(name: str) -> None:
    value = label_value(name)

    assert len(value) <= 63
    assert re.fullmatch(LABEL_VALUE, value)
    assert value == name or len(name) > 63


def test_long_names_stay_apart() -> None:
    assert label_value("a" * 80) != label_value("a" * 81)


def test_a_name_that_a_service_may_have_stays() -> None:
    assert dns_label("main") == "main"
    assert dns_label("1.main") != dns_label("1-main")


def test_every_child_has_the_five_recommended_labels() -> None:
    found = labels("broker", "main", {"iggykube.dev/broker": "main"})

    assert {name for name in found if name.startswith("app.kubernetes.io/")} == {
        f"app.kubernetes.io/{name}"
        for name in ("name", "instance", "component", "part-of", "managed-by")
    }


def test_an_owner_never_blocks_a_deletion() -> None:
    family = Family("messaging", {"ours": "1"}, OWNER)

    owned = family.metadata("main", labels={"ours": "stolen", "team": "data"})
    free = family.metadata("main", is_owned=False)

    assert owned["labels"] == {"ours": "1", "team": "data"}
    assert owned["ownerReferences"][0]["controller"] is True
    assert owned["ownerReferences"][0]["blockOwnerDeletion"] is False
    assert "ownerReferences" not in free


def test_an_object_of_the_cluster_is_an_owner() -> None:
    value = {
        "apiVersion": OWNER.api_version,
        "kind": OWNER.kind,
        "metadata": {"name": "main", "uid": "uid-1"},
    }

    assert owner_of(value) == OWNER


def test_the_order_of_fields_changes_no_hash() -> None:
    assert content_hash({"a": 1, "b": [1, 2]}) == content_hash({"b": [1, 2], "a": 1})
    assert content_hash({"a": [1, 2]}) != content_hash({"a": [2, 1]})


NODE: dict[str, Any] = {
    "properties": {
        "size": {"default": "1Gi"},
        "deep": {"default": {"mode": "A"}, "properties": {"mode": {"default": "A"}, "on": {}}},
        "free": {"additionalProperties": {}},
    }
}


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ({"size": "1Gi", "deep": {"mode": "A"}}, {}),
        ({"size": "2Gi", "deep": {"mode": "B", "on": False}},
         {"size": "2Gi", "deep": {"mode": "B", "on": False}}),
        ({"free": {"x": "1Gi"}, "list": []}, {"free": {"x": "1Gi"}}),
        ({"s3": {"region": "a", "pathStyle": False}}, {"s3": {"region": "a"}}),
        ({"s3": {"region": "a", "pathStyle": True}}, {"s3": {"region": "a", "pathStyle": True}}),
        ({"s3": {"endpoint": "a", "pathStyle": False}},
         {"s3": {"endpoint": "a", "pathStyle": False}}),
    ],
)  # fmt: skip
def test_defaults_and_empty_parts_were_not_asked_for(value: Any, kept: Any) -> None:
    assert without_defaults(value, NODE) == kept

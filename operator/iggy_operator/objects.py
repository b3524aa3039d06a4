"""Objects as the API gives them: reading their metadata. Knows no kind in particular."""

from collections.abc import Mapping
from typing import Any, Final

from iggy_operator import API_GROUP
from iggy_operator.cluster import Object, Ref

FINALIZER: Final = f"{API_GROUP}/in-broker"
"""On an object while something in a broker is to be deleted with it."""
_SHARED_KINDS: Final = ("SparkApplication",)
_PREFIX: Final = f"{API_GROUP}/"


def ref_of(value: Object) -> Ref:
    """Which object this is."""
    metadata = value["metadata"]
    kind = value["kind"]
    if kind in _SHARED_KINDS:
        kind = f"{kind}.{value['apiVersion'].partition('/')[0]}"
    return Ref(kind, metadata.get("namespace", ""), metadata["name"])


def uid_of(value: Object) -> str:
    """Its identity beyond the name."""
    return str(value["metadata"]["uid"])


def generation_of(value: Object) -> int:
    """Moves with each change of the spec."""
    return int(value["metadata"].get("generation", 0))


def is_deleting(value: Object) -> bool:
    """Whether somebody has asked for its deletion."""
    return bool(value["metadata"].get("deletionTimestamp"))


def has_finalizer(value: Object) -> bool:
    """Whether ours is on it."""
    return FINALIZER in value["metadata"].get("finalizers", ())


def annotation(value: Object, name: str) -> str:
    """One of our annotations, without our prefix in the name; empty if there is none."""
    return str(value["metadata"].get("annotations", {}).get(_PREFIX + name, ""))


def is_annotated(value: Object, name: str) -> bool:
    """Whether one of our annotations says true."""
    return annotation(value, name) == "true"


def age_order(value: Object) -> tuple[str, str]:
    """Sorts objects from the oldest on; the same order for everyone who asks."""
    metadata = value["metadata"]
    return str(metadata.get("creationTimestamp", "")), str(metadata["uid"])


def status_of(value: Object) -> Mapping[str, Any]:
    """Its status; empty if there is none."""
    status: Mapping[str, Any] = value.get("status", {})
    return status


def address_of(pod: Object, port: int) -> str | None:
    """`HOST:PORT` of a pod; None as long as it has no address."""
    host = str(status_of(pod).get("podIP", ""))
    if not host:
        return None
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_owned(child: Object, owner: Object) -> bool:
    """Whether the child was made by us for this very owner."""
    owners = child["metadata"].get("ownerReferences", ())
    return any(item.get("controller") and item["uid"] == uid_of(owner) for item in owners)

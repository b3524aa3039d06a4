"""Whose child an object of another kind is: told by our labels, as not all have an owner. Pure."""

from typing import Final

from iggy_operator.cluster import Object, Ref
from iggy_operator.desired.metadata import BROKER_LABEL, MANAGED_LABEL, MANAGER
from iggy_operator.resources import CONNECTORS

SELECTOR: Final = f"{MANAGED_LABEL}={MANAGER}"
"""What children are watched by."""
# A connector's children bear the label of its broker, too.
_OWNERS: Final = (*((item.label, item.kind) for item in CONNECTORS), (BROKER_LABEL, "IggyBroker"))


def owner_of_child(value: Object) -> Ref | None:
    """The object of ours to which a change of this one matters; None if its labels name none."""
    metadata = value["metadata"]
    for label, kind in _OWNERS:
        if name := metadata.get("labels", {}).get(label):
            return Ref(kind, metadata.get("namespace", ""), name)
    return None

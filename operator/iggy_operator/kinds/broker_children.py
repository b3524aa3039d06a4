"""The objects that make up a managed broker: read, made, changed, removed. Never foreign ones."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from iggy_operator import API_GROUP, units
from iggy_operator.blocked import Blocked
from iggy_operator.cache import Entry
from iggy_operator.cluster import Cluster, DeniedError, NotFoundError, Object, Ref
from iggy_operator.desired.broker_names import broker_names
from iggy_operator.desired.metadata import (
    BROKER_LABEL,
    Manifest,
    content_hash,
    label_value,
)
from iggy_operator.kinds.common import World
from iggy_operator.objects import is_deleting, is_owned, ref_of, uid_of
from iggy_operator.reasons import Reason

APPLIED: Final = f"{API_GROUP}/applied"
"""On a child: the hash of what was applied last. So nothing is written without need."""
_OPTIONAL: Final = ("ServiceAccount", "NetworkPolicy", "PodMonitor")
_ATOMIC: Final = frozenset({"selector", "nodeSelector"})
"""Maps that are one value to server-side apply: what somebody added is not ours."""
_AGAIN_S: Final = 5.0
_GONE_S: Final = 1.0
"""What is being deleted is gone soon."""


async def found(cluster: Cluster, ref: Ref) -> Object | None:
    """An object, None if there is none, or no such kind."""
    try:
        return await cluster.get(ref)
    except NotFoundError:
        return None


def is_labelled(value: Object, broker: Entry) -> bool:
    """Whether a pod or claim was made for the broker of this name; they outlive its object."""
    label = value["metadata"].get("labels", {}).get(BROKER_LABEL)
    return bool(label == label_value(broker.ref.name))


async def observe(world: World, entry: Entry, wanted: Iterable[Ref]) -> dict[Ref, Object]:
    """The children that are there. Raises Blocked if one of these names is somebody else's."""
    result: dict[Ref, Object] = {}
    for ref in wanted:
        value = await found(world.cluster, ref)
        if value is None:
            continue
        if not is_owned(value, entry.value):
            raise foreign(ref)
        if is_deleting(value):
            text = f"{ref} is being deleted, and is made anew when it is gone"
            raise Blocked(Reason.RECONCILING, text, ready=None, again_s=_GONE_S)
        result[ref] = value
    return result


def foreign(ref: Ref) -> Blocked:
    """What to say of an object that has a name of ours."""
    text = f"{ref} exists and is not ours: remove it, or make the IggyBroker under another name"
    return Blocked(Reason.NAME_CONFLICT, text, again_s=_AGAIN_S)


async def write(world: World, manifest: Manifest, old: Object | None) -> bool:
    """Make a child, or bring it in line; whether anything was written."""
    metadata = manifest["metadata"]
    mark = {APPLIED: content_hash(manifest)}
    annotations = {**metadata.get("annotations", {}), **mark}
    wanted = {**manifest, "metadata": {**metadata, "annotations": annotations}}
    if old is None:
        await world.cluster.create(wanted)
        return True
    if contains(old, wanted):
        return False
    await world.cluster.apply({**wanted, "metadata": {**wanted["metadata"], "uid": uid_of(old)}})
    return True


def contains(value: Any, part: Any) -> bool:
    """Whether an object says everything that `part` does; the API server adds to it."""
    if isinstance(part, Mapping):
        return isinstance(value, Mapping) and all(
            value.get(name) == item
            if name in _ATOMIC
            else name in value and contains(value[name], item)
            for name, item in part.items()
        )
    if isinstance(part, list):
        if not isinstance(value, list) or len(value) != len(part):
            return False
        return all(contains(*pair) for pair in zip(value, part, strict=True))
    if isinstance(part, str) and isinstance(value, str) and value != part:
        are_numbers = units.is_quantity(value) and units.is_quantity(part)
        return are_numbers and units.quantity(value) == units.quantity(part)
    return bool(value == part)


async def remove_unwanted(world: World, entry: Entry, wanted: Iterable[Ref]) -> bool:
    """Children that the spec no longer asks for go; whether there was one."""
    kept = set(wanted)
    labels = {BROKER_LABEL: label_value(entry.ref.name)}
    has_removed = False
    for kind in _OPTIONAL:
        try:
            values = await world.cluster.list(kind, namespace=entry.ref.namespace, labels=labels)
        except (NotFoundError, DeniedError):  # no such kind here: so there is none of them
            continue
        for value in values:
            ref = ref_of(value)
            if ref not in kept and is_owned(value, entry.value) and not is_deleting(value):
                await world.cluster.delete(ref, uid=uid_of(value))
                has_removed = True
    return has_removed


async def grow(world: World, claim: Object, size: str) -> None:
    """The claim asks for more."""
    metadata = claim["metadata"]
    await world.cluster.apply(
        {
            "apiVersion": claim["apiVersion"],
            "kind": claim["kind"],
            "metadata": {name: metadata[name] for name in ("name", "namespace", "uid")},
            "spec": {"resources": {"requests": {"storage": size}}},
        }
    )


async def growth_obstacle(world: World, entry: Entry, claim: Object) -> str:
    """Why a claim cannot grow, and what to do; empty if it can."""
    name = claim["metadata"]["name"]
    if not is_labelled(claim, entry):
        return f"claim {name} was not made by this operator: enlarge it by hand"
    storage_class = claim["spec"].get("storageClassName")
    if not storage_class:
        return f"claim {name} has no storage class, so its volume cannot grow"
    try:
        value = await found(world.cluster, Ref("StorageClass", "", storage_class))
    except DeniedError:
        return (
            f"the operator may not read storage class {storage_class}, and does not enlarge claim "
            f"{name} unseen: grant it get on storageclasses"
        )
    if value is None:
        return f"storage class {storage_class} of claim {name} is not there, so nobody can grow it"
    if value.get("allowVolumeExpansion") is not True:
        return (
            f"storage class {storage_class} of claim {name} does not allow growth: set its "
            "allowVolumeExpansion if the driver can do it"
        )
    return ""


def pod_ref(entry: Entry) -> Ref:
    """The broker's only pod."""
    return Ref("Pod", entry.ref.namespace, broker_names(entry.ref.name).pod)


def archive_claim_ref(entry: Entry) -> Ref:
    """The claim of its archive, where the operator makes one."""
    name = broker_names(entry.ref.name).archive_claim
    return Ref("PersistentVolumeClaim", entry.ref.namespace, name)


def claim_ref(entry: Entry) -> Ref:
    """The claim of its data."""
    return Ref("PersistentVolumeClaim", entry.ref.namespace, broker_names(entry.ref.name).claim)

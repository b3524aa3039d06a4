"""What all passes share: their world, their result, the way to a broker, the finalizer."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from secrets import token_urlsafe
from typing import Any, Final

from iggy_operator import API_VERSION
from iggy_operator.blocked import Blocked
from iggy_operator.broker_admin import BrokerAdmin, BrokerError, BrokerRefusedError
from iggy_operator.brokers import BrokerPool, check_allowed, is_allowed
from iggy_operator.cache import Entry, ObjectCache
from iggy_operator.clock import Clock
from iggy_operator.cluster import (
    Cluster,
    ConflictError,
    DeniedError,
    InvalidError,
    NotFoundError,
    Object,
    Ref,
)
from iggy_operator.decide.actions import Decision
from iggy_operator.decide.deletion import Deletion, Doomed
from iggy_operator.desired import release
from iggy_operator.figures import ReadMetrics, no_metrics
from iggy_operator.meter import NO_METER, Meter
from iggy_operator.objects import (
    FINALIZER,
    generation_of,
    has_finalizer,
    is_annotated,
    is_deleting,
    status_of,
    uid_of,
)
from iggy_operator.reasons import Reason
from iggy_operator.resources import DEFAULT_BROKER, Broker, DeletionPolicy, Key, Stream, Topic
from iggy_operator.status import Report, wanted_status
from iggy_operator.turns import Turns
from iggy_wire.errors import ErrorCode

_PASSWORD_BYTES: Final = 24
IMPORTED_S: Final = 30.0
"""People's Secrets are not watched: they are read so often, so that a change counts in a minute."""
_MADE_S: Final = 5.0
"""A new broker is looked for again."""
_IDS: Final = frozenset({"streamId", "userId"})
"""In the status of what has been in a broker."""
TAKEN: Final = frozenset(
    {ErrorCode.STREAM_NAME_ALREADY_EXISTS, ErrorCode.TOPIC_NAME_ALREADY_EXISTS}
)
"""Somebody else was faster."""


@dataclass(frozen=True, slots=True)
class World:
    """Everything around a pass."""

    cluster: Cluster
    cache: ObjectCache
    brokers: BrokerPool
    clock: Clock
    product: release.Release
    """What children are made of."""
    new_password: Callable[[], str] = lambda: token_urlsafe(_PASSWORD_BYTES)
    """32 characters that need no quoting in a URL."""
    meter: Meter = NO_METER
    turns: Turns = field(default_factory=Turns)
    ending: Collection[str] = ()
    """Namespaces that are being deleted, at each moment."""
    read_metrics: ReadMetrics = no_metrics


@dataclass(frozen=True, slots=True)
class Note:
    """An event to tell."""

    reason: str
    message: str
    is_warning: bool = True


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a pass found and did."""

    report: Report = field(default_factory=Report)
    notes: tuple[Note, ...] = ()
    has_acted: bool = False
    """Something changed in the broker that others may wait for."""
    again_s: float | None = None
    """Look again after so long; None: with the next resync or change."""
    stopped_by: Blocked | BrokerError | None = None
    """What kept the pass from its end, where the report is worth telling all the same."""


@dataclass(frozen=True, slots=True)
class Release:
    """An object is being deleted: it may go, unless it waits for something."""

    waits_for: str = ""
    notes: tuple[Note, ...] = ()


def broker_of(world: World, entry: Entry, broker: Key) -> Entry:
    """The broker object that `entry` refers to. Raises Blocked."""
    found = world.cache.get(Ref("IggyBroker", broker.namespace, broker.name))
    if found is None:
        raise Blocked(
            Reason.BROKER_NOT_FOUND,
            f"there is no IggyBroker {broker.name} in namespace {broker.namespace}: "
            "make it, or correct brokerRef",
        )
    if is_deleting(found.value):
        raise Blocked(Reason.BROKER_NOT_FOUND, f"{found.ref} is being deleted")
    if not isinstance(found.resource, Broker):
        raise Blocked(Reason.BROKER_NOT_READY, f"{found.ref} is not ready: see its conditions")
    check_allowed(found, entry.ref.namespace)
    return found


async def broker_for(world: World, entry: Entry, broker: Key, *, may_act: bool) -> Entry:
    """As `broker_of`; the default broker of the object's own namespace is made if there is none.

    Its spec is the installation's. It has no owner, and nobody but a person deletes it: so an
    object that has been in it does not bring it back. Raises Blocked, ClusterError.
    """
    is_default = broker == Key(entry.ref.namespace, DEFAULT_BROKER)
    ref = Ref("IggyBroker", broker.namespace, broker.name)
    has_been_in_one = not status_of(entry.value).keys().isdisjoint(_IDS)
    if may_act and is_default and not has_been_in_one and world.cache.get(ref) is None:
        metadata = {"name": ref.name, "namespace": ref.namespace}
        spec = dict(world.product.default_broker)
        value = {"apiVersion": API_VERSION, "kind": ref.kind, "metadata": metadata, "spec": spec}
        text = f"{ref} was not there and is being made: brokerRef names no other"
        try:
            await world.cluster.create(value)
        except ConflictError:
            text = f"{ref} has just been made"
        except InvalidError as error:
            text = f"the default broker of the operator's installation is refused: {error}"
            raise Blocked(Reason.UNSUPPORTED, text) from None
        raise Blocked(Reason.BROKER_NOT_READY, text, again_s=_MADE_S)
    return broker_of(world, entry, broker)


def check_owner(world: World, entry: Entry, broker: Entry) -> None:
    """Two objects for one entity: the oldest has it. Raises Blocked for all others."""
    owner = _owner(world, entry, broker)
    if owner.ref != entry.ref:
        raise Blocked(
            Reason.CONFLICT,
            f"{owner.ref} stands for the same {entry.claim[-1]} in the broker and is older: "
            "delete one of the two",
        )


def is_owner(world: World, entry: Entry, broker: Key) -> bool:
    """Whether the entity is this object's, with the broker that `broker_for_release` has read."""
    found = world.cache.get(Ref("IggyBroker", broker.namespace, broker.name))
    return found is not None and _owner(world, entry, found).ref == entry.ref


def _owner(world: World, entry: Entry, broker: Entry) -> Entry:
    return next(
        item
        for item in world.cache.claimants(entry)
        if item.ref == entry.ref or is_allowed(broker, item.ref.namespace)
    )


async def hold(world: World, entry: Entry, policy: DeletionPolicy) -> None:
    """Put our finalizer on, or take it off, as the policy says: before anything is made."""
    is_free = is_annotated(entry.value, "force-release") or entry.ref.namespace in world.ending
    is_wanted = policy != "Retain" and not is_free
    if is_wanted != has_finalizer(entry.value):
        await set_finalizer(world, entry, wanted=is_wanted)


async def set_finalizer(world: World, entry: Entry, *, wanted: bool) -> None:
    """With or without."""
    uid = uid_of(entry.value)
    change = world.cluster.add_finalizer if wanted else world.cluster.remove_finalizer
    world.cache.put(await change(entry.ref, uid=uid, finalizer=FINALIZER))


async def broker_for_release(world: World, entry: Entry, broker: Key) -> BrokerAdmin | None:
    """The broker from which something is to be deleted; None if the object may go without.

    Asks the API server, not the cache: what is decided here is not undone. Raises Blocked,
    ClusterError.
    """
    if await _is_namespace_ending(world.cluster, entry.ref.namespace):
        return None
    try:
        value = await world.cluster.get(Ref("IggyBroker", broker.namespace, broker.name))
    except (NotFoundError, DeniedError):  # also: no such kind, no right to read it
        return None
    found = world.cache.put(value)
    if is_deleting(value):
        return None
    if not isinstance(found.resource, Broker):
        raise Blocked(Reason.BROKER_NOT_READY, f"{found.ref} is not ready: see its conditions")
    if not is_allowed(found, entry.ref.namespace):
        return None
    return await world.brokers.admin(world.cluster, found)


async def _is_namespace_ending(cluster: Cluster, namespace: str) -> bool:
    try:
        value: Object = await cluster.get(Ref("Namespace", "", namespace))
    except (NotFoundError, DeniedError):
        return False
    return is_deleting(value)


def has_begun(entry: Entry) -> bool:
    """Whether we were about to make the entity, and cannot know whether we did.

    Where anything may be adopted that does not matter; otherwise `begin` has left a mark.
    """
    status = status_of(entry.value)
    return status.get("incarnation") is None and ("streamName" in status or "topicName" in status)


async def act(
    world: World, entry: Entry, admin: BrokerAdmin, stream: str, decision: Decision
) -> None:
    """Carry a decision out for a stream or topic. Raises BrokerError, ClusterError."""
    resource = entry.resource
    assert isinstance(resource, Stream | Topic)
    # The finalizer before the entity: after a crash in between, deleting still finds it.
    await hold(world, entry, resource.deletion_policy)
    is_stream = isinstance(resource, Stream)
    mark = {"streamName": stream} if is_stream else {"topicName": entry.claim[-1]}
    is_marked = bool(decision.actions) and resource.adoption_policy == "FailIfExists"
    if is_marked:
        entry = await begin(world, entry, mark)
    try:
        for action in decision.actions:
            await admin.act(stream, action)
    except BrokerRefusedError as error:
        if is_marked and error.code in TAKEN:  # it is somebody else's
            await begin(world, entry, dict.fromkeys(mark))
        raise


async def check_current(world: World, entry: Entry) -> None:
    """Before what cannot be undone: the object is still as it was read. Raises ClusterError."""
    value = await world.cluster.get(entry.ref)
    if (uid_of(value), generation_of(value)) != (uid_of(entry.value), generation_of(entry.value)):
        raise ConflictError(f"{entry.ref} has changed meanwhile")


async def begin(world: World, entry: Entry, fields: Mapping[str, Any]) -> Entry:
    """Before something is made that must not be adopted: after a crash we know it for ours."""
    status = wanted_status(entry.value, Report((), fields), now_s=world.clock.now_s())
    return entry if status is None else await apply_status(world, entry, status)


async def apply_status(world: World, entry: Entry, status: Mapping[str, Any]) -> Entry:
    """Write a status; the object as it is then."""
    value = await world.cluster.apply_status(
        {
            "apiVersion": entry.value["apiVersion"],
            "kind": entry.ref.kind,
            "metadata": {
                "name": entry.ref.name,
                "namespace": entry.ref.namespace,
                "uid": uid_of(entry.value),
            },
            "status": status,
        }
    )
    return world.cache.put(value)


def owned_incarnation(entry: Entry, observed: Doomed | None) -> str | None:
    """The incarnation that is ours to delete.

    The finalizer is put on before anything is made. So without a known incarnation what is there
    is ours, unless it may only have been found: then `begin` would have left a mark.
    """
    known: str | None = status_of(entry.value).get("incarnation")
    if known is not None:
        return known
    assert not isinstance(entry.resource, Broker), "a broker is in no broker"
    may_adopt = getattr(entry.resource, "adoption_policy", "Adopt") == "Adopt"
    is_ours = observed is not None and (may_adopt or has_begun(entry))
    return observed.incarnation if observed is not None and is_ours else None


async def carry_out(admin: BrokerAdmin, stream: str, deletion: Deletion) -> Release:
    """Delete what is to be deleted. Raises BrokerError."""
    if deletion.waits_for:
        return Release(waits_for=deletion.waits_for)
    if deletion.removal is not None:
        await admin.act(stream, deletion.removal)
    notes = (Note("Retained", deletion.note, is_warning=False),) if deletion.note else ()
    return Release(notes=notes)

"""Our objects as they were last seen, and who points at whom. Filled by watches and by the resync.

Knows the newest state of each object only; what happened in between does not matter to anybody.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from iggy_operator.cluster import Object, Ref
from iggy_operator.documents import Document
from iggy_operator.objects import age_order, ref_of
from iggy_operator.resources import Broker, Connector, Stream, Topic, User, parse
from iggy_operator.schema import schemas, with_defaults

KINDS: Final = ("IggyBroker", "IggyStream", "IggyTopic", "IggyUser", "IggySink", "IggySource")
"""The kinds that have a pass, in the order in which they depend on each other."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A spec that the API server took and we cannot read: resource definitions of another time."""

    message: str


Resource: TypeAlias = Broker | Stream | Topic | User | Connector | Unreadable
Claim: TypeAlias = tuple[Hashable, ...]
"""What an object stands for in a broker: two objects with the same claim are in conflict."""

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Entry:
    """One object: as the API gave it, and its spec as values."""

    value: Object
    resource: Resource
    claim: Claim
    points_at: Ref | None
    """The object whose change matters to this one."""

    @property
    def ref(self) -> Ref:
        """Which object."""
        return ref_of(self.value)


def entry_of(value: Object) -> Entry:
    """An object as the API server keeps it: valid, maybe without defaults that are newer.

    One that cannot be read must not keep the others from their passes: its own says so.
    """
    try:
        resource = _resource(value)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        text = f"this operator cannot read the spec ({type(error).__name__}: {error}): bring the "
        return Entry(value, Unreadable(text + "resource definitions up to date"), _own(value), None)
    match resource:
        case Stream(broker=parent, stream_name=name) | User(broker=parent, username=name):
            points_at = Ref("IggyBroker", parent.namespace, parent.name)
        case Topic(stream=parent, topic_name=name):
            points_at = Ref("IggyStream", parent.namespace, parent.name)
        case Connector(topic=parent):
            points_at = Ref("IggyTopic", parent.namespace, parent.name)
            return Entry(value, resource, _own(value), points_at)
        case _:
            return Entry(value, resource, _own(value), None)
    return Entry(value, resource, (str(value["kind"]), points_at, name), points_at)


def _own(value: Object) -> Claim:
    return (ref_of(value),)


def _resource(value: Object) -> Resource:
    full = with_defaults(dict(value), schemas()[str(value["kind"])].root)
    parsed = parse([Document(full, {})])
    found: tuple[Resource, ...] = (
        *parsed.brokers,
        *parsed.streams,
        *parsed.topics,
        *parsed.users,
        *parsed.sinks,
        *parsed.sources,
    )
    return found[0]


class ObjectCache:
    """All objects of our kinds."""

    def __init__(self) -> None:
        """Empty."""
        self._entries: dict[Ref, Entry] = {}
        self._claims: dict[Claim, set[Ref]] = defaultdict(set)
        self._pointing: dict[Ref, set[Ref]] = defaultdict(set)

    def get(self, ref: Ref) -> Entry | None:
        """One object, None if there is none."""
        return self._entries.get(ref)

    def of_kind(self, kind: str) -> list[Entry]:
        """All objects of a kind."""
        return [entry for ref, entry in self._entries.items() if ref.kind == kind]

    def put(self, value: Object) -> Entry:
        """The object is now like this."""
        entry = entry_of(value)
        self.remove(entry.ref)
        self._entries[entry.ref] = entry
        self._claims[entry.claim].add(entry.ref)
        if entry.points_at is not None:
            self._pointing[entry.points_at].add(entry.ref)
        return entry

    def remove(self, ref: Ref) -> Entry | None:
        """The object is gone; as it was."""
        entry = self._entries.pop(ref, None)
        if entry is None:
            return None
        _discard(self._claims, entry.claim, ref)
        if entry.points_at is not None:
            _discard(self._pointing, entry.points_at, ref)
        return entry

    def differing(self, kind: str, values: Iterable[Object]) -> list[Ref]:
        """Objects of a kind that a list shows in another state, that are new in it, or gone.

        A list is old news by the time it is here: what it shows is not put into the cache.
        """
        found = {ref_of(value): value for value in values}
        gone = [ref for ref in self._entries if ref.kind == kind and ref not in found]
        return gone + [ref for ref, value in found.items() if not self.is_known(value)]

    def is_known(self, value: Object) -> bool:
        """Whether exactly this state of the object is here."""
        entry = self._entries.get(ref_of(value))
        version = value["metadata"].get("resourceVersion")
        return entry is not None and entry.value["metadata"].get("resourceVersion") == version

    def claimants(self, entry: Entry) -> list[Entry]:
        """All objects that stand for the same entity, the oldest first: it is the owner."""
        return self.standing_for(*entry.claim)

    def standing_for(self, *claim: object) -> list[Entry]:
        """The same for an entity: kind, object that it is in, and its name in the broker."""
        found = [self._entries[ref] for ref in self._claims.get(claim, ())]
        return sorted(found, key=lambda item: age_order(item.value))

    def broker_of(self, entry: Entry) -> Entry | None:
        """The broker of an object, which may be the object itself. The way to it is short."""
        found: Entry | None = entry
        while found is not None and found.points_at is not None:
            found = self._entries.get(found.points_at)
        return found

    def pointing_at(self, ref: Ref) -> list[Ref]:
        """The objects to which a change of this one matters."""
        return sorted(self._pointing.get(ref, ()))


def _discard(index: dict[K, set[Ref]], key: K, ref: Ref) -> None:
    index[key].discard(ref)
    if not index[key]:
        del index[key]

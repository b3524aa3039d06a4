"""An object is being deleted: what becomes of its entity in the broker."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from iggy_operator.decide.actions import DeleteStream, DeleteTopic, Removal
from iggy_operator.resources import DeletionPolicy

_NAMES_SHOWN_MAX = 5


@dataclass(frozen=True, slots=True)
class Deletion:
    """What to do; without a reason to wait the object may go afterwards."""

    removal: Removal | None = None
    waits_for: str = ""
    """What a person can do about it; empty: nothing to wait for."""
    note: str = ""
    """What stays, for an event."""


@dataclass(frozen=True, slots=True)
class Doomed:
    """An entity as it is at this moment."""

    name: str
    incarnation: str
    messages_count: int


def decide_topic_deletion(
    policy: DeletionPolicy, observed: Doomed | None, *, known: str | None
) -> Deletion:
    """`known` is the incarnation that we made or adopted: no other is ever removed."""
    if (kept := _kept("topic", policy, observed, known)) is not None:
        return kept
    assert observed is not None, "what is gone is kept by nobody"
    if policy == "DeleteIfEmpty" and observed.messages_count:
        return Deletion(
            waits_for=f"topic {observed.name} holds {observed.messages_count} messages: wait until "
            "retention or a purge has removed them, or set deletionPolicy to Delete or Retain"
        )
    return Deletion(DeleteTopic(observed.name))


def decide_stream_deletion(
    policy: DeletionPolicy,
    observed: Doomed | None,
    *,
    known: str | None,
    topics: Mapping[str, bool],
) -> Deletion:
    """`topics`: each topic of the stream, and whether its own object is going to delete it."""
    if (kept := _kept("stream", policy, observed, known)) is not None:
        return kept
    assert observed is not None, "what is gone is kept by nobody"
    foreign = sorted(name for name, goes in topics.items() if not goes or policy == "DeleteIfEmpty")
    if foreign:
        return Deletion(
            waits_for=f"stream {observed.name} holds topics that nobody asked to delete: "
            f"{_some(foreign)}; delete them, or set deletionPolicy to Retain"
        )
    return Deletion(DeleteStream(observed.name))


def _kept(
    what: str, policy: DeletionPolicy, observed: Doomed | None, known: str | None
) -> Deletion | None:
    if observed is None:
        return Deletion()
    if policy == "Retain" or known is None:
        return Deletion(note=f"{what} {observed.name} stays in the broker")
    if known != observed.incarnation:
        return Deletion(
            note=f"{what} {observed.name} stays in the broker: somebody else has made it anew"
        )
    return None


def _some(names: Iterable[str]) -> str:
    names = list(names)
    more = len(names) - _NAMES_SHOWN_MAX
    shown = ", ".join(names[:_NAMES_SHOWN_MAX])
    return f"{shown} and {more} more" if more > 0 else shown

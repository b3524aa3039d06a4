"""From the end of a pass to the object: conditions for what stands in the way, status, events."""

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from iggy_operator import status
from iggy_operator.blocked import Blocked
from iggy_operator.broker_admin import (
    BrokerDeniedError,
    BrokerDownError,
    BrokerError,
    BrokerRefusedError,
)
from iggy_operator.cache import Entry
from iggy_operator.cluster import Event
from iggy_operator.conditions import (
    ARCHIVE_HEALTHY,
    CERTIFICATE_READY,
    CREDENTIALS_READY,
    PAUSED,
    READY,
    STORAGE_READY,
    SYNCED,
    Condition,
    Truth,
    condition,
    found,
)
from iggy_operator.events import EventLimiter
from iggy_operator.kinds.common import Note, Verdict, World, apply_status
from iggy_operator.objects import status_of, uid_of
from iggy_operator.reasons import Reason
from iggy_operator.status import Report
from iggy_wire.errors import ErrorCode

_LOG = logging.getLogger(__name__)
DOWN_GRACE_S: Final = 60.0
"""So long a broker may be away before Ready becomes Unknown: a restart is no news."""
AGAIN_S_MIN: Final = 0.1
"""A wait of next to nothing would only be a spin."""
# What later passes decide by: it must not move in a pass that does nothing about what it sees.
_REMEMBERED: Final = frozenset(
    {
        "streamName", "streamId", "topicName", "topicId", "incarnation", "recreations",
        "topicIncarnation",
    }
)  # fmt: skip
_NAMES: Final = frozenset({ErrorCode.INVALID_STREAM_NAME, ErrorCode.INVALID_TOPIC_NAME})
_CREDENTIALS: Final = frozenset(
    {Reason.SECRET_NOT_FOUND, Reason.SECRET_INVALID, Reason.UNAUTHORIZED}
)
_TOLD: Final = frozenset(
    {READY, SYNCED, CREDENTIALS_READY, STORAGE_READY, ARCHIVE_HEALTHY, CERTIFICATE_READY}
)
"""Conditions whose transitions become events."""
_WAITING: Final = frozenset(
    {
        Reason.PENDING, Reason.BROKER_NOT_FOUND, Reason.BROKER_NOT_READY, Reason.STREAM_NOT_FOUND,
        Reason.VOLUME_PENDING, Reason.ROLLING_OUT, Reason.HIBERNATED, Reason.RECONCILING,
        Reason.DRIVER_PENDING, Reason.SUSPENDED,
    }
)  # fmt: skip
_NEVER: Final = {"status": "Unknown", "reason": Reason.PENDING}


class Reporter:
    """Writes what passes found."""

    def __init__(self, world: World) -> None:
        """Nothing was told yet."""
        self._world = world
        self._limiter = EventLimiter()

    async def report(self, entry: Entry, verdict: Verdict) -> bool:
        """Status and events, and a line in the log for Ready; whether that has changed.

        Raises ClusterError.
        """
        before = status_of(entry.value)
        old = before.get("conditions", ())
        clock = self._world.clock
        wanted = status.wanted_status(entry.value, verdict.report, now_s=clock.now_s())
        moved: list[Mapping[str, Any]] = []
        if wanted is not None:
            await apply_status(self._world, entry, wanted)
            moved = status.transitions(old, wanted["conditions"])
            if count := _restarts(before, wanted):
                self._world.meter.restarted(uid_of(entry.value), count)
        ready = [item for item in moved if item["type"] == READY]
        for item in ready:
            _LOG.info(
                "%s: Ready %s, %s: %s", entry.ref, item["status"], item["reason"], item["message"]
            )
        for note in (*verdict.notes, *_transition_notes(old, moved)):
            self._world.meter.told(entry.ref.kind, note.reason)
            await self.tell(entry, note)
        return bool(ready)

    async def tell(self, entry: Entry, note: Note) -> None:
        """One event, unless it was told not long ago. Raises ClusterError."""
        uid, now_s = uid_of(entry.value), self._world.clock.monotonic_s()
        if self._limiter.may_tell(uid, note.reason, now_s):
            event = Event(entry.value, note.is_warning, note.reason, note.message)
            await self._world.cluster.record(event)


def _restarts(old: Mapping[str, Any], new: Mapping[str, Any]) -> int:
    """Starts of a connector's job that came between two statuses, each after an end of its own.

    The count of attempts begins anew where the job has run for long, or was started for another
    reason: then its first start is none after an end.
    """
    before, now = (int(item.get("application", {}).get("attempts", 0)) for item in (old, new))
    return max(0, now - max(1, before))


def _transition_notes(
    old: Iterable[Mapping[str, Any]], moved: Iterable[Mapping[str, Any]]
) -> list[Note]:
    """Bad news, and good news that end bad ones. Waiting for another object is no news."""
    before = {item["type"]: item for item in old}
    notes = []
    for item in moved:
        is_bad = item["status"] != "True"
        told = item if is_bad else before.get(item["type"], _NEVER)
        is_news = told["status"] != "True" and told["reason"] not in _WAITING
        if item["type"] in _TOLD and is_news:
            notes.append(Note(item["reason"], item["message"], is_warning=is_bad))
    return notes


def stopped(entry: Entry, blocked: Blocked) -> Verdict:
    """A pass that could not go on."""
    rows: list[Condition] = []
    if blocked.ready is not None:
        rows.append(Condition(READY, blocked.ready, blocked.reason, blocked.message))
    if entry.ref.kind in ("IggyBroker", "IggyUser") and blocked.reason in _CREDENTIALS:
        rows.append(condition(CREDENTIALS_READY, False, blocked.reason, blocked.message))
    return Verdict(Report(tuple(rows)))


def trouble(error: BrokerError) -> Blocked:
    """What to say about a broker that is away or says no."""
    if isinstance(error, BrokerDownError):
        grace_s = DOWN_GRACE_S - error.down_for_s
        ready: Truth | None = None if grace_s > 0 else "Unknown"
        again_s = min(error.retry_in_s, grace_s) if grace_s > 0 else error.retry_in_s
        return Blocked(
            Reason.BROKER_UNREACHABLE,
            f"the broker cannot be reached: {error}",
            ready=ready,
            again_s=max(AGAIN_S_MIN, again_s),
        )
    if isinstance(error, BrokerDeniedError):
        text = f"{error}; credentialsSecretName of the IggyBroker must name a user that may do this"
        return Blocked(Reason.UNAUTHORIZED, text, again_s=max(AGAIN_S_MIN, error.retry_in_s))
    assert isinstance(error, BrokerRefusedError), "there are three"
    reason = Reason.INVALID_NAME if error.code in _NAMES else Reason.UNSUPPORTED
    return Blocked(reason, f"the broker refused: {error}")


def acting(entry: Entry, verdict: Verdict) -> Verdict:
    """The verdict of a pass that may act: a pause that is over is over."""
    if found(status_of(entry.value).get("conditions", ()), PAUSED) is None:
        return verdict
    ended = condition(PAUSED, False, Reason.RECONCILING)
    report = Report((*verdict.report.conditions, ended), verdict.report.fields)
    return Verdict(report, verdict.notes, verdict.has_acted, verdict.again_s)


def observing(verdict: Verdict) -> Verdict:
    """The verdict of a pass that may not act: what was seen is shown, Ready stays as it was."""
    text = "an annotation of this object says paused or unmanaged: nothing is changed anywhere"
    seen = (row for row in verdict.report.conditions if row.type != READY)
    conditions = (condition(PAUSED, True, Reason.PAUSED, text), *seen)
    fields = {name: item for name, item in verdict.report.fields.items() if name not in _REMEMBERED}
    return Verdict(Report(conditions, fields))

"""What to do about the application of a sink or source: start, stop, wait, or let it be. Pure.

Two drivers never run at once, since a start needs that nothing of it is left: no application
and no pod, of this object or of an earlier one of its name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final

from iggy_operator.decide.connectors import (
    CARRIED_OVER,
    EXIT_FINISHED,
    EXIT_STOPPED,
    RETRIES_RESET_S,
    after_exit,
)
from iggy_operator.desired.metadata import RESTART_AT, USER_HASH
from iggy_operator.desired.staging import Change, change
from iggy_operator.launchers.states import Phase, Reading
from iggy_operator.reasons import Reason
from iggy_operator.resources import Connector

SOON_S: Final = 5.0
"""Pods that must go, or come, are looked at again after so long."""
_EXIT_FAILED: Final = 1
_ENDED: Final = frozenset({Phase.FAILED, Phase.REFUSED, Phase.FINISHED, Phase.FAILING})


class Step(Enum):
    """What a pass does."""

    START = "start it"
    STOP = "delete it"
    KEEP = "let it be"


@dataclass(frozen=True, slots=True)
class Record:
    """What the status keeps about starts: enough to count retries, and to know when to give up."""

    uid: str = ""
    hash: str = ""
    restart_at: str = ""
    starts: int = 0
    """Of the application with this uid."""
    attempts: int = 0
    """Since it last ran for long, over all applications."""
    ended: str = ""
    """The reason why nobody starts it again before the spec changes; empty while somebody does."""
    error: str = ""
    """Why it failed last."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a connector must not run, or not be started."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class Look:
    """Everything that is known about a connector's job at one moment."""

    connector: Connector
    marks: Mapping[str, str]
    """Of the application that is wanted, as `staging.marks` makes them."""
    record: Record
    now_s: float
    application: Mapping[str, Any] | None = None
    reading: Reading | None = None
    """Of the application, if there is one."""
    remains: tuple[str, ...] = ()
    """Pods and applications, besides that one, that must be gone before a start. Names."""
    hold: Stop | None = None
    """Why it must not run."""
    wait: Stop | None = None
    """Why it cannot be started; what runs goes on."""
    running_s: float = 0
    """How long the driver has been running."""
    since_s: float = 0
    """When the application was last started, or ended: pauses begin there."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The step, and what to say."""

    step: Step
    reason: Reason
    message: str = ""
    record: Record = field(default_factory=Record)
    again_s: float | None = None


def plan(look: Look) -> Plan:
    """One step. Its outcome is seen by the next pass, which plans anew."""
    if look.application is None:
        return _without(look)
    name = look.application["metadata"]["name"]
    record = _counted(look)
    if look.application["metadata"].get("deletionTimestamp"):
        text = f"waits until {name} and its pods are gone"
        return Plan(Step.KEEP, Reason.RECONCILING, text, record, SOON_S)
    if look.hold is not None:
        return Plan(Step.STOP, look.hold.reason, look.hold.message, record, SOON_S)
    if (replaced := _replaced(look, record)) is not None:
        return replaced
    if record.ended:
        step = Step.STOP if _would_loop(look) else Step.KEEP
        again_s = SOON_S if step is Step.STOP else None
        return Plan(step, _reason(record.ended), _why(look.connector, record), record, again_s)
    return _by_phase(look, record)


def _replaced(look: Look, record: Record) -> Plan | None:
    """A step towards another application, if this one lacks what cannot wait."""
    assert look.application is not None and look.reading is not None, "there is one"
    lacks = change(look.application["metadata"].get("annotations", {}), look.marks)
    if lacks in (Change.USER, Change.RESTART):
        text = f"the {look.connector.word} has changed: the job is stopped, and started anew"
        return Plan(Step.STOP, Reason.RECONCILING, text, Record(hash=record.hash), SOON_S)
    if lacks is Change.RELEASE and look.reading.is_stuck and not record.ended:
        text = "the driver never ran: the job is made anew, as this release makes it"
        fresh = replace(record, attempts=0)
        # The status says so before the application is gone: after a crash the count begins anew.
        step, again_s = (Step.KEEP, 0.1) if record.attempts else (Step.STOP, SOON_S)
        return Plan(step, Reason.RECONCILING, text, fresh, again_s)
    return None


def _without(look: Look) -> Plan:
    """There is no application of this object."""
    record = look.record
    if look.remains:
        text = f"waits until {', '.join(look.remains)} is gone: never two drivers"
        return Plan(Step.KEEP, Reason.RECONCILING, text, record, SOON_S)
    if look.hold is not None:
        return Plan(Step.KEEP, look.hold.reason, look.hold.message, record)
    is_changed = _is_changed(record, look.marks)
    if record.ended and not is_changed:
        return Plan(Step.KEEP, _reason(record.ended), _why(look.connector, record), record)
    if look.wait is not None:
        return Plan(Step.KEEP, look.wait.reason, look.wait.message, record, SOON_S)
    fresh = replace(
        record,
        uid="",
        starts=0,
        attempts=0 if is_changed else record.attempts,
        ended="",
        hash=look.marks[USER_HASH],
        restart_at=look.marks.get(RESTART_AT, ""),
    )
    return Plan(Step.START, Reason.DRIVER_PENDING, "the job is started", fresh, SOON_S)


def _is_changed(record: Record, marks: Mapping[str, str]) -> bool:
    """Whether somebody has changed the spec, or asked for a restart, since it was last started."""
    if not record.hash:
        return True
    before = {**marks, USER_HASH: record.hash}
    before.pop(RESTART_AT, None)
    if record.restart_at:
        before[RESTART_AT] = record.restart_at
    return change(before, marks) is not Change.NONE


def _counted(look: Look) -> Record:
    """The record with the starts that the application shows."""
    assert look.application is not None and look.reading is not None, "there is one"
    annotations = look.application["metadata"].get("annotations", {})
    uid = look.application["metadata"]["uid"]
    hash_, restart_at = annotations.get(USER_HASH, ""), annotations.get(RESTART_AT, "")
    before = look.record
    is_same = before.hash == hash_ and before.restart_at == restart_at
    starts = max(1, look.reading.attempts)
    attempts = before.attempts if is_same else 0
    if before.uid != uid:
        attempts += starts
    elif starts > before.starts:  # fewer: another pod in place of the old one, no failure
        attempts += starts - before.starts
    if look.running_s >= RETRIES_RESET_S:
        attempts = 1
    return Record(
        uid=uid,
        hash=hash_,
        restart_at=restart_at,
        starts=starts,
        attempts=attempts,
        ended=before.ended if is_same else "",
        error=_failure(look) or before.error,
    )


def _failure(look: Look) -> str:
    """In what words the driver failed, if it did; what it says on its way up is no failure."""
    reading = look.reading
    assert reading is not None, "there is one"
    is_good = _code(reading) == EXIT_STOPPED or (
        reading.phase is Phase.FINISHED and _is_bounded(look.connector)
    )
    return "" if reading.phase not in _ENDED or is_good else reading.message


def _is_bounded(connector: Connector) -> bool:
    return bool(connector.spec["trigger"]["mode"] == "AvailableNow")


def _would_loop(look: Look) -> bool:
    """Whether whoever launches it would start it again."""
    assert look.application is not None and look.reading is not None, "there is one"
    return look.application["kind"] == "StatefulSet" or look.reading.phase is Phase.FAILING


def _by_phase(look: Look, record: Record) -> Plan:
    reading, connector = look.reading, look.connector
    assert reading is not None and look.application is not None, "there is one"
    reason = reading.reason(is_bounded=_is_bounded(connector))
    if reading.phase not in _ENDED:
        # One that failed lately may fail again, and be running again a moment later.
        is_shaky = reading.phase is Phase.PENDING or record.attempts > 1
        again_s = SOON_S if is_shaky else None
        return Plan(Step.KEEP, reason, reading.message, record, again_s)
    text = reading.message or f"the driver ended with code {_code(reading)}"
    retries = max(0, record.attempts - 1)
    if look.application["kind"] == "Job" and reading.phase is Phase.FAILED:
        retries = max(retries, connector.restart.retries_max)  # it has tried that often itself
    after = after_exit(connector, _code(reading), retries=retries, ran_s=0, error=text)
    # What never ran is waited for as a pod waits for its image: for ever.
    if after.pause_s is None and not reading.is_stuck:
        error = record.error if after.reason is Reason.COMPLETED else after.message
        given_up = replace(record, ended=str(after.reason), error=error)
        # The status says so before the application is stopped: after a crash nobody starts it.
        again_s = 0.1 if _would_loop(look) else None
        return Plan(Step.KEEP, after.reason, after.message, given_up, again_s)
    is_failing = reading.phase is Phase.FAILING  # whoever launches it tries again
    pause_s = (
        reading.stuck_after_s if is_failing else after.pause_s or connector.restart.pause_s_max
    )
    waited_s = look.now_s - look.since_s
    if pause_s is None or waited_s < pause_s:
        again_s = SOON_S if is_failing or pause_s is None else pause_s - waited_s
        return Plan(Step.KEEP, reason, text, record, again_s)
    if is_failing:
        text = f"stuck in {reading.state}: made anew"
    return Plan(Step.STOP, reason, text, record, SOON_S)


def _code(reading: Reading) -> int:
    """Of the driver's end; 1 where nobody knows."""
    if reading.phase is Phase.FINISHED:
        return EXIT_FINISHED
    if reading.exit_code is None or reading.phase is Phase.REFUSED:
        return _EXIT_FAILED
    return reading.exit_code


def _why(connector: Connector, record: Record) -> str:
    """Why nobody starts it."""
    is_done = record.ended == Reason.COMPLETED and _is_bounded(connector)
    return CARRIED_OVER if is_done else record.error


def _reason(text: str) -> Reason:
    return next((item for item in Reason if item == text), Reason.DRIVER_FAILED)

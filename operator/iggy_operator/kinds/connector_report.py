"""What a pass says of a sink or source: conditions and fields of its status. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from iggy_operator import units
from iggy_operator.broker_admin import BrokerError
from iggy_operator.cache import Entry
from iggy_operator.cluster import Object
from iggy_operator.conditions import (
    AVAILABLE,
    CHECKPOINT_READY,
    CREDENTIALS_READY,
    LAGGING,
    PROGRESSING,
    READY,
    Condition,
    Truth,
    condition,
    found,
)
from iggy_operator.kinds import sink_letters, sink_retention
from iggy_operator.kinds.common import Note, Verdict
from iggy_operator.kinds.connector_objects import Found
from iggy_operator.kinds.connector_progress import is_committing
from iggy_operator.kinds.user import UNRESOLVED_MAX
from iggy_operator.launchers.job import CHECKPOINT_PATH, ConnectorJob
from iggy_operator.launchers.states import Phase, pod_trouble
from iggy_operator.launchers.steps import Plan, Step, Stop
from iggy_operator.objects import generation_of, is_deleting, status_of
from iggy_operator.reasons import Reason
from iggy_operator.reporting import trouble
from iggy_operator.resources import Source
from iggy_operator.status import Report

STOPPING: Final = "Stopping"
"""State of an application that we have deleted, while it is still there."""
SEAT_AGAIN_S: Final = 5.0
"""A source whose driver is not in its group yet is looked at again after so long."""
SUSPENDED: Final = "suspend is true: nothing is to run, everything is kept"
_OF_APPLICATION: Final = (
    "name", "uid", "state", "driverPod", "sparkApplicationId", "webUI", "lastSubmissionTime",
)  # fmt: skip
"""What a status says of an application as long as there is one."""
_IDLE: Final = {
    "sink": "the driver runs, and has not carried any of the messages that wait for a while",
    "source": "the driver runs, and is not in its consumer group yet: see its log if this stays",
}
_MOVING: Final = frozenset({Reason.PENDING, Reason.RECONCILING, Reason.DRIVER_PENDING})
_RUNS: Final = frozenset({Phase.RUNNING, Phase.SHORT})


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that a pass has found out and done."""

    job: ConnectorJob
    found: Found
    plan: Plan
    credentials: Stop | None
    checkpoint: Stop | None
    incarnation: str | None
    was_lost: bool
    """The application that the status names is gone, and we have not said that we stop it."""
    progress: Mapping[str, Any] | None = None
    members: int = 0
    """Of the consumer group: the job is one."""
    letters: Mapping[str, Any] | None = None
    """What is known of the topic of the dead letters; None: nothing new."""
    start: Mapping[str, Any] | None = None
    """What said where the driver began; None: nothing new."""
    trouble: BrokerError | None = None
    """Why there is no progress to show."""


def verdict(facts: Facts, old: Mapping[str, Any], *, now_s: float) -> Verdict:
    """The end of the pass."""
    blocked = None if facts.trouble is None else trouble(facts.trouble)
    available = _available(facts, now_s=now_s)
    rows = [
        _row(CREDENTIALS_READY, facts.credentials),
        _row(CHECKPOINT_READY, facts.checkpoint),
        _progressing(facts),
    ]
    if blocked is None or available.reason is not Reason.RUNNING:
        rows += [available, _ready(facts, available)]
    elif blocked.ready is not None:
        rows.append(Condition(READY, blocked.ready, blocked.reason, blocked.message))
    if (lag := _lagging(facts, old)) is not None:
        rows.append(lag)
    fields = _fields(facts, old)
    pauses = (
        facts.plan.again_s,
        None if blocked is None else blocked.again_s,
        SEAT_AGAIN_S if _waits_for_seat(facts, available) else None,
    )
    waits = [pause_s for pause_s in pauses if pause_s is not None]
    return Verdict(
        Report(tuple(rows), fields), _notes(facts, old), again_s=min(waits, default=None)
    )


def suspended(found: Found, old: Mapping[str, Any]) -> Report:
    """Of a suspended one whose topic or broker is not to be had: it is stopped all the same."""
    is_ending = found.application is not None or bool(found.remains)
    rows = (
        condition(AVAILABLE, False, Reason.SUSPENDED, SUSPENDED),
        condition(PROGRESSING, True, Reason.SUSPENDED, SUSPENDED)
        if is_ending
        else condition(PROGRESSING, False, Reason.SYNCED),
    )
    before = old.get("application")
    if before is None:
        return Report(rows)
    fields = {**before, "attempts": 0}  # the next start follows on a wish, not on a failure
    if found.application is not None:
        fields["state"] = STOPPING
    else:
        fields = {name: item for name, item in fields.items() if name not in _OF_APPLICATION}
    return Report(rows, {"application": fields})


def _notes(facts: Facts, old: Mapping[str, Any]) -> tuple[Note, ...]:
    notes = []
    target = facts.job.dead_letters
    if target is not None and facts.letters:
        told = sink_letters.note(target, facts.letters, old.get("deadLetters") or {})
        notes += [] if told is None else [told]
    if facts.progress is not None:
        told = sink_retention.note(facts.progress, old.get("progress") or {})
        notes += [] if told is None else [told]
    if facts.was_lost and facts.plan.step is Step.START:
        text = "somebody removed the application: it is made anew"
        notes.append(Note("ApplicationGone", text))
    if facts.members > 1:
        connector = facts.job.connector
        text = f"consumer group {connector.key} has {facts.members} members: end all but the "
        text += f"{connector.word}'s own job"
        text += "" if isinstance(connector, Source) else ", or progress is not what it says"
        notes.append(Note("SecondReader", text))
    return tuple(notes)


def _available(facts: Facts, *, now_s: float) -> Condition:
    """Not that something runs decides. Of a sink its commits do; of a source its place in its
    group, which the driver takes once it has reached both sides, and keeps.
    """
    plan, reading = facts.plan, facts.found.reading
    if reading is not None and reading.phase is Phase.UNKNOWN and plan.step is Step.KEEP:
        text = f"{reading.state or 'the state of the driver'} is not known: nothing is started"
        return Condition(AVAILABLE, "Unknown", plan.reason, reading.message or text)
    if reading is None or reading.phase not in _RUNS or plan.reason is not Reason.RUNNING:
        return condition(AVAILABLE, False, plan.reason, plan.message)
    short = "executors are missing" if reading.phase is Phase.SHORT else plan.message
    if _is_working(facts, now_s=now_s):
        return condition(AVAILABLE, True, Reason.RUNNING, short)
    text = _IDLE[facts.job.connector.word]
    return condition(AVAILABLE, False, Reason.RUNNING, short or text)


def _is_working(facts: Facts, *, now_s: float) -> bool:
    if isinstance(facts.job.connector, Source):
        return facts.members > 0
    return facts.progress is not None and is_committing(
        facts.job.connector, facts.progress, now_s=now_s
    )


def _waits_for_seat(facts: Facts, available: Condition) -> bool:
    is_source = isinstance(facts.job.connector, Source)
    return is_source and available.reason is Reason.RUNNING and available.status != "True"


def _ready(facts: Facts, available: Condition) -> Condition:
    is_done = available.reason is Reason.COMPLETED and facts.job.is_bounded
    status: Truth = "True" if is_done else available.status
    return Condition(READY, status, available.reason, available.message)


def _progressing(facts: Facts) -> Condition:
    """Whether something is under way, and which step it is."""
    plan, reading = facts.plan, facts.found.reading
    is_moving = plan.step is not Step.KEEP or plan.reason in _MOVING
    if not is_moving or (reading is not None and reading.phase is Phase.UNKNOWN):
        return condition(PROGRESSING, False, Reason.SYNCED)
    text = plan.message or ("waits for its driver" if reading is None else reading.state)
    return condition(PROGRESSING, True, plan.reason, text)


def _row(kind: str, stop: Stop | None) -> Condition:
    if stop is None:
        return condition(kind, True, Reason.SYNCED)
    return condition(kind, False, stop.reason, stop.message)


def _lagging(facts: Facts, old: Mapping[str, Any]) -> Condition | None:
    """None where there is nothing to say, or nothing new."""
    bounds = facts.job.connector.spec.get("lag")
    if not bounds:
        if found(old.get("conditions", ()), LAGGING) is None:
            return None
        return condition(LAGGING, False, Reason.SYNCED, "lag sets no bounds")
    if facts.progress is None:
        return None
    lag, age_s = facts.progress["lagMessages"], facts.progress.get("lagSeconds", 0)
    is_late = "warnAge" in bounds and age_s * 1_000_000 > units.duration_us(bounds["warnAge"])
    is_lagging = is_late or lag > bounds.get("warnMessages", lag)
    if not is_lagging:
        return condition(LAGGING, False, Reason.SYNCED)
    text = "messages are not carried over yet: see progress in the status"
    return condition(LAGGING, True, Reason.LAGGING, text)


def _fields(facts: Facts, old: Mapping[str, Any]) -> dict[str, Any]:
    job = facts.job
    fields: dict[str, Any] = {
        "consumerGroup": str(job.connector.key),
        "application": _application(facts, old.get("application") or {}),
        "userName": (job.connector.spec.get("userRef") or {"name": job.name})["name"],
        "topicIncarnation": facts.incarnation,
    }
    if facts.progress is not None:
        fields["progress"] = dict(facts.progress)
    if facts.start is not None:
        fields["start"] = dict(facts.start)
    if job.dead_letters is None:
        fields["deadLetters"] = None
    elif facts.letters is not None:
        fields["deadLetters"] = dict(facts.letters) or None
    if job.claim is not None:
        location = f"{CHECKPOINT_PATH}/{job.connector.key.name}"
        fields["checkpoint"] = {"claimName": job.claim, "location": location}
    elif location := job.connector.spec.get("checkpoint", {}).get("location"):
        fields["checkpoint"] = {"location": location}
    return fields


def _application(facts: Facts, old: Mapping[str, Any]) -> dict[str, Any]:
    record, item, reading = facts.plan.record, facts.found.application, facts.found.reading
    fields: dict[str, Any] = {
        "hash": record.hash,
        "restartAt": record.restart_at,
        "starts": record.starts,
        "attempts": record.attempts,
        "ended": record.ended,
        "error": record.error,
        # What Auto keeps also while there is none.
        "apiVersion": old.get("apiVersion"),
    }
    if item is not None and reading is not None:
        fields |= {
            "apiVersion": item["apiVersion"],
            "name": item["metadata"]["name"],
            "uid": record.uid,
            "state": STOPPING if _is_stopping(facts) else reading.state,
            "driverPod": reading.driver_pod,
            "sparkApplicationId": reading.application_id,
            "webUI": reading.web_ui,
            "lastSubmissionTime": item["metadata"].get("creationTimestamp"),
        }
    return {name: value for name, value in fields.items() if value not in (None, "")}


def _is_stopping(facts: Facts) -> bool:
    item = facts.found.application
    return facts.plan.step is Step.STOP or (item is not None and is_deleting(item))


def user_trouble(name: str, user: Entry | None, job: ConnectorJob) -> Stop | None:
    """Why nobody can log in as this user yet, or not read the topic, or not send to a target.

    Other grants may wait.
    """
    access, targets = job.access, job.targets
    status = {} if user is None else status_of(user.value)
    ready = found(status.get("conditions", ()), READY)
    if ready is None or ready["reason"] == Reason.PENDING:
        return Stop(Reason.PENDING, f"waits for IggyUser {name}, with which the job logs in")
    if ready["status"] != "True":
        return Stop(Reason.SECRET_NOT_FOUND, f"IggyUser {name} is not ready: {ready['message']}")
    if targets and user is not None and not _is_current(user.value):
        return Stop(Reason.PENDING, f"waits until IggyUser {name} has what it is granted")
    unresolved = status.get("unresolved", ())
    own = {access.stream, f"{access.stream}/{access.topic}"}
    own |= {text for target in targets for text in (target.stream, str(target))}
    if missing := own.intersection(unresolved):
        return Stop(Reason.UNRESOLVED_GRANTS, f"IggyUser {name} waits for {min(missing)}")
    if len(unresolved) >= UNRESOLVED_MAX:  # the list is cut
        text = f"IggyUser {name} waits for so many names that {access.topic} may be among them"
        return Stop(Reason.UNRESOLVED_GRANTS, f"{text}: grant less that is not there yet")
    return None


def _is_current(value: Object) -> bool:
    """Whether the status is that of the spec as it is: what was added to it is granted by then."""
    return int(status_of(value).get("observedGeneration", 0)) >= generation_of(value)


def checkpoint_trouble(job: ConnectorJob, claim: Object | None) -> Stop | None:
    """Why the checkpoint cannot be used. A claim that is not bound yet may wait for its pod."""
    if job.claim is None or claim is not None:
        if claim is not None and (claim.get("status") or {}).get("phase") == "Lost":
            return Stop(Reason.CHECKPOINT_UNAVAILABLE, f"claim {job.claim} has lost its volume")
        return None
    return Stop(Reason.CHECKPOINT_UNAVAILABLE, f"there is no claim {job.claim}: make it")


def checkpoint_doubt(job: ConnectorJob, claim: Object | None, driver: Object | None) -> Stop | None:
    """What is wrong with the checkpoint of a job that may run all the same."""
    if job.claim is None:
        return None
    if driver is not None and not _mounts(driver, job.claim):
        text = (
            f"pod {driver['metadata']['name']} does not mount claim {job.claim}: whoever made it "
            "has dropped the volume, and what it knows is lost with it"
        )
        return Stop(Reason.CHECKPOINT_UNAVAILABLE, text)
    phase = ((claim or {}).get("status") or {}).get("phase")
    if claim is None or phase == "Bound":
        return None
    words = "" if driver is None else pod_trouble(driver)
    text = f"claim {job.claim} is not bound yet" + (f"; the pod says: {words}" if words else "")
    return Stop(Reason.VOLUME_PENDING, text)


def _mounts(pod: Object, claim: str) -> bool:
    volumes = pod["spec"].get("volumes", ())
    return any(item.get("persistentVolumeClaim", {}).get("claimName") == claim for item in volumes)

"""What became of a job, read from the status of whatever runs it. Tables first.

No state makes a sink Ready: a driver can run for a day without a message. Commits decide that; of
a source, that its driver is in its consumer group.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

from iggy_operator.desired.staging import is_stuck
from iggy_operator.launchers.pods import DRIVER
from iggy_operator.reasons import Reason
from iggy_operator.resources import Restart

MESSAGE_CHARACTERS_MAX: Final = 500
"""A refused submission brings a Java stack of ten thousand."""
RERUN_EXTRA_S: Final = 120
LEAVES: Final = "the pod is being deleted: another one follows"


# Printed by the job on standard error; beside it is the same as JSON, for programs.
_JOB_FAILED: Final = re.compile(r"^iggy (?:sink|source) job failed: (.+)$", re.MULTILINE)


class Phase(Enum):
    """What all launchers' states come down to."""

    PENDING = "it was asked for, and no driver runs yet"
    RUNNING = "the driver runs"
    SHORT = "the driver runs, executors are missing"
    REFUSED = "it could not be started"
    FAILING = "it failed, and will be tried again by whoever launches it"
    FAILED = "it failed, and nobody tries again"
    FINISHED = "it ended well"
    DISTURBED = "somebody else changed it"
    SUSPENDED = "it is suspended"
    UNKNOWN = "nobody knows: never start a second one"


KUBEFLOW: Final[Mapping[str, Phase]] = {
    "": Phase.PENDING,
    "SUBMITTED": Phase.PENDING,
    "RUNNING": Phase.RUNNING,
    "SUBMISSION_FAILED": Phase.REFUSED,
    "FAILING": Phase.FAILING,
    "PENDING_RERUN": Phase.FAILING,
    "FAILED": Phase.FAILED,
    "SUCCEEDING": Phase.FINISHED,
    "COMPLETED": Phase.FINISHED,
    "INVALIDATING": Phase.DISTURBED,
    "SUSPENDING": Phase.DISTURBED,
    "RESUMING": Phase.DISTURBED,
    "SUSPENDED": Phase.SUSPENDED,
    "UNKNOWN": Phase.UNKNOWN,
}
APACHE: Final[Mapping[str, Phase]] = {
    "": Phase.PENDING,
    "Submitted": Phase.PENDING,
    "DriverRequested": Phase.PENDING,
    "DriverStarted": Phase.PENDING,
    "DriverReady": Phase.RUNNING,
    "RunningHealthy": Phase.RUNNING,
    "RunningWithPartialCapacity": Phase.RUNNING,
    "InitializedBelowThresholdExecutors": Phase.SHORT,
    "RunningWithBelowThresholdExecutors": Phase.SHORT,
    "SchedulingFailure": Phase.REFUSED,
    "DriverStartTimedOut": Phase.REFUSED,
    "DriverReadyTimedOut": Phase.REFUSED,
    "ExecutorsStartTimedOut": Phase.REFUSED,
    "ScheduledToRestart": Phase.FAILING,
    "DriverEvicted": Phase.FAILING,
    "Failed": Phase.FAILING,
    "Succeeded": Phase.FINISHED,
}
# Apache's operator has given up on a driver before its container ran.
_NOT_STARTED: Final = "DriverStartTimedOut"
# Both ends of Apache's say nothing about how it ended: the entry before does.
APACHE_ENDS: Final = ("ResourceReleased", "TerminatedWithoutReleaseResources")
REASONS: Final[Mapping[Phase, Reason]] = {
    Phase.PENDING: Reason.DRIVER_PENDING,
    Phase.RUNNING: Reason.RUNNING,
    Phase.SHORT: Reason.RUNNING,
    Phase.REFUSED: Reason.SUBMISSION_FAILED,
    Phase.FAILING: Reason.DRIVER_FAILED,
    Phase.FAILED: Reason.DRIVER_FAILED,
    Phase.FINISHED: Reason.COMPLETED,
    Phase.DISTURBED: Reason.RECONCILING,
    Phase.SUSPENDED: Reason.SUSPENDED,
    Phase.UNKNOWN: Reason.DRIVER_PENDING,
}


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at a job."""

    phase: Phase
    state: str
    """In the words of whoever runs it."""
    message: str = ""
    exit_code: int | None = None
    """Of the driver's last run."""
    attempts: int = 0
    driver_pod: str = ""
    application_id: str = ""
    web_ui: str = ""
    stuck_after_s: float | None = None
    """It should have left this state by then: make it anew."""
    is_stuck: bool = False
    """The driver never ran, and what it waits for does not come, such as its image."""

    def reason(self, *, is_bounded: bool) -> Reason:
        """For the condition Available. A stream that ends well is a failure, too."""
        if self.phase is Phase.FINISHED and not is_bounded:
            return Reason.DRIVER_FAILED
        return REASONS[self.phase]


_KUBEFLOW_EXIT: Final = re.compile(r"ExitCode: ([0-9]+)")
_JAVA_MESSAGE: Final = re.compile(r"Message: ([^\n]+)")


def read_kubeflow(
    application: Mapping[str, Any], restart: Restart, driver_pod: Mapping[str, Any] | None = None
) -> Reading:
    """A SparkApplication of Kubeflow's. Of a driver that cannot start only its pod tells."""
    status = application.get("status") or {}
    current = status.get("applicationState") or {}
    state = current.get("state") or ""
    text = current.get("errorMessage") or ""
    code = _KUBEFLOW_EXIT.search(text)
    driver = status.get("driverInfo") or {}
    attempts = status.get("executionAttempts") or 0
    # It waits so long since the submission; a longer run is tried again at once.
    wait_s = restart.pause_s_max * max(1, attempts) + RERUN_EXTRA_S
    reading = Reading(
        phase=KUBEFLOW.get(state, Phase.UNKNOWN),
        state=state,
        message=short(text),
        exit_code=int(code[1]) if code else None,
        attempts=attempts,
        driver_pod=driver.get("podName") or "",
        application_id=status.get("sparkApplicationId") or "",
        web_ui=driver.get("webUIServiceName") or "",
        stuck_after_s=wait_s if state == "PENDING_RERUN" else None,
    )
    return _with_pod(reading, driver_pod)


def read_apache(
    application: Mapping[str, Any], driver_pod: Mapping[str, Any] | None = None
) -> Reading:
    """A SparkApplication of Apache's. Of a driver that cannot start its pod tells first."""
    status = application.get("status") or {}
    current = status.get("currentState") or {}
    state = current.get("currentStateSummary") or ""
    attempt = (status.get("currentAttemptSummary") or {}).get("attemptInfo") or {}
    number = attempt.get("id") or 0
    before = _before_the_end(status)
    phase = APACHE.get(state, Phase.UNKNOWN)
    if state in APACHE_ENDS:
        ended_well = before.get("currentStateSummary") == "Succeeded"
        phase = Phase.FINISHED if ended_well else Phase.FAILED
    last = before if state in APACHE_ENDS else current
    if state == "ScheduledToRestart":  # the end that it follows on lasts a moment only
        before = last = _end_before_restart(status)
    containers = (last.get("lastObservedDriverStatus") or {}).get("containerStatuses") or ()
    code = _exit_code(containers)
    if code is None and last.get("currentStateSummary") == "Succeeded":
        code = 0  # which it does not tell
    message = _last_words(containers) or current.get("message") or before.get("message")
    has_waited = last.get("currentStateSummary") == _NOT_STARTED
    if has_waited and not message:
        message = "the driver did not start in time"
    reading = Reading(
        phase=phase,
        state=state,
        message=short(message or ""),
        exit_code=code,
        attempts=number + 1 if state else 0,
        driver_pod=f"{application['metadata']['name']}-{number}-driver" if state else "",
        is_stuck=has_waited,
    )
    return _with_pod(reading, driver_pod)


def _with_pod(reading: Reading, pod: Mapping[str, Any] | None) -> Reading:
    """What the driver's pod adds, as long as nothing runs in it."""
    if pod is None or reading.phase is not Phase.PENDING:
        return reading
    message = reading.message or pod_trouble(pod)
    return replace(reading, message=message, is_stuck=is_stuck(pod, DRIVER))


def _before_the_end(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """The newest entry of the history that is a verdict."""
    return next(
        (one for one in _newest(status) if one.get("currentStateSummary") not in APACHE_ENDS), {}
    )


def _end_before_restart(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """How the attempt before ended. Its history moves to a place of its own, unless told not to."""
    attempt = status.get("previousAttemptSummary") or {}
    return next(iter((*_newest(attempt), *_newest(status)[1:])), {})


def _newest(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """A history, the newest entry first. Its keys are numbers, as text."""
    history: Mapping[str, Mapping[str, Any]] = status.get("stateTransitionHistory") or {}
    return [history[key] for key in sorted(history, key=int, reverse=True)]


def read_native(application: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> Reading:
    """A StatefulSet or Job of ours, with the pods that bear the connector's label."""
    pod = max(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp", "")), default=None)
    if application["kind"] == "Job" and (ended := _job_end(application)) is not None:
        return ended if pod is None else replace(ended, **_pod_facts(pod))
    if pod is None:
        return Reading(Phase.PENDING, "", "the pod is not there yet")
    if pod["metadata"].get("deletionTimestamp") and _pod_phase(pod) is Phase.FAILING:
        # It was asked to end, as on a node that is drained: however it did, that is no failure.
        facts = {**_pod_facts(pod), "message": LEAVES, "exit_code": None}
        return Reading(Phase.PENDING, _pod_state(pod), **facts)
    reading = Reading(_pod_phase(pod), _pod_state(pod), **_pod_facts(pod))
    return replace(reading, is_stuck=is_stuck(pod, DRIVER))


def _job_end(job: Mapping[str, Any]) -> Reading | None:
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition.get("status") == "True" and condition.get("type") in ("Complete", "Failed"):
            phase = Phase.FINISHED if condition["type"] == "Complete" else Phase.FAILED
            return Reading(phase, condition["type"], short(condition.get("message", "")))
    return None


def _pod_facts(pod: Mapping[str, Any]) -> dict[str, Any]:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return {
        "message": pod_trouble(pod),
        "exit_code": _exit_code(statuses),
        "attempts": 1 + sum(status.get("restartCount") or 0 for status in statuses),
        "driver_pod": pod["metadata"]["name"],
    }


def _pod_phase(pod: Mapping[str, Any]) -> Phase:
    status = pod.get("status") or {}
    if status.get("reason") == "NodeLost" or status.get("phase") == "Unknown":
        return Phase.UNKNOWN
    container = _container(status.get("containerStatuses") or ())
    state = container.get("state") or {}
    if "running" in state:
        return Phase.RUNNING
    if _end(state) or (state.get("waiting") or {}).get("reason") == "CrashLoopBackOff":
        # Zero of a StatefulSet's is started again as well: it is no end.
        return Phase.FAILING
    return Phase.PENDING


def _pod_state(pod: Mapping[str, Any]) -> str:
    status = pod.get("status") or {}
    state = _container(status.get("containerStatuses") or ()).get("state") or {}
    waiting = (state.get("waiting") or {}).get("reason")
    return str(waiting or status.get("phase") or "")


def pod_trouble(pod: Mapping[str, Any]) -> str:
    """Why a driver's pod does not run, or ended last: its own words. Empty if all is well."""
    status = pod.get("status") or {}
    container = _container(status.get("containerStatuses") or ())
    state = container.get("state") or {}
    last = _end(state) or _end(container.get("lastState") or {})
    if "running" not in state and last:
        return short(last.get("message") or f"the driver ended with code {last.get('exitCode')}")
    if waiting := state.get("waiting"):
        return short(": ".join(filter(None, (waiting.get("reason"), waiting.get("message")))))
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return short(f"{condition.get('reason', '')}: {condition.get('message', '')}")
    return ""


def running_since(pod: Mapping[str, Any]) -> str:
    """When its driver was started; empty if none runs in it."""
    container = _container((pod.get("status") or {}).get("containerStatuses") or ())
    running = (container.get("state") or {}).get("running") or {}
    return str(running.get("startedAt") or "")


def _container(statuses: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    return next((status for status in statuses if status.get("name") == DRIVER), {})


def _exit_code(statuses: Sequence[Mapping[str, Any]]) -> int | None:
    ended = _ended(statuses)
    return int(ended["exitCode"]) if ended else None


def _last_words(statuses: Sequence[Mapping[str, Any]]) -> str:
    """Of the driver: what it printed at last."""
    return str(_ended(statuses).get("message") or "")


def _ended(statuses: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The driver's end, the last one; empty if it has not ended."""
    container = _container(statuses)
    ends = (_end(container.get(part) or {}) for part in ("state", "lastState"))
    return next((end for end in ends if end), {})


def _end(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """How a container ended; empty if it has not. Of one that never began, because its pod was
    deleted first, Kubernetes says ContainerStatusUnknown and no start: that is no end.
    """
    end: Mapping[str, Any] = state.get("terminated") or {}
    is_unknown = end.get("reason") == "ContainerStatusUnknown" and not end.get("startedAt")
    return {} if is_unknown else end


def short(text: str) -> str:
    """What matters of a message. Of a job's last lines, the reason that it gives; of a Java
    stack, the text behind `Message:`.
    """
    if reasons := _JOB_FAILED.findall(text):
        text = reasons[-1]
    hit = _JAVA_MESSAGE.search(text) if len(text) > MESSAGE_CHARACTERS_MAX else None
    line = (hit[1] if hit else text).strip()
    if len(line) <= MESSAGE_CHARACTERS_MAX:
        return line
    return line[: MESSAGE_CHARACTERS_MAX - 1] + "…"

import json
from typing import Any

import pytest

from iggy_operator.launchers.states import (
    APACHE,
    APACHE_ENDS,
    KUBEFLOW,
    LEAVES,
    MESSAGE_CHARACTERS_MAX,
    REASONS,
    Phase,
    read_apache,
    read_kubeflow,
    read_native,
    short,
)
from iggy_operator.reasons import Reason
from iggy_operator.resources import Restart

RESTART = Restart("Always", 10, 30)
STACK = "failed to run spark-submit\n" + "\tat org.apache.spark.Deploy\n" * 300


def kubeflow(state: str, **status: Any) -> dict[str, Any]:
    message = status.pop("message", None)
    current = {"state": state} | ({"errorMessage": message} if message else {})
    return {"metadata": {"name": "sink"}, "status": {"applicationState": current, **status}}


def apache(state: str, *history: dict[str, Any], **status: Any) -> dict[str, Any]:
    entries = {str(number): entry for number, entry in enumerate(history)}
    current = {"currentStateSummary": state, "message": status.pop("message", "")}
    return {
        "metadata": {"name": "sink"},
        "status": {"currentState": current, "stateTransitionHistory": entries, **status},
    }


def entry(state: str, exit_code: int | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"currentStateSummary": state}
    if exit_code is not None:
        found["lastObservedDriverStatus"] = {"containerStatuses": [ended(exit_code)]}
    return found


def ended(exit_code: int, *, part: str = "state", message: str = "") -> dict[str, Any]:
    terminated = {"exitCode": exit_code, "message": message}
    return {"name": "spark-kubernetes-driver", part: {"terminated": terminated}}


def pod(container: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    statuses = [] if container is None else [{"name": "spark-kubernetes-driver", **container}]
    return {
        "metadata": {"name": "sink-0", "creationTimestamp": "2026-05-01T12:00:00Z"},
        "status": {"containerStatuses": statuses, **status},
    }


STATEFUL_SET = {"kind": "StatefulSet", "metadata": {"name": "sink"}}


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("", Reason.DRIVER_PENDING),
        ("SUBMITTED", Reason.DRIVER_PENDING),
        ("RUNNING", Reason.RUNNING),
        ("SUBMISSION_FAILED", Reason.SUBMISSION_FAILED),
        ("FAILING", Reason.DRIVER_FAILED),
        ("PENDING_RERUN", Reason.DRIVER_FAILED),
        ("FAILED", Reason.DRIVER_FAILED),
        ("SUCCEEDING", Reason.DRIVER_FAILED),
        ("COMPLETED", Reason.DRIVER_FAILED),
        ("INVALIDATING", Reason.RECONCILING),
        ("SUSPENDING", Reason.RECONCILING),
        ("RESUMING", Reason.RECONCILING),
        ("SUSPENDED", Reason.SUSPENDED),
        ("UNKNOWN", Reason.DRIVER_PENDING),
        ("A_STATE_OF_A_LATER_RELEASE", Reason.DRIVER_PENDING),
    ],
)
def test_kubeflows_states_of_a_stream(state: str, reason: Reason) -> None:
    assert read_kubeflow(kubeflow(state), RESTART).reason(is_bounded=False) is reason


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("", Reason.DRIVER_PENDING),
        ("Submitted", Reason.DRIVER_PENDING),
        ("DriverRequested", Reason.DRIVER_PENDING),
        ("DriverStarted", Reason.DRIVER_PENDING),
        ("DriverReady", Reason.RUNNING),
        ("RunningHealthy", Reason.RUNNING),
        ("RunningWithPartialCapacity", Reason.RUNNING),
        ("InitializedBelowThresholdExecutors", Reason.RUNNING),
        ("RunningWithBelowThresholdExecutors", Reason.RUNNING),
        ("SchedulingFailure", Reason.SUBMISSION_FAILED),
        ("DriverStartTimedOut", Reason.SUBMISSION_FAILED),
        ("DriverReadyTimedOut", Reason.SUBMISSION_FAILED),
        ("ExecutorsStartTimedOut", Reason.SUBMISSION_FAILED),
        ("ScheduledToRestart", Reason.DRIVER_FAILED),
        ("DriverEvicted", Reason.DRIVER_FAILED),
        ("Failed", Reason.DRIVER_FAILED),
        ("Succeeded", Reason.DRIVER_FAILED),
        ("ALaterState", Reason.DRIVER_PENDING),
    ],
)
def test_apaches_states_of_a_stream(state: str, reason: Reason) -> None:
    assert read_apache(apache(state)).reason(is_bounded=False) is reason


def test_the_tables_have_every_state_of_both_operators() -> None:
    assert len(KUBEFLOW) == 14
    assert len({*APACHE, *APACHE_ENDS} - {""}) == 18
    assert set(REASONS) == set(Phase)


def test_a_bounded_job_that_ends_well_is_completed() -> None:
    assert read_kubeflow(kubeflow("COMPLETED"), RESTART).reason(is_bounded=True) is (
        Reason.COMPLETED
    )
    assert read_apache(apache("Succeeded")).reason(is_bounded=True) is Reason.COMPLETED


@pytest.mark.parametrize("value", [{"metadata": {"name": "s"}}, {"metadata": {"name": "s"},
                                                                "status": None}])  # fmt: skip
def test_an_application_that_nobody_has_looked_at_is_pending(value: dict[str, Any]) -> None:
    assert read_kubeflow(value, RESTART).phase is Phase.PENDING
    assert read_apache(value).phase is Phase.PENDING
    assert read_apache(value).driver_pod == ""


def test_kubeflows_facts_are_taken_over() -> None:
    status = {
        "driverInfo": {"podName": "sink-driver", "webUIServiceName": "sink-ui-svc"},
        "executionAttempts": 3,
        "sparkApplicationId": "spark-1",
        "terminationTime": None,
        "message": "driver container failed with ExitCode: 4, Reason: Error",
    }

    found = read_kubeflow(kubeflow("FAILED", **status), RESTART)

    assert (found.attempts, found.exit_code, found.driver_pod) == (3, 4, "sink-driver")
    assert (found.application_id, found.web_ui) == ("spark-1", "sink-ui-svc")
    assert found.message == "driver container failed with ExitCode: 4, Reason: Error"


def test_a_rerun_that_never_comes_is_stuck_after_the_wait_and_two_minutes() -> None:
    waiting = read_kubeflow(kubeflow("PENDING_RERUN", executionAttempts=3), RESTART)
    running = read_kubeflow(kubeflow("RUNNING", executionAttempts=3), RESTART)

    assert waiting.stuck_after_s == 3 * 30 + 120
    assert running.stuck_after_s is None


@pytest.mark.parametrize("end", APACHE_ENDS)
@pytest.mark.parametrize(
    ("before", "phase"), [("Succeeded", Phase.FINISHED), ("Failed", Phase.FAILED),
                          ("DriverStartTimedOut", Phase.FAILED)],
)  # fmt: skip
def test_apaches_ends_are_judged_by_the_entry_before(end: str, before: str, phase: Phase) -> None:
    # Eleven entries: as text, "10" would come before "9".
    early = [entry("Submitted")] * 8
    found = read_apache(apache(end, *early, entry("RunningHealthy"), entry(before, 2), entry(end)))

    assert found.phase is phase
    assert found.exit_code == 2


def test_apaches_end_without_history_is_no_success() -> None:
    assert read_apache(apache("ResourceReleased")).phase is Phase.FAILED


def test_apaches_driver_is_named_by_its_attempt() -> None:
    attempt = {"currentAttemptSummary": {"attemptInfo": {"id": 2, "restartCounter": 2}}}

    found = read_apache(apache("RunningHealthy", **attempt))

    assert (found.driver_pod, found.attempts) == ("sink-2-driver", 3)


@pytest.mark.parametrize(
    ("value", "phase", "message"),
    [
        (pod(phase="Pending"), Phase.PENDING, ""),
        (
            pod(
                phase="Pending",
                conditions=[
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "0/1 nodes are available",
                    }
                ],
            ),
            Phase.PENDING,
            "Unschedulable: 0/1 nodes are available",
        ),
        (
            pod({"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}),
            Phase.PENDING,
            "ImagePullBackOff: no such image",
        ),
        (pod({"state": {"running": {}}}, phase="Running"), Phase.RUNNING, ""),
        (
            pod(
                {
                    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                    "lastState": {"terminated": {"exitCode": 2, "message": "sink.type: wrong"}},
                    "restartCount": 4,
                }
            ),
            Phase.FAILING,
            "sink.type: wrong",
        ),
        (pod({"state": {"terminated": {"exitCode": 0}}}), Phase.FAILING,
         "the driver ended with code 0"),
        (pod(phase="Running", reason="NodeLost"), Phase.UNKNOWN, ""),
        (pod(phase="Unknown"), Phase.UNKNOWN, ""),
    ],
)  # fmt: skip
def test_pods_of_a_stream(value: dict[str, Any], phase: Phase, message: str) -> None:
    found = read_native(STATEFUL_SET, [value])

    assert found.phase is phase
    assert found.message == message
    assert found.driver_pod == "sink-0"


def test_a_driver_that_never_began_has_not_ended() -> None:
    """Its pod was deleted before, for a right image; seen on a busy node."""
    unknown = {
        "reason": "ContainerStatusUnknown",
        "exitCode": 137,
        "message": "The container could not be located when the pod was terminated",
        "startedAt": None,
    }
    for part in ("state", "lastState"):
        found = read_native(STATEFUL_SET, [pod({part: {"terminated": unknown}})])

        assert (found.phase, found.message, found.exit_code) == (Phase.PENDING, "", None)


@pytest.mark.parametrize("exit_code", [0, 1, 137])
def test_a_driver_whose_pod_is_deleted_has_not_failed(exit_code: int) -> None:
    leaves = pod({"state": {"terminated": {"exitCode": exit_code}}})
    leaves["metadata"]["deletionTimestamp"] = "2026-05-01T12:00:30Z"

    found = read_native(STATEFUL_SET, [leaves])

    assert (found.phase, found.message, found.exit_code) == (Phase.PENDING, LEAVES, None)


def test_a_crash_keeps_its_exit_code_and_counts() -> None:
    crashed = pod({"state": {"running": {}}, "restartCount": 2,
                   "lastState": {"terminated": {"exitCode": 3}}})  # fmt: skip

    found = read_native(STATEFUL_SET, [crashed])

    assert (found.phase, found.exit_code, found.attempts) == (Phase.RUNNING, 3, 3)


def test_without_a_pod_it_is_pending() -> None:
    assert read_native(STATEFUL_SET, []).phase is Phase.PENDING


@pytest.mark.parametrize(
    ("condition", "phase"), [("Complete", Phase.FINISHED), ("Failed", Phase.FAILED)]
)
def test_a_job_is_judged_by_its_conditions(condition: str, phase: Phase) -> None:
    conditions = [{"type": condition, "status": "True", "message": "BackoffLimitExceeded"}]
    job = {"kind": "Job", "metadata": {"name": "sink"}, "status": {"conditions": conditions}}
    last = pod({"state": {"terminated": {"exitCode": 4, "message": "messages are gone"}}})

    found = read_native(job, [last])

    assert found.phase is phase
    assert read_native(job, []).phase is phase
    assert (found.exit_code, found.message) == (4, "messages are gone")


def test_of_a_sink_jobs_last_lines_the_reason_is_kept() -> None:
    reason = "files.path: s3a://lake cannot be written: bucket lake does not exist: create it"
    lines = [
        '{"event": "started"}',
        json.dumps({"event": "failed", "reason": reason, "code": 1}),
        f"iggy sink job failed: {reason}",
    ]

    assert short("\n".join(lines) + "\n") == reason
    assert short("\n".join(reversed(lines))) == reason  # two streams, in no order


def test_of_a_java_stack_the_message_is_kept() -> None:
    text = f"{STACK}Message: cannot patch resource networkpolicies\n{STACK}"

    assert short(text) == "cannot patch resource networkpolicies"
    assert len(short(STACK)) <= MESSAGE_CHARACTERS_MAX
    assert short("short: Message: all of it") == "short: Message: all of it"


@pytest.mark.parametrize("is_trimmed", [True, False])
@pytest.mark.parametrize(
    ("end", "exit_code"),
    [(entry("Failed", 2), 2), (entry("Succeeded"), 0), (entry("Failed"), None)],
)
def test_apaches_restart_keeps_the_exit_code_of_the_end_before(
    end: dict[str, Any], exit_code: int | None, is_trimmed: bool
) -> None:
    """An end lasts a moment, so that a pass may see the restart alone. By default the operator
    moves the history of the attempt that ended; of those before it nothing counts.
    """
    again = entry("ScheduledToRestart")
    ended_before = [entry("Failed", 4), entry("ScheduledToRestart"), entry("RunningHealthy"), end]
    if is_trimmed:
        old = {str(number): one for number, one in enumerate(ended_before)}
        summary = {"attemptInfo": {"id": 1}, "stateTransitionHistory": old}
        value = apache("ScheduledToRestart", previousAttemptSummary=summary)
        value["status"]["stateTransitionHistory"] = {"4": again}
    else:
        summary = {"attemptInfo": {"id": 1}}
        value = apache("ScheduledToRestart", *ended_before, again, previousAttemptSummary=summary)

    reading = read_apache(value)

    assert (reading.phase, reading.exit_code) == (Phase.FAILING, exit_code)


def test_apaches_driver_is_quoted_where_its_operator_says_less() -> None:
    failed = {
        "currentStateSummary": "Failed",
        "message": "The driver failed.",
        "lastObservedDriverStatus": {
            "containerStatuses": [ended(2, message="topic: `ordrs` does not exist")]
        },
    }
    value = apache("Failed", failed)
    value["status"]["currentState"] = failed

    assert read_apache(value).message == "topic: `ordrs` does not exist"


NO_IMAGE = pod({"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}})


def test_a_driver_that_cannot_start_is_known_from_its_pod() -> None:
    readings = [
        read_native(STATEFUL_SET, [NO_IMAGE]),
        read_kubeflow(kubeflow("SUBMITTED"), RESTART, NO_IMAGE),
        read_apache(apache("DriverRequested"), NO_IMAGE),
    ]

    for found in readings:
        assert (found.phase, found.is_stuck) == (Phase.PENDING, True)
        assert found.message == "ImagePullBackOff: no such image"
    assert not read_kubeflow(kubeflow("RUNNING"), RESTART, NO_IMAGE).is_stuck
    assert not read_kubeflow(
        kubeflow("SUBMITTED"), RESTART, pod({"state": {"running": {}}})
    ).is_stuck
    assert not read_native({**STATEFUL_SET, "kind": "Job", "status": {"conditions": [
        {"type": "Failed", "status": "True"}]}}, [NO_IMAGE]).is_stuck  # fmt: skip


@pytest.mark.parametrize("state", ["DriverStartTimedOut", *APACHE_ENDS, "ScheduledToRestart"])
@pytest.mark.parametrize(
    ("end", "is_stuck"),
    [("DriverStartTimedOut", True), ("DriverReadyTimedOut", False), ("SchedulingFailure", False),
     ("Failed", False)],
)  # fmt: skip
def test_apaches_operator_waits_in_vain_for_a_driver(state: str, end: str, is_stuck: bool) -> None:
    old = {"stateTransitionHistory": {"0": entry(end)}}
    value = apache(state, entry(end), entry(state), previousAttemptSummary=old)
    if state == "DriverStartTimedOut":
        value = apache(end, entry(end))

    assert read_apache(value).is_stuck is is_stuck

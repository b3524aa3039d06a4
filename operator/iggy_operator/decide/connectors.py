"""One sink or source: its job's configuration, when to start it again, when to give up."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from iggy_operator.decide.actions import Reason
from iggy_operator.resources import Connector, Restart, Source

# Fields that whoever launches the job needs, and the job does not. Changing one restarts nothing.
_LAUNCHER_FIELDS: Final = frozenset({"checkpoint", "lag", "restart", "spark", "suspend", "userRef"})
RETRIES_RESET_S: Final = 600
"""A job that ran this long starts with a fresh count of retries."""
PAUSE_S_MIN: Final = 1
OWN_TOPIC: Final = "topicRef"
"""The field of a source that names the topic that it fills."""
CARRIED_OVER: Final = "all messages are carried over"
EXIT_FINISHED: Final = 0
EXIT_CONFIGURATION: Final = 2
EXIT_DATA_LOSS: Final = 4
EXIT_STOPPED: Final = 5
EXIT_BAD_RECORDS: Final = 6
FOR_A_PERSON: Final = {
    EXIT_CONFIGURATION: Reason.DRIVER_FAILED,
    EXIT_DATA_LOSS: Reason.DRIVER_FAILED,
    EXIT_BAD_RECORDS: Reason.TOO_MANY_BAD_RECORDS,
}
"""Exit codes after which the same start would end the same way."""


@dataclass(frozen=True, slots=True)
class AfterExit:
    """What follows the end of a job."""

    reason: Reason
    message: str
    pause_s: int | None
    """Seconds until it is started again; None: not at all."""
    retries: int
    """To be handed in the next time."""


@dataclass(frozen=True, slots=True)
class Target:
    """A topic that a job sends to, in the broker that it works with."""

    field: str
    """Where the resource names it."""
    stream: str
    topic: str

    def __str__(self) -> str:
        """As grants and messages name it."""
        return f"{self.stream}/{self.topic}"


def dead_letters(connector: Connector, stream: str) -> Target | None:
    """The topic that bad messages go to; `stream` is that of the topic that is read."""
    block = connector.spec["errors"].get("deadLetter")
    if block is None:
        return None
    return Target("errors.deadLetter", block.get("stream", stream), block["topic"])


def targets(connector: Connector, stream: str, topic: str) -> tuple[Target, ...]:
    """Every topic that the job sends to. `stream` and `topic`: the one that it works for."""
    if isinstance(connector, Source):
        return (Target(OWN_TOPIC, stream, topic),)
    dead, copy = dead_letters(connector, stream), connector.spec.get("iggy")
    copies = [Target("iggy", copy["stream"], copy["topic"])] if copy else []
    return (*copies, *([dead] if dead is not None else []))


def loops(connector: Connector, stream: str, topic: str) -> Iterator[tuple[str, str]]:
    """Fields by which the job would read what it sends, and what to do about each."""
    if isinstance(connector, Source):
        return
    for target in targets(connector, stream, topic):
        if (target.stream, target.topic) == (stream, topic):
            yield target.field, f"{target} is the topic that is read: name another one"


def job_fields(connector: Connector) -> dict[str, Any]:
    """The part of the spec that the job is given."""
    return {name: value for name, value in connector.spec.items() if name not in _LAUNCHER_FIELDS}


def after_exit(
    connector: Connector, exit_code: int, *, retries: int, ran_s: float, error: str
) -> AfterExit:
    """What follows when a job ends by itself after `ran_s` seconds.

    Exit codes of the job: 0 finished, 1 failed, 2 wrong configuration, 3 replaced by another job,
    4 data loss, 5 asked to stop before everything was written, 6 too many bad messages. 2, 4 and 6
    wait for a person. 5 is no failure, and is not counted as one.
    """
    if ran_s >= RETRIES_RESET_S:
        retries = 0
    if exit_code == EXIT_FINISHED and connector.spec["trigger"]["mode"] == "AvailableNow":
        return AfterExit(Reason.COMPLETED, CARRIED_OVER, None, 0)
    if (waits := FOR_A_PERSON.get(exit_code)) is not None:
        return AfterExit(waits, error, None, retries)
    if not _may_restart(connector.restart, exit_code):
        reason = Reason.COMPLETED if exit_code == EXIT_FINISHED else Reason.DRIVER_FAILED
        return AfterExit(reason, error, None, retries)
    if exit_code == EXIT_STOPPED:
        message = "the job was stopped before everything was written: it goes on"
        return AfterExit(Reason.RECONCILING, message, PAUSE_S_MIN, retries)
    if retries >= connector.restart.retries_max:
        message = f"{error} (gave up after {retries} restarts)"
        return AfterExit(Reason.RETRIES_EXHAUSTED, message, None, retries)
    pause_s = min(PAUSE_S_MIN << min(retries, 16), connector.restart.pause_s_max)
    return AfterExit(Reason.DRIVER_FAILED, error, pause_s, retries + 1)


def _may_restart(restart: Restart, exit_code: int) -> bool:
    if restart.policy == "OnFailure":
        return exit_code != EXIT_FINISHED
    return restart.policy == "Always"

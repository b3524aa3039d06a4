"""The circuit breaker of sink Http: by a played clock, on a played service, and in a whole job."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession

from dead_letter_topics import messages_in
from iggy_spark import blocks
from iggy_spark.retry import Policy, Retry, TransientError
from iggy_spark.sinks import circuit
from iggy_spark.sinks.circuit import FAILURES_MAX, LOOK_S, Circuit, Own, Shared, State
from iggy_spark.sinks.http import HttpSink
from iggy_spark.sinks.web import Denied, Unreachable
from played_server import Reply
from played_targets import PlayedService
from sink_cases import PlayedTask, declare, document, portions, wanted
from sink_jobs import Setup, documents, every

if TYPE_CHECKING:
    from conftest import Topic

PAUSE_S = 30.0
START_S = 1_800_000_000.0


class Clock:
    def __init__(self) -> None:
        self.now_s = START_S
        self.looks: list[Callable[[], None]] = []  # of others, whenever somebody sleeps

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, pause_s: float) -> None:
        for look in self.looks:
            look()
        self.now_s += pause_s


def works() -> str:
    return "done"


def fails(error: Exception) -> Callable[[], str]:
    def send() -> str:
        raise error

    return send


AWAY = Unreachable("503")


class Task:
    """A task, and what became of its requests."""

    def __init__(self, state: State, clock: Clock) -> None:
        self.circuit = Circuit(state, pause_s=PAUSE_S, clock=clock)

    def send(self, send: Callable[[], str] = works) -> str | float:
        """What came of it: the answer, `failed`, or for how long it is held."""
        try:
            return self.circuit.call(send)
        except TransientError as error:
            if error.cause != "held":
                return "failed"
            assert error.after_s is not None
            return error.after_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["own", "shared"])
def state(request: pytest.FixtureRequest, tmp_path: Path) -> State:
    return Own() if request.param == "own" else Shared(tmp_path)


def opened(state: State, clock: Clock) -> Task:
    task = Task(state, clock)
    assert [task.send(fails(AWAY)) for _ in range(FAILURES_MAX)] == ["failed"] * FAILURES_MAX
    return task


def test_failures_in_a_row_open_it_and_a_probe_that_works_closes_it(
    state: State, clock: Clock
) -> None:
    task = opened(state, clock)

    assert task.send() == PAUSE_S
    clock.sleep(PAUSE_S - 1)
    assert task.send() == 1
    clock.sleep(1)
    assert task.send() == "done"
    assert [task.send(fails(AWAY)), task.send()] == ["failed", "done"]


def test_a_probe_that_fails_begins_another_pause(state: State, clock: Clock) -> None:
    task = opened(state, clock)
    for _ in range(3):
        clock.sleep(PAUSE_S)
        assert [task.send(fails(AWAY)), task.send()] == ["failed", PAUSE_S]


def test_failures_with_answers_between_them_open_nothing(state: State, clock: Clock) -> None:
    task = Task(state, clock)
    for _ in range(3):
        for _ in range(FAILURES_MAX - 1):
            task.send(fails(AWAY))
        task.send()

    assert task.send() == "done"


@pytest.mark.parametrize("error", [TransientError("429", after_s=1.0), Denied("401", 401)])
def test_an_answer_is_no_failure_whatever_it_is(
    state: State, clock: Clock, error: Exception
) -> None:
    task = Task(state, clock)
    for _ in range(2 * FAILURES_MAX):
        with pytest.raises(type(error)):
            task.circuit.call(fails(error))
    assert task.send() == "done"
    opened(state, clock)
    clock.sleep(PAUSE_S)

    with pytest.raises(type(error)):
        task.circuit.call(fails(error))

    assert task.send() == "done"


def test_a_service_is_left_alone_as_long_as_it_asks_for(state: State, clock: Clock) -> None:
    task = Task(state, clock)
    for _ in range(FAILURES_MAX):
        task.send(fails(Unreachable("503", after_s=100.0)))

    assert task.send() == 100


def test_one_task_probes_and_the_others_wait(tmp_path: Path, clock: Clock) -> None:
    opened(Shared(tmp_path), clock)
    first, second = (Task(Shared(tmp_path), clock) for _ in range(2))
    assert [first.send(), second.send()] == [PAUSE_S] * 2
    clock.sleep(PAUSE_S)
    during: list[str | float] = []

    def probe() -> str:
        during.append(second.send())
        raise AWAY

    assert first.send(probe) == "failed"
    assert [*during, first.send(), second.send()] == [LOOK_S, PAUSE_S, PAUSE_S]
    clock.sleep(PAUSE_S)
    assert [second.send(), first.send()] == ["done"] * 2
    assert list(tmp_path.iterdir()) == []


def test_a_prober_that_is_killed_keeps_nobody_out(tmp_path: Path, clock: Clock) -> None:
    opened(Shared(tmp_path), clock)
    clock.sleep(PAUSE_S)

    class Killed(BaseException):
        pass

    def dies() -> str:
        raise Killed

    with pytest.raises(Killed):
        Task(Shared(tmp_path), clock).circuit.call(dies)

    assert Task(Shared(tmp_path), clock).send() == "done"


def test_a_message_that_the_service_fails_at_does_not_stop_the_others(
    tmp_path: Path, clock: Clock
) -> None:
    bad = opened(Shared(tmp_path), clock)
    clock.sleep(PAUSE_S)

    assert Task(Shared(tmp_path), clock).send() == "done"
    assert [bad.send(fails(AWAY)) for _ in range(FAILURES_MAX)] == ["failed"] * FAILURES_MAX


def test_a_folder_that_is_gone_keeps_nothing(tmp_path: Path, clock: Clock) -> None:
    folder = tmp_path / "away"
    folder.mkdir()
    task = opened(Shared(folder), clock)
    shutil.rmtree(folder)

    assert task.send() == "done"
    assert opened(Shared(folder), clock).send() == "done"


def test_a_folder_without_locks_has_several_probers(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*given: object) -> None:
        raise OSError("no locks here")

    task = opened(Shared(tmp_path), clock)
    monkeypatch.setattr(circuit.fcntl, "flock", refuses)
    clock.sleep(PAUSE_S)

    assert task.send() == "done"


@pytest.mark.parametrize(("timeout_s", "expected_s"), [(600.0, 30.0), (20.0, 2.0)])
def test_there_is_time_for_several_pauses(timeout_s: float, expected_s: float) -> None:
    assert circuit.pause_s(Policy(timeout_s)) == expected_s


def test_a_call_may_be_put_off_any_number_of_times(clock: Clock) -> None:
    answers = iter([*[fails(TransientError("held", after_s=1.0))] * 1100, works])
    retry = Retry(Policy(3600.0), clock=clock, sleep=clock.sleep)

    assert retry.call(lambda: next(answers)(), what="hook") == "done"


@pytest.fixture
def server() -> Iterator[PlayedService]:
    with PlayedService() as running:
        yield running


def sink(server: PlayedService, retry: Retry, state: State, clock: Clock) -> HttpSink:
    block = blocks.Http(url=server.url, metadata=True)
    made = HttpSink(block, declare(), name="hook", retry=retry, circuit=state)
    made._circuit._clock = clock
    return made


def test_an_outage_is_probed_by_one_request_at_a_time_and_loses_nothing(
    server: PlayedService, tmp_path: Path, clock: Clock
) -> None:
    outage = [Reply(status) for status in (503, 500, 502, 504, 503, 503, 503)]
    server.faults += outage
    retry = Retry(Policy(), clock=clock, sleep=clock.sleep, draw=lambda: 0.5)
    times: dict[int, float] = {}

    class Waits(Exception):
        pass

    def waits(pause_s: float) -> None:
        raise Waits

    def look() -> None:
        """Whenever the task waits: another one sends nothing while the circuit is open."""
        sent = len(server.sent())
        times.setdefault(sent, clock.now_s)
        if sent >= FAILURES_MAX:
            other = Retry(Policy(), clock=clock, sleep=waits)
            with pytest.raises(Waits):
                write(sink(server, other, Shared(tmp_path), clock), 1, PlayedTask())
            assert (len(server.sent()), other.counts) == (sent, {"held": 1})

    clock.looks.append(look)
    task = PlayedTask()

    write(sink(server, retry, Shared(tmp_path), clock), 0, task)

    places = [message["metadata"]["offset"] for message in server.messages]
    assert places == [0, 1, 2, 3, 4, 5]
    assert (task.refusals, task.confirmed) == ([], 1)
    assert len(server.sent()) == len(outage) + 2  # two requests were to be sent
    assert retry.counts == {"busy": 7, "held": 3}
    assert [times[n + 1] - times[n] for n in (5, 6)] == [PAUSE_S] * 2
    assert list(tmp_path.iterdir()) == []


def write(target: HttpSink, partition: int, task: PlayedTask) -> None:
    span = wanted(0, 6, partition)
    target.write_task(span, portions(span, made=document), task)


def test_a_job_outlives_an_outage_without_a_dead_letter(
    spark: SparkSession, topic: Topic, tmp_path: Path, server: PlayedService
) -> None:
    errors = {
        "tolerance": "Data",
        "deadLetter": {"topic": "dead"},
        "retry": {"timeout": "5m", "initialDelay": "20ms", "maxDelay": "100ms"},
    }
    block = {"url": server.url, "metadata": True, "body": "Individual"}
    setup = Setup(topic, tmp_path, type="Http", files=None, http=block, errors=errors)
    topic.send(0, documents(0, 20))
    topic.send(1, documents(0, 20))
    server.faults += [Reply(503)] * 30

    events = setup.run(spark)

    places = [message["metadata"] for message in server.messages]
    found = sorted((place["partition"], place["offset"]) for place in places)
    assert found == every(p0=20, p1=20)
    assert messages_in(topic.client, topic.stream, "dead") == []
    (done,) = (event for event in events if event["event"] == "progress")
    assert (done["rows"], done["dead"], done["rejected"]) == (40, 0, 0)
    assert done["retries"] > 30  # those that were held, too

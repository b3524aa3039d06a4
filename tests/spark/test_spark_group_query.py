"""The driver in its consumer group while real queries and sink jobs run, stop, break and die."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from broker_process import BrokerProcess, running_broker
from iggy_client import Client, KeptAlive
from iggy_spark import connections, errors, membership
from iggy_spark.errors import Fenced
from sink_jobs import PROCESS_S, Setup, documents, every, start
from waiting import wait_until

if TYPE_CHECKING:
    from conftest import Topic

GROUP = "query"
HEARTBEAT_S = 3.0
WAIT_S = 120.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {"IGGY_HEARTBEAT_INTERVAL": f"{HEARTBEAT_S:g} s"}
    with running_broker(tmp_path_factory.mktemp("query-broker"), settings=settings) as process:
        yield process


@pytest.fixture(scope="module")
def client(broker: BrokerProcess) -> Iterator[Client]:
    with broker.client() as connected:
        yield connected
    connections.close_all()


def payloads(first: int, end: int) -> list[bytes]:
    return [b"m%d" % number for number in range(first, end)]


class Query:
    """A streaming query of 50 messages a batch, and what its batches saw."""

    def __init__(self, spark: SparkSession, topic: "Topic", checkpoint: Path, **more: str) -> None:
        self.topic = topic
        self.batches: list[list[int]] = []
        self.stored: list[int | None] = []  # the group's offset while each batch was written
        self.members: set[int] = set()
        self.watcher: Topic | None = None  # with a client for the thread of the batches
        self.hold_s = 0.0  # how long each batch takes at least
        given = {"startingOffsets": "earliest", "consumerGroup": GROUP, "columns": "offset"}
        frame = spark.readStream.format("iggy").options(
            **topic.options(**{**given, "maxOffsetsPerTrigger": "50", **more})
        )
        writer = frame.load().writeStream.foreachBatch(self._write)
        self.query: StreamingQuery = (
            writer.option("checkpointLocation", str(checkpoint))
            .trigger(processingTime="50 milliseconds")
            .start()
        )

    def _write(self, frame: DataFrame, number: int) -> None:
        ends = time.monotonic() + self.hold_s
        rows = sorted(row.offset for row in frame.collect())
        if self.watcher is not None:
            self.stored.append(self.watcher.stored(GROUP, 0))
            self.members.add(self.watcher.members(GROUP))
        while time.monotonic() < ends:
            if self.watcher is not None:
                self.members.add(self.watcher.members(GROUP))
        self.batches.append(rows)

    @property
    def rows(self) -> list[int]:
        return [offset for batch in self.batches for offset in batch]

    def wait_until_stored(self, offset: int) -> None:
        def there() -> bool:
            failure = self.query.exception()
            assert failure is None, str(failure)
            return self.topic.stored(GROUP, 0) == offset

        wait_until(there, f"the group at {offset}", WAIT_S)


def test_a_running_query_is_the_only_member_and_stores_what_is_committed(
    spark: SparkSession, topic: "Topic", tmp_path: Path, broker: BrokerProcess
) -> None:
    login = topic.user(read_topic=True)  # the one right that it takes
    query = Query(spark, topic, tmp_path / "first", **login, offsetMirror="required")
    with broker.client() as watching:
        query.watcher = replace(topic, client=watching)
        topic.send(0, payloads(0, 150))
        query.wait_until_stored(149)  # although the topic is idle by now

        query.hold_s = 1.6 * HEARTBEAT_S  # beyond 1.2 intervals a silent member is sent away
        topic.send(0, payloads(150, 160))
        query.wait_until_stored(159)
        query.watcher = None

    # While a batch is written, the end of the one before it is stored, never its own.
    assert [*query.stored, 159] == [None, *(rows[-1] for rows in query.batches)]
    assert query.members == {1}
    assert query.rows == list(range(160))
    second = Query(spark, topic, tmp_path / "second", retryTimeoutMs="300ms")
    wait_until(lambda: second.query.exception() is not None, "the second refused", WAIT_S)
    found = errors.find_in_text(str(second.query.exception()))
    assert isinstance(found, Fenced), str(second.query.exception())
    assert "has another member: stop the query or program that reads with it" in str(found)
    assert second.rows == []
    assert topic.members(GROUP) == 1
    query.query.stop()
    wait_until(lambda: topic.members(GROUP) == 0, "the stopped query no member", WAIT_S)


def test_a_broker_that_is_killed_during_a_query_loses_nothing(
    spark: SparkSession, topic: "Topic", tmp_path: Path, broker: BrokerProcess
) -> None:
    topic.send(0, payloads(0, 200))
    query = Query(spark, topic, tmp_path / "checkpoint")
    query.hold_s = 0.2
    wait_until(lambda: len(query.rows) >= 50, "a batch is written", WAIT_S)
    query.hold_s = 0.0

    broker.kill()
    broker.start()
    topic.client.reconnect()
    topic.send(0, payloads(200, 300))

    query.wait_until_stored(299)
    assert query.rows == list(range(300))
    assert topic.members(GROUP) == 1
    query.query.stop()


class Running:
    """A sink job in a thread; `result` are its events or the error that it ended with."""

    def __init__(self, setup: Setup, spark: SparkSession) -> None:
        setup.value["once"] = False
        self.setup = setup
        self.result: Any = None
        self._spark = spark
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.result = self.setup.run(self._spark)
        except BaseException as error:  # noqa: BLE001 -- handed to the test
            self.result = error

    def wait_until(self, condition: Callable[[], bool], *, what: str) -> None:
        wait_until(lambda: self.result is not None or condition(), what, WAIT_S)
        assert self.result is None, self.result

    def ended(self) -> Any:
        self._thread.join(WAIT_S)
        return self.result


def test_a_sink_job_outlives_its_broker_and_tells_at_once(
    spark: SparkSession, topic: "Topic", tmp_path: Path, broker: BrokerProcess
) -> None:
    topic.send(0, documents(0, 100))
    setup = Setup(topic, tmp_path, maxOffsetsPerTrigger=50, trigger={"interval": "300ms"})
    login = topic.user(read_topic=True)  # the one right that it takes
    setup.login = {f"IGGY_{name.upper()}": value for name, value in login.items()}
    job = Running(setup, spark)
    job.wait_until(lambda: topic.stored("lake", 0) == 99, what="the job tells")
    members = topic.members("lake")
    broker.kill()
    broker.start()
    topic.client.reconnect()
    topic.send(0, documents(100, 130))
    job.wait_until(lambda: topic.stored("lake", 0) == 129, what="it goes on")
    job.wait_until(lambda: topic.members("lake") == 1, what="it joins again")
    setup.stop.ask()
    events = job.ended()

    assert members == 1
    assert not isinstance(events, BaseException), events
    assert events[-1] | {"reason": "", "end": None} == {
        "event": "stopped", "reason": "", "committed": {"0": 130, "1": 0}, "end": None, "lag": 0,
    }  # fmt: skip
    assert setup.rows() == every(p0=130)
    assert topic.members("lake") == 0


def test_a_sink_job_whose_place_is_taken_ends_its_query(
    spark: SparkSession,
    topic: "Topic",
    tmp_path: Path,
    broker: BrokerProcess,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(membership, "OCCUPIED_S_MAX", 0.3)
    topic.send(0, documents(0, 10))
    job = Running(Setup(topic, tmp_path), spark)
    job.wait_until(lambda: topic.stored("lake", 0) == 9, what="the job tells")

    with KeptAlive(broker.client(), interval_s=0.1) as taker:
        with taker.use() as member:
            member.delete_group(topic.stream, topic.name, "lake")
            member.create_group(topic.stream, topic.name, "lake")
            member.join_group(topic.stream, topic.name, "lake")
        topic.send(0, documents(10, 20))
        error = job.ended()

    assert isinstance(error, Fenced), error
    assert spark.streams.active == []


def test_a_killed_driver_leaves_its_place_and_the_next_one_goes_on(
    spark: SparkSession, topic: "Topic", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic.send(0, documents(0, 3000))
    setup = Setup(topic, tmp_path, maxOffsetsPerTrigger=50)
    setup.value["once"] = False
    process = start(setup)
    assert process.stdout is not None
    batch = None
    while batch is None or batch < 1:
        event = json.loads(process.stdout.readline())
        batch = event.get("batch", batch)
    monkeypatch.setattr(membership, "OCCUPIED_S_MAX", 0.3)
    (tmp_path / "other").mkdir()
    other = Setup(topic, tmp_path / "other")

    with pytest.raises(Fenced, match=r"'lake' of .* has another member"):
        other.run(spark)
    members = topic.members("lake")
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=PROCESS_S)

    assert members == 1
    wait_until(lambda: topic.members("lake") == 0, "the dead driver no member", WAIT_S)
    assert [path for path in other.lake.rglob("*") if path.is_file()] == []
    stored = topic.stored("lake", 0)
    assert stored is not None
    assert 49 <= stored < len(setup.rows())
    setup.value |= {"once": True}
    setup.value["sink"]["maxOffsetsPerTrigger"] = 5000
    assert setup.run(spark)[-1]["lag"] == 0
    assert setup.rows() == every(p0=3000)
    assert topic.stored("lake", 0) == 2999

"""Messages that are gone before they were read: told by name, or counted and left behind."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from archived_rows import rows_of
from broker_process import PASSWORD, USERNAME, running_broker
from iggy_client import Client
from iggy_spark import options, readers
from iggy_spark.connections import Connection, close_all
from iggy_spark.errors import DataLoss
from iggy_spark.offsets import Offsets, QueryOffsets
from iggy_spark.retention import RetentionWatch
from iggy_spark.topics import Topics
from sink_jobs import Setup, every
from stored import logs, partition_folder, send

if TYPE_CHECKING:
    from conftest import Topic

# A segment takes 30 messages: three batches of ten, of 40,000 bytes each message.
GONE = r"partition 0: offsets 10\u201329 \(20 messages\) are gone, the earliest is 30"


@pytest.fixture
def log(topic: "Topic") -> "Topic":
    """The topic with small segments."""
    topic.client.delete_topic(topic.stream, topic.name)
    topic.client.create_topic(topic.stream, topic.name, 1, {"segment_size": 1 << 20})
    return topic


def fill(topic: "Topic", first: int, end: int) -> None:
    text = "x" * 40_000
    payloads = [json.dumps({"number": n, "text": text}).encode() for n in range(first, end)]
    topic.send(0, payloads, batch=10)


def expire(topic: "Topic") -> None:
    """Remove the first segment, whoever has not read it."""
    for group in topic.client.get_groups(topic.stream, topic.name):
        topic.client.delete_group(topic.stream, topic.name, group.name)
    topic.client.delete_segments(topic.stream, topic.name, 0, 1)


def reader(topic: "Topic", **more: str) -> readers.IggyStreamReader:
    given = topic.options(**{"startingOffsets": "earliest", "pollIntervalMs": "0", **more})
    return readers.IggyStreamReader(options.parse(given, mode="stream"))


def moved(offset: dict[str, Any], position: int) -> dict[str, Any]:
    found = Offsets.from_json(offset)
    return Offsets(found.topic, found.incarnation, {0: position}).to_json()


def read(source: readers.IggyStreamReader, start: Any, end: Any) -> list[int]:
    parts = source.partitions(start, end)
    return [n for part in parts for rows in source.read(part) for n in rows["offset"].to_pylist()]


def test_a_checkpoint_that_retention_overtook(
    log: "Topic", caplog: pytest.LogCaptureFixture
) -> None:
    fill(log, 0, 100)
    source = reader(log)
    start = moved(source.initialOffset(), 10)
    expire(log)
    end = source.latestOffset(start, ReadAllAvailable())

    began_s = time.monotonic()
    with pytest.raises(DataLoss, match=GONE):
        read(source, start, end)
    assert time.monotonic() - began_s < 10
    assert read(reader(log, failOnDataLoss="false"), start, end) == list(range(30, 100))

    (record,) = caplog.records
    assert "(20 messages) are gone; going on behind them" in record.getMessage()


def test_a_warning_comes_before_the_loss(log: "Topic", caplog: pytest.LogCaptureFixture) -> None:
    log.client.update_topic(log.stream, log.name, log.name, {"message_expiry": 3_600_000_000})
    fill(log, 0, 20)
    given = log.options(startingOffsets="earliest")
    parsed = options.parse(given, mode="stream")
    found = Connection(parsed).topic_state()
    hour_s = 3_600.0

    def look(position: int, *, ages_s: list[float]) -> str:
        """What is told by looks at these ages of the first message."""
        caplog.clear()
        ages = iter(ages_s)
        watch = RetentionWatch(parsed, Topics(parsed), now=lambda: time.time() + next(ages))
        for _ in ages_s:
            done = Offsets(found.name, str(found.incarnation), {0: position})
            watch.look(QueryOffsets.of([done]), [found])
            watch._lookouts[found.name]._due_s = 0.0
        return caplog.text

    assert look(0, ages_s=[0.5 * hour_s]) == ""
    assert look(20, ages_s=[0.9 * hour_s]) == ""
    told = look(0, ages_s=[0.9 * hour_s] * 3)
    assert told.count("the oldest unread message is 32") == 1
    assert look(0, ages_s=[0.9 * hour_s, 0.1 * hour_s, 0.95 * hour_s]).count("oldest unread") == 2


def test_messages_that_the_broker_keeps_back(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        folder = partition_folder(broker)
        with broker.client() as client:
            client.create_stream("shop")
            client.create_topic("shop", "orders", 1, {"segment_size": 1 << 20})
            for first in range(0, 100, 10):
                send(client, "shop", "orders", *(b"%40000d" % n for n in range(first, first + 10)))
        broker.stop()
        second = logs(folder)[1]
        data = bytearray(second.read_bytes())
        data[len(data) // 2] ^= 1  # in the second of its three batches
        second.write_bytes(data)
        broker.start()

        login = {"servers": broker.address, "username": USERNAME, "password": PASSWORD}
        given = {**login, "stream": "shop", "topic": "orders"}
        with pytest.raises(
            DataLoss, match=r"partition 0: offsets 40\u201359 \(20 messages\) are damaged, the next"
        ):
            rows_of(given)
        found = rows_of({**given, "failOnDataLoss": "false"})
        assert [offset for _, offset, _ in found] == [*range(40), *range(60, 100)]
    close_all()


def purge(topic: "Topic") -> None:
    topic.client.purge_topic(topic.stream, topic.name)


@pytest.mark.parametrize("remove", [expire, purge])
def test_messages_that_go_between_plan_and_read(
    log: "Topic", remove: Callable[["Topic"], None]
) -> None:
    fill(log, 0, 100)
    source = reader(log)
    start = moved(source.initialOffset(), 10)
    end = source.latestOffset(start, ReadAllAvailable())
    remove(log)

    with pytest.raises(DataLoss, match=r"partition 0: offsets 10\u2013"):
        read(source, start, end)


def test_a_lost_tail_is_told_once_not_at_every_look(
    log: "Topic", caplog: pytest.LogCaptureFixture
) -> None:
    fill(log, 0, 50)
    source = reader(log, failOnDataLoss="false")
    end = source.latestOffset(source.initialOffset(), ReadAllAvailable())
    purge(log)

    for _ in range(3):
        assert source.latestOffset(end, ReadAllAvailable()) == end

    (record,) = caplog.records
    assert "offsets 0\u201349 were read but the partition ends at 0" in record.getMessage()


def test_a_sink_stops_at_a_loss_or_goes_on_and_counts_it(
    spark: SparkSession, log: "Topic", tmp_path: Path, client: Client
) -> None:
    setup = Setup(log, tmp_path, payload={"format": "Json", "schema": "number BIGINT"})
    setup.value["sink"]["files"]["partitionBy"] = []
    fill(log, 0, 10)
    setup.run(spark)
    fill(log, 10, 100)
    # The sink's group has read ten messages: what it still needs is kept from being deleted.
    client.delete_segments(log.stream, log.name, 0, 1)
    found = client.get_topic(log.stream, log.name)
    assert found is not None
    assert found.topic.messages_count == 100
    expire(log)

    with pytest.raises(DataLoss, match=GONE):
        setup.run(spark)
    setup.value["sink"]["failOnDataLoss"] = False
    events = setup.run(spark)

    assert [event["lost"] for event in events if event["event"] == "progress"] == [20]
    assert events[-1]["lag"] == 0
    assert setup.rows() == [place for place in every(p0=100) if not 10 <= place[1] < 30]
    assert log.stored("lake", 0) == 99

"""Whole sink jobs on a real broker and a real Spark, into a table of the real engine."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession

from clickhouse import ClickHouse, Engine, failed
from iggy_wire import batch
from iggy_wire.primitives import Consumer, PollingStrategy
from played_server import LOST
from sink_jobs import Setup, documents, every

if TYPE_CHECKING:
    from conftest import Topic

COLUMNS = """
    number Int64, month UInt8 ALIAS 0, delay Nullable(Float64), at Nullable(DateTime64(6, 'UTC')),
    iggy_partition_id UInt32, iggy_offset UInt64
"""
SCHEMA = "number BIGINT NOT NULL, delay DOUBLE, at TIMESTAMP"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ClickHouse]:
    engine = Engine(tmp_path)
    engine.run(
        f"CREATE TABLE orders ({COLUMNS}, CONSTRAINT late CHECK number != 1030) "
        "ENGINE = MergeTree ORDER BY (iggy_partition_id, iggy_offset) "
        "SETTINGS non_replicated_deduplication_window = 100"
    )
    with ClickHouse(engine) as running:
        yield running
    engine.close()


def test_what_is_repeated_changes_nothing(
    spark: SparkSession, topic: Topic, tmp_path: Path, server: ClickHouse
) -> None:
    """A lost answer, a batch whose commit is lost, a lost checkpoint, and a message that the table
    does not want.
    """
    setup = _job(topic, tmp_path, clickhouse={"url": server.url, "table": "orders"})
    server.faults += [failed(252), LOST]
    topic.send(0, documents(0, 100))
    topic.send(1, documents(0, 20))
    events = setup.run(spark)
    first = _rows(server)
    retries = sum(event.get("retries", 0) for event in events if event["event"] == "progress")
    setup.forget_last_commit()

    events = setup.run(spark)
    repeated = [event["rows"] for event in events if event["event"] == "progress"]
    shutil.rmtree(setup.checkpoint)
    topic.send(1, documents(1020, 1040))
    setup.run(spark)

    assert first == every(p0=100, p1=20)
    assert (retries, repeated) == (2, [60])
    assert _rows(server) == [row for row in every(p0=100, p1=40) if row != (1, 30)]
    assert topic.stored("lake", 1) == 39
    (letter,) = _letters(topic)
    assert letter.payload == documents(1030, 1031)[0]
    values = "number, delay, toString(at)"
    found = server.engine.rows(f"SELECT {values} FROM orders WHERE number IN (24, 26) ORDER BY 1")
    at = "2026-03-29 00:59:59.999999"
    assert found == [[24, None, at], [26, 13.0, at]]


def _job(topic: Topic, folder: Path, **sink: Any) -> Setup:
    errors = {
        "tolerance": "Data",
        "deadLetter": {"topic": "dead"},
        "retry": {"timeout": "20s", "initialDelay": "50ms", "maxDelay": "100ms"},
    }
    return Setup(
        topic,
        folder,
        type="ClickHouse",
        files=None,
        delivery="ExactlyOnce",
        payload={"format": "Json", "schema": SCHEMA},
        errors=errors,
        maxOffsetsPerTrigger=60,
        **sink,
    )


def _rows(server: ClickHouse) -> list[tuple[int, int]]:
    found = server.engine.rows("SELECT iggy_partition_id, iggy_offset FROM orders ORDER BY ALL")
    return [(partition, offset) for partition, offset in found]


def _letters(topic: Topic) -> list[batch.Message]:
    polled = topic.client.poll(
        topic.stream,
        "dead",
        0,
        consumer=Consumer.plain("reader"),
        strategy=PollingStrategy.offset(0),
        count=1000,
        auto_commit=False,
    )
    return list(batch.messages(polled.region))

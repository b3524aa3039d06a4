"""`format("iggy")` as the target of a write, with a real broker and a real Spark."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from broker_process import PASSWORD, USERNAME, running_broker
from iggy_client import Client
from iggy_spark import errors
from iggy_spark.messages import read_headers
from iggy_wire import batch as batches
from iggy_wire.batch import Message
from iggy_wire.options import pair_bytes
from iggy_wire.primitives import Partitioning, PollingStrategy, partition_of_key
from page_samples import ROOT
from waiting import wait_until

if TYPE_CHECKING:
    from conftest import Topic

LOG_S = 60.0


def stored(client: Client, stream: str, topic: str, partition: int) -> list[Message]:
    found = list[Message]()
    while True:
        strategy = PollingStrategy.offset(len(found))
        polled = client.poll(stream, topic, partition, strategy=strategy, count=10_000)
        if not polled.count:
            return found
        found += batches.messages(polled.region)


def read(topic: Topic, partition: int, name: str | None = None) -> list[Message]:
    return stored(topic.client, topic.stream, name or topic.name, partition)


def write(frame: DataFrame, to: Topic, /, mode: str = "append", **more: str) -> None:
    options = {name: value for name, value in to.options(**more).items() if value}
    frame.write.format("iggy").options(**options).mode(mode).save()


def failure(action: Callable[[], object]) -> errors.IggySparkError:
    with pytest.raises(PySparkException) as caught:
        action()
    found = errors.find_in_text(str(caught.value))
    assert found is not None, str(caught.value)
    return found


def run(frame: DataFrame, to: Topic, checkpoint: Path, /, **more: str) -> None:
    """A streaming query that ends when everything is written."""
    options = {name: value for name, value in to.options(**more).items() if value}
    query = (
        frame.writeStream.format("iggy").options(**options)
        .option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()


def numbers(spark: SparkSession, folder: Path, count: int) -> DataFrame:
    """A stream of the numbers 0, 1, ... as `id`, from files."""
    spark.range(0, count, 1, 2).write.mode("append").parquet(str(folder))
    return spark.readStream.schema("id BIGINT").parquet(str(folder))


EVERYTHING = (
    "CAST(concat('m', id) AS BINARY) AS payload",
    "CAST(id % 2 AS INT) AS partition",
    "unhex(lpad(hex(id + 1), 32, '0')) AS id",
    "map('n', CAST(id AS STRING), 'none', CAST(NULL AS STRING)) AS headers",
    "IF(id < 50, 'orders', 'late') AS topic",
)


def check_everything(topic: Topic) -> None:
    for name, numbers in (("orders", range(50)), ("late", range(50, 100))):
        for partition in (0, 1):
            found = sorted(read(topic, partition, name), key=lambda message: message.id)
            wanted = [number for number in numbers if number % 2 == partition]
            assert [message.payload for message in found] == [b"m%d" % n for n in wanted]
            assert [message.id for message in found] == [n + 1 for n in wanted]
            headers = [read_headers(memoryview(message.headers)) for message in found]
            assert headers == [{"n": str(n)} for n in wanted]


MADE = {"createTopic": "true", "partitionsCount": "2", "topic": ""}


def test_a_batch_write_carries_every_column(spark: SparkSession, topic: Topic) -> None:
    frame = spark.range(0, 100, 1, 2).selectExpr(*EVERYTHING)

    write(frame, topic, partitioning="partition", ids="column", **MADE)

    check_everything(topic)


def test_a_streaming_write_carries_every_column(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    frame = numbers(spark, tmp_path / "in", 100).selectExpr(*EVERYTHING)

    run(frame, topic, tmp_path / "checkpoint", partitioning="partition", ids="column", **MADE)

    check_everything(topic)


def test_what_was_read_can_be_written_as_it_is(spark: SparkSession, topic: Topic) -> None:
    number = (1).to_bytes(4, "little")
    headers = [b"", pair_bytes(2, b"a", 6, number) + pair_bytes(6, number, 2, b"text")]
    for partition in (0, 1):
        messages = [Message(b"m%d" % n, id=n + 1, headers=headers[n % 2]) for n in range(20)]
        to = Partitioning.partition(partition)
        topic.client.send(topic.stream, topic.name, to, messages)
    columns = {"columns": "partition,id,payload", "includeHeaders": "true"}
    frame = spark.read.format("iggy").options(**topic.options(**columns)).load()

    write(frame, topic, partitioning="partition", ids="column", **MADE | {"topic": "copy"})

    for partition in (0, 1):
        here, there = read(topic, partition), read(topic, partition, "copy")
        for one in (here, there):
            assert [message.id for message in one] == list(range(1, 21))
        assert [(message.payload, message.headers) for message in here] == [
            (message.payload, message.headers) for message in there
        ]


@pytest.mark.parametrize("topic", [3], indirect=True)
def test_a_key_decides_the_partition_and_may_be_kept(spark: SparkSession, topic: Topic) -> None:
    frame = spark.range(0, 300, 1, 2).selectExpr(
        "concat('m', id) AS payload", "concat('customer-', id % 17) AS key"
    )

    write(frame, topic, partitioning="key", keyHeader="customer")

    for partition in range(3):
        found = read(topic, partition)
        for message in found:
            key = f"customer-{int(message.payload[1:]) % 17}"
            assert partition_of_key(key.encode(), 3) == partition
            assert read_headers(memoryview(message.headers)) == {"customer": key}
    assert sum(len(read(topic, partition)) for partition in range(3)) == 300


def test_a_repeated_batch_has_the_same_ids(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    frame = numbers(spark, tmp_path / "in", 50).selectExpr("concat('m', id) AS payload")
    checkpoint = tmp_path / "checkpoint"
    run(frame, topic, checkpoint, ids="deterministic")
    first = {message.id: message.payload for part in (0, 1) for message in read(topic, part)}
    assert len(first) == 50

    (checkpoint / "commits" / "0").unlink()  # as if it was killed just before
    (checkpoint / "commits" / ".0.crc").unlink()
    run(frame, topic, checkpoint, ids="deterministic")

    both = [message for part in (0, 1) for message in read(topic, part)]
    assert len(both) == 100
    assert {message.id: message.payload for message in both} == first
    numbers(spark, tmp_path / "in", 50)  # another batch is not a repetition
    run(frame, topic, checkpoint, ids="deterministic")
    assert len({message.id for part in (0, 1) for message in read(topic, part)}) == 100


def test_the_program_of_the_page_writes(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    login = tmp_path / "login"
    login.mkdir()
    (login / "username").write_text(USERNAME)
    (login / "password").write_text(PASSWORD)
    page = (ROOT / "docs" / "spark-writing.md").read_text()
    program = page.split("```python\n")[1].split("```")[0]
    for name, here in (
        ("127.0.0.1:8090", topic.address),
        ("/etc/iggy", str(login)),
        ("/var/lib/orders", str(tmp_path / "checkpoint")),
        ('"shop")\n', f'"{topic.stream}")\n'),
    ):
        assert name in program
        program = program.replace(name, here)
    frame = numbers(spark, tmp_path / "in", 10).selectExpr(
        "id", "concat('c', id % 3) AS customer", "'2026-01-01' AS day"
    )
    names: dict[str, Any] = {"frame": frame}

    exec(program, names)
    names["query"].awaitTermination()

    found = [message for partition in (0, 1) for message in read(topic, partition)]
    orders = [json.loads(message.payload) for message in found]
    assert sorted(order["id"] for order in orders) == list(range(10))
    headers = {"day": "2026-01-01", "source": "shop"}
    assert {tuple(read_headers(memoryview(message.headers)).items()) for message in found} == {
        tuple(headers.items())
    }


def test_a_seed_makes_ids_of_a_batch_write_repeatable(spark: SparkSession, topic: Topic) -> None:
    frame = spark.range(0, 20, 1, 2).selectExpr("concat('m', id) AS payload")

    for _ in range(2):
        write(frame, topic, ids="deterministic", idSeed="load of Monday")
    write(frame, topic, ids="deterministic")

    found = [message.id for partition in (0, 1) for message in read(topic, partition)]
    assert len(found) == 60
    assert len(set(found)) == 40


@pytest.mark.parametrize(
    ("columns", "more", "told"),
    [
        (["'x' AS value"], {}, "column value is no part of a message"),
        (["'x' AS payload", "1 AS offset"], {}, "column offset is no part of a message"),
        (["'x' AS payload"], {"mode": "overwrite"}, "mode: overwrite would have to delete"),
        (["'x' AS payload"], {"ack": "leader"}, "ack: sending has no levels"),
        (["'x' AS payload"], {"topic": "gone"}, "topic=gone"),
        (["''AS payload"], {}, "row 0: payload has 0 bytes, a message takes 1 to 64000000"),
    ],
)
def test_what_cannot_be_written_is_refused_by_name(
    spark: SparkSession, topic: Topic, columns: list[str], more: dict[str, str], told: str
) -> None:
    frame = spark.range(0, 1, 1, 1).selectExpr(*columns)

    assert told in str(failure(lambda: write(frame, topic, **more)))


@pytest.fixture
def log(spark: SparkSession) -> Iterator[Callable[[int], list[str]]]:
    """What this project logged in Spark's workers since the test began, so many lines at least:
    Spark gathers them beside the work.
    """
    spark.conf.set("spark.sql.pyspark.worker.logging.enabled", "true")

    def lines() -> list[str]:
        rows = spark.tvf.python_worker_logs().filter("logger = 'iggy_spark.writer'")
        return [row.msg for row in rows.orderBy("ts").collect()]

    before = len(lines())

    def told(count: int) -> list[str]:
        deadline = time.monotonic() + LOG_S
        while len(found := lines()[before:]) < count and time.monotonic() < deadline:
            pass  # each look is a query, and takes its time
        return found

    yield told
    spark.conf.unset("spark.sql.pyspark.worker.logging.enabled")


def test_the_log_says_where_everything_is(
    spark: SparkSession, topic: Topic, log: Callable[[int], list[str]]
) -> None:
    frame = spark.range(0, 30, 1, 1).selectExpr("concat('m', id) AS payload", "1 AS partition")

    write(frame, topic, partitioning="partition")

    where = f"{topic.stream}/{topic.name} partition 1 offsets 0-29"
    assert log(1) == [f"written: 30 messages in 1 requests: {where}"]


def test_the_log_says_what_a_failed_write_leaves(
    spark: SparkSession, topic: Topic, log: Callable[[int], list[str]]
) -> None:
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10")
    frame = spark.range(0, 30, 1, 1).selectExpr("nullif(id, 25) AS id", "0 AS partition")
    frame = frame.selectExpr("concat('m', id) AS payload", "partition")

    told = str(failure(lambda: write(frame, topic, partitioning="partition")))

    spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert told == (
        "task 0, rows from 20: row 5: payload is null: filter such rows, or give them a value"
    )
    where = f"{topic.stream}/{topic.name} partition 0 offsets 0-19"
    assert log(2) == [
        f"task 0 failed; this stays in topics: 20 messages in 2 requests: {where}",
        "the write failed; of tasks that were done nothing is in a topic",
    ]
    assert len(read(topic, 0)) == 20


def test_a_stream_that_is_updated_is_refused(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    counted = numbers(spark, tmp_path / "in", 3).groupBy().count()
    frame = counted.selectExpr("CAST(count AS STRING) AS payload")
    writer = frame.writeStream.format("iggy").options(**topic.options()).outputMode("complete")
    query = writer.option("checkpointLocation", str(tmp_path / "c")).start()

    assert "mode: overwrite" in str(failure(query.awaitTermination))


def test_a_broker_that_is_killed_meanwhile_loses_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    with running_broker(tmp_path / "broker", shards=1) as broker:
        with broker.client() as client:
            client.create_stream("s")
            client.create_topic("s", "t", 2, {"durability": "persisted"})
            given = {"servers": broker.address, "username": USERNAME, "password": PASSWORD}
            given |= {"stream": "s", "topic": "t", "batchMessages": "50", "retryTimeoutMs": "60s"}
            frame = spark.range(0, 30_000, 1, 2).selectExpr("concat('m', id) AS payload")
            writer = frame.write.format("iggy").options(**given).mode("append")

            def kill() -> bool:
                wait_until(lambda: len(stored(client, "s", "t", 0)) > 500, "some messages")
                broker.kill()
                was_in_the_middle = not written.is_set()
                broker.start()
                return was_in_the_middle

            with ThreadPoolExecutor(1) as pool:  # Spark wants to be called by this thread
                written, killed = Event(), pool.submit(kill)
                writer.save()
                written.set()
                assert killed.result(), "it was killed in the middle"
        with broker.client() as client:
            found = [
                message.payload for part in (0, 1) for message in stored(client, "s", "t", part)
            ]
        assert set(found) == {b"m%d" % number for number in range(30_000)}

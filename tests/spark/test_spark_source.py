"""format("iggy") with a real broker and a real Spark."""

import datetime as dt
import itertools
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import StructType

from iggy_spark import arrow, errors, options, readers
from iggy_spark.errors import DataLoss, TopicRecreated
from iggy_spark.offsets import Offsets
from iggy_wire.primitives import Consumer

if TYPE_CHECKING:
    from conftest import Topic


def payloads(first: int, end: int) -> list[bytes]:
    return [f"m{number}".encode() for number in range(first, end)]


def batch(spark: SparkSession, topic: "Topic", /, **more: str) -> DataFrame:
    return spark.read.format("iggy").options(**topic.options(**more)).load()


def failure(action: Callable[[], object]) -> errors.IggySparkError:
    """The error of ours that an action ends with, out of Spark's own."""
    with pytest.raises(PySparkException) as caught:
        action()
    found = errors.find_in_text(str(caught.value))
    assert found is not None, str(caught.value)
    return found


def stream(
    spark: SparkSession, topic: "Topic", checkpoint: Path, **more: str
) -> tuple[list[tuple[int, int]], Any]:
    """Run with AvailableNow into memory: (partition, offset) of every row, and the query."""
    seen: list[tuple[int, int]] = []
    frame = spark.readStream.format("iggy").options(
        **topic.options(**{"startingOffsets": "earliest", **more})
    )

    def keep(rows: DataFrame, number: int) -> None:
        seen.extend(
            (row.partition, row.offset) for row in rows.select("partition", "offset").collect()
        )

    query = (
        frame.load().writeStream.foreachBatch(keep).option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    return seen, query


@pytest.mark.parametrize("topic", [6], indirect=True)
def test_a_batch_read_has_every_message_with_its_columns(
    spark: SparkSession, topic: "Topic"
) -> None:
    for partition in range(6):
        topic.send(partition, payloads(0, 250))
    before = dt.datetime.now(dt.UTC) - dt.timedelta(hours=1)

    rows = batch(spark, topic).orderBy("partition", "offset").collect()

    assert [(row.partition, row.offset) for row in rows] == [
        (partition, offset) for partition in range(6) for offset in range(250)
    ]
    row = rows[250 + 7]
    assert bytes(row.payload) == b"m7"
    assert (row.stream, row.topic) == (topic.stream, topic.name)
    assert int.from_bytes(row.id, "big") == 8
    assert before < row.timestamp.astimezone(dt.UTC)
    assert row.origin_timestamp <= row.timestamp


def test_a_batch_reads_what_lies_between_its_ends(spark: SparkSession, topic: "Topic") -> None:
    topic.send(0, payloads(0, 300))
    topic.send(1, payloads(0, 10))

    rows = batch(
        spark, topic, startingOffsets='{"0": 150, "1": -2}', endingOffsets='{"0": 160, "1": -1}',
        columns="partition,offset",
    ).collect()  # fmt: skip

    assert sorted((row.partition, row.offset) for row in rows) == [
        *((0, n) for n in range(150, 160)), *((1, n) for n in range(10)),
    ]  # fmt: skip
    assert rows[0].__fields__ == ["partition", "offset"]


def test_an_empty_topic_has_no_rows(spark: SparkSession, topic: "Topic") -> None:
    assert batch(spark, topic).collect() == []


def test_a_schema_selects_columns_and_is_checked(spark: SparkSession, topic: "Topic") -> None:
    topic.send(0, payloads(0, 3))
    reader = spark.read.format("iggy").options(**topic.options())

    rows = reader.schema("offset BIGINT, payload BINARY").load().collect()

    assert [row.offset for row in rows] == [0, 1, 2]
    wrong = failure(lambda: reader.schema("offset INT").load().collect())
    assert "schema: column offset is int64" in str(wrong)


ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "tags", "type": {"type": "map", "values": {"type": "array", "items": "bytes"}}},
    ],
}
DECLARED = (
    "id BIGINT NOT NULL, at TIMESTAMP, tags ARRAY<STRING>, who STRUCT<n: DECIMAL(9,2)>, "
    "counts MAP<STRING, INT>, deep MAP<INT, ARRAY<MAP<BIGINT, STRUCT<x: DATE>>>>, "
    "a TINYINT, b SMALLINT, c FLOAT, d DOUBLE, e BOOLEAN, f BINARY"
)
PAYLOADS = {
    "raw": {},
    "text": {},
    "json": {"payloadSchema": DECLARED},
    "document": {"payloadFormat": "json"},
    "avro": {"payloadSchema": json.dumps(ORDER)},
}


@pytest.mark.parametrize("payload", PAYLOADS)
def test_our_arrow_schema_is_sparks_for_every_choice_of_columns(
    spark: SparkSession, payload: str
) -> None:
    given = {"servers": "a:1", "username": "u", "password": "p", "stream": "s", "topic": "t"}
    given |= {"payloadFormat": payload, **PAYLOADS[payload]}
    every = options.parse({**given, "includeHeaders": "true"}, mode="batch").columns
    choices = [c for size in (1, 2, len(every) - 1) for c in itertools.combinations(every, size)]
    for columns in [every, every[::-1], *choices]:
        chosen = options.parse({**given, "columns": ",".join(columns)}, mode="batch")

        of_spark = to_arrow_schema(StructType.fromDDL(arrow.spark_ddl(chosen)), timezone="UTC")

        assert arrow.arrow_schema(chosen) == of_spark, columns


def test_record_batches_are_about_as_large_as_asked(topic: "Topic") -> None:
    topic.send(0, [bytes(1_000)] * 3_000, batch=500)
    source = reader(topic, arrowBatchBytes="100KiB")
    start = source.initialOffset()
    (task,) = source.partitions(start, source.latestOffset(start, ReadAllAvailable()))

    batches = list(source.read(task))

    assert [n for rows in batches for n in rows["offset"].to_pylist()] == list(range(3_000))
    assert max(rows.nbytes for rows in batches) < 150 << 10
    assert len(batches) < 50


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"maxOffsetPerTrigger": "5"}, "did you mean maxOffsetsPerTrigger"),
        ({"password": "wrong"}, "refuses the login: check username and password"),
        ({"topic": "orderz"}, "topic 'orderz' in stream .* does not exist"),
        ({"servers": "127.0.0.1:9", "retryTimeoutMs": "10ms"}, "127.0.0.1:9 was not reached"),
        ({"startingOffsets": '{"0": 0}'}, "startingOffsets: partitions .1. are missing"),
        ({"startingOffsets": '{"0": 0, "1": 9}'}, "partition 1 ends at 0, 9 is beyond it"),
        ({"startingOffsets": '{"0": 0, "7": 9}'}, "startingOffsets: partition 7 does not exist"),
    ],
)
def test_a_mistake_is_told_in_one_sentence(
    spark: SparkSession, topic: "Topic", more: dict[str, str], told: str
) -> None:
    found = failure(lambda: batch(spark, topic, **more).collect())

    assert re.search(told, str(found)), str(found)
    assert "secret" not in str(found)


def test_json_is_decoded_in_the_reader(spark: SparkSession, topic: "Topic") -> None:
    topic.send(0, [b'{"id": 1, "at": "2026-03-29T01:00:00Z"}', b'{"id": "x"}', b'{"id": 3}'])
    given = {"payloadFormat": "json", "payloadSchema": "id BIGINT, at TIMESTAMP"}

    rows = batch(spark, topic, onDecodeError="keep", **given).orderBy("offset").collect()

    assert [row.value and row.value.id for row in rows] == [1, None, 3]
    assert rows[1].error["class"] == "SchemaMismatch"
    assert bytes(rows[1].payload) == b'{"id": "x"}'
    found = failure(lambda: batch(spark, topic, **given).collect())
    assert re.search(r"partition 0 offset 1: .*`\$\.id`", str(found))


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "Europe/Berlin", "America/St_Johns"])
def test_instants_do_not_depend_on_the_sessions_zone(
    spark: SparkSession, topic: "Topic", zone: str
) -> None:
    texts = ["2026-03-29T00:59:59.999999Z", "2026-03-29T01:00:00Z", "2026-12-31T23:59:59.999999Z"]
    topic.send(0, [json.dumps({"at": text}).encode() for text in texts])
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        rows = (
            batch(spark, topic, payloadFormat="json", payloadSchema="at TIMESTAMP")
            .selectExpr("unix_micros(value.at)", "unix_micros(timestamp)")
            .collect()
        )
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")

    assert [row[0] for row in rows] == [1774745999999999, 1774746000000000, 1798761599999999]
    assert all(abs(row[1] / 1e6 - time.time()) < 3600 for row in rows)


def test_a_stream_goes_on_at_its_checkpoint(
    spark: SparkSession, topic: "Topic", tmp_path: Path
) -> None:
    topic.send(0, payloads(0, 250))
    topic.send(1, payloads(0, 3))
    given = {"consumerGroup": "reader", "maxOffsetsPerTrigger": "100"}

    first, query = stream(spark, topic, tmp_path, **given)
    topic.send(1, payloads(3, 5))
    second, _ = stream(spark, topic, tmp_path, **given)
    third, _ = stream(spark, topic, tmp_path, **given)

    assert sorted(first) == [*((0, n) for n in range(250)), *((1, n) for n in range(3))]
    assert [progress.numInputRows for progress in query.recentProgress] == [100, 100, 53]
    assert (second, third) == ([(1, 3), (1, 4)], [])
    assert (topic.stored("reader", 0), topic.stored("reader", 1)) == (249, 4)


# The readers' answers to Spark, without Spark: what it asks is fixed by a run of Spark above.


def reader(topic: "Topic", **more: str) -> readers.IggyStreamReader:
    given = topic.options(**{"pollIntervalMs": "0", "startingOffsets": "earliest", **more})
    return readers.IggyStreamReader(options.parse(given, mode="stream"))


def positions(offset: dict[str, Any]) -> dict[int, int]:
    return dict(Offsets.from_json(offset).positions)


def read(source: readers.IggyStreamReader, start: Any, end: Any) -> list[tuple[int, int]]:
    found = []
    for part in source.partitions(start, end):
        for rows in source.read(part):
            found += list(
                zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True)
            )
    return found


def test_a_moving_start_is_written_down_before_it_is_used(topic: "Topic", state: str) -> None:
    topic.send(0, payloads(0, 5))
    start = reader(topic, startingOffsets="latest", stateLocation=state).initialOffset()
    topic.send(0, payloads(5, 9))

    again = reader(topic, startingOffsets="latest", stateLocation=state).initialOffset()

    assert positions(start) == {0: 5, 1: 0}
    assert again == start
    with pytest.raises(errors.OptionError, match="startingOffsets=latest needs stateLocation"):
        reader(topic, startingOffsets="latest").initialOffset()


def test_a_start_at_the_stored_offset(topic: "Topic", state: str) -> None:
    topic.send(0, payloads(0, 9))
    topic.client.create_group(topic.stream, topic.name, "g")
    topic.client.join_group(topic.stream, topic.name, "g")
    topic.client.store_offset(Consumer.group("g"), topic.stream, topic.name, 0, 3)
    topic.client.leave_group(topic.stream, topic.name, "g")

    source = reader(topic, startingOffsets="committed", consumerGroup="g", stateLocation=state)

    assert positions(source.initialOffset()) == {0: 4, 1: 0}


def test_a_large_partition_becomes_several_tasks(topic: "Topic") -> None:
    topic.send(0, payloads(0, 5_000), batch=1_000)
    source = reader(topic, minPartitions="4")
    start = source.initialOffset()
    end = source.latestOffset(start, ReadAllAvailable())

    assert [part.wanted.count for part in source.partitions(start, end)] == [1_000] * 5
    assert read(source, start, end) == [(0, n) for n in range(5_000)]


def test_the_limit_is_obeyed_and_available_now_ends(topic: "Topic") -> None:
    topic.send(0, payloads(0, 90))
    topic.send(1, payloads(0, 10))
    source = reader(topic, maxOffsetsPerTrigger="50")
    start = source.initialOffset()
    assert source.getDefaultReadLimit() == ReadMaxRows(50)

    source.prepareForTriggerAvailableNow()
    half = source.latestOffset(start, ReadMaxRows(50))
    topic.send(0, payloads(90, 120))
    whole = source.latestOffset(half, ReadAllAvailable())

    assert (positions(half), positions(whole)) == ({0: 45, 1: 5}, {0: 90, 1: 10})
    assert source.latestOffset(whole, ReadMaxRows(50)) == whole


def test_a_recreated_topic_stops_or_restarts_the_stream(topic: "Topic") -> None:
    topic.send(0, payloads(0, 10))
    source = reader(topic)
    start = source.initialOffset()
    end = source.latestOffset(start, ReadAllAvailable())
    topic.recreate(3)
    topic.send(0, payloads(100, 104))

    with pytest.raises(TopicRecreated, match="deleted and created again while"):
        read(source, start, end)
    with pytest.raises(TopicRecreated, match="onTopicRecreated=restart"):
        reader(topic).latestOffset(end, ReadAllAvailable())
    restarted = reader(topic, onTopicRecreated="restart")
    fresh = restarted.latestOffset(end, ReadAllAvailable())
    assert positions(fresh) == {0: 4, 1: 0, 2: 0}
    assert read(restarted, end, fresh) == [(0, n) for n in range(4)]


def test_a_purge_is_a_loss(topic: "Topic") -> None:
    topic.send(0, payloads(0, 10))
    source = reader(topic)
    start = source.initialOffset()
    end = source.latestOffset(start, ReadAllAvailable())
    topic.client.purge_topic(topic.stream, topic.name)

    with pytest.raises(DataLoss, match=r"partition 0: offsets 0\u20139 \(10 messages\) are gone"):
        read(source, start, end)
    with pytest.raises(DataLoss, match=r"offsets 0\u20139 were read but the partition ends at 0"):
        source.latestOffset(end, ReadAllAvailable())
    tolerant = reader(topic, failOnDataLoss="false")
    assert read(tolerant, start, end) == []
    assert tolerant.latestOffset(end, ReadAllAvailable()) == end


def test_ends_of_partitions_with_none_and_one_message(topic: "Topic") -> None:
    topic.send(1, payloads(0, 1))
    source = reader(topic)

    end = source.latestOffset(source.initialOffset(), ReadAllAvailable())

    assert positions(end) == {0: 0, 1: 1}
    assert read(source, source.initialOffset(), end) == [(1, 0)]


def test_large_and_small_messages_come_in_bounded_replies(topic: "Topic") -> None:
    topic.send(0, [bytes(10)] * 2000, batch=500)
    topic.send(0, [bytes(200_000)] * 30, batch=15)
    source = reader(topic, fetchBytes="1MiB")
    end = source.latestOffset(source.initialOffset(), ReadAllAvailable())

    assert read(source, source.initialOffset(), end) == [(0, n) for n in range(2030)]


def test_the_checkpoint_text_is_json_of_the_documented_form(topic: "Topic") -> None:
    topic.send(1, payloads(0, 2))
    source = reader(topic)

    end = source.latestOffset(source.initialOffset(), ReadAllAvailable())

    (name,) = end["topics"]
    assert name == f"{topic.stream}/{topic.name}"
    text = json.dumps(end).replace(name, "NAME")
    form = (
        r'{"v": 1, "topics": {"NAME": {"incarnation": "\d+-\d+", "0": 0, "1": 2}}, '
        r'"last_us": {"NAME": {"1": \d+}}}'
    )
    assert re.fullmatch(form.replace("{", r"\{").replace("}", r"\}"), text)
    assert positions(source.reportLatestOffset()) == positions(end)

"""What a write is told, what it makes of rows, and what it says, without Spark's JVM."""

from __future__ import annotations

import logging
import pickle
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from iggy_spark import write_columns, write_options, writing
from iggy_spark.errors import BadRow, OptionError
from iggy_spark.sending import Receipt
from iggy_spark.source import IggyDataSource
from iggy_spark.write_columns import WriteColumns
from iggy_spark.writer import IggyBatchWriter, IggyStreamWriter, Written, ranges, summary
from iggy_spark.writing import Place, RowWriter, deterministic_ids
from iggy_wire import batch as batches
from iggy_wire.batch import Message
from iggy_wire.primitives import PollingStrategy

if TYPE_CHECKING:
    from conftest import Topic

GIVEN = {"servers": "h:1", "username": "u", "password": "p", "stream": "s", "topic": "t"}
PLACE = Place("query", 3, 1)


TEXT, BYTES, NUMBER = StringType(), BinaryType(), IntegerType()
TYPES: dict[str, DataType] = {
    "STRING": TEXT,
    "BINARY": BYTES,
    "INT": NUMBER,
    "BIGINT": LongType(),
    "TIMESTAMP": TimestampType(),
    "MAP<STRING, INT>": MapType(TEXT, NUMBER),
    "MAP<INT, STRING>": MapType(NUMBER, TEXT),
    "MAP<STRING, STRUCT<kind: STRING, value: BINARY>>": MapType(
        TEXT, StructType([StructField("kind", TEXT), StructField("value", BYTES)])
    ),
}


def schema(text: str) -> StructType:
    """Columns such as "payload STRING; partition INT"; Spark's own DDL needs its JVM."""
    columns = [column.split(" ", 1) for column in text.split("; ")]
    return StructType([StructField(name, TYPES[kind]) for name, kind in columns])


def test_a_write_needs_little_and_has_defaults() -> None:
    found = write_options.parse(GIVEN | {"checkpointLocation": "/c"})

    assert (found.partitioning, found.ids, found.create_partitions) == ("balanced", "random", None)
    assert (found.batch_bytes, found.batch_messages) == (1 << 20, 1000)
    assert found.retry_timeout_ms == 120_000
    assert found.skip_null_headers
    assert found.login.password == "p"
    assert "'p'" not in repr(found)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"servers": ""}, "servers='' is not valid"),
        ({"password": ""}, "password='' is not valid"),
        ({"partitioner": "key"}, "partitioner is not an option .* did you mean partitioning"),
        ({"partitioning": "hash"}, "use one of balanced, key, partition"),
        ({"batchBytes": "64MiB"}, "batchBytes='64MiB' is not valid: use at most 64000000"),
        ({"batchMessages": "0"}, "batchMessages='0' is not valid"),
        ({"ids": "uuid"}, "use one of random, deterministic, column"),
        ({"idSeed": "x"}, "idSeed needs ids=deterministic"),
        ({"createTopic": "true"}, "createTopic needs partitionsCount"),
        ({"partitionsCount": "3"}, "partitionsCount needs createTopic=true"),
        ({"headers.nullValue": "empty"}, "use one of skip, fail"),
        ({"ack": "none"}, "ack: sending has no levels of acknowledgement"),
        ({"path": "/x"}, "path: a topic has no path"),
        ({"startingOffsets": "latest"}, "startingoffsets is not an option of writing"),
    ],
)
def test_a_wrong_option_is_named_with_the_way_out(more: dict[str, str], told: str) -> None:
    with pytest.raises(OptionError, match=told):
        write_options.parse(GIVEN | more)


@pytest.mark.parametrize(
    ("more", "columns", "wanted"),
    [
        ({}, "payload STRING", WriteColumns(0)),
        ({"topic": ""}, "Topic STRING; payload BINARY", WriteColumns(1, topic=0)),
        ({}, "topic STRING; stream STRING; payload BINARY", WriteColumns(2)),
        ({"partitioning": "key"}, "key BINARY; payload BINARY", WriteColumns(1, key=0)),
        ({"keyHeader": "k"}, "payload STRING; key STRING", WriteColumns(0, key=1)),
        (
            {"partitioning": "partition", "ids": "column"},
            "payload STRING; partition INT; id BINARY; "
            "headers MAP<STRING, STRUCT<kind: STRING, value: BINARY>>",
            WriteColumns(0, partition=1, id=2, headers=3),
        ),
    ],
)
def test_columns_are_found_by_name(
    more: dict[str, str], columns: str, wanted: WriteColumns
) -> None:
    options = write_options.parse({k: v for k, v in (GIVEN | more).items() if v})

    assert write_columns.choose(schema(columns), options) == wanted


@pytest.mark.parametrize(
    ("more", "columns", "told"),
    [
        ({}, "key STRING", "column key has no use without partitioning=key or keyHeader"),
        ({}, "topic STRING", "column payload is missing"),
        ({}, "payload INT", r"column payload is int, must be BINARY or STRING: cast it"),
        ({}, "payload STRING; timestamp TIMESTAMP", "column timestamp is no part of a message"),
        ({}, "payload STRING; PAYLOAD STRING", "column payload is there twice"),
        ({}, "payload STRING; partition INT", "partition has no use without partitioning=part"),
        ({}, "payload STRING; id BINARY", "column id has no use without ids=column"),
        ({}, "payload STRING; headers MAP<STRING, INT>", "column headers is map<string,int>, must"),
        ({}, "payload STRING; headers MAP<INT, STRING>", "column headers is map<int,string>"),
        ({"partitioning": "key"}, "payload STRING", "partitioning=key needs a column key"),
        ({"keyHeader": "k"}, "payload STRING", "keyHeader needs a column key"),
        ({"ids": "column"}, "payload STRING", "ids=column needs a column id"),
        (
            {"partitioning": "partition"},
            "payload STRING; partition BIGINT",
            "column partition is bigint, must be INT: cast it",
        ),
        ({"topic": ""}, "payload STRING", "topic is missing: set the option, or add a column"),
    ],
)
def test_a_column_without_use_is_refused(more: dict[str, str], columns: str, told: str) -> None:
    options = write_options.parse({k: v for k, v in (GIVEN | more).items() if v})
    if told.startswith("column key"):
        columns += "; payload STRING"

    with pytest.raises(OptionError, match=told):
        write_columns.choose(schema(columns), options)


def test_only_appending_is_possible() -> None:
    source = IggyDataSource(dict(GIVEN))

    for make in (source.writer, source.streamWriter):
        with pytest.raises(OptionError, match="mode: overwrite would have to delete"):
            make(schema("payload STRING"), True)
    assert isinstance(source.writer(schema("payload STRING"), False), IggyBatchWriter)
    assert isinstance(source.streamWriter(schema("payload STRING"), False), IggyStreamWriter)


def test_deterministic_ids_are_of_query_batch_task_and_row() -> None:
    whole = deterministic_ids(PLACE, 0, 100).to_pylist()

    assert len(set(whole)) == 100
    assert deterministic_ids(PLACE, 60, 40).to_pylist() == whole[60:]
    others = (Place("other", 3, 1), Place("query", 4, 1), Place("query", 3, 2))
    for other in others:
        assert not set(deterministic_ids(other, 0, 100).to_pylist()) & set(whole)


def read(topic: Topic, name: str, partition: int) -> list[Message]:
    first = PollingStrategy.first()
    polled = topic.client.poll(topic.stream, name, partition, strategy=first, count=1000)
    return list(batches.messages(polled.region))


def test_rows_find_their_topics_and_number_their_ids_across_batches(topic: Topic) -> None:
    given = topic.options(ids="deterministic", createTopic="true", partitionsCount="1")
    del given["topic"]
    options = write_options.parse(given)
    writer = RowWriter(options, WriteColumns(0, topic=1), PLACE)
    names = ["a", "b", "a", "c", "b", "a"]

    for start in (0, 6):
        payloads = [f"m{number}" for number in range(start, start + 6)]
        writer.write(pa.RecordBatch.from_pydict({"payload": payloads, "topic": names}))

    ids = deterministic_ids(PLACE, 0, 12).to_pylist()
    for name in "abc":
        rows = [row for row in range(12) if names[row % 6] == name]
        found = read(topic, name, 0)
        assert [message.payload for message in found] == [b"m%d" % row for row in rows]
        assert [message.id.to_bytes(16, "big") for message in found] == [ids[row] for row in rows]


@pytest.mark.parametrize("failed_at", [6, 12])
def test_a_task_that_is_repeated_writes_nothing_twice_where_the_broker_deduplicates(
    topic: Topic, failed_at: int
) -> None:
    given = topic.options(topic="once", createTopic="true", partitionsCount="2", batchMessages="4")
    options = write_options.parse({**given, "ids": "deterministic", "partitioning": "key"})
    keys = [f"customer-{number % 5}" for number in range(12)]

    for rows in (failed_at, 12):  # the first attempt ends before its result is known
        writer = RowWriter(options, WriteColumns(0, key=1), PLACE)
        for start in range(0, rows, 6):
            payloads = [f"m{number}" for number in range(start, start + 6)]
            columns = {"payload": payloads, "key": keys[start : start + 6]}
            writer.write(pa.RecordBatch.from_pydict(columns))

    found = [message for partition in (0, 1) for message in read(topic, "once", partition)]
    assert sorted(message.payload for message in found) == sorted(b"m%d" % n for n in range(12))
    ids = [message.id.to_bytes(16, "big") for message in found]
    assert sorted(ids) == sorted(deterministic_ids(PLACE, 0, 12).to_pylist())


def test_a_task_does_not_make_a_topic_for_every_row(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "TOPICS_MAX", 3)
    given = topic.options(createTopic="true", partitionsCount="1")
    del given["topic"]
    writer = RowWriter(write_options.parse(given), WriteColumns(0, topic=1), PLACE)
    names = ["w0", "w1", "w2", "w3"]

    with pytest.raises(BadRow, match="task 1, rows from 0: one task is to make more than 3 topics"):
        writer.write(pa.RecordBatch.from_pydict({"payload": names, "topic": names}))

    assert [receipt.topic for receipt in writer.receipts] == names[:3]


@pytest.mark.parametrize(
    ("columns", "batch", "told"),
    [
        (WriteColumns(0), {"payload": ["a", None]}, "row 1: payload is null"),
        (
            WriteColumns(0, topic=1),
            {"payload": ["a", "b"], "topic": ["t", None]},
            "row 1: topic is null: set the option topic",
        ),
        (
            WriteColumns(0, topic=1),
            {"payload": ["a", "b"], "topic": ["t", ""]},
            "topic '' is no name: names have 1 to 255 bytes",
        ),
        (
            WriteColumns(0, headers=1),
            {"payload": ["a"], "headers": pa.array([{"h": "v" * 256}], pa.map_("str", "str"))},
            "row 0: a header value has 256 bytes",
        ),
    ],
)
def test_a_row_is_named_by_its_number_in_the_task(
    columns: WriteColumns, batch: dict[str, list[str]], told: str
) -> None:
    given = GIVEN if columns.topic is None else {k: v for k, v in GIVEN.items() if k != "topic"}
    writer = RowWriter(write_options.parse(given), columns, PLACE)

    with pytest.raises(BadRow, match=f"task 1, rows from 0: {told}"):
        writer.write(pa.RecordBatch.from_pydict(batch))


RECEIPTS = (
    Receipt("s", "t", 1, 0, 9),
    Receipt("s", "t", 0, 5, 5),
    Receipt("s", "t", 1, 10, 19),
    Receipt("s", "t", 1, 30, 39),
)


def test_receipts_are_told_as_ranges() -> None:
    assert ranges(RECEIPTS) == [
        Receipt("s", "t", 0, 5, 5),
        Receipt("s", "t", 1, 0, 19),
        Receipt("s", "t", 1, 30, 39),
    ]
    many = [Receipt("s", "t", 0, 2 * number, 2 * number) for number in range(150)]
    assert summary(many).endswith("offsets 198-198, and 50 more ranges")
    assert summary([]) == "0 messages in 0 requests"


def test_an_end_is_one_line_and_a_failure_says_what_stays(
    caplog: pytest.LogCaptureFixture,
) -> None:
    message = pickle.loads(pickle.dumps(Written(0, RECEIPTS)))
    options = write_options.parse(GIVEN)
    batch = IggyBatchWriter(options, schema("payload STRING"))
    stream = pickle.loads(pickle.dumps(IggyStreamWriter(options, schema("payload STRING"))))
    told = "31 messages in 4 requests: s/t partition 0 offsets 5-5, s/t partition 1 offsets 0-19, "

    with caplog.at_level(logging.INFO, logger="iggy_spark.writer"):
        batch.commit([message])
        stream.commit([message, Written(1, ())], 7)
        stream.abort([message, None], 8)
        batch.abort([None])

    written, batch_7, batch_8, failed = (record.getMessage() for record in caplog.records)
    assert written.startswith(f"written: {told}")
    assert batch_7.startswith(f"batch 7 written: {told}")
    assert batch_8.startswith(
        f"batch 8 failed; of tasks that were done this stays in topics: {told}"
    )
    assert failed == "the write failed; of tasks that were done nothing is in a topic"

"""Types of ClickHouse: which take which columns, and that the real engine keeps every value."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from clickhouse import ClickHouse, Engine
from iggy_spark import blocks, schema
from iggy_spark.errors import OptionError
from iggy_spark.sinks.clickhouse import NULL_KIND, ClickHouseSink
from iggy_spark.sinks.clickhouse_table import Table
from iggy_spark.sinks.clickhouse_types import fits, made_of, parse
from iggy_spark.sinks.rows import table_fields
from quick_retry import quick
from sink_cases import PlayedTask, declare, portions, wanted

FIELDS = (
    "a BOOLEAN NOT NULL, b TINYINT, c SMALLINT, d INT, e BIGINT, f FLOAT, g DOUBLE, h STRING, "
    "i BINARY, j DATE, k TIMESTAMP, l TIMESTAMP_NTZ, m DECIMAL(38,10), n ARRAY<STRING>, "
    "o MAP<STRING,BIGINT>, p STRUCT<x: INT NOT NULL, `y z`: ARRAY<DOUBLE>> NOT NULL"
)
FULL = {
    "a": True, "b": -128, "c": -32768, "d": -(2**31), "e": 2**63 - 1, "f": 0.5, "g": 1e300,
    "h": "ü\n'", "i": "AAH/", "j": "0001-01-01", "k": "9999-12-31T23:59:59.999999Z",
    "l": "1600-02-29T00:00:00.000001", "m": "-1234567890123456789012345678.0123456789",
    "n": ["x", None], "o": {"k": None, "l": 5}, "p": {"x": 7, "y z": [1.5, None]},
}  # fmt: skip
OUT_OF_RANGE = "VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE"
LATE = "2300-01-01T00:00:00Z"
EMPTY = {"a": False, "p": {"x": 0, "y z": None}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouse]:
    engine = Engine(tmp_path_factory.mktemp("clickhouse"))
    with ClickHouse(engine) as running:
        yield running
    engine.close()


def sink_of(server: ClickHouse, table: str, text: str) -> ClickHouseSink:
    block = blocks.ClickHouse(url=server.url, table=table)
    fields = table_fields(declare(text=text))
    return ClickHouseSink(block, fields, name="x", retry=quick())


def test_the_types_that_are_named_keep_every_value(server: ClickHouse) -> None:
    fields = schema.parse(FIELDS, name="x")
    columns = ", ".join(f"`{one.name}` {made_of(one.type, nullable=one.nullable)}" for one in fields
                        if not isinstance(one.type, schema.Struct))  # fmt: skip
    table = f"{columns}, `p` {made_of(fields[-1].type, nullable=False)}"
    server.engine.run(f"CREATE TABLE every ({table}) ENGINE = MergeTree ORDER BY tuple()")
    sink = sink_of(server, "every", FIELDS)
    sink.check()
    span, task = wanted(0, 2), PlayedTask()
    values = [json.dumps(value).encode() for value in (FULL, EMPTY)]

    sink.write_task(
        span,
        portions(span, payload=declare(text=FIELDS), made=lambda number: values[number]),
        task,
    )

    assert task.refusals == []
    names = "a, b, c, d, e, f, g, h, hex(i), toString(j), toString(k), toString(l), toString(m)"
    rows = server.engine.rows(f"SELECT {names}, n, o, p.x, p.`y z` FROM every ORDER BY a DESC")
    assert rows == [
        [
            True, -128, -32768, -(2**31), 2**63 - 1, 0.5, 1e300, "ü\n'", "0001FF", "0001-01-01",
            "9999-12-31 23:59:59.999999", "1600-02-29 00:00:00.000001",
            "-1234567890123456789012345678.0123456789", ["x", None], {"k": None, "l": 5}, 7,
            [1.5, None],
        ],
        [False, *[None] * 12, [], {}, 0, []],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("field", "column"),
    [
        ("BOOLEAN", "UInt8"),
        ("TINYINT", "Int256"),
        ("INT", "LowCardinality(Nullable(Int64))"),
        ("FLOAT", "Float64"),
        ("STRING", "LowCardinality(String)"),
        ("STRING", "Nullable(Enum8('a, (' = 1, 'it\\'s' = 2))"),
        ("STRING", "UUID"),
        ("STRING", "JSON(max_dynamic_paths=8)"),
        ("DATE", "Nullable(Date)"),
        ("TIMESTAMP", "DateTime64(9, 'Europe/Berlin')"),
        ("TIMESTAMP", "DateTime64(6)"),
        ("DECIMAL(18,2)", "Decimal(20, 4)"),
        ("ARRAY<ARRAY<INT>>", "Array(Array(Int32))"),
        ("MAP<STRING,STRUCT<x: INT, y: STRING>>", "Map(String, Tuple(`y` String, x Int64))"),
    ],
)
def test_types_that_fit(field: str, column: str) -> None:
    assert fits(schema.parse(f"v {field}", name="x")[0].type, column)


@pytest.mark.parametrize(
    ("field", "column"),
    [
        ("INT", "Int16"),  # wraps around
        ("INT", "UInt64"),
        ("BIGINT", "Float64"),
        ("DOUBLE", "Float32"),
        ("STRING", "FixedString(8)"),  # filled up with zeros
        ("STRING", "Nullable(UUID)"),  # null where the text is no UUID
        ("STRING", "Int64"),
        ("DATE", "DateTime64(6)"),
        ("TIMESTAMP", "DateTime"),  # cut
        ("TIMESTAMP", "DateTime64(3, 'UTC')"),
        ("TIMESTAMP_NTZ", "DateTime64(6)"),
        ("DECIMAL(18,2)", "Decimal(18, 1)"),  # rounded
        ("DECIMAL(18,2)", "Decimal(18, 4)"),
        ("ARRAY<INT>", "Int32"),
        ("ARRAY<INT>", "Array(Int8)"),
        ("MAP<STRING,INT>", "Map(Int32, Int32)"),
        ("STRUCT<x: INT>", "Tuple(Int32)"),
        ("STRUCT<x: INT>", "Tuple(x Int32, y Int32)"),  # filled up
        ("STRING", "SimpleAggregateFunction(any, String)"),
    ],
)
def test_types_that_do_not_fit(field: str, column: str) -> None:
    assert not fits(schema.parse(f"v {field}", name="x")[0].type, column)


def test_places_may_be_unsigned() -> None:
    assert fits(schema.parse("v BIGINT", name="x")[0].type, "UInt64", unsigned=True)


@pytest.mark.parametrize(
    ("text", "takes_null"),
    [
        ("String", False),
        ("LowCardinality(Nullable(String))", True),
        ("Array(String)", True),
        ("Tuple(a String)", False),
        ("Nullable(", False),
        ("Nullable(" * 2000 + "Int8" + ")" * 2000, True),
    ],
)
def test_what_a_null_becomes(text: str, takes_null: bool) -> None:
    assert parse(text).takes_null is takes_null


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("w Int64", "has no column 'v': add it as Nullable(Int64)"),
        ("v Int32", "v is Int32, which does not hold every BIGINT of the payload's 'v' as it is"),
        ("w Int64, v Int64 MATERIALIZED w", "v is MATERIALIZED, which the server fills in itself"),
        ("v Int64, iggy_timestamp DateTime", "make it DateTime64(6, 'UTC')"),
    ],
)
def test_the_check_compares_columns(columns: str, words: str, server: ClickHouse) -> None:
    server.engine.run("DROP TABLE IF EXISTS wrong")
    server.engine.run(f"CREATE TABLE wrong ({columns}) ENGINE = MergeTree ORDER BY tuple()")

    with pytest.raises(OptionError) as error:
        sink_of(server, "wrong", "v BIGINT").check()

    assert str(error.value).startswith("clickhouse.table: default.wrong")
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("text", "column", "values", "kind"),
    [
        ("STRING", "UUID", ["5f1e1060-0000-4000-8000-000000000000", "nope"], "CANNOT_PARSE_UUID"),
        ("STRING", "JSON", ['{"a": 1}', "nope"], "INCORRECT_DATA"),
        ("STRING", "Nullable(Enum8('a'))", ["a", "b"], "UNKNOWN_ELEMENT_OF_ENUM"),
        ("DATE", "Date", ["2026-01-01", "1890-01-01"], OUT_OF_RANGE),
        (
            "DATE",
            "Nullable(Date)",
            ["2026-01-01", "2150-01-01"],
            OUT_OF_RANGE,
        ),
        (
            "TIMESTAMP",
            "DateTime64(9)",
            ["2026-01-01T00:00:00Z", LATE],
            "DECIMAL_OVERFLOW",
        ),
        ("ARRAY<BIGINT>", "Array(Int64)", [[1], [None]], NULL_KIND),
        (
            "MAP<STRING,BIGINT>",
            "Map(String, Int64)",
            [{"a": 1}, {"a": None}],
            NULL_KIND,
        ),
    ],
)
def test_values_that_a_column_does_not_take(
    text: str, column: str, values: list[Any], kind: str, server: ClickHouse
) -> None:
    """Never another value in their place."""
    server.engine.run("DROP TABLE IF EXISTS narrow")
    server.engine.run(f"CREATE TABLE narrow (v {column}) ENGINE = MergeTree ORDER BY tuple()")
    sink = sink_of(server, "narrow", f"v {text}")
    sink.check()
    span, task = wanted(0, 2), PlayedTask()
    payloads = [json.dumps({"v": value}).encode() for value in values]

    sink.write_task(
        span,
        portions(span, payload=declare(text=f"v {text}"), made=lambda number: payloads[number]),
        task,
    )

    assert [(bad.offset, bad.kind) for bad in task.refusals] == [(1, kind)]
    assert server.engine.rows("SELECT count() FROM narrow") == [[1]]


@pytest.mark.parametrize(
    ("engine", "window"),
    [
        ("MergeTree", "non_replicated_deduplication_window"),
        ("AggregatingMergeTree", "non_replicated_deduplication_window"),
        ("ReplicatedReplacingMergeTree", "replicated_deduplication_window"),
        ("SharedMergeTree", "replicated_deduplication_window"),
        ("Distributed", None),
        ("MaterializedView", None),
    ],
)
def test_which_setting_says_that_a_table_deduplicates(engine: str, window: str | None) -> None:
    assert Table("shop.orders", engine, "", ()).window == window

"""Ranges of made-up messages for tests of the files sink, and sinks that write them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pyarrow as pa

from iggy_spark import schema
from iggy_spark.offsets import OffsetRange
from iggy_spark.payload import Payload
from iggy_spark.sinks.base import Portion
from iggy_spark.sinks.files import FilesSettings, FilesSink
from iggy_spark.sinks.rows import REJECTED_SCHEMA, table_fields
from lakes import Lake, table_of

INCARNATION = "7-1795812995756186"
FIELDS = table_fields(
    Payload("json", fields=schema.parse("month INT, carrier STRING, delay INT", name="x"))
)
FORM = pa.schema([schema.arrow_field(item) for item in FIELDS])
NOW = dt.datetime(2026, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC)
MONTHS = [1, 2, 1, None, 12]


def sink(lake: Lake, *partition_by: str) -> FilesSink:
    made = FilesSink(FilesSettings(lake.path, FIELDS, partition_by, lake.connection))
    made.check()
    return made


def wanted(first: int, end: int, partition: int = 0) -> OffsetRange:
    return OffsetRange(INCARNATION, partition, first, end)


def portions(span: OffsetRange, size: int = 3, rejected: tuple[int, ...] = ()) -> Iterator[Portion]:
    for at in range(span.first, span.end, size):
        numbers = range(at, min(at + size, span.end))
        rows = [
            {
                "month": MONTHS[n % 5],
                "carrier": f"c{n}",
                "delay": None if n % 2 else n,
                "iggy_partition_id": span.partition,
                "iggy_offset": n,
                "iggy_timestamp": NOW,
            }
            for n in numbers
            if n not in rejected
        ]
        bad = [
            {
                "payload": b"?",
                "error_class": "MalformedJson",
                "error": "no",
                "iggy_partition_id": span.partition,
                "iggy_offset": n,
                "iggy_timestamp": NOW,
            }
            for n in numbers
            if n in rejected
        ]
        yield Portion(
            pa.RecordBatch.from_pylist(rows, FORM), pa.RecordBatch.from_pylist(bad, REJECTED_SCHEMA)
        )


def offsets_of(lake: Lake) -> list[int]:
    return sorted(table_of(lake).column("iggy_offset").to_pylist())

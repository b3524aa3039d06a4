"""Ranges of made-up messages for tests of the files sink, and sinks that write them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import sink_cases
from iggy_spark import blocks
from iggy_spark.offsets import OffsetRange
from iggy_spark.sinks.base import Portion
from iggy_spark.sinks.files import FilesSink
from iggy_spark.sinks.rows import table_fields
from lakes import Lake, block_of, table_of
from sink_cases import INCARNATION, PlayedTask, declare, wanted

__all__ = ["FIELDS", "INCARNATION", "PlayedTask", "offsets_of", "portions", "sink", "wanted"]

SCHEMA = "month INT, carrier STRING, delay INT"
PAYLOAD = declare(text=SCHEMA)
FIELDS = table_fields(PAYLOAD)
MONTHS = [1, 2, 1, None, 12]


def sink(lake: Lake, *partition_by: str, list_batches: bool = False) -> FilesSink:
    block = blocks.Files(
        lake.path,
        partition_by=list(partition_by),
        list_batches=list_batches,
        s3=block_of(lake.connection),
    )
    made = FilesSink(block, PAYLOAD)
    made.check()
    return made


def document(n: int) -> bytes:
    return json.dumps(
        {"month": MONTHS[n % 5], "carrier": f"c{n}", "delay": None if n % 2 else n}
    ).encode()


def portions(span: OffsetRange, size: int = 3, rejected: tuple[int, ...] = ()) -> Iterator[Portion]:
    return sink_cases.portions(
        span,
        payload=declare(text=SCHEMA, keep=bool(rejected)),
        made=document,
        bad=rejected,
        size=size,
    )


def offsets_of(lake: Lake) -> list[int]:
    return sorted(table_of(lake).column("iggy_offset").to_pylist())

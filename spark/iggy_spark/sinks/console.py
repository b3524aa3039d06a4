"""The first rows of every batch as text, for trying things out."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from iggy_spark.offsets import OffsetRange
from iggy_spark.sinks.base import Portion, Spans, Task, Written

ROWS_SHOWN_MAX = 20  # of one batch
LINE_CHARACTERS_MAX = 1000


class ConsoleSink:
    """Shows rows through `show`, which only the driver has."""

    exactly_once = False
    keeps_place = False

    def __init__(self, show: Callable[[str], None]) -> None:
        """`show` takes one line."""
        self._show = show

    def check(self) -> None:
        """A console can always be written."""

    def prepare(self, incarnation: str) -> Mapping[int, Spans]:
        """A console keeps nothing."""
        return {}

    def write_task(self, wanted: OffsetRange, portions: Iterable[Portion], task: Task) -> Written:
        """Count all rows and keep the first as lines."""
        lines: list[str] = []
        rows = size_bytes = 0
        for portion in portions:
            rows += portion.rows.num_rows
            size_bytes += portion.rows.nbytes
            lines += _lines(portion.rows, ROWS_SHOWN_MAX - len(lines))
        task.confirm()
        return Written(
            wanted.partition,
            wanted.first,
            wanted.end,
            rows=rows,
            size_bytes=size_bytes,
            preview=tuple(lines),
        )

    def commit(self, results: Sequence[Written]) -> None:
        """Show the first rows of the batch, partition by partition."""
        lines = [line for result in results for line in result.preview]
        for line in lines[:ROWS_SHOWN_MAX]:
            self._show(line)

    def close(self) -> None:
        """Nothing is open."""


def _lines(rows: pa.RecordBatch, count: int) -> list[str]:
    found = rows.slice(0, max(0, count)).to_pylist()
    return [json.dumps(row, default=_plain)[:LINE_CHARACTERS_MAX] for row in found]


def _plain(value: Any) -> str:
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return f"base64:{base64.b64encode(value).decode()}"

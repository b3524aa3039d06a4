"""Rows of every batch as text, the first ones or all, for trying things out."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from iggy_spark import blocks
from iggy_spark.errors import SinkError
from iggy_spark.offsets import OffsetRange
from iggy_spark.sinks.base import Portion, Spans, Task, Written

LINE_CHARACTERS_MAX = 1000
TEXT_CHARACTERS_MAX = 32 << 20  # of the lines of one range: all of them go through the driver


class ConsoleSink:
    """Shows rows through `show`, which only the driver has."""

    exactly_once = False
    keeps_place = False

    def __init__(self, show: Callable[[str], None], settings: blocks.Console | None = None) -> None:
        """`show` takes one line."""
        self._show = show
        self._rows = (settings or blocks.Console()).rows or None  # None: all

    def check(self) -> None:
        """A console can always be written."""

    def prepare(self, incarnation: str) -> Mapping[int, Spans]:
        """A console keeps nothing."""
        return {}

    def write_task(self, wanted: OffsetRange, portions: Iterable[Portion], task: Task) -> Written:
        """Count all rows and keep as many as are shown as lines.

        Raises:
            SinkError: they are too much text.
        """
        lines: list[str] = []
        rows = size_bytes = characters = 0
        for portion in portions:
            rows += portion.rows.num_rows
            size_bytes += portion.rows.nbytes
            more = _lines(portion.rows, None if self._rows is None else self._rows - len(lines))
            characters += sum(map(len, more))
            if characters > TEXT_CHARACTERS_MAX:
                raise SinkError(
                    f"console.rows: the rows of one task have more than {TEXT_CHARACTERS_MAX} "
                    "characters: show fewer, or make batches smaller with maxOffsetsPerTrigger"
                )
            lines += more
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
        """Show the rows of the batch, partition by partition."""
        lines = [line for result in results for line in result.preview]
        for line in lines[: self._rows]:
            self._show(line)

    def close(self) -> None:
        """Nothing is open."""


def _lines(rows: pa.RecordBatch, count: int | None) -> list[str]:
    found = rows.slice(0, count).to_pylist()
    return [json.dumps(row, default=_plain)[:LINE_CHARACTERS_MAX] for row in found]


def _plain(value: Any) -> str:
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return f"base64:{base64.b64encode(value).decode()}"

"""The first rows of every batch as text, for trying things out."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from iggy_spark.offsets import OffsetRange
from iggy_spark.sinks.base import Portion, Spans, Written

ROWS_SHOWN_MAX = 20  # of one batch
LINE_CHARACTERS_MAX = 1000


class ConsoleSink:
    """Shows rows through `show`, which only the driver has."""

    def __init__(self, show: Callable[[str], None]) -> None:
        """`show` takes one line."""
        self._show = show

    def check(self) -> None:
        """A console can always be written."""

    def prepare(self, incarnation: str) -> Mapping[int, Spans]:
        """A console keeps nothing."""
        return {}

    def write_task(
        self, wanted: OffsetRange, portions: Iterable[Portion], confirm: Callable[[], None]
    ) -> Written:
        """Count all rows and keep the first as lines."""
        lines: list[str] = []
        counts = {"rows": 0, "rejected": 0, "size_bytes": 0}
        for portion in portions:
            counts["rows"] += portion.rows.num_rows
            counts["rejected"] += portion.rejected.num_rows
            counts["size_bytes"] += portion.rows.nbytes
            for rows in (portion.rows, portion.rejected):
                lines += _lines(rows, ROWS_SHOWN_MAX - len(lines))
        return Written(wanted.partition, wanted.first, wanted.end, preview=tuple(lines), **counts)

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

"""Rows in a table of ClickHouse, by its HTTP interface, in Arrow's format, columns by name.

What makes it exactly once: every insert has a token that names the messages in it, and a table that
deduplicates leaves out an insert whose token it knows. So what is written again must be cut alike:
see `clickhouse_parts`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from iggy_spark import blocks, schema
from iggy_spark.offsets import OffsetRange
from iggy_spark.retry import Retry
from iggy_spark.sinks import clickhouse_parts, clickhouse_server, clickhouse_table
from iggy_spark.sinks.base import Portion, Refusal, Spans, Task, Written
from iggy_spark.sinks.clickhouse_parts import Numbers, Part, row_offsets
from iggy_spark.sinks.clickhouse_table import Target
from iggy_spark.sinks.clickhouse_types import literal, quoted
from iggy_spark.sinks.web import Place, Web, checked
from iggy_spark.sinks.web_chunks import Refused, Run, search
from iggy_spark.sinks.web_login import FileLogin

NULL_KIND: Final = "CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN"  # as the server calls it
# Done when the server says so; known again by its token; null is null and no default; through a
# Distributed table as far as the shards.
_SETTINGS: Final = (
    "async_insert = 0, insert_deduplicate = 1, input_format_null_as_default = 0, "
    "insert_distributed_sync = 1"
)


class ClickHouseSink:
    """Writes ranges part by part; each part is one insert."""

    keeps_place = False

    def __init__(
        self,
        settings: blocks.ClickHouse,
        fields: Sequence[schema.Field],
        *,
        name: str,
        retry: Retry,
        exactly_once: bool = False,
    ) -> None:
        """Touches nothing yet. `name` is the sink's; `exactly_once`: this is asked for."""
        self._settings, self._fields, self._name, self._retry = settings, fields, name, retry
        self._exactly_once = exactly_once
        self._table = f"{quoted(settings.database)}.{quoted(settings.table)}"
        self._place = Place("clickhouse", (settings.url,), ca_path=settings.ca_path)

    @property
    def exactly_once(self) -> bool:
        """Where it is asked for: then `check` has seen that the table deduplicates."""
        return self._exactly_once

    def check(self) -> None:
        """Compare the table with the payload, and see whether it deduplicates if it must.

        Raises:
            SinkError: the server does not answer.
            OptionError: wrong login; no such table; a column is missing or has another type; the
                table does not deduplicate.
        """
        with self._web() as web:
            checked(lambda: self._check(web))

    def _check(self, web: Web) -> None:
        table = clickhouse_table.look(web, self._settings.database, self._settings.table)
        clickhouse_table.match(table, self._fields)
        if self._exactly_once:
            clickhouse_table.check_deduplicates(web, table)

    def prepare(self, incarnation: str) -> Mapping[int, Spans]:
        """Nothing is kept that could be told."""
        return {}

    def write_task(self, wanted: OffsetRange, portions: Iterable[Portion], task: Task) -> Written:
        """Insert all rows; return when the server has them.

        Raises:
            SinkError: the server does not take them for as long as `errors.retry` says.
            OptionError: the table has changed, and does not go with the payload any more.
        """
        rows = size_bytes = 0
        with self._web() as web:
            targets = self._retry.call(lambda: self._targets(web), what=self._place.name)
            insert = _Insert(web, self._retry, self._place.name, self._table, targets, self._name)
            for part in clickhouse_parts.parts(wanted, portions):
                table, refused = part.rows(), 0
                for bad in insert.send(part, table):
                    # At once: who tolerates none, or too many are bad, stops here.
                    task.refuse(part.portion_of(bad.offset), [bad])
                    refused += 1
                rows += table.num_rows - refused
                size_bytes += table.nbytes
        task.confirm()
        return Written(wanted.partition, wanted.first, wanted.end, rows=rows, size_bytes=size_bytes)

    def _targets(self, web: Web) -> tuple[Target, ...]:
        """Where columns go, as the table is now."""
        settings = self._settings
        return clickhouse_table.match(
            clickhouse_table.look(web, settings.database, settings.table), self._fields
        )

    def _web(self) -> Web:
        login = FileLogin("clickhouse", self._settings.credentials_path, ("username", "password"))
        return Web(self._place, login)

    def commit(self, results: Sequence[Written]) -> None:
        """Nothing: what the server has confirmed is there."""

    def close(self) -> None:
        """Nothing is open between tasks."""


@dataclass(frozen=True, slots=True)
class _Insert:
    """Inserts into one table."""

    web: Web
    retry: Retry
    target: str  # for errors
    table: str  # as it stands in a statement
    columns: Sequence[Target]
    sink: str  # its name, which all tokens begin with

    def send(self, part: Part, rows: pa.Table) -> Iterator[Refusal]:
        """Insert a part, which has these rows; those that are refused."""
        good = np.ones(len(rows), dtype=np.bool_)
        offsets = row_offsets(rows)
        for column in self.columns:
            if column.takes_null or not rows.column(column.name).null_count:
                continue
            missing = good & rows.column(column.name).is_null().to_numpy()
            for row in np.flatnonzero(missing).tolist():
                good[row] = False
                why = f"{column.name} is null, and the column is not Nullable"
                yield Refusal(int(offsets[row]), "write", NULL_KIND, why)
        if not good.all():
            rows, offsets = rows.filter(pa.array(good)), offsets[good]
        if not len(rows):
            return
        # One batch is one block for the server, and so appears as a whole.
        block = rows.select([column.name for column in self.columns]).combine_chunks()
        for row, reason in search(
            (0, len(block)), lambda run: self._run(part, block, offsets, run)
        ):
            yield Refusal(int(offsets[row]), "write", reason.kind, reason.message)

    def _run(self, part: Part, block: pa.Table, offsets: Numbers, run: Run) -> Refused | None:
        statement = self._statement(f"{self.sink}/{part.name(offsets, run)}")
        stream = _stream(block.slice(run[0], run[1] - run[0]))
        return self.retry.call(
            lambda: clickhouse_server.insert(self.web, statement, stream), what=self.target
        )

    def _statement(self, token: str) -> str:
        names = ", ".join(quoted(column.name) for column in self.columns)
        return (
            f"INSERT INTO {self.table} ({names}) "
            f"SETTINGS {_SETTINGS}, insert_deduplication_token = {literal(token)}"
        )


def _stream(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())

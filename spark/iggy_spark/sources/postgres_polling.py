"""Mode Polling: rows of one table or view, in the order of a column that grows.

A transaction takes its value of that column before it commits, so one that is slow appears below
values that were seen already. Therefore nothing is read before it has settled: the highest value
that there is now is gone up to only after `settle`, when whoever had a lower one has committed.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from psycopg import sql

from iggy_spark.errors import OptionError
from iggy_spark.option_values import duration_ms
from iggy_spark.postgres import Connection
from iggy_spark.retry import Retry
from iggy_spark.source_blocks import Postgres
from iggy_spark.sources import postgres_checks
from iggy_spark.sources.base import Position
from iggy_spark.sources.postgres_link import Link, parse_table
from iggy_spark.sources.postgres_messages import Rows
from iggy_spark.sources.postgres_stream import Place, Placed, stream
from iggy_spark.sources.postgres_tables import (
    fields_of,
    names_of,
    raw_cursor,
    row_of,
    user_types,
    values_of,
)

SETTLE_S_MAX: Final = 600.0
BEHIND_MAX: Final = 1_000_000  # rows that are counted; more are told as so many
_SAMPLES: Final = 10  # at most, within `settle`

Mark = tuple[str, ...]
"""Cursor and keys of a row, as the server writes them."""


class PollingSource:
    """See `base.Source`. A position is the cursor and the keys of the last row; null: none."""

    def __init__(
        self,
        block: Postgres,
        *,
        name: str,
        retry: Retry,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Connects to nothing yet.

        Raises:
            OptionError: the settings do not fit each other.
        """
        assert block.cursor_column is not None, "checked with the configuration"
        if not block.key_columns:
            raise OptionError(
                "postgres.keyColumns: mode Polling needs them to tell rows with the same cursor "
                "apart: name the primary key"
            )
        self._settle_s = duration_ms("postgres.settle", block.settle) / 1000
        if self._settle_s > SETTLE_S_MAX:
            raise OptionError(f"postgres.settle: at most {SETTLE_S_MAX:g}s")
        self._link = Link(block, retry)
        self._name, self._table = name, parse_table(block.tables[0])
        self._cursor, self._keys = block.cursor_column, tuple(block.key_columns)
        self._clock, self._sleep = clock, sleep
        self._kinds: tuple[str, ...] | None = None
        self._seen: deque[tuple[float, Mark]] = deque()  # highest rows, and when they were
        self._frozen: Mark | None = None
        self._is_frozen = False

    def check(self) -> None:
        """See `base.Source`."""
        self._link.call(self._look_over)

    def _look_over(self, connection: Connection) -> None:
        _, found = postgres_checks.polling(connection, self._table, self._cursor, self._keys)
        self._kinds = tuple(found[name].type for name in self._order)

    @property
    def _order(self) -> tuple[str, ...]:
        """Columns that rows are ordered by."""
        return (self._cursor, *(key for key in self._keys if key != self._cursor))

    def first(self) -> Position:
        """Before all rows."""
        return {"row": None}

    def freeze(self) -> None:
        """See `base.Freezing`: what is there now, once it has settled."""
        self._frozen = self._link.call(lambda connection: self._highest(connection, None))
        self._is_frozen = True
        if self._frozen is not None:
            self._sleep(self._settle_s)

    def latest(self, start: Position, messages_max: int) -> Position:
        """See `base.Source`. Says that nothing is new only after all that is there has settled."""
        at: Mark | None = None if start["row"] is None else tuple(start["row"])
        end = self._frozen_end(at, messages_max) if self._is_frozen else self._end(at, messages_max)
        return start if end is None else {"row": list(end)}

    def _frozen_end(self, start: Mark | None, messages_max: int) -> Mark | None:
        bound = self._frozen
        return None if bound is None else self._within(start, bound, messages_max)

    def _end(self, start: Mark | None, messages_max: int) -> Mark | None:
        while True:
            bound = self._settled()
            if bound is not None:
                end = self._within(start, bound, messages_max)
                if end is not None:
                    return end
                self._seen.popleft()  # all of it is read
            now = self._clock()
            if not self._seen or now - self._seen[-1][0] >= self._settle_s / _SAMPLES:
                found = self._link.call(lambda connection: self._highest(connection, start))
                if found is not None:
                    self._seen.append((now, found))
            if not self._seen:
                return None
            self._sleep(max(0.0, self._seen[0][0] + self._settle_s - self._clock()))

    def _settled(self) -> Mark | None:
        """The highest row that may be read up to; older ones are forgotten."""
        due = self._clock() - self._settle_s
        while len(self._seen) > 1 and self._seen[1][0] <= due:
            self._seen.popleft()
        return self._seen[0][1] if self._seen and self._seen[0][0] <= due else None

    def _highest(self, connection: Connection, start: Mark | None) -> Mark | None:
        """The last row behind `start`."""
        where, values = self._range(connection, start, None)
        order = sql.SQL(", ").join(
            sql.SQL("{} desc").format(sql.Identifier(name)) for name in self._order
        )
        query = sql.SQL("select {} from {} where {} order by {} limit 1")
        text = query.format(names_of(self._order), self._table.quoted, where, order)
        return _mark(raw_cursor(connection).execute(text, values).fetchone())

    def _within(self, start: Mark | None, bound: Mark, messages_max: int) -> Mark | None:
        """The end of a batch that goes no further than `bound`; None if no row is there."""

        def work(connection: Connection) -> Mark | None:
            where, values = self._range(connection, start, bound)
            query = sql.SQL("select {} from {} where {} order by {} offset %s limit 1").format(
                names_of(self._order), self._table.quoted, where, names_of(self._order)
            )
            for skipped, end in ((messages_max - 1, None), (0, bound)):
                found = raw_cursor(connection).execute(query, [*values, skipped]).fetchone()
                if found is not None:
                    return end or _mark(found)
            return None

        return self._link.call(work)

    def split(self, start: Position, end: Position) -> Sequence[Mapping[str, Any]]:
        """One part: the rows in their order."""
        return [] if start == end else [{}]

    def read(
        self, start: Position, end: Position, part: Mapping[str, Any]
    ) -> Iterator[pa.RecordBatch]:
        """See `base.Source`. A row that has changed meanwhile comes later, and not here."""
        begin = None if start["row"] is None else tuple(start["row"])
        span = (begin, tuple(end["row"]))
        return stream(self._link, lambda connection, done: self._rows(connection, span, done))

    def _rows(
        self, connection: Connection, span: tuple[Mark | None, Mark], done: Place | None
    ) -> Generator[Placed]:
        start, end = span
        where, values = self._range(connection, done or start, end)
        types = user_types(connection)
        query = sql.SQL("select *, {} from {} where {} order by {}").format(
            names_of(self._order), self._table.quoted, where, names_of(self._order)
        )
        rows: Rows | None = None
        count, key_places = len(self._order), list[int]()
        with raw_cursor(connection) as cursor:
            for row in cursor.stream(query, values):
                if rows is None:
                    fields = fields_of(cursor, types)
                    rows = Rows(self._name, str(self._table), fields)
                    key_places = sorted(fields.names.index(key) for key in self._keys)
                mark = _mark(row[-count:])
                assert mark is not None, "a row"
                columns = len(row) - count
                yield mark, rows.polled(row, columns, key_places)

    def _range(
        self, connection: Connection, start: Mark | None, end: Mark | None
    ) -> tuple[sql.Composed, list[Any]]:
        """The condition for rows behind `start` and up to `end`, and its values."""
        if self._kinds is None:
            self._look_over(connection)
        assert self._kinds is not None, "looked up"
        parts = [_usable(self._cursor, self._kinds[0])]
        values: list[Any] = []
        for sign, mark in ((" > ", start), (" <= ", end)):
            if mark is not None:
                parts.append(row_of(self._order) + sql.SQL(sign) + values_of(self._kinds))
                values += mark
        return sql.SQL(" and ").join(parts), values

    def done(self, end: Position) -> None:
        """Nothing is kept for us."""

    def behind(self, at: Position) -> int | None:
        """Rows behind the position, at most `BEHIND_MAX`."""
        start = None if at["row"] is None else tuple(at["row"])

        def work(connection: Connection) -> int:
            where, values = self._range(connection, start, None)
            query = sql.SQL("select count(*) from (select from {} where {} limit %s) waiting")
            text = query.format(self._table.quoted, where)
            found = connection.execute(text, [*values, BEHIND_MAX]).fetchone()
            assert found is not None, "an aggregate"
            return int(found[0])

        return self._link.call(work)

    def close(self) -> None:
        """See `base.Source`."""
        self._link.close()


def _mark(row: Sequence[bytes] | None) -> Mark | None:
    return None if row is None else tuple(value.decode() for value in row)


def _usable(cursor: str, kind: str) -> sql.Composed:
    """Without rows that would end everything, since nothing comes behind them; null is none too."""
    column = sql.Identifier(cursor)
    if kind.startswith("timestamp"):
        return sql.SQL("isfinite({})").format(column)
    if kind.startswith("numeric"):
        return sql.SQL("{}::text not in ('NaN', 'Infinity', '-Infinity')").format(column)
    return sql.SQL("{} is not null").format(column)

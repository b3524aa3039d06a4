"""Rows of a table in PostgreSQL, exactly once.

What makes it exactly once: each task is one transaction, and in it the place behind its last
message moves, in the table `iggy_sink_offsets` beside the target. The row of the partition is
locked first, so that a repeated task, or one of a driver that was thought dead, waits, and then
finds nothing left to do. A deleted checkpoint makes no duplicates: the place is read from there.

Where the server refuses rows, halves of the portion are tried below savepoints, down to the single
rows that it refuses: 2 log2(n) attempts at most for each of them among n, and how many there may be
is bounded by `errors.deadLetter`. A connection that is lost undoes the transaction, and the whole
range is written again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from iggy_spark import blocks, schema
from iggy_spark.errors import DataLoss, OptionError, SinkError
from iggy_spark.offsets import OffsetRange
from iggy_spark.postgres import Connection, Database, Words
from iggy_spark.retry import Retry, TransientError
from iggy_spark.sinks.base import Portion, Spans, Task, Written
from iggy_spark.sinks.postgres_rows import OFFSET, RowWriter, is_direct
from iggy_spark.sinks.postgres_table import (
    Name,
    Table,
    Target,
    check_fields,
    creation,
    look,
    match,
    parse_name,
)
from iggy_spark.sinks.replay import Replay, replaying

WORDS: Final = Words("jdbc", "jdbc:postgresql:", "table")
PLACES: Final = "iggy_sink_offsets"
_COLUMNS = sql.SQL(
    "sink text not null, incarnation text not null, partition integer not null, "
    "next_offset bigint not null, updated_at timestamptz not null default now(), "
    "primary key (sink, incarnation, partition)"
)
_OF_PARTITION = sql.SQL("sink = %s and incarnation = %s and partition = %s")


class JdbcSink:
    """Writes ranges as rows of one table."""

    exactly_once = True
    keeps_place = True

    def __init__(
        self, settings: blocks.Jdbc, fields: Sequence[schema.Field], *, name: str, retry: Retry
    ) -> None:
        """`fields` are the table's columns, `name` is the sink's. Connects to nothing yet.

        Raises:
            OptionError: settings do not fit each other.
        """
        for field, value in (("driver", settings.driver), ("batchSize", settings.batch_size)):
            if value is not None:
                raise OptionError(f"jdbc.{field}: goes with other databases than PostgreSQL")
        self._database = Database(settings.url, settings, WORDS)
        self._table = parse_name(settings.table)
        self._keys = tuple(settings.key_columns)
        check_fields(fields, self._keys, upsert=settings.mode == "Upsert")
        self._create = settings.create_table
        self._fields = fields
        self._sink = name
        self._retry = retry

    def check(self) -> None:
        """Compare the table with the columns, and see what the user may do.

        Raises:
            SinkError: the database cannot be reached, or refuses the user.
            OptionError: the table does not fit; the message names the column.
        """
        self._database.call(self._retry, self._look_over)

    def _look_over(self, connection: Connection) -> None:
        table = look(connection, self._table)
        if table is None:
            if not self._create:
                raise self._no_table()
            self._may(connection, "schema", _schema(connection, self._table), "create")
            return
        targets = match(table, self._fields, self._keys)
        rights = ("insert", "update", "select") if self._keys else ("insert",)
        self._may(connection, "table", table.name.text(connection), *rights)
        if not is_direct(table, targets, self._keys):
            self._may(connection, "database", connection.info.dbname, "temporary")
        places = table.name.beside(PLACES)
        if look(connection, places) is None:
            self._may(connection, "schema", str(places.schema), "create")
        else:
            self._may(connection, "table", places.text(connection), "select", "insert", "update")

    def _may(self, connection: Connection, kind: str, what: str, *rights: str) -> None:
        """Raises SinkError where the user lacks a right."""
        query = sql.SQL("select has_{}_privilege(%s, %s), current_user").format(sql.SQL(kind))
        for right in rights:
            found = connection.execute(query, [what, right]).fetchone()
            if found is not None and not found[0]:
                raise SinkError(
                    f"jdbc.table: user {found[1]} of {self._database} may not {right} in {kind} "
                    f"{what}: grant {right} on {kind} {what} to {found[1]}"
                )

    def prepare(self, incarnation: str) -> Mapping[int, Spans]:
        """Make what is missing, and read how far the table is.

        Raises:
            SinkError: not possible.
            OptionError: the table is missing, and is not to be made.
        """

        def work(connection: Connection) -> Mapping[int, Spans]:
            try:
                places = self._make(connection)
            except (psycopg.errors.DuplicateTable, psycopg.errors.UniqueViolation) as error:
                text = "another sink makes the same table just now"
                raise TransientError(text, cause="conflict") from error
            found = self._places(connection, places, incarnation)
            connection.commit()
            return found

        return self._database.call(self._retry, work)

    def held(self, incarnation: str) -> Mapping[int, Spans]:
        """How far the table is. Nothing is made."""

        def work(connection: Connection) -> Mapping[int, Spans]:
            table = look(connection, self._table)
            places = None if table is None else table.name.beside(PLACES)
            if places is None or look(connection, places) is None:
                return {}
            return self._places(connection, places, incarnation)

        return self._database.call(self._retry, work)

    def _places(self, connection: Connection, places: Name, incarnation: str) -> dict[int, Spans]:
        query = sql.SQL(
            "select partition, next_offset from {} where sink = %s and incarnation = %s"
        ).format(places.quoted)
        found = connection.execute(query, [self._sink, incarnation]).fetchall()
        return {number: ((0, end),) for number, end in sorted(found)}

    def _make(self, connection: Connection) -> Name:
        """The table of places, made with the target where either is missing."""
        table = look(connection, self._table)
        if table is None:
            if not self._create:
                raise self._no_table()
            connection.execute(creation(self._table, self._fields, self._keys))
        made = table is None
        table = table or look(connection, self._table)
        assert table is not None, "it is there, or was made in this transaction"
        match(table, self._fields, self._keys)
        places = table.name.beside(PLACES)
        if look(connection, places) is None:
            connection.execute(sql.SQL("create table {} ({})").format(places.quoted, _COLUMNS))
        elif made:
            # Whoever dropped the table dropped the rows: their places would be a gap.
            gone = sql.SQL("delete from {} where sink = %s").format(places.quoted)
            connection.execute(gone, [self._sink])
        return places

    def _no_table(self) -> OptionError:
        return OptionError(
            f"jdbc.table: there is no table {self._table} in {self._database}: make it, or set "
            "jdbc.createTable; was it renamed or dropped?"
        )

    def write_task(self, wanted: OffsetRange, portions: Iterable[Portion], task: Task) -> Written:
        """Write the range in one transaction.

        Raises:
            SinkError: the database stays away, or refuses everything.
            OptionError: the table has changed, and does not fit any more.
            DataLoss: the table ends before the range begins.
        """
        with replaying(portions) as replay:
            work = _Range(self, wanted, replay, task)
            return self._database.call(self._retry, work.write)

    def locked(self, connection: Connection) -> tuple[Table, tuple[Target, ...]]:
        """The table, which keeps its columns until the transaction ends, and where ours go."""
        connection.execute(
            sql.SQL("lock table {} in row exclusive mode").format(self._table.quoted)
        )
        table = look(connection, self._table)
        if table is None:
            raise self._no_table()
        return table, match(table, self._fields, self._keys)

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of the key columns in the rows."""
        return self._keys

    def place(self, wanted: OffsetRange) -> list[str | int]:
        """What names the row of a partition."""
        return [self._sink, wanted.incarnation, wanted.partition]

    def commit(self, results: Sequence[Written]) -> None:
        """Nothing: the rows are there when their tasks are done."""

    def close(self) -> None:
        """Nothing is open between batches."""


class _Range:
    """One range on its way, perhaps through several attempts."""

    def __init__(self, sink: JdbcSink, wanted: OffsetRange, replay: Replay, task: Task) -> None:
        self._sink, self._wanted, self._replay, self._task = sink, wanted, replay, task
        self._refused: set[int] = set()  # bounded by what `Task.refuse` lets pass
        self._confirmed: int | None = None  # how many were refused when the task confirmed
        self._sent: Written | None = None  # what a commit that was sent would have done

    def write(self, connection: Connection) -> Written:
        """One attempt, on a new connection."""
        table, targets = self._sink.locked(connection)
        places = table.name.beside(PLACES)
        held = self._lock(connection, places)
        if self._sent is not None and held >= self._wanted.end:
            return self._sent  # only the answer was lost
        if 0 < held < self._wanted.first:
            raise DataLoss(
                f"jdbc.table: {table.name} holds partition {self._wanted.partition} up to offset "
                f"{held - 1}, and the checkpoint goes on at {self._wanted.first}: was the database "
                "restored from a backup? Without the checkpoint the job goes on where the table "
                "stands"
            )
        writer = RowWriter(connection, table, targets, self._sink.keys)
        rows = size_bytes = 0
        for portion in self._replay:
            good = self._left(portion.rows, held)
            rows += good.num_rows
            size_bytes += good.nbytes
            for refusal in writer.refused(good):
                self._task.refuse(portion, [refusal])
                self._refused.add(refusal.offset)
                rows -= 1
        self._move(connection, places)
        if self._confirmed != len(self._refused):
            self._task.confirm()
            self._confirmed = len(self._refused)
        self._sent = Written(
            self._wanted.partition,
            self._wanted.first,
            self._wanted.end,
            rows=rows,
            size_bytes=size_bytes,
        )
        connection.commit()
        return self._sent

    def _lock(self, connection: Connection, places: Name) -> int:
        """The offset behind what the table holds; nobody else moves it until the end."""
        place = self._sink.place(self._wanted)
        connection.execute(
            sql.SQL(
                "insert into {} (sink, incarnation, partition, next_offset) "
                "values (%s, %s, %s, 0) on conflict do nothing"
            ).format(places.quoted),
            place,
        )
        query = sql.SQL("select next_offset from {} where {} for update")
        found = connection.execute(query.format(places.quoted, _OF_PARTITION), place).fetchone()
        assert found is not None, "it was there, or was just made"
        held: int = found[0]
        return held

    def _left(self, rows: pa.RecordBatch, held: int) -> pa.RecordBatch:
        """Without rows that the table has, and those that an earlier attempt has set aside."""
        offsets = rows.column(OFFSET)
        if held > self._wanted.first:
            rows = rows.filter(pc.greater_equal(offsets, held))
        if self._refused:
            aside = pa.array(self._refused, pa.int64())
            rows = rows.filter(pc.invert(pc.is_in(rows.column(OFFSET), aside)))
        return rows

    def _move(self, connection: Connection, places: Name) -> None:
        connection.execute(
            sql.SQL(
                "update {} set next_offset = greatest(next_offset, %s), updated_at = now() where {}"
            ).format(places.quoted, _OF_PARTITION),
            [self._wanted.end, *self._sink.place(self._wanted)],
        )


def _schema(connection: Connection, name: Name) -> str:
    """Where a table would be made."""
    found = connection.execute("select current_schema()").fetchone()
    place: str | None = name.schema or (found[0] if found else None)
    if place is None:
        raise OptionError(f"jdbc.table: write schema.table: the user has no schema for {name}")
    return place

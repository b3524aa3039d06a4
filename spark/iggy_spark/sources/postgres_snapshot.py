"""Rows that are there already, sent before the changes, table by table in the order of their keys.

The slot is made first, so every later change comes through it; each row is read at some moment
after that. So nothing is missed, and a row that changes meanwhile comes twice: as it was found
here, and then all its changes from the slot on, whose last one is right. There is no long
transaction, and whatever dies, it goes on behind the last batch.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from psycopg import sql

from iggy_spark.errors import OptionError
from iggy_spark.postgres import Connection
from iggy_spark.retry import TransientError
from iggy_spark.sources.base import Position
from iggy_spark.sources.postgres_link import Link, TableName
from iggy_spark.sources.postgres_messages import Rows
from iggy_spark.sources.postgres_slot import Slot
from iggy_spark.sources.postgres_stream import Placed, stream
from iggy_spark.sources.postgres_tables import (
    columns,
    fields_of,
    find,
    names_of,
    raw_cursor,
    row_of,
    user_types,
    values_of,
)

_PUBLISHED = """
select to_jsonb(p) -> 'attnames', to_jsonb(p) ->> 'rowfilter' from pg_publication_tables p
where pubname = %s and schemaname = %s and tablename = %s
"""


@dataclass(frozen=True, slots=True)
class Shape:
    """What is read of a table."""

    names: tuple[str, ...]  # columns that the publication tells of
    key: tuple[str, ...]
    kinds: tuple[str, ...]  # types of the key
    condition: sql.SQL  # rows that the publication tells of


class Snapshot:
    """Reads the tables. A position has `table` and `after`, the key of the last row, or null."""

    def __init__(self, source: str, tables: Sequence[TableName], slot: Slot) -> None:
        """`source` is the source's name."""
        self._source, self._tables, self._slot = source, tables, slot

    def first(self, link: Link, lsn: str) -> Position:
        """Where it begins, once all transactions that the slot does not tell of can be seen.

        One whose commit is in the log may not be visible yet, while it waits for a standby.
        """
        mark, time = link.call(_mark)

        def wait(connection: Connection) -> None:
            if _oldest(connection) <= mark:
                raise TransientError("transactions from before the slot are still open")

        link.call(wait)
        return {"lsn": lsn, "snapshot": {"table": str(self._tables[0]), "after": None, "at": time}}

    def latest(self, connection: Connection, start: Position, messages_max: int) -> Position:
        """So many rows further; behind the last row of the last table the changes begin.

        Of each table it goes up to the row that is the last one when it is near: what comes later
        is told by the slot anyway, and a busy table would have no end.
        """
        at = start["snapshot"]
        number = self._tables.index(self._table(at))
        after = at["after"]
        if at.get("last"):
            number, after = number + 1, None
        for table in self._tables[number:]:
            shape = self._shape(connection, table)
            key, is_last = _end_of(connection, table, shape, (after, messages_max))
            if key is not None:
                found = {"table": str(table), "after": key, "at": at["at"]}
                return {**start, "snapshot": {**found, "last": True} if is_last else found}
            after = None
        return {"lsn": start["lsn"]}

    def read(self, link: Link, start: Position, end: Position) -> Iterator[pa.RecordBatch]:
        """The rows of a range, all of the table where it ends."""
        if "snapshot" not in end:
            return iter(())
        return stream(link, lambda connection, done: self._rows(connection, start, end, done))

    def _rows(
        self, connection: Connection, start: Position, end: Position, done: Sequence[str] | None
    ) -> Generator[Placed]:
        """With their keys, from behind `done` on."""
        at, then = start["snapshot"], end["snapshot"]
        table = self._table(then)
        shape = self._shape(connection, table)
        after = at["after"] if at["table"] == then["table"] else None
        where, values = _range(shape, after if done is None else done, then["after"])
        types = user_types(connection)
        query = sql.SQL("select {} from {} where {} order by {}").format(
            names_of(shape.names), table.quoted, where, names_of(shape.key)
        )
        keys = [shape.names.index(name) for name in shape.key]
        made: Rows | None = None
        with raw_cursor(connection) as cursor:
            for row in cursor.stream(query, values):
                if made is None:
                    made = Rows(self._source, str(table), fields_of(cursor, types))
                message = made.read(row, sorted(keys), start["lsn"], at["at"])
                yield [row[place].decode() for place in keys], message

    def _table(self, at: Mapping[str, Any]) -> TableName:
        for table in self._tables:
            if str(table) == at["table"]:
                return table
        raise OptionError(
            f"postgres.tables: the rows of {at['table']} are being sent: name it until they are"
        )

    def _shape(self, connection: Connection, name: TableName) -> Shape:
        table = find(connection, name)
        if table is None:
            raise OptionError(f"postgres.tables: there is no {name}; was it renamed or dropped?")
        there = columns(connection, table, generated=False)
        published = connection.execute(
            _PUBLISHED, [self._slot.publication, name.schema, name.table]
        ).fetchone()
        told, condition = published or (None, None)
        names = tuple(one.name for one in there if told is None or one.name in told)
        if not table.key or not set(table.key) <= set(names):
            raise OptionError(
                f"postgres.snapshot: {name} has no primary key that is published, by which its "
                "rows could be read in turn: add one, or leave snapshot out"
            )
        kinds = {one.name: one.type for one in there}
        return Shape(
            names,
            table.key,
            tuple(kinds[name] for name in table.key),
            sql.SQL((condition or "true").replace("%", "%%")),
        )


def _mark(connection: Connection) -> tuple[int, str]:
    """A transaction that begins after all that are open, and when."""
    found = connection.execute(
        "select pg_current_xact_id()::text, "
        "to_char(now() at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"
    ).fetchone()
    assert found is not None, "one row"
    return int(found[0]), found[1]


def _oldest(connection: Connection) -> int:
    """The first transaction that may be open."""
    found = connection.execute("select pg_snapshot_xmin(pg_current_snapshot())::text").fetchone()
    assert found is not None, "one row"
    return int(found[0])


def _end_of(
    connection: Connection,
    table: TableName,
    shape: Shape,
    wanted: tuple[Sequence[str] | None, int],
) -> tuple[list[str] | None, bool]:
    """The key of the row so many behind another, and whether the table has no more than that."""
    after, count = wanted
    where, values = _range(shape, after, None)
    falling = sql.SQL(", ").join(
        sql.SQL("{} desc").format(sql.Identifier(name)) for name in shape.key
    )
    for order, skipped, is_last in ((names_of(shape.key), count - 1, False), (falling, 0, True)):
        query = sql.SQL("select {} from {} where {} order by {} offset %s limit 1").format(
            names_of(shape.key), table.quoted, where, order
        )
        found = raw_cursor(connection).execute(query, [*values, skipped]).fetchone()
        if found is not None:
            return [value.decode() for value in found], is_last
    return None, True


def _range(
    shape: Shape, after: Sequence[str] | None, upto: Sequence[str] | None
) -> tuple[sql.Composed, list[Any]]:
    """The condition for rows behind a key and up to another, and its values."""
    parts = [sql.SQL("({})").format(shape.condition)]
    values: list[Any] = []
    for sign, key in ((" > ", after), (" <= ", upto)):
        if key is not None:
            parts.append(row_of(shape.key) + sql.SQL(sign) + values_of(shape.kinds))
            values += key
    return sql.SQL(" and ").join(parts), values

"""Rows into a table of PostgreSQL, within a transaction, and which of them it refuses.

By COPY straight into the table where that can be. Otherwise COPY fills a temporary table and an
insert takes the rows from there: where the server must make other types of them, for mode Upsert,
and for tables with row level security, which COPY does not know.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import psycopg
import pyarrow as pa
from psycopg import sql

from iggy_spark.postgres import Connection, is_of_a_row, said
from iggy_spark.sinks.base import Refusal
from iggy_spark.sinks.postgres_copy import HEAD, TAIL, encode
from iggy_spark.sinks.postgres_table import Table, Target

OFFSET: Final = "iggy_offset"
_ORDER: Final = "iggy_row"  # of rows that wait, which offset they have
_WAITING: Final = sql.Identifier("pg_temp", "iggy_rows")
_BEGIN: Final = sql.SQL("savepoint iggy")
_KEEP: Final = sql.SQL("release savepoint iggy")
_UNDO: Final = sql.SQL("rollback to savepoint iggy; release savepoint iggy")


def is_direct(table: Table, targets: Sequence[Target], keys: Sequence[str]) -> bool:
    """Whether rows can go straight into the table."""
    return not keys and not table.by_row and all(target.direct for target in targets)


class RowWriter:
    """Writes rows in one transaction of a connection."""

    def __init__(
        self,
        connection: Connection,
        table: Table,
        targets: Sequence[Target],
        keys: Sequence[str],
    ) -> None:
        """`keys` are names in the rows, of mode Upsert; without any it is Append.

        Raises:
            psycopg.Error: as the server says.
        """
        self._connection = connection
        self._sources = [target.source for target in targets]
        self._insert: sql.Composed | None = None
        if is_direct(table, targets, keys):
            self._copy = _copy(table.name.quoted, [target.name for target in targets])
            return
        # Not the table's own column names: this table is ours.
        names = [f"c{number}" for number in range(len(targets))]
        types = [sql.SQL(target.wire) for target in targets]
        connection.execute(_waiting(names, types))
        self._copy = _copy(_WAITING, [*names, _ORDER])
        self._sources.append(OFFSET)
        self._insert = _insert(table, targets, names, keys)

    def refused(self, rows: pa.RecordBatch) -> Iterator[Refusal]:
        """Write rows, in offset order; those come out that the server refuses.

        Raises:
            psycopg.Error: something else is wrong than single rows.
        """
        error = self._written(rows)
        if error is None:
            return
        if rows.num_rows == 1:
            kind = error.sqlstate or ""
            yield Refusal(rows.column(OFFSET)[0].as_py(), "write", kind, said(error))
            return
        half = rows.num_rows // 2
        yield from self.refused(rows.slice(0, half))
        yield from self.refused(rows.slice(half))

    def _written(self, rows: pa.RecordBatch) -> psycopg.Error | None:
        """All or none of them, and then what a row is to blame for."""
        if rows.num_rows == 0:
            return None
        data = encode(rows.select(self._sources))
        self._connection.execute(_BEGIN)
        try:
            with self._connection.cursor().copy(self._copy) as copy:
                copy.write(HEAD)
                copy.write(data)
                copy.write(TAIL)
            if self._insert is not None:
                self._connection.execute(self._insert)
        except psycopg.Error as error:
            if not is_of_a_row(error):
                raise
            self._connection.execute(_UNDO)
            return error
        self._connection.execute(_KEEP)
        if self._insert is not None:
            # Outside of the savepoint, since only where it was made a table is emptied in place.
            self._connection.execute(sql.SQL("truncate {}").format(_WAITING))
        return None


def _copy(table: sql.Identifier, names: Sequence[str]) -> sql.Composed:
    return sql.SQL("copy {} ({}) from stdin (format binary)").format(table, _list(names))


def _waiting(names: Sequence[str], types: Sequence[sql.SQL]) -> sql.Composed:
    columns = [
        sql.SQL("{} {}").format(sql.Identifier(name), kind)
        for name, kind in zip(names, types, strict=True)
    ]
    columns.append(sql.SQL("{} bigint").format(sql.Identifier(_ORDER)))
    return sql.SQL("create temporary table {} ({}) on commit drop").format(
        _WAITING, sql.SQL(", ").join(columns)
    )


def _insert(
    table: Table, targets: Sequence[Target], names: Sequence[str], keys: Sequence[str]
) -> sql.Composed:
    """Of rows with the same key the last one counts: the statement may touch no row twice. The
    server itself says which are the same, and takes them in the order of the keys, so that two
    tasks seldom wait for each other.
    """
    values = {
        target.source: _value(target, name) for target, name in zip(targets, names, strict=True)
    }
    insert = sql.SQL("insert into {} ({}) select {}{} from {} order by {}")
    key_values = [values[key] for key in keys]
    last = sql.SQL("{} desc" if keys else "{}").format(sql.Identifier(_ORDER))
    distinct = (
        sql.SQL("distinct on ({}) ").format(sql.SQL(", ").join(key_values)) if keys else sql.SQL("")
    )
    statement = insert.format(
        table.name.quoted,
        _list([target.name for target in targets]),
        distinct,
        sql.SQL(", ").join(values.values()),
        _WAITING,
        sql.SQL(", ").join([*key_values, last]),
    )
    return statement + _on_conflict(targets, keys) if keys else statement


def _on_conflict(targets: Sequence[Target], keys: Sequence[str]) -> sql.Composed:
    key_names = [target.name for target in targets if target.source in keys]
    changes = [
        sql.SQL("{0} = excluded.{0}").format(sql.Identifier(target.name))
        for target in targets
        if target.source not in keys
    ]
    action = (
        sql.SQL("update set {}").format(sql.SQL(", ").join(changes))
        if changes
        else sql.SQL("nothing")
    )
    return sql.SQL(" on conflict ({}) do {}").format(_list(key_names), action)


def _value(target: Target, name: str) -> sql.Composable:
    if target.cast is None:
        return sql.Identifier(name)
    kind = sql.SQL(target.cast)
    return sql.SQL("{}::{}").format(sql.Identifier(name), kind)


def _list(names: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))

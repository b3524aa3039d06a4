"""What the catalog of PostgreSQL says of tables, columns and types (PostgreSQL 15, chapter 53)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from psycopg import Cursor, sql
from psycopg import postgres as known
from psycopg.abc import Buffer
from psycopg.adapt import Loader

from iggy_spark.postgres import Connection
from iggy_spark.sources.postgres_link import TableName
from iggy_spark.sources.postgres_messages import Fields
from iggy_spark.sources.postgres_values import USER_TYPES, Types, UserType

RELATIONS: Final = ("r", "p")  # tables, and tables in partitions
VIEWS: Final = ("v", "m", "f")  # what can be read and is no table: it has no changes of its own
_TABLE: Final = """
select c.oid, c.relkind, c.relreplident, c.relpersistence,
  has_table_privilege(c.oid, 'select') or has_any_column_privilege(c.oid, 'select'),
  pg_has_role(c.relowner, 'usage')
from pg_class c where c.oid = to_regclass(%s)
"""
# Of the primary key, or of the index that stands in for it, in the order of the index.
_KEY: Final = """
select a.attname::text from pg_index i
cross join unnest(i.indkey) with ordinality k (number, place)
join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.number
where i.indrelid = %s and case %s when 'i' then i.indisreplident else i.indisprimary end
  and k.place <= i.indnkeyatts order by k.place
"""
_COLUMNS: Final = """
select a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull,
  (select case t.typtype when 'd' then format_type(t.typbasetype, null)
    else format_type(t.oid, null) end from pg_type t where t.oid = a.atttypid)
from pg_attribute a where a.attrelid = %s and a.attnum > 0 and not a.attisdropped
  and (a.attgenerated = '' or %s) order by a.attnum
"""
_LEAVES: Final = """
select c.oid::regclass::text, c.relreplident,
  exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary and i.indisvalid),
  exists (select from pg_index i where i.indrelid = c.oid and i.indisreplident)
from pg_class c where c.oid = %s and c.relkind = 'r'
  or c.oid in (select relid from pg_partition_tree(%s) where isleaf)
"""


@dataclass(frozen=True, slots=True)
class Table:
    """A table, a view or the like."""

    oid: int
    kind: str
    identity: str
    persistence: str  # p: permanent, u: unlogged, t: temporary
    readable: bool
    owned: bool
    key: tuple[str, ...]
    """Columns of the primary key, or of the index that is the replica identity."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column."""

    name: str
    type: str  # as SQL writes it
    is_required: bool
    base: str  # the same below a domain, without length and precision


def find(connection: Connection, name: TableName) -> Table | None:
    """What is there under a name; None if nothing."""
    text = name.quoted.as_string(connection)
    found = connection.execute(_TABLE, [text]).fetchone()
    if found is None:
        return None
    key = connection.execute(_KEY, [found[0], found[2]]).fetchall()
    oid, kind, identity, persistence, readable, owned = found
    names = tuple(column for (column,) in key)
    return Table(oid, kind, identity, persistence, readable, owned, key=names)


def columns(connection: Connection, table: Table, *, generated: bool) -> tuple[Column, ...]:
    """Its columns in their order, with or without those that the server computes."""
    found = connection.execute(_COLUMNS, [table.oid, generated]).fetchall()
    return tuple(Column(*row) for row in found)


def without_identity(connection: Connection, table: Table) -> str | None:
    """A table or partition whose updates and deletes would fail, once it is in a publication."""
    for name, identity, primary, index in connection.execute(_LEAVES, [table.oid] * 2).fetchall():
        if not {"f": True, "d": primary, "i": index, "n": False}[identity]:
            return str(name)
    return None


def primary_keys(connection: Connection, tables: Sequence[TableName]) -> dict[str, tuple[str, ...]]:
    """Key columns of those tables that are there."""
    found = {str(name): find(connection, name) for name in tables}
    return {name: table.key for name, table in found.items() if table is not None}


def user_types(connection: Connection) -> Types:
    """All types of the database."""
    return Types(UserType(*row) for row in connection.execute(USER_TYPES.encode()).fetchall())


class _Raw(Loader):
    """A value as the server writes it."""

    def load(self, data: Buffer) -> bytes:
        """Nothing is made of it: Python's times know no infinity, and its floats no digits."""
        return bytes(data)


def raw_cursor(connection: Connection) -> Cursor[tuple[Any, ...]]:
    """A cursor whose values are bytes of text, whatever their type."""
    cursor = connection.cursor()
    cursor.adapters.register_loader(0, _Raw)
    for item in known.types:
        cursor.adapters.register_loader(item.oid, _Raw)
        if item.array_oid:
            cursor.adapters.register_loader(item.array_oid, _Raw)
    return cursor


def fields_of(cursor: Cursor[Any], types: Types) -> Fields:
    """How the rows of a query that has begun to answer are written. Domains are told as what is
    below them.
    """
    assert cursor.description is not None, "rows came"
    return Fields(
        [column.name for column in cursor.description],
        [types.encoder(column.type_code) for column in cursor.description],
    )


def names_of(names: Sequence[str]) -> sql.Composed:
    """a, b"""
    return sql.SQL(", ").join(map(sql.Identifier, names))


def row_of(names: Sequence[str]) -> sql.Composed:
    """(a, b), to be compared."""
    return sql.SQL("({})").format(names_of(names))


def values_of(kinds: Sequence[str]) -> sql.Composed:
    """(%s::int, %s::text) for columns of these types."""
    # A type's own text, as the server has written it, goes back as it came.
    parts = [sql.SQL("%s::") + sql.SQL(kind) for kind in kinds]
    return sql.SQL("({})").format(sql.SQL(", ").join(parts))

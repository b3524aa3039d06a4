"""Columns of messages and columns of a table in PostgreSQL: which go together, and how."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from psycopg import sql

from iggy_spark import schema
from iggy_spark.errors import OptionError
from iggy_spark.postgres import Connection
from iggy_spark.sinks.rows import METADATA

NAME_BYTES_MAX: Final = 63  # PostgreSQL cuts longer names
JSON_TYPE: Final = "jsonb"
_OURS: Final = frozenset(item.name for item in METADATA)
_NAMES = {
    pa.bool_(): "bool",
    pa.int8(): "int2",
    pa.int16(): "int2",
    pa.int32(): "int4",
    pa.int64(): "int8",
    pa.float32(): "float4",
    pa.float64(): "float8",
    pa.string(): "text",
    pa.binary(): "bytea",
    pa.date32(): "date",
    pa.timestamp("us", tz="UTC"): "timestamptz",
    pa.timestamp("us"): "timestamp",
}
_WHOLE = frozenset({"int2", "int4", "int8", "numeric"})
# Our type -> types of the table that take the same bytes.
_SAME = {"text": frozenset({"text", "varchar", "bpchar"})}
# Our type -> types that the server makes of it: without loss, or the row is refused.
_CAST = {
    "int2": _WHOLE,
    "int4": _WHOLE,
    "int8": _WHOLE,
    "float4": frozenset({"float8"}),
    "text": frozenset({"uuid", "json", "jsonb", "xml", "citext", "inet", "cidr", "macaddr"}),
    "timestamptz": frozenset({"timestamp"}),  # as UTC
    "jsonb": frozenset({"json", "text"}),
}
_PART = re.compile(r'"(?P<quoted>(?:[^"]|"")+)"|(?P<plain>[^".]+)')


@dataclass(frozen=True, slots=True)
class Name:
    """A table as the settings name it: exactly these letters, capital ones too."""

    schema: str | None
    table: str

    @property
    def quoted(self) -> sql.Identifier:
        """As SQL takes it."""
        return sql.Identifier(*((self.schema,) if self.schema else ()), self.table)

    def text(self, connection: Connection) -> str:
        """The same as text, for functions that take names."""
        return self.quoted.as_string(connection)

    def beside(self, table: str) -> Name:
        """Another table of the same schema."""
        return Name(self.schema, table)

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}" if self.schema else self.table


def parse_name(text: str) -> Name:
    """Read `table`, `schema.table` or parts in double quotes, as `"a.b"`.

    Raises:
        OptionError: something else.
    """
    parts: list[str] = []
    at = 0
    while (found := _PART.match(text, at)) is not None:
        parts.append(found["plain"] or found["quoted"].replace('""', '"'))
        at = found.end()
        if text[at : at + 1] != ".":
            break
        at += 1
    if at != len(text) or not 1 <= len(parts) <= 2:  # noqa: PLR2004
        raise OptionError(f"jdbc.table: {text!r} must be a table, or schema.table")
    _check_lengths("jdbc.table", parts)
    return Name(parts[0] if len(parts) > 1 else None, parts[-1])


def check_fields(fields: Sequence[schema.Field], keys: Sequence[str], *, upsert: bool) -> None:
    """Whether columns and `keyColumns` make sense, whatever the table is.

    Raises:
        OptionError: they do not.
    """
    names = [item.name for item in fields]
    _check_lengths("payload.schema", names)
    if upsert != bool(keys):
        raise OptionError("jdbc.keyColumns: goes with mode Upsert, and mode Upsert needs it")
    for key in keys:
        if key not in names:
            raise OptionError(f"jdbc.keyColumns: {key!r} is none of {', '.join(names)}")
    if len(set(keys)) != len(keys):
        raise OptionError("jdbc.keyColumns: a column is there twice")


def _check_lengths(field: str, names: Sequence[str]) -> None:
    for name in names:
        if len(name.encode()) > NAME_BYTES_MAX:
            raise OptionError(f"{field}: {name!r} is longer than {NAME_BYTES_MAX} bytes")


def type_of(field: schema.Field) -> str:
    """The type of a column that is made for a field; also how its values travel."""
    kind = schema.to_arrow(field.type)
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision},{kind.scale})"
    return _NAMES.get(kind, JSON_TYPE)


def creation(name: Name, fields: Sequence[schema.Field], keys: Sequence[str]) -> sql.Composed:
    """The statement that makes a table for these columns."""
    parts: list[sql.Composable] = [
        sql.SQL("{} {}{}").format(
            sql.Identifier(item.name),
            sql.SQL(type_of(item)),
            sql.SQL("" if item.nullable else " not null"),
        )
        for item in fields
    ]
    if keys:
        listed = sql.SQL(", ").join(map(sql.Identifier, keys))
        parts.append(sql.SQL("primary key ({})").format(listed))
    return sql.SQL("create table {} ({})").format(name.quoted, sql.SQL(", ").join(parts))


@dataclass(frozen=True, slots=True)
class Found:
    """A column of the table that is there."""

    name: str
    type: str  # base type's name in pg_type
    shown: str  # as people write it
    cast: str  # the base type's name as SQL takes it
    is_domain: bool
    is_enum: bool
    scale: int | None  # of numeric with one
    nullable: bool
    fills_itself: bool  # has a default
    closed: bool  # only the server writes it


@dataclass(frozen=True, slots=True)
class Table:
    """The table that is there."""

    name: Name
    columns: tuple[Found, ...]
    keys: tuple[frozenset[str], ...]  # of unique indices that a conflict can be told by
    by_row: bool  # COPY is not allowed: row level security is on


@dataclass(frozen=True, slots=True)
class Target:
    """Where a column of the rows goes."""

    source: str  # name in the rows
    name: str  # name in the table
    wire: str  # type that it travels as
    cast: str | None  # type to make of it, if that is another one
    direct: bool  # COPY into the column itself


_TABLE = """
select c.oid, n.nspname, c.relname, c.relkind, row_security_active(c.oid)
from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = to_regclass(%s)
"""
# A numeric's scale: the low 11 bits of its modifier less 4, signed (PostgreSQL 15, numeric.c).
_COLUMNS = """
select a.attname, b.typname, format_type(a.atttypid, a.atttypmod), format_type(b.oid, null),
  t.typtype = 'd', b.typtype = 'e',
  case when b.typname = 'numeric' and m.mod >= 4
    then (((m.mod - 4) & 2047) # 1024) - 1024 end,
  not (a.attnotnull or t.typnotnull),
  a.atthasdef or a.attidentity <> '' or t.typdefault is not null,
  a.attgenerated <> '' or a.attidentity = 'a'
from pg_attribute a join pg_type t on t.oid = a.atttypid
join pg_type b on b.oid = case t.typtype when 'd' then t.typbasetype else t.oid end,
lateral (select case t.typtype when 'd' then t.typtypmod else a.atttypmod end as mod) m
where a.attrelid = %s and a.attnum > 0 and not a.attisdropped order by a.attnum
"""
_KEYS = """
select array_agg(a.attname::text) from pg_index i
join pg_attribute a on a.attrelid = i.indrelid
  and a.attnum = any (i.indkey[0:i.indnkeyatts - 1])
where i.indrelid = %s and i.indisunique and i.indisvalid and i.indimmediate
  and i.indpred is null and i.indexprs is null group by i.indexrelid
"""


def look(connection: Connection, name: Name) -> Table | None:
    """What a table looks like; None if there is none.

    Raises:
        OptionError: it is a view or the like.
    """
    found = connection.execute(_TABLE, [name.text(connection)]).fetchone()
    if found is None:
        return None
    oid, place, table, kind, by_row = found
    if kind not in ("r", "p"):
        raise OptionError(f"jdbc.table: {name} is no table")
    columns = tuple(Found(*row) for row in connection.execute(_COLUMNS, [oid]).fetchall())
    keys = tuple(frozenset(names) for (names,) in connection.execute(_KEYS, [oid]).fetchall())
    return Table(Name(place, table), columns, keys, by_row)


def match(table: Table, fields: Sequence[schema.Field], keys: Sequence[str]) -> tuple[Target, ...]:
    """Where each column goes. Ours stay out where the table has no such column.

    A field `orderId` goes to a column of that name, or else to `orderid`: that is what PostgreSQL
    makes of a name without quotes.

    Raises:
        OptionError: a column is missing or has another type, or a key is not unique.
    """
    by_name = {column.name: column for column in table.columns}
    targets = []
    for item in fields:
        column = by_name.get(item.name) or by_name.get(item.name.lower())
        if column is not None:
            targets.append(_target(table, item, column))
        elif item.name not in _OURS:
            raise OptionError(
                f"jdbc.table: {table.name} has no column {item.name!r}: add it as "
                f"{type_of(item)}, or take the field out of payload.schema"
            )
    _check_rest(table, {target.name for target in targets})
    named = {target.name for target in targets if target.source in keys}
    if keys and named not in table.keys:
        raise OptionError(
            f"jdbc.keyColumns: {table.name} has no unique index on ({', '.join(keys)}), which "
            "mode Upsert needs: add a primary key or unique constraint on exactly these columns"
        )
    return tuple(targets)


def _target(table: Table, item: schema.Field, column: Found) -> Target:
    wire = type_of(item)
    kind = wire.partition("(")[0]
    if column.closed:
        raise OptionError(
            f"jdbc.table: {table.name}.{column.name} is generated by the server: take the field "
            "out of payload.schema"
        )
    is_same = column.type in _SAME.get(kind, {kind})
    is_label = kind == "text" and column.is_enum
    if not (is_same or is_label or column.type in _CAST.get(kind, ())):
        raise _misfit(table, item, column)
    if kind == "numeric" and column.scale is not None and column.scale < _scale(item):
        raise _misfit(table, item, column)  # the server would round
    # A domain's own rules are seen when it is assigned to.
    direct = is_same and not column.is_domain
    return Target(item.name, column.name, wire, None if is_same else column.cast, direct)


def _misfit(table: Table, item: schema.Field, column: Found) -> OptionError:
    return OptionError(
        f"jdbc.table: {table.name}.{column.name} is {column.shown}, and the payload's "
        f"{item.name!r} is {schema.to_ddl(item.type)}, which goes to {type_of(item)}: change the "
        "column's type, or the field's in payload.schema"
    )


def _scale(item: schema.Field) -> int:
    scale: Any = schema.to_arrow(item.type).scale
    return int(scale)


def _check_rest(table: Table, written: set[str]) -> None:
    for column in table.columns:
        if column.name in written or column.nullable or column.fills_itself or column.closed:
            continue
        raise OptionError(
            f"jdbc.table: {table.name}.{column.name} is NOT NULL and has no default, and the "
            "payload has no such field: add it to payload.schema, or give the column a default"
        )

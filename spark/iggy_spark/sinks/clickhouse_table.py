"""The table in ClickHouse: its columns, where the payload's go, and whether it deduplicates."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from iggy_spark import schema
from iggy_spark.errors import OptionError
from iggy_spark.sinks.clickhouse_server import select
from iggy_spark.sinks.clickhouse_types import fits, made_of, parse
from iggy_spark.sinks.rows import METADATA
from iggy_spark.sinks.web import Web

_OURS: Final = {item.name for item in METADATA}
_COUNTS: Final = {"iggy_partition_id", "iggy_offset"}
_ENGINE = (
    "SELECT engine, engine_full FROM system.tables "
    "WHERE database = {database:String} AND name = {table:String}"
)
_COLUMNS = (
    "SELECT name, type, default_kind FROM system.columns "
    "WHERE database = {database:String} AND table = {table:String} ORDER BY position"
)
_DEFAULT = "SELECT value FROM system.merge_tree_settings WHERE name = {name:String}"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table that is there."""

    name: str
    type: str
    kind: str  # of its default: empty, DEFAULT, MATERIALIZED, ALIAS, EPHEMERAL


@dataclass(frozen=True, slots=True)
class Table:
    """The table that is there."""

    name: str  # with its database, for people
    engine: str
    engine_full: str  # with its settings
    columns: tuple[Column, ...]

    @property
    def window(self) -> str | None:
        """The setting that says how many inserts it remembers; None: it is no MergeTree."""
        if not self.engine.endswith("MergeTree"):
            return None
        shared = self.engine.startswith(("Replicated", "Shared"))
        return f"{'' if shared else 'non_'}replicated_deduplication_window"


@dataclass(frozen=True, slots=True)
class Target:
    """A column that is written."""

    name: str
    takes_null: bool


def look(web: Web, database: str, name: str) -> Table:
    """The table as it is now.

    Raises:
        OptionError: there is none, or the login does not see it.
        TransientError, Denied, SinkError: see `clickhouse_server.select`.
    """
    known = {"database": database, "table": name}
    engines = select(web, _ENGINE, known)
    columns = tuple(Column(*row) for row in select(web, _COLUMNS, known))
    if not engines or not columns:
        raise OptionError(
            f"clickhouse.table: there is no table {database}.{name} that this login may see: make "
            "it, or correct clickhouse.database and clickhouse.table"
        )
    return Table(f"{database}.{name}", engines[0][0], engines[0][1], columns)


def match(table: Table, fields: Sequence[schema.Field]) -> tuple[Target, ...]:
    """The columns that are written. Ours stay out where the table has none of that name.

    Raises:
        OptionError: a column is missing, is the server's own, or has another type.
    """
    by_name = {column.name: column for column in table.columns}
    targets = []
    for item in fields:
        column = by_name.get(item.name)
        if column is not None:
            targets.append(_target(table, item, column))
        elif item.name not in _OURS:
            raise OptionError(
                f"clickhouse.table: {table.name} has no column {item.name!r}: add it as "
                f"{_made_of(item)}, or take the field out of payload.schema"
            )
    return tuple(targets)


def _target(table: Table, item: schema.Field, column: Column) -> Target:
    if column.kind in ("MATERIALIZED", "ALIAS"):
        raise OptionError(
            f"clickhouse.table: {table.name}.{column.name} is {column.kind}, which the server "
            "fills in itself: take the field out of payload.schema"
        )
    if not fits(item.type, column.type, unsigned=item.name in _COUNTS):
        raise OptionError(
            f"clickhouse.table: {table.name}.{column.name} is {column.type}, which does not hold "
            f"every {schema.to_ddl(item.type)} of the payload's {item.name!r} as it is: make it "
            f"{_made_of(item)}, or change the field in payload.schema"
        )
    return Target(column.name, parse(column.type).takes_null)


def _made_of(item: schema.Field) -> str:
    return made_of(item.type, nullable=item.nullable)


def check_deduplicates(web: Web, table: Table) -> None:
    """Whether the table knows an insert again by its token.

    Raises:
        OptionError: it does not.
        TransientError, Denied, SinkError: see `clickhouse_server.select`.
    """
    if table.window is None:
        raise OptionError(
            f"sink.delivery: ExactlyOnce needs a table that deduplicates, and {table.name} is "
            f"{table.engine}: make it a MergeTree with non_replicated_deduplication_window, or a "
            "replicated one, or choose AtLeastOnce"
        )
    own = re.search(rf"\b{table.window} = '?(\d+)", table.engine_full)
    if own is not None:
        size = int(own[1])
    else:
        found = select(web, _DEFAULT, {"name": table.window})
        size = int(found[0][0]) if found else 0
    if size == 0:
        raise OptionError(
            f"sink.delivery: ExactlyOnce needs a table that deduplicates, and {table.name} does "
            f"not: ALTER TABLE {table.name} MODIFY SETTING {table.window} = 10000, or choose "
            "AtLeastOnce"
        )

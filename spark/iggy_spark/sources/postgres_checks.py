"""Whether a database can be read as the settings want it. Everything here only looks."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from iggy_spark.errors import OptionError, SinkError
from iggy_spark.postgres import Connection
from iggy_spark.sources.postgres_link import TableName
from iggy_spark.sources.postgres_slot import Slot
from iggy_spark.sources.postgres_tables import (
    RELATIONS,
    VIEWS,
    Column,
    Table,
    columns,
    find,
    without_identity,
)

VERSION_MIN: Final = 14
_VERSION_STEP: Final = 10_000  # between major versions, in libpq's number
# The order of their values is that of time, if they are filled so, and none is too coarse.
CURSOR_TYPES: Final = (
    "smallint",
    "integer",
    "bigint",
    "numeric",
    "timestamp without time zone",
    "timestamp with time zone",
)
_ROLE: Final = """
select rolname::text, rolsuper or rolreplication
  or exists (select from pg_roles where rolname = 'rds_replication')
from pg_roles where rolname = current_user
"""  # Amazon's servers have that role in place of the attribute
_SLOTS: Final = """
select count(*), current_setting('max_replication_slots')::int from pg_replication_slots
"""
_UNIQUE: Final = """
select array_agg(a.attname::text) from pg_index i
join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any (i.indkey[0:i.indnkeyatts - 1])
where i.indrelid = %s and i.indisunique and i.indisvalid and i.indpred is null
  and i.indexprs is null group by i.indexrelid
"""
_LEADING: Final = """
select exists (select from pg_index i join pg_attribute a
  on a.attrelid = i.indrelid and a.attnum = i.indkey[0]
  where i.indrelid = %s and i.indisvalid and i.indpred is null and a.attname = %s)
"""

_log = logging.getLogger(__name__)


def changes(connection: Connection, slot: Slot, tables: Sequence[TableName], *, rows: bool) -> None:
    """For mode Changes; `rows`: those that are there already are sent first.

    Raises:
        SinkError: the server, or the user's rights, do not allow it.
        OptionError: a table, the slot or the publication does not fit.
        DataLoss: the slot is there, and the server has given it up.
    """
    _server(connection)
    (level,) = connection.execute("show wal_level").fetchone() or ("",)
    if level != "logical":
        raise SinkError(
            f"postgres.url: the server has wal_level {level}: changes need wal_level = logical, "
            "which takes a restart of the server; or use mode Polling"
        )
    user, may = connection.execute(_ROLE).fetchone() or ("", False)
    if not may:
        raise SinkError(
            f"postgres.credentialsPath: user {user} may not use replication slots: "
            f"alter role {user} replication"
        )
    found = {name: _changing(connection, name, rows=rows) for name in tables}
    if not slot.check_publication(connection, tables):
        _may_publish(connection, slot, found, user)
    state = slot.find(connection)
    if state is None:
        used, most = connection.execute(_SLOTS).fetchone() or (0, 0)
        if used >= most:
            raise SinkError(
                f"postgres.slot: all {most} replication slots of the server are taken: raise "
                "max_replication_slots, or drop slots that nobody uses"
            )
    elif state.unreserved:
        _log.warning(
            "slot %s holds %d bytes of the server's log, more than max_slot_wal_keep_size allows: "
            "the server gives it up at its next checkpoint",
            slot.name,
            state.held_bytes,
        )


def _server(connection: Connection) -> None:
    version = connection.info.server_version // _VERSION_STEP
    if version < VERSION_MIN:
        raise SinkError(f"postgres.url: PostgreSQL {version}: {VERSION_MIN} or newer is needed")
    if connection.info.parameter_status("server_encoding") == "SQL_ASCII":
        raise SinkError(
            "postgres.url: the database has encoding SQL_ASCII, so nobody knows which letters its "
            "bytes are: use one with UTF8"
        )


def _changing(connection: Connection, name: TableName, *, rows: bool) -> Table:
    table = _existing(connection, name)
    if table.kind not in RELATIONS:
        raise OptionError(f"postgres.tables: {name} is no table, so it has no changes of its own")
    if table.persistence != "p":
        raise OptionError(f"postgres.tables: {name} is unlogged: the log has no changes of it")
    bare = without_identity(connection, table)
    if bare is not None:
        raise OptionError(
            f"postgres.tables: {bare} has neither a primary key nor another replica identity, so "
            "its updates and deletes would fail once they are published: add a primary key, or "
            f"alter table {bare} replica identity full"
        )
    if rows and not table.readable:
        raise _unreadable(connection, name)
    if rows and not table.key:
        raise OptionError(
            f"postgres.snapshot: {name} has no primary key, by which its rows could be read in "
            "turn: add one, or leave snapshot out"
        )
    return table


def _may_publish(
    connection: Connection, slot: Slot, tables: dict[TableName, Table], user: str
) -> None:
    query = "select has_database_privilege(current_database(), 'create')"
    (may,) = connection.execute(query).fetchone() or (False,)
    foreign = next((name for name, table in tables.items() if not table.owned), None)
    if may and foreign is None:
        return
    lacking = "create in the database" if not may else f"the ownership of {foreign}"
    raise SinkError(
        f"postgres.publication: there is no {slot.publication!r}, and user {user} lacks {lacking} "
        f'to make it: let an owner run create publication "{slot.publication}" for table '
        f"{', '.join(map(str, tables))} with (publish_via_partition_root = true)"
    )


def _existing(connection: Connection, name: TableName) -> Table:
    table = find(connection, name)
    if table is None:
        raise OptionError(
            f"postgres.tables: there is no {name} in database {connection.info.dbname}; capital "
            "letters count"
        )
    return table


def _unreadable(connection: Connection, name: TableName) -> SinkError:
    user = connection.info.user
    return SinkError(
        f"postgres.tables: user {user} may not read {name}: grant select on {name} to {user}"
    )


def polling(
    connection: Connection, name: TableName, cursor: str, keys: Sequence[str]
) -> tuple[Table, dict[str, Column]]:
    """For mode Polling: what is polled, and its columns.

    Raises:
        SinkError: the server, or the user's rights, do not allow it.
        OptionError: the table or its columns do not fit.
    """
    _server(connection)
    table = _existing(connection, name)
    if table.kind not in RELATIONS + VIEWS:
        raise OptionError(f"postgres.tables: {name} is neither a table nor a view")
    if not table.readable:
        raise _unreadable(connection, name)
    found = {column.name: column for column in columns(connection, table, generated=True)}
    for field, wanted in (("cursorColumn", [cursor]), ("keyColumns", keys)):
        for column in wanted:
            if column not in found:
                raise OptionError(f"postgres.{field}: {name} has no column {column!r}")
    if found[cursor].base not in CURSOR_TYPES:
        raise OptionError(
            f"postgres.cursorColumn: {name}.{cursor} is {found[cursor].type}, and one that grows "
            f"with every new row is needed: {', '.join(CURSOR_TYPES)}"
        )
    if table.kind in RELATIONS:
        _check_indices(connection, (name, table), cursor, [found[key] for key in keys])
    return table, found


def _check_indices(
    connection: Connection, at: tuple[TableName, Table], cursor: str, keys: Sequence[Column]
) -> None:
    name, table = at
    for key in keys:
        if not key.is_required:
            raise OptionError(
                f"postgres.keyColumns: {name}.{key.name} may be null, which no order has a place "
                "for: make it NOT NULL, or use other columns"
            )
    told = {cursor, *(key.name for key in keys)}
    unique = [set(names) for (names,) in connection.execute(_UNIQUE, [table.oid]).fetchall()]
    if not any(names <= told for names in unique):
        raise OptionError(
            f"postgres.keyColumns: no unique index of {name} is on columns among "
            f"{', '.join(sorted(told))}, so they may not tell two rows apart: name the primary key"
        )
    (leads,) = connection.execute(_LEADING, [table.oid, cursor]).fetchone() or (False,)
    if not leads:
        names = ", ".join([cursor, *(key.name for key in keys)])
        _log.warning(
            "%s has no index that begins with %s, so every look at it reads the whole table: "
            "create index on %s (%s)",
            name,
            cursor,
            name,
            names,
        )

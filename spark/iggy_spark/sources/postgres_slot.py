"""The replication slot of a source, and the publication that says which tables it tells of.

A slot is read by SQL functions, which begin at its confirmed place each time and leave it there, so
that what was read can be read again. Facts: PostgreSQL 15, chapters 9.27.6, 49.2, 54.19.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import psycopg
from psycopg import sql

from iggy_spark.errors import DataLoss, OptionError, SinkError
from iggy_spark.postgres import Connection
from iggy_spark.retry import TransientError
from iggy_spark.sources.postgres_link import TableName, begin
from iggy_spark.sources.postgres_messages import lsn_number, lsn_text

PLUGIN: Final = "pgoutput"
NAME_CHARS_MAX: Final = 63  # PostgreSQL cuts longer names
IN_USE_S: Final = 0.1  # until a slot that somebody else reads is asked for again
ROWS_MAX: Final = (1 << 31) - 1  # that the functions can be asked for
_HASH_CHARS: Final = 8
_SLOT: Final = """
select plugin, database, confirmed_flush_lsn::text, restart_lsn::text, coalesce(wal_status, ''),
  active_pid, pg_current_wal_flush_lsn()::text
from pg_replication_slots where slot_name = %s
"""
_PEEK: Final = """pg_logical_slot_peek_binary_changes(%(slot)s, %(upto)s::pg_lsn, %(rows)s,
  'proto_version', '1', 'publication_names', %(publication)s)"""


def default_name(source: str) -> str:
    """A slot's name for a source's: lower letters, digits and underscores. What is lost of the name
    is made up for by a hash, so that no two sources get the same.
    """
    name = "iggy_" + re.sub("[^a-z0-9_]", "_", source.lower())
    if name == f"iggy_{source}" and len(name) <= NAME_CHARS_MAX:
        return name
    mark = "_" + sha256(source.encode()).hexdigest()[:_HASH_CHARS]
    return name[: NAME_CHARS_MAX - len(mark)] + mark


@dataclass(frozen=True, slots=True)
class State:
    """What the server says of a slot, and where its log ends."""

    confirmed: int  # everything before may be forgotten
    restart: int  # everything from here on is kept
    unreserved: bool  # what is kept is more than `max_slot_wal_keep_size` allows
    end: int  # of the log on the server's disk

    @property
    def held_bytes(self) -> int:
        """How much of the log is kept for this slot."""
        return max(0, self.end - self.restart)


@dataclass(frozen=True, slots=True)
class Slot:
    """One slot, with its publication."""

    name: str
    publication: str

    def find(self, connection: Connection) -> State | None:
        """What there is to know; None if there is no such slot.

        Raises:
            DataLoss: the server has thrown away what the slot kept.
            OptionError: it is a slot of another kind, or of another database.
            TransientError: it is being made just now.
        """
        found = connection.execute(_SLOT, [self.name]).fetchone()
        if found is None:
            return None
        plugin, database, confirmed, restart, status, pid, end = found
        if plugin != PLUGIN or database != connection.info.dbname:
            raise OptionError(
                f"postgres.slot: {self.name!r} is of plugin {plugin} in database {database}, and "
                f"{PLUGIN} in {connection.info.dbname} is needed: name another slot"
            )
        if status == "lost" or (restart is None and confirmed is not None):
            raise DataLoss(
                f"postgres.slot: the server has given up slot {self.name!r}, since more of the log "
                f"was kept for it than max_slot_wal_keep_size allows: changes are lost. {_ANEW}"
            )
        if confirmed is None or restart is None:
            raise TransientError(f"slot {self.name!r} is being made by process {pid}")
        return State(
            lsn_number(confirmed), lsn_number(restart), status == "unreserved", lsn_number(end)
        )

    def standing_at(self, connection: Connection, lsn: int) -> State:
        """The same for whoever has read up to `lsn`.

        Raises:
            DataLoss: the slot is gone, or cannot give what comes after `lsn`.
            OptionError, TransientError: as `find`.
        """
        state = self.find(connection)
        if state is None:
            raise DataLoss(
                f"postgres.slot: slot {self.name!r} is gone: what was changed since "
                f"{lsn_text(lsn)} may be lost. Was it dropped, or the database restored, or is "
                f"this a server that took over? {_ANEW}"
            )
        if state.confirmed > lsn:
            raise DataLoss(
                f"postgres.slot: slot {self.name!r} stands at {lsn_text(state.confirmed)}, and the "
                f"checkpoint at {lsn_text(lsn)}: somebody else reads this slot, or the checkpoint "
                "is an old one. Give each source a slot of its own; without the checkpoint the job "
                "goes on where the slot stands"
            )
        if lsn > state.end:
            raise DataLoss(
                f"postgres.slot: the checkpoint stands at {lsn_text(lsn)}, and the server's log "
                f"ends at {lsn_text(state.end)}: was the database restored from a backup? {_ANEW}"
            )
        return state

    def make(self, connection: Connection, tables: Sequence[TableName]) -> None:
        """Make what is missing: first the publication, since a slot knows only those that were
        there when it was made.

        Raises:
            SinkError: the server has no room for another slot.
            OptionError: the publication does not tell of these tables.
        """
        if not self.check_publication(connection, tables):
            names = sql.SQL(", ").join(table.quoted for table in tables)
            query = sql.SQL(
                "create publication {} for table {} with (publish_via_partition_root = true)"
            )
            connection.execute(query.format(sql.Identifier(self.publication), names))
            connection.commit()
            begin(connection)
        if self.find(connection) is None:
            query_slot = "select pg_create_logical_replication_slot(%s, %s)"
            try:
                connection.execute(query_slot, [self.name, PLUGIN])
            except psycopg.errors.ConfigurationLimitExceeded as error:
                raise SinkError(
                    "postgres.slot: the server has no room for another slot: raise "
                    "max_replication_slots, or drop slots that nobody uses"
                ) from error

    def check_publication(self, connection: Connection, tables: Sequence[TableName]) -> bool:
        """Whether it is there.

        Raises:
            OptionError: it does not tell of these tables.
        """
        there = "select 1 from pg_publication where pubname = %s"
        if connection.execute(there, [self.publication]).fetchone() is None:
            return False
        query = "select schemaname, tablename from pg_publication_tables where pubname = %s"
        rows = connection.execute(query, [self.publication]).fetchall()
        told = {TableName(*row) for row in rows}
        for table in tables:
            if table not in told:
                name = sql.Identifier(self.publication).as_string(connection)
                raise OptionError(
                    f"postgres.tables: publication {self.publication!r} does not tell of {table}: "
                    f"alter publication {name} add table {table.quoted.as_string(connection)}"
                )
        return True

    def peek(self, connection: Connection, upto: int) -> Generator[bytes]:
        """The messages of all transactions whose commit begins before `upto`, from the confirmed
        place on, and perhaps of one more. They pass one by one, whatever their size; the server
        keeps them in a temporary file meanwhile.

        Raises:
            TransientError: somebody else reads the slot.
        """
        query = sql.SQL(f"select data from {_PEEK}")
        with connection.cursor(binary=True) as cursor, _alone():
            for (data,) in cursor.stream(query, self._asked(upto, None)):
                yield data

    def plan(self, connection: Connection, query: str, **asked: Any) -> tuple[Any, ...]:
        """The row that a query returns, which says {peek} where it reads the slot."""
        text = query.format(peek=_PEEK)
        with _alone():
            found = connection.execute(
                text.encode(), self._asked(asked.pop("upto"), asked.pop("rows")) | asked
            ).fetchone()
        assert found is not None, "it is an aggregate"
        return found

    def advance(self, connection: Connection, lsn: int) -> None:
        """Everything before `lsn` may be forgotten. Twice is as good as once.

        Raises:
            DataLoss: the slot is gone or given up.
            TransientError: somebody reads the slot.
        """
        state = self.find(connection)
        if state is None:
            self.standing_at(connection, lsn)  # says it
        elif state.confirmed < lsn:
            with _alone():
                query = "select pg_replication_slot_advance(%s, %s::pg_lsn)"
                connection.execute(query, [self.name, lsn_text(lsn)])

    def _asked(self, upto: int, rows: int | None) -> dict[str, Any]:
        return {
            "slot": self.name,
            "upto": lsn_text(upto),
            "rows": rows,
            "publication": _quoted_word(self.publication),
        }


@contextmanager
def _alone() -> Iterator[None]:
    """Around calls that one process at a time may make."""
    try:
        yield
    except psycopg.errors.ObjectInUse as error:
        raise TransientError(
            f"{error.diag.message_primary}: another process reads it; each source needs a slot of "
            "its own",
            after_s=IN_USE_S,
            cause="conflict",
        ) from error
    except psycopg.errors.UndefinedObject as error:
        raise DataLoss(
            f"postgres.slot: {error.diag.message_primary}: what was changed since it was dropped "
            f"cannot be told. {_ANEW}"
        ) from error


_ANEW = "Drop the slot, delete the checkpoint, and start with snapshot: true to have all rows again"


def _quoted_word(name: str) -> str:
    """As lists of names in options are read: in double quotes."""
    return '"' + name.replace('"', '""') + '"'

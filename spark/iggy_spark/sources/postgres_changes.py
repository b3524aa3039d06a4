"""Mode Changes: all changes of some tables by logical decoding, in the order of their commits.

A position is a place in the server's log: transactions whose commit begins before it are done. A
batch ends where a transaction ends. The slot follows one batch later, so that a batch that is read
again is the same, and whatever dies, nothing between the slot and the position is forgotten.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from iggy_spark.errors import SinkError
from iggy_spark.postgres import Connection
from iggy_spark.retry import Retry
from iggy_spark.source_blocks import Postgres
from iggy_spark.sources import postgres_checks
from iggy_spark.sources.base import Position
from iggy_spark.sources.postgres_decode import Begin, Change, Decoder
from iggy_spark.sources.postgres_link import Link, parse_table
from iggy_spark.sources.postgres_messages import Changes, lsn_number, lsn_text
from iggy_spark.sources.postgres_slot import ROWS_MAX, Slot, default_name
from iggy_spark.sources.postgres_snapshot import Snapshot
from iggy_spark.sources.postgres_stream import Place, Placed, stream
from iggy_spark.sources.postgres_tables import primary_keys, user_types

LOOK_BYTES: Final = 1 << 30  # of the log that are looked through at a time
# Of the log without a change of ours, after which the position moves all the same: else the slot
# would keep the log of a server whose other tables are busy.
IDLE_BYTES: Final = 16 << 20
ROWS_SPARE: Final = 1000  # for the begin, end and table messages of small transactions

_PLAN: Final = """
with told as (
  select case get_byte(data, 0) when 67 then data end as data, number,
    count(*) filter (where get_byte(data, 0) in (68, 73, 84, 85)) over (order by number) as changes
  from {peek} with ordinality as p (lsn, xid, data, number)
), done as (
  select number, changes, encode(substr(data, 3, 8), 'hex') collate "C" as at,
    encode(substr(data, 11, 8), 'hex') collate "C" as after from told where data is not null
), base as (select coalesce(max(changes), 0) as changes from done where at < %(start)s)
select (select coalesce(max(number), 0) from told),
  coalesce(max(done.changes) - max(base.changes), 0),
  max(after) filter (where done.changes - base.changes <= %(most)s),
  min(after) filter (where done.changes > base.changes)
from done, base where at >= %(start)s
"""


@dataclass(frozen=True, slots=True)
class Look:
    """What is seen when the log is looked through. Places are ends of transactions."""

    rows: int  # of the answer, with those before the start
    changes: int  # behind the start
    fitting: int | None  # the last end with no more changes before it than are wanted
    first: int | None  # the first end with a change before it


def decide(start: int, upto: int, look: Look, *, asked: int) -> int | None:
    """Where a batch ends, `start` if nothing is new; None: look again, for more rows than `asked`.

    A transaction that is larger than a batch comes as a whole.
    """
    if look.first is not None:
        return max(look.first, look.fitting or 0)
    if look.rows >= asked:
        return None
    return upto if upto - start >= IDLE_BYTES else start


class ChangesSource:
    """See `base.Source`. `snapshot` in a position: rows that were there are being sent."""

    def __init__(self, block: Postgres, *, name: str, retry: Retry) -> None:
        """Connects to nothing yet.

        Raises:
            OptionError: the settings do not fit each other.
        """
        self._link = Link(block, retry)
        self._name = name
        self._tables = [parse_table(text) for text in block.tables]
        slot = block.slot or default_name(name)
        self._slot = Slot(slot, block.publication or slot)
        self._snapshot = Snapshot(name, self._tables, self._slot)
        self._sends_rows = block.snapshot
        self._frozen: int | None = None
        self._quiet: tuple[int, int] | None = None  # start, and where the log ended: nothing new

    def check(self) -> None:
        """See `base.Source`."""
        self._link.call(self._check)

    def _check(self, connection: Connection) -> None:
        postgres_checks.changes(connection, self._slot, self._tables, rows=self._sends_rows)

    def first(self) -> Position:
        """Make publication and slot. A slot that is there is gone on with where it stands."""

        def work(connection: Connection) -> str:
            self._check(connection)
            self._slot.make(connection, self._tables)
            state = self._slot.find(connection)
            if state is None:
                raise SinkError(f"postgres.slot: {self._slot.name!r} was dropped as it was made")
            return lsn_text(state.confirmed)

        lsn = self._link.call(work)
        return self._snapshot.first(self._link, lsn) if self._sends_rows else {"lsn": lsn}

    def freeze(self) -> None:
        """See `base.Freezing`."""
        self._frozen = self._link.call(_log_end)

    def latest(self, start: Position, messages_max: int) -> Position:
        """See `base.Source`.

        Raises:
            DataLoss: the slot is gone, or does not stand where it should.
        """
        if "snapshot" in start:
            return self._link.call(
                lambda connection: self._snapshot.latest(connection, start, messages_max)
            )
        lsn = lsn_number(start["lsn"])

        def work(connection: Connection) -> int:
            state = self._slot.standing_at(connection, lsn)
            end = state.end if self._frozen is None else min(state.end, self._frozen)
            if self._quiet == (lsn, end) or end <= lsn:
                return lsn
            found = self._look(connection, lsn, min(end, lsn + LOOK_BYTES), messages_max)
            if found == lsn:
                self._quiet = lsn, end
            return found

        end = self._link.call(work)
        return start if end == lsn else {"lsn": lsn_text(end)}

    def _look(self, connection: Connection, start: int, upto: int, messages_max: int) -> int:
        asked = 2 * messages_max + ROWS_SPARE
        while True:
            rows, changes, fitting, first = self._slot.plan(
                connection,
                _PLAN,
                upto=upto,
                rows=min(asked, ROWS_MAX),
                start=f"{start:016x}",
                most=messages_max,
            )
            look = Look(rows, changes, _place(fitting), _place(first))
            found = decide(start, upto, look, asked=asked)
            if found is not None:
                return found
            asked *= 4

    def split(self, start: Position, end: Position) -> Sequence[Mapping[str, Any]]:
        """One part: a slot has one reader, and the order of changes matters."""
        return [] if start == end else [{}]

    def read(
        self, start: Position, end: Position, part: Mapping[str, Any]
    ) -> Iterator[pa.RecordBatch]:
        """See `base.Source`."""
        if "snapshot" in start:
            return self._snapshot.read(self._link, start, end)
        span = lsn_number(start["lsn"]), lsn_number(end["lsn"])
        return stream(self._link, lambda connection, done: self._changes(connection, span, done))

    def _changes(
        self, connection: Connection, span: tuple[int, int], done: Place | None
    ) -> Generator[Placed]:
        """The messages of a range behind `done`: commit, change in it, message of it."""
        start, end = span
        self._slot.standing_at(connection, start)
        made = Changes(self._name, user_types(connection), primary_keys(connection, self._tables))
        ours = {(table.schema, table.table) for table in self._tables}
        decoder, transaction, index = Decoder(), Begin(0, 0, 0), 0
        with closing(self._slot.peek(connection, end)) as messages:
            for told in decoder.read(messages):
                if isinstance(told, Begin):
                    transaction, index = told, -1
                elif isinstance(told, Change):
                    index += 1
                    if not start <= transaction.lsn < end:
                        continue  # the slot is behind, or had one more to tell
                    if (told.relation.schema, told.relation.name) not in ours:
                        continue
                    for number, message in enumerate(made.messages(transaction, index, told)):
                        place = (transaction.lsn, index, number)
                        if done is None or place > done:
                            yield place, message

    def done(self, end: Position) -> None:
        """The slot moves; while rows are sent that were there before, it stays."""
        lsn = lsn_number(end["lsn"])
        self._link.call(lambda connection: self._slot.advance(connection, lsn))

    def behind(self, at: Position) -> int | None:
        """0, or nobody knows: a place in the log tells bytes."""
        if "snapshot" in at:
            return None
        return 0 if self._link.call(_log_end) <= lsn_number(at["lsn"]) else None

    def close(self) -> None:
        """See `base.Source`."""
        self._link.close()


def _log_end(connection: Connection) -> int:
    found = connection.execute("select pg_current_wal_flush_lsn()::text").fetchone()
    assert found is not None, "one row"
    return lsn_number(found[0])


def _place(text: str | None) -> int | None:
    """From hexadecimal digits."""
    return None if text is None else int(text, 16)

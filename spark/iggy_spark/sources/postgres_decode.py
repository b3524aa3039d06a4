"""The messages of PostgreSQL's output plugin pgoutput, protocol version 1 (PostgreSQL 15, chapters
55.5 and 55.9). Bytes in, values out; numbers are big-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Final, Literal

from iggy_spark.errors import SinkError


class Unchanged(Enum):
    """Stands for a value that is stored apart (TOAST), was not changed, and so is not told."""

    VALUE = "unchanged"


Value = bytes | None | Unchanged
Row = Sequence[Value]
Kind = Literal["insert", "update", "delete", "truncate"]

_KEY_FLAG: Final = 1
_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_BEGIN = struct.Struct(">QqI")
_COMMIT = struct.Struct(">BQQq")
_U8, _U16, _U32 = struct.Struct(">B"), struct.Struct(">H"), struct.Struct(">I")
_COLUMN = struct.Struct(">Ii")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table at the time of a change."""

    name: str
    type: int  # oid
    is_key: bool  # of the replica identity


@dataclass(frozen=True, slots=True, eq=False)
class Relation:
    """A table as it was at the time of a change."""

    oid: int
    schema: str
    name: str
    identity: str  # d: primary key, f: all columns, i: an index, n: none
    columns: tuple[Column, ...]

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True)
class Begin:
    """A transaction. Transactions come in the order of their commits, each as a whole."""

    lsn: int  # of its commit
    time_us: int  # of its commit, since 2000
    xid: int

    @property
    def time(self) -> str:
        """When it was committed, as text."""
        moment = _EPOCH + timedelta(microseconds=self.time_us)
        return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class Commit:
    """The end of a transaction."""

    lsn: int
    end: int  # where the log goes on


@dataclass(frozen=True, slots=True)
class Change:
    """One row, or for a truncate one table. `old` is there as far as the replica identity tells."""

    kind: Kind
    relation: Relation
    new: Row = ()
    old: Row | None = None
    old_is_whole: bool = False  # else the columns of the key alone


class Decoder:
    """Reads the messages of one answer in their order, and knows the tables they speak of."""

    def __init__(self) -> None:
        self._relations: dict[int, Relation] = {}

    def read(self, messages: Iterable[bytes]) -> Iterator[Begin | Commit | Change]:
        """What they tell, but for those that describe tables and types.

        Raises:
            SinkError: no such message is known.
        """
        for message in messages:
            yield from self._read(message)

    def _read(self, message: bytes) -> Iterator[Begin | Commit | Change]:
        body = _Body(message)
        match body.letter():
            case "B":
                yield Begin(*body.take(_BEGIN))
            case "C":
                _, lsn, end, _ = body.take(_COMMIT)
                yield Commit(lsn, end)
            case "R":
                relation = _relation(body)
                self._relations[relation.oid] = relation
            case "Y" | "O" | "M":  # a type, an origin, a message of somebody's own
                pass
            case letter:
                yield from self._changes(letter, body)

    def _changes(self, letter: str, body: _Body) -> Iterator[Change]:
        match letter:
            case "I":
                relation = self._relations[body.number(_U32)]
                body.letter()  # N
                yield Change("insert", relation, _row(body))
            case "U":
                yield self._update(body)
            case "D":
                relation = self._relations[body.number(_U32)]
                whole = body.letter() == "O"
                yield Change("delete", relation, old=_row(body), old_is_whole=whole)
            case "T":
                count, _ = body.number(_U32), body.number(_U8)
                for _ in range(count):
                    yield Change("truncate", self._relations[body.number(_U32)])
            case _:
                raise SinkError(f"postgres.url: pgoutput sent {letter!r}, not of its version 1")

    def _update(self, body: _Body) -> Change:
        relation = self._relations[body.number(_U32)]
        letter, old = body.letter(), None
        whole = letter == "O"
        if letter in "KO":
            old = _row(body)
            body.letter()  # N
        return Change("update", relation, _row(body), old, whole)


class _Body:
    """A message, read from its start to its end."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def letter(self) -> str:
        self._at += 1
        return chr(self._data[self._at - 1])

    def take(self, layout: struct.Struct) -> tuple[int, ...]:
        found = layout.unpack_from(self._data, self._at)
        self._at += layout.size
        return found

    def number(self, layout: struct.Struct) -> int:
        return self.take(layout)[0]

    def bytes(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]

    def text(self) -> str:
        end = self._data.index(0, self._at)
        found = self._data[self._at : end].decode()
        self._at = end + 1
        return found


def _relation(body: _Body) -> Relation:
    oid, schema, name = body.number(_U32), body.text(), body.text()
    identity = body.letter()
    columns = []
    for _ in range(body.number(_U16)):
        flags, column = body.number(_U8), body.text()
        kind, _ = body.take(_COLUMN)
        columns.append(Column(column, kind, bool(flags & _KEY_FLAG)))
    # An empty name stands for pg_catalog.
    return Relation(oid, schema or "pg_catalog", name, identity, tuple(columns))


def _row(body: _Body) -> Row:
    values: list[Value] = []
    for _ in range(body.number(_U16)):
        match body.letter():
            case "t":
                values.append(body.bytes(body.number(_U32)))
            case "n":
                values.append(None)
            case "u":
                values.append(Unchanged.VALUE)
            case other:
                raise SinkError(f"postgres.url: pgoutput sent a value of kind {other!r}")
    return values

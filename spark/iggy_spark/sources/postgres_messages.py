"""Changes and rows of PostgreSQL → messages: ids, keys and payloads in JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec
import pyarrow as pa

from iggy_spark.sources.base import message_id, record_batch
from iggy_spark.sources.postgres_decode import (
    Begin,
    Change,
    Kind,
    Relation,
    Row,
    Unchanged,
    Value,
)
from iggy_spark.sources.postgres_values import NULL, Encode, Types

BATCH_ROWS: Final = 2000  # at a time in memory
BATCH_BYTES: Final = 8 << 20  # of payloads, after which a batch is handed on

Keys = Mapping[str, Sequence[str]]
"""schema.table → columns of its primary key."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a source."""

    id: bytes
    key: bytes
    payload: bytes


def _json(value: str | Sequence[str]) -> bytes:
    return msgspec.json.encode(value)


class Fields:
    """Rows of one shape → objects."""

    def __init__(self, names: Sequence[str], encoders: Sequence[Encode]) -> None:
        """Of each column, in the order of the values."""
        self.names = tuple(names)
        self._parts = [
            (_json(name) + b":", encode) for name, encode in zip(names, encoders, strict=True)
        ]

    def object(self, row: Row, columns: Iterable[int] | None = None) -> bytes:
        """A row, or these columns of it, without values that were not told."""
        places = range(len(self._parts)) if columns is None else columns
        written = []
        for place in places:
            value = row[place]
            if value is not Unchanged.VALUE:
                name, encode = self._parts[place]
                written.append(name + (NULL if value is None else encode(value)))
        return b"{" + b",".join(written) + b"}"


class _Table:
    """A relation as its changes are written."""

    def __init__(self, relation: Relation, types: Types, keys: Keys) -> None:
        columns = relation.columns
        self.fields = Fields(
            [column.name for column in columns], [types.encoder(column.type) for column in columns]
        )
        self.name = _json(str(relation))
        if relation.identity == "f":  # all columns are marked then
            primary = frozenset(keys.get(str(relation), ()))
            self.key = [i for i, column in enumerate(columns) if column.name in primary]
            if len(self.key) != len(primary):
                self.key = []
        else:
            self.key = [i for i, column in enumerate(columns) if column.is_key]

    def key_of(self, row: Row) -> bytes:
        return self.fields.object(row, self.key)


class Changes:
    """Makes the messages of one answer's changes."""

    def __init__(self, source: str, types: Types, keys: Keys) -> None:
        """`source` is its name; `keys` matter for tables whose identity is the whole row."""
        self._source, self._types, self._keys = source, types, keys
        self._tables: dict[Relation, _Table] = {}

    def messages(self, begin: Begin, index: int, change: Change) -> Iterator[Message]:
        """Those of one change: two, if a row has got another key. `index` counts the changes of its
        transaction from 0.
        """
        table = self._tables.get(change.relation)
        if table is None:
            table = _Table(change.relation, self._types, self._keys)
            self._tables[change.relation] = table
        change = replace(change, new=_filled(change, table.key))
        at = _At(self._source, begin, index, table)
        if change.kind == "truncate":
            yield at.message("truncate", b"{}", b"")
            return
        before = None
        if change.old is not None:
            columns = None if change.old_is_whole else table.key
            before = table.fields.object(change.old, columns)
        old_key = None if change.old is None else table.key_of(change.old)
        if change.kind == "delete":
            assert old_key is not None, "pgoutput tells what is deleted"
            yield at.message("delete", old_key, _part("before", before))
            return
        key = table.key_of(change.new)
        if old_key not in (None, key):
            # Whoever has the old key may be reading another partition.
            yield at.message("delete", old_key, _part("before", before))
        body = _part("before", before) + _part("after", table.fields.object(change.new))
        yield at.message(change.kind, key, body + _unchanged(table, change.new))


@dataclass(frozen=True, slots=True)
class _At:
    """One change, and how its messages are called."""

    source: str
    begin: Begin
    index: int
    table: _Table

    def message(self, kind: Kind, key: bytes, body: bytes) -> Message:
        begin = self.begin
        # The time and the number of the transaction tell apart what two histories of a database,
        # one of them restored from a backup, have at the same place.
        name = message_id(
            self.source, begin.lsn, begin.xid, begin.time_us, self.index, kind, self.table.name
        )
        payload = b'{"op":"%b","table":%b,"key":%b%b,"lsn":"%b","index":%d,"time":"%b"}' % (
            kind.encode(),
            self.table.name,
            key,
            body,
            lsn_text(begin.lsn).encode(),
            self.index,
            begin.time.encode(),
        )
        return Message(name, key, payload)


def _part(name: str, value: bytes | None) -> bytes:
    return b"" if value is None else b',"%b":%b' % (name.encode(), value)


def _unchanged(table: _Table, row: Row) -> bytes:
    names = [
        name
        for name, value in zip(table.fields.names, row, strict=True)
        if value is Unchanged.VALUE
    ]
    return _part("unchanged", _json(names)) if names else b""


def _filled(change: Change, key: Sequence[int]) -> Row:
    """The new row; values that were not told are taken from the old one as far as that has them."""
    if change.old is None:
        return change.new
    told = range(len(change.new)) if change.old_is_whole else key
    row: list[Value] = list(change.new)
    for place in told:
        if place < len(row) and row[place] is Unchanged.VALUE:
            row[place] = change.old[place]
    return row


class Rows:
    """Makes messages of rows that a query returns. The row itself goes into the id: read again, a
    row may have changed, and is another message then.
    """

    def __init__(self, source: str, table: str, fields: Fields) -> None:
        """`fields` are the query's columns."""
        self._source, self._table, self._fields = source, table, fields

    def read(self, row: Row, key: Sequence[int], lsn: str, time: str) -> Message:
        """A row of a snapshot. `key` are the places of the primary key."""
        key_json, body = self._fields.object(row, key), self._fields.object(row)
        payload = b'{"op":"read","table":%b,"key":%b,"after":%b,"lsn":"%b","index":0,"time":"%b"}'
        return Message(
            message_id(self._source, "read", self._table, key_json, lsn, body),
            key_json,
            payload % (_json(self._table), key_json, body, lsn.encode(), time.encode()),
        )

    def polled(self, row: Row, columns: int, key: Sequence[int]) -> Message:
        """A row as it is: the first `columns` values. Behind them are those that it is ordered by,
        which go into the id too.
        """
        key_json = self._fields.object(row, key)
        body = self._fields.object(row, range(columns))
        order = [value for value in row[columns:] if isinstance(value, bytes)]
        name = message_id(self._source, "row", self._table, *order, body)
        return Message(name, key_json, body)


def batches(messages: Iterable[Message]) -> Iterator[pa.RecordBatch]:
    """Messages in portions of a bounded size, as `base.SCHEMA` has them."""
    held: list[Message] = []
    size = 0
    for message in messages:
        held.append(message)
        size += len(message.payload)
        if len(held) >= BATCH_ROWS or size >= BATCH_BYTES:
            yield _batch(held)
            held, size = [], 0
    if held:
        yield _batch(held)


def _batch(messages: Sequence[Message]) -> pa.RecordBatch:
    return record_batch(
        [message.id for message in messages],
        [message.payload for message in messages],
        [message.key for message in messages],
    )


def lsn_text(lsn: int) -> str:
    """A place in the log as PostgreSQL writes it: two hexadecimal numbers of 32 bits."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_number(text: str) -> int:
    """The same as a number.

    Raises:
        ValueError: it is none.
    """
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)

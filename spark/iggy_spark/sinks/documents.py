"""Rows → JSON documents, one for each message, for targets that take JSON.

How types are written:
- numbers as JSON numbers, DECIMAL with all its digits; NaN and infinity, which JSON has not, are
  null
- TIMESTAMP as RFC 3339 text in UTC with six digits of a second, such as
  2026-12-31T23:59:59.999999Z; TIMESTAMP_NTZ the same without Z; DATE as 2026-12-31
- BINARY as base64 text; ARRAY as a list, STRUCT and MAP as an object; null as null

A message whose JSON has no declared schema stays the text that it was; whoever decodes it has seen
that it is an object.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iggy_spark.errors import OptionError
from iggy_spark.payload import Payload
from iggy_spark.pylists import values_of
from iggy_spark.sinks import rows as table
from iggy_spark.worker_memory import without_collections
from iggy_wire.buffer import Buffer

DOCUMENT: Final = "document"  # the column of JSON without a declared schema
_POSITION = tuple(field.name for field in table.METADATA)
_ENCODER = msgspec.json.Encoder(decimal_format="number")
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_WHITE_SPACE: Final = tuple(b" \t\r\n")  # of JSON
_RFC3339 = "%Y-%m-%dT%H:%M:%S"  # %S has as many digits as the type: six


def refuse_raw(payload: Payload, *, target: str) -> None:
    """Bytes are no document.

    Raises:
        OptionError: the payload is declared as Raw.
    """
    if payload.format == "raw":
        raise OptionError(
            f"payload.format: Raw: {target} takes JSON documents: choose Json, or Text for "
            "messages that are text"
        )


class Documents:
    """Makes documents of rows."""

    def __init__(self, payload: Payload, *, position: bool = True) -> None:
        """With `position` a document has the fields iggy_partition_id, iggy_offset and
        iggy_timestamp behind its own.
        """
        self._position = position
        self._are_texts = payload.is_document
        self._kind: tuple[tuple[str, ...], Any] = ((), None)

    @without_collections()
    def of(self, rows: pa.RecordBatch) -> list[bytes]:
        """One document for each row, each on one line."""
        if self._are_texts:
            return self._of_texts(rows)
        encode = _ENCODER.encode
        return [encode(row) for row in self._objects(rows)]

    @without_collections()
    def lines(self, rows: pa.RecordBatch) -> Buffer:
        """The same documents in one piece, each with a line end behind it."""
        if not self._are_texts:
            return _ENCODER.encode_lines(list(self._objects(rows)))
        whole = _joined_at_once(rows) if self._position else None
        return b"\n".join([*self._of_texts(rows), b""]) if whole is None else whole

    def _objects(self, rows: pa.RecordBatch) -> Iterable[Any]:
        names = tuple(name for name in rows.schema.names if self._position or name not in _POSITION)
        columns = [plain(rows.column(name)) for name in names]
        return itertools.starmap(self._struct(names), zip(*columns, strict=True))

    def _struct(self, names: tuple[str, ...]) -> Callable[..., Any]:
        """A class of documents with these fields: quicker to encode than a dict for each."""
        if self._kind[0] != names:
            fields = [f"field_{number}" for number in range(len(names))]
            renamed = dict(zip(fields, names, strict=True))
            self._kind = (names, msgspec.defstruct("Document", fields, rename=renamed, gc=False))
        made: Callable[..., Any] = self._kind[1]
        return made

    def _of_texts(self, rows: pa.RecordBatch) -> list[bytes]:
        texts = [_one_line(text) for text in values_of(rows.column(DOCUMENT).cast(pa.binary()))]
        if not self._position:
            return texts
        return [_joined(*parts) for parts in zip(texts, *positions(rows), strict=True)]


def positions(rows: pa.RecordBatch) -> tuple[list[int], list[int], list[str]]:
    """Partition, offset and time (RFC 3339) of every row."""
    partitions, offsets, times = (plain(rows.column(name)) for name in _POSITION)
    return partitions, offsets, times


def plain(values: pa.Array) -> list[Any]:
    """The values as the encoder takes them, times as text, so that all are written alike."""
    if pa.types.is_timestamp(values.type):
        return _times(values)
    found = values_of(values)
    return [_plain(value) for value in found] if pa.types.is_nested(values.type) else found


def _plain(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    if isinstance(value, dict):
        return {_plain(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return value


def _times(values: pa.Array) -> list[str | None]:
    written: list[str | None] = values_of(_time_texts(values))
    return written


def _time_texts(values: pa.Array) -> pa.Array:
    # Messages of one batch often have one time: each is written once.
    found = values.view(pa.timestamp("us")).dictionary_encode()
    suffix = "" if values.type.tz is None else "Z"
    return pc.strftime(found.dictionary, format=_RFC3339 + suffix).take(found.indices)


def _one_line(text: bytes) -> bytes:
    """A document without line ends, which JSON text may have between its parts, and only there."""
    if b"\n" in text or b"\r" in text:
        return text.replace(b"\r", b" ").replace(b"\n", b" ")
    return text


def _joined(text: bytes, partition: int, offset: int, time: str) -> bytes:
    """A JSON object with the place of its message."""
    place = b'"iggy_partition_id":%d,"iggy_offset":%d,"iggy_timestamp":"%s"}' % (
        partition,
        offset,
        time.encode(),
    )
    if b'"iggy_' in text:  # perhaps a field of its own with such a name: no name may be there twice
        own = {name: raw for name, raw in _OBJECT.decode(text).items() if name not in _POSITION}
        text = _ENCODER.encode(own)
    inner = text.strip()[1:-1].strip()
    return b"{" + inner + b"," + place if inner else b"{" + place


def _joined_at_once(rows: pa.RecordBatch) -> Buffer | None:
    """The lines of all documents with their places, by Arrow alone; None if a document asks for a
    closer look: it is empty, has white space at its ends or line ends, or perhaps a name of ours.
    """
    texts = rows.column(DOCUMENT).cast(pa.binary())
    ends, data = _flat(texts)
    if not len(texts) or np.diff(ends).min() < len("{}"):
        return None
    whole = data[ends[0] : ends[-1]].tobytes()
    if any(mark in whole for mark in (b"\n", b"\r", b'"iggy_')):
        return None
    first, second = data[ends[:-1]], data[ends[:-1] + 1]
    before_last, last = data[ends[1:] - 2], data[ends[1:] - 1]
    if (first != ord("{")).any() or (second != ord('"')).any() or (last != ord("}")).any():
        return None
    if np.isin(before_last, _WHITE_SPACE).any():
        return None
    partitions, offsets, times = (rows.column(name) for name in _POSITION)
    lines = pc.binary_join_element_wise(
        pc.binary_slice(texts, 0, -1),
        b',"iggy_partition_id":', _bytes(partitions), b',"iggy_offset":', _bytes(offsets),
        b',"iggy_timestamp":"', _bytes(_time_texts(times)), b'"}\n',
        b"",
    )  # fmt: skip
    ends, data = _flat(lines)
    return memoryview(data)[ends[0] : ends[-1]]


def _flat(texts: pa.Array) -> tuple[Any, Any]:
    """Where the bytes of each begin and end, and all of them."""
    _, ends, data = texts.buffers()
    all_ends = np.frombuffer(ends, np.int32)[texts.offset :][: len(texts) + 1]
    return all_ends, np.frombuffer(data if data is not None else b"", np.uint8)


def _bytes(values: pa.Array) -> pa.Array:
    return values.cast(pa.string()).cast(pa.binary())


def field_values(payload: Payload, name: str) -> Callable[[pa.RecordBatch], Sequence[Any]]:
    """How to read the field `name` of every message: a text or a whole number, None where it is
    neither or missing.
    """
    if payload.is_document:
        kind = msgspec.defstruct("Only", [("value", Any, None)], rename={"value": name})
        decode = msgspec.json.Decoder(kind).decode
        return lambda rows: [
            _id_value(decode(text).value)  # type: ignore[attr-defined]
            for text in values_of(rows.column(DOCUMENT).cast(pa.binary()))
        ]
    return lambda rows: [_id_value(value) for value in values_of(rows.column(name))]


def _id_value(value: Any) -> str | int | None:
    return value if isinstance(value, (str, int)) and not isinstance(value, bool) else None

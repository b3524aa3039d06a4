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
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from iggy_spark.errors import OptionError
from iggy_spark.payload import Payload
from iggy_spark.sinks import rows as table

DOCUMENT: Final = "document"  # the column of JSON without a declared schema
_POSITION = tuple(field.name for field in table.METADATA)
_ENCODER = msgspec.json.Encoder(decimal_format="number")
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
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
        self._make = self._of_texts if payload.is_document else self._of_columns
        self._kind: tuple[tuple[str, ...], Any] = ((), None)

    def of(self, rows: pa.RecordBatch) -> list[bytes]:
        """One document for each row, each on one line."""
        return self._make(rows)

    def _of_columns(self, rows: pa.RecordBatch) -> list[bytes]:
        names = tuple(name for name in rows.schema.names if self._position or name not in _POSITION)
        made, encode = self._struct(names), _ENCODER.encode
        columns = [plain(rows.column(name)) for name in names]
        return [encode(made(*values)) for values in zip(*columns, strict=True)]

    def _struct(self, names: tuple[str, ...]) -> Callable[..., Any]:
        """A class of documents with these fields: quicker to encode than a dict for each."""
        if self._kind[0] != names:
            fields = [f"field_{number}" for number in range(len(names))]
            renamed = dict(zip(fields, names, strict=True))
            self._kind = (names, msgspec.defstruct("Document", fields, rename=renamed, gc=False))
        made: Callable[..., Any] = self._kind[1]
        return made

    def _of_texts(self, rows: pa.RecordBatch) -> list[bytes]:
        texts = [_one_line(text) for text in rows.column(DOCUMENT).cast(pa.binary()).to_pylist()]
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
    found: list[Any] = values.to_pylist(maps_as_pydicts="strict")
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
    # Messages of one batch often have one time: each is written once.
    found = values.view(pa.timestamp("us")).dictionary_encode()
    suffix = "" if values.type.tz is None else "Z"
    texts = pc.strftime(found.dictionary, format=_RFC3339 + suffix)
    written: list[str | None] = texts.take(found.indices).to_pylist()
    return written


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


def field_values(payload: Payload, name: str) -> Callable[[pa.RecordBatch], Sequence[Any]]:
    """How to read the field `name` of every message: a text or a whole number, None where it is
    neither or missing.
    """
    if payload.is_document:
        kind = msgspec.defstruct("Only", [("value", Any, None)], rename={"value": name})
        decode = msgspec.json.Decoder(kind).decode
        return lambda rows: [
            _id_value(decode(text).value)  # type: ignore[attr-defined]
            for text in rows.column(DOCUMENT).cast(pa.binary()).to_pylist()
        ]
    return lambda rows: [_id_value(value) for value in rows.column(name).to_pylist()]


def _id_value(value: Any) -> str | int | None:
    return value if isinstance(value, (str, int)) and not isinstance(value, bool) else None

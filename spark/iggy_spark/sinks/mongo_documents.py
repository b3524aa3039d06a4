"""Rows → BSON documents, one for each message.

How types are written:
- TINYINT, SMALLINT and INT as int, BIGINT as long, FLOAT and DOUBLE as double, DECIMAL as decimal,
  which has 34 digits; BINARY as binary
- TIMESTAMP and TIMESTAMP_NTZ as date, which ends at milliseconds: later digits are cut; DATE as the
  date of its midnight in UTC
- ARRAY as array, STRUCT and MAP as document, keys of a MAP as text; null as null

JSON without a declared schema becomes the document that it is: whole numbers as int or long, others
as double.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import bson
import msgspec
import pyarrow as pa
from bson.codec_options import CodecOptions, TypeRegistry
from bson.decimal128 import Decimal128
from bson.errors import BSONError
from bson.int64 import Int64
from bson.raw_bson import RawBSONDocument

from iggy_spark.payload import Payload
from iggy_spark.pylists import values_of
from iggy_spark.sinks.documents import DOCUMENT
from iggy_spark.sinks.web_chunks import Refused

DOCUMENT_BYTES_MAX: Final = 16 << 20  # of a MongoDB document
ID: Final = "_id"
INCARNATION: Final = "iggy_incarnation"  # of the topic; only where ids are those of a field

Value = Any
Convert = Callable[[Value], Value]


class BsonDocuments:
    """Makes documents of rows."""

    def __init__(self, payload: Payload) -> None:
        """For messages with this payload."""
        self._is_document = payload.is_document

    def of(self, rows: pa.RecordBatch) -> list[dict[str, Value]]:
        """The fields of each row, without an `_id` unless the message has one."""
        names = [name for name in rows.schema.names if not self._is_document or name != DOCUMENT]
        columns = [_values(rows.column(name)) for name in names]
        found = [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
        if not self._is_document:
            return found
        texts = values_of(rows.column(DOCUMENT))
        return [{**_read(text), **place} for text, place in zip(texts, found, strict=True)]


def _read(text: str) -> dict[str, Value]:
    try:
        found: dict[str, Value] = msgspec.json.decode(text)
    except msgspec.MsgspecError as error:  # a number that no double holds
        return {DOCUMENT: _Unfit(str(error))}
    return found


def encoded(id_: Value, fields: dict[str, Value]) -> RawBSONDocument | Refused:
    """One document under its id, or why there can be none of it."""
    try:
        found = bson.encode({ID: id_} | fields, codec_options=_OPTIONS)
    except (BSONError, OverflowError, ArithmeticError, UnicodeError) as error:
        return Refused(type(error).__name__, str(error) or "it has no form as BSON")
    if len(found) > DOCUMENT_BYTES_MAX:
        return Refused(
            "TooLarge", f"{len(found)} bytes; a document has {DOCUMENT_BYTES_MAX} at most"
        )
    return RawBSONDocument(found)


def _values(column: pa.Array) -> list[Value]:
    convert = _conversion(column.type)
    values: list[Value] = values_of(column)
    if convert is None:
        return values
    return [None if value is None else convert(value) for value in values]


def _conversion(kind: pa.DataType) -> Convert | None:
    """How a value that Arrow hands over becomes one of BSON; None: it is one."""
    if pa.types.is_nested(kind):
        return _of_parts(kind)
    if pa.types.is_int64(kind):
        return Int64
    if pa.types.is_decimal(kind):
        return _digits
    return _midnight if pa.types.is_date(kind) else None


def _of_parts(kind: pa.DataType) -> Convert:
    if pa.types.is_struct(kind):
        converts = {part.name: _conversion(part.type) for part in kind}
        return lambda value: {name: _kept(converts[name], part) for name, part in value.items()}
    if pa.types.is_map(kind):
        convert = _conversion(kind.item_type)
        return lambda value: {str(key): _kept(convert, part) for key, part in value.items()}
    convert = _conversion(kind.value_type)
    return lambda value: [_kept(convert, part) for part in value]


def _kept(convert: Convert | None, value: Value) -> Value:
    return value if value is None or convert is None else convert(value)


def _digits(value: Decimal) -> Decimal128 | _Unfit:
    try:
        return Decimal128(value)
    except ArithmeticError:
        return _Unfit(f"{value} has more than 34 digits")


@dataclass(frozen=True, slots=True)
class _Unfit:
    """Stands in a row for what BSON has no room for; told when the row is encoded."""

    reason: str


def _tell(value: Value) -> Value:
    if isinstance(value, _Unfit):
        raise OverflowError(value.reason)
    return value


_OPTIONS: Final = CodecOptions[dict[str, Any]](type_registry=TypeRegistry(fallback_encoder=_tell))


def _midnight(day: datetime.date) -> datetime.datetime:
    return datetime.datetime(day.year, day.month, day.day, tzinfo=datetime.UTC)

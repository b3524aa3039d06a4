"""Payloads → declared columns, inside the task that read them.

A payload that does not fit is never dropped: the caller gets its row and the reason. The rule for
JSON: one object per payload, by the JSON standard; a declared field must have its declared type and
no other is converted to it (no number from text, no text from an object, 1.0 is not an INT; an
integer is a DOUBLE); a missing field and null are null, and refused where the schema says NOT NULL;
fields that are not declared are ignored. Times are RFC 3339 text, UTC if they name no offset.
"""

from __future__ import annotations

import datetime
import decimal
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

import msgspec
import numpy as np
import pyarrow as pa

from iggy_spark import schema
from iggy_spark.arrow import ERROR
from iggy_spark.messages import Messages
from iggy_spark.payload import Payload

FLOAT_MAX = 3.4028234663852886e38


@dataclass(frozen=True, slots=True)
class Rejected:
    """A payload that does not fit: its row in the batch, what kind of fault, and the reason."""

    row: int
    kind: str  # MalformedJson, SchemaMismatch, MalformedText
    message: str
    stage: str = "decode"  # or transform
    transform: int | None = None  # which one, from 0; None unless the stage is transform


@dataclass(frozen=True, slots=True)
class Decoded:
    """Values of the good rows in order, the numbers of those rows, and the rest with reasons.

    Good, rejected and filtered together are all rows of the batch.
    """

    values: pa.Array
    good_rows: pa.Array | None  # None: every row is good
    rejected: tuple[Rejected, ...]
    filtered: int = 0  # messages that a transform dropped


class Decoder(Protocol):
    """Turns a batch of payloads into values."""

    def decode(self, payloads: pa.Array, messages: Messages) -> Decoded:
        """Decode every payload that can be. `messages` are those that the payloads belong to."""


def build(payload: Payload) -> Decoder | None:
    """The decoder of a payload; None for raw."""
    if payload.format == "raw":
        return None
    return TextDecoder() if payload.format == "text" else JsonDecoder(payload.fields)


def aligned_columns(decoded: Decoded, count: int) -> tuple[pa.Array, pa.Array]:
    """`value` and `error` columns with a row per payload: one of the two is null in each."""
    if not decoded.rejected:
        return decoded.values, pa.nulls(count, ERROR)
    assert decoded.good_rows is not None
    position = np.full(count, -1, dtype=np.int64)
    position[decoded.good_rows.to_numpy()] = np.arange(len(decoded.values))
    values = decoded.values.take(pa.array(position, mask=position < 0))
    errors: list[dict[str, str] | None] = [None] * count
    for bad in decoded.rejected:
        errors[bad.row] = {"stage": bad.stage, "class": bad.kind, "message": bad.message}
    return values, pa.array(errors, ERROR)


def _good_rows(count: int, rejected: Sequence[Rejected]) -> pa.Array | None:
    if not rejected:
        return None
    keep = np.ones(count, dtype=bool)
    keep[[bad.row for bad in rejected]] = False
    return pa.array(np.flatnonzero(keep))


def _views(payloads: pa.Array) -> list[memoryview]:
    """One view per payload, without copies. The array has no nulls and starts at its buffers."""
    _, ends_buffer, data_buffer = payloads.buffers()
    ends = np.frombuffer(ends_buffer, dtype=np.int32)[: len(payloads) + 1].tolist()
    data = memoryview(data_buffer) if data_buffer is not None else memoryview(b"")
    return [data[at:end] for at, end in itertools.pairwise(ends)]


class TextDecoder:
    """UTF-8 text."""

    def decode(self, payloads: pa.Array, messages: Messages) -> Decoded:
        """Check all payloads at once; look at single ones only when some are not UTF-8."""
        try:
            return Decoded(payloads.cast(pa.string()), None, ())
        except pa.ArrowInvalid:
            pass
        rejected = []
        for row, view in enumerate(_views(payloads)):
            try:
                str(view, "utf-8")
            except UnicodeDecodeError as error:
                rejected.append(Rejected(row, "MalformedText", f"not UTF-8: {error.reason}"))
        good = _good_rows(len(payloads), rejected)
        return Decoded(payloads.take(good).cast(pa.string()), good, tuple(rejected))


class JsonDecoder:
    """JSON objects with a declared schema."""

    def __init__(self, fields: tuple[schema.Field, ...]) -> None:
        """`fields` are the columns of the value."""
        self._type = schema.Struct(fields)
        self._decoder = msgspec.json.Decoder(_python_struct(fields))

    def decode(self, payloads: pa.Array, messages: Messages) -> Decoded:
        """Decode payload by payload: each is a document of its own."""
        rows: list[Any] = []
        numbers: list[int] = []
        rejected: list[Rejected] = []
        decode = self._decoder.decode
        for row, view in enumerate(_views(payloads)):
            try:
                rows.append(decode(view))
                numbers.append(row)
            except msgspec.ValidationError as error:
                rejected.append(Rejected(row, "SchemaMismatch", str(error)))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                rejected.append(Rejected(row, "MalformedJson", str(error)))
        try:
            values = _to_arrow(rows, self._type)
        except (pa.ArrowException, OverflowError, decimal.InvalidOperation):
            rows, numbers = self._only_convertible(rows, numbers, rejected)
            values = _to_arrow(rows, self._type)
        rejected.sort(key=lambda bad: bad.row)
        return Decoded(values, _good_rows(len(payloads), rejected), tuple(rejected))

    def _only_convertible(
        self, rows: list[Any], numbers: list[int], rejected: list[Rejected]
    ) -> tuple[list[Any], list[int]]:
        """The rows whose values fit their columns; the others join `rejected` with the field."""
        good_rows, good_numbers = [], []
        for row, number in zip(rows, numbers, strict=True):
            fault = self._fault(row)
            if fault is None:
                good_rows.append(row)
                good_numbers.append(number)
            else:
                rejected.append(Rejected(number, "SchemaMismatch", fault))
        return good_rows, good_numbers

    def _fault(self, row: Any) -> str | None:
        for item, value in zip(self._type.fields, msgspec.structs.astuple(row), strict=True):
            try:
                _to_arrow([value], item.type)
            except (pa.ArrowException, OverflowError, decimal.InvalidOperation):
                return f"value does not fit {schema.to_ddl(item.type)} - at `$.{item.name}`"
        return None


def _python_struct(fields: tuple[schema.Field, ...]) -> type[msgspec.Struct]:
    members: list[Any] = []
    renamed: dict[str, str] = {}
    for number, item in enumerate(fields):
        # Any text may be a JSON key, only an identifier may be a Python field.
        name = f"field_{number}"
        renamed[name] = item.name
        kind = _python_type(item.type)
        members.append((name, kind | None, None) if item.nullable else (name, kind))
    return msgspec.defstruct("Row", members, rename=renamed, frozen=True, gc=False, kw_only=True)


def _whole(bits: int) -> Any:
    return Annotated[int, msgspec.Meta(ge=-(1 << (bits - 1)), le=(1 << (bits - 1)) - 1)]


_PYTHON_TYPES: dict[str, Any] = {
    "BOOLEAN": bool,
    "TINYINT": _whole(8),
    "SMALLINT": _whole(16),
    "INT": _whole(32),
    "BIGINT": _whole(64),
    "FLOAT": Annotated[float, msgspec.Meta(ge=-FLOAT_MAX, le=FLOAT_MAX)],
    "DOUBLE": float,
    "STRING": str,
    "BINARY": bytes,  # base64, as JSON has no bytes
    "DATE": datetime.date,
    "TIMESTAMP": datetime.datetime,
    "TIMESTAMP_NTZ": Annotated[datetime.datetime, msgspec.Meta(tz=False)],
}


def _python_type(kind: schema.Type) -> Any:
    if isinstance(kind, schema.Struct):
        return _python_struct(kind.fields)
    if isinstance(kind, schema.Array):
        return list[_python_type(kind.element) | None]  # type: ignore[misc]
    return _PYTHON_TYPES.get(kind.ddl, decimal.Decimal)


def _to_arrow(values: Sequence[Any], kind: schema.Type) -> pa.Array:
    """Decoded values, None for null, as an Arrow array of the declared type."""
    if isinstance(kind, schema.Scalar):
        if kind.ddl.startswith("DECIMAL"):
            return _decimals(values, kind.arrow)
        return pa.array(values, kind.arrow)
    missing = [value is None for value in values]
    if isinstance(kind, schema.Array):
        return _lists(values, kind, missing)
    width = len(kind.fields)
    nothing = (None,) * width
    astuple = msgspec.structs.astuple
    rows = [nothing if value is None else astuple(value) for value in values]
    columns: Sequence[Sequence[Any]] = list(zip(*rows, strict=True)) if rows else [()] * width
    children = [_to_arrow(c, item.type) for c, item in zip(columns, kind.fields, strict=True)]
    mask = pa.array(missing, pa.bool_()) if any(missing) else None
    fields = [schema.arrow_field(item) for item in kind.fields]
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


def _lists(values: Sequence[Any], kind: schema.Array, missing: list[bool]) -> pa.Array:
    flat = [element for value in values if value is not None for element in value]
    lengths = [0 if value is None else len(value) for value in values]
    ends = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))).astype(np.int32)
    mask = pa.array(missing, pa.bool_()) if any(missing) else None
    return pa.ListArray.from_arrays(
        pa.array(ends), _to_arrow(flat, kind.element), type=schema.to_arrow(kind), mask=mask
    )


def _decimals(values: Sequence[decimal.Decimal | None], kind: pa.DataType) -> pa.Array:
    # Arrow refuses a value with more digits than the scale, and so the row is rejected: rounding
    # money silently is worse. NaN and Infinity are decimals to Python but to no database.
    for value in values:
        if value is not None and not value.is_finite():
            raise OverflowError("not a finite decimal")
    return pa.array(values, kind)

"""Rows of Arrow -> bytes of PostgreSQL's COPY BINARY, a column at a time.

A row of COPY is the number of its values, then each value with its length before it, or the length
-1 for null (PostgreSQL 15, "COPY", "Binary Format"). Each column becomes an array of such pieces,
and one call of pyarrow joins them row by row, so that no value ever becomes an object of Python.

The forms of values are those that the types' receive functions read:
    bool                   1 byte
    int2, int4, int8       big-endian
    float4, float8         big-endian IEEE 754
    text, bytea            the bytes, UTF-8
    jsonb                  1, then JSON text
    date                   int4, days since 2000
    timestamptz, timestamp int8, microseconds since 2000
    numeric                digits of base 10000, see `_numeric`
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

HEAD: Final = b"PGCOPY\n\xff\r\n\x00" + bytes(8)  # signature, flags, length of extensions
TAIL: Final = b"\xff\xff"
_NULL: Final = pa.scalar(b"\xff\xff\xff\xff", pa.binary())
_EPOCH_US: Final = 946_684_800_000_000  # 2000-01-01 after 1970-01-01
_EPOCH_DAYS: Final = 10_957
_INT64_MIN: Final = -(1 << 63)
_BASE: Final = 10_000
_BASE_DIGITS: Final = 4
_NEGATIVE: Final = 0x4000
_INT64_DIGITS: Final = 18  # decimal digits that always fit
_JSON = msgspec.json.Encoder(decimal_format="number")

_FIXED = {
    pa.bool_(): "u1",
    pa.int8(): ">i2",
    pa.int16(): ">i2",
    pa.int32(): ">i4",
    pa.int64(): ">i8",
    pa.float32(): ">f4",
    pa.float64(): ">f8",
}

Numbers = np.ndarray[Any, np.dtype[Any]]


def encode(rows: pa.RecordBatch) -> memoryview:
    """The rows as COPY takes them, without `HEAD` and `TAIL`."""
    count = pa.scalar(len(rows.columns).to_bytes(2, "big"), pa.binary())
    pieces = [piece for column in rows.columns for piece in _pieces(column)]
    joined = pc.binary_join_element_wise(count, *pieces, pa.scalar(b"", pa.binary()))
    _, ends, data = joined.buffers()
    last = int(np.frombuffer(ends, np.int32)[len(joined)]) if len(joined) else 0
    return memoryview(data)[:last] if data is not None else memoryview(b"")


def _pieces(column: pa.Array) -> list[pa.Array]:
    """Arrays whose values, one after the other, are the column's values with their lengths."""
    kind = column.type
    if pa.types.is_nested(kind):
        column = _json(column)
        kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        data = column.cast(pa.binary())
        lengths = pc.fill_null(pc.binary_length(data), -1).to_numpy()
        return [_bytes(lengths.astype(">i4")), pc.fill_null(data, b"")]
    found = _bytes(_fixed(column))
    return [found if not column.null_count else pc.if_else(pc.is_valid(column), found, _NULL)]


def _fixed(column: pa.Array) -> Numbers:
    """Values that all have the same size, with their lengths; what stands for null is any."""
    kind = column.type
    if pa.types.is_decimal(kind):
        return _numeric(column)
    if pa.types.is_timestamp(kind):
        return _sized(_since(column.cast(pa.int64()), _EPOCH_US, _INT64_MIN), ">i8")
    if pa.types.is_date32(kind):
        days = column.cast(pa.int32()).cast(pa.int64())
        return _sized(_since(days, _EPOCH_DAYS, -(1 << 31)), ">i4")
    if pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    return _sized(_filled(column), _FIXED[kind])


def _since(column: pa.Array, epoch: int, lowest: int) -> Numbers:
    """Counted from the year 2000. The lowest number would mean "-infinity": the one above it is
    as far out of range, and is refused as what it is.
    """
    values = _filled(column)
    return np.maximum(values, lowest + epoch + 1) - epoch


def _filled(column: pa.Array) -> Numbers:
    values: Numbers = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
    return values


def _sized(values: Numbers, form: str) -> Numbers:
    found = np.empty(len(values), dtype=[("length", ">i4"), ("value", form)])
    found["length"] = np.dtype(form).itemsize
    found["value"] = values
    return found


def _bytes(values: Numbers) -> pa.Array:
    """One binary value for each element of a contiguous array."""
    kind = pa.binary(values.dtype.itemsize)
    fixed = pa.FixedSizeBinaryArray.from_buffers(kind, len(values), [None, pa.py_buffer(values)])
    return fixed.cast(pa.binary())


def _numeric(column: pa.Array) -> Numbers:
    """Number of digits, weight of the first, sign, digits behind the point, and the digits, each
    of base 10000 (PostgreSQL 15, `numeric_recv`); leading and trailing zeros are allowed.
    """
    precision, scale = column.type.precision, column.type.scale
    before = -(-(precision - scale) // _BASE_DIGITS)
    behind = -(-scale // _BASE_DIGITS)
    digits = before + behind
    form = [("length", ">i4"), ("count", ">i2"), ("weight", ">i2"), ("sign", ">u2"),
            ("scale", ">u2"), ("digits", ">i2", (digits,))]  # fmt: skip
    found = np.empty(len(column), dtype=form)
    unscaled = _unscaled(column, wide=max(precision, _BASE_DIGITS * behind) > _INT64_DIGITS)
    found["length"] = 8 + 2 * digits
    found["count"] = digits
    found["weight"] = before - 1
    found["sign"] = np.where(unscaled < 0, _NEGATIVE, 0)
    found["scale"] = scale
    whole, part = _split(np.abs(unscaled), 10**scale)
    part = part * 10 ** (_BASE_DIGITS * behind - scale)
    for at in range(digits - 1, before - 1, -1):
        part, found["digits"][:, at] = _split(part, _BASE)
    for at in range(before - 1, -1, -1):
        whole, found["digits"][:, at] = _split(whole, _BASE)
    return found


def _split(values: Numbers, by: int) -> tuple[Numbers, Numbers]:
    return values // by, values % by  # np.divmod does not take objects


def _unscaled(column: pa.Array, *, wide: bool) -> Numbers:
    """The decimals without their point, as integers of Python where 64 bits may be too few."""
    words = np.frombuffer(column.buffers()[1], "<u8")[2 * column.offset :][: 2 * len(column)]
    low, high = words[::2], words[1::2].view("<i8")
    if wide:
        wide_values: Numbers = (high.astype(object) << 64) + low.astype(object)
        return wide_values
    return low.view("<i8")


def _json(column: pa.Array) -> pa.Array:
    """Lists and structures as `jsonb`. The one place where values become objects."""
    texts = [
        None if value is None else b"\x01" + _JSON.encode(value)
        for value in column.to_pylist(maps_as_pydicts="lossy")
    ]
    return pa.array(texts, pa.binary())

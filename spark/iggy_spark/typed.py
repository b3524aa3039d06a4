"""Objects → Arrow columns of a declared schema, exactly or not at all."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa

from iggy_spark import schema

FLOAT_MAX = 3.4028234663852886e38
_FAULTS = (pa.ArrowException, OverflowError, decimal.InvalidOperation)


class Misfit(Exception):
    """A value does not fit its column; the message has its path."""


class Columns:
    """A declared schema: the Python type of its rows, and the way from such rows to Arrow."""

    def __init__(self, fields: tuple[schema.Field, ...]) -> None:
        """`fields` are the columns."""
        self._type = schema.Struct(fields)
        self.row = python_struct(fields)

    def array(self, rows: Sequence[Any]) -> pa.Array | None:
        """All rows as a struct array; None if a value of one does not fit its column."""
        try:
            return _to_arrow(rows, self._type)
        except _FAULTS:
            return None

    def check(self, row: Any) -> None:
        """See whether a row fits by itself.

        Raises:
            Misfit: a value does not.
        """
        _check(row, self._type, "$")


def _check(value: Any, kind: schema.Type, path: str) -> None:
    if value is None:
        return
    if isinstance(kind, schema.Scalar):
        try:
            _to_arrow([value], kind)
        except _FAULTS as error:
            raise Misfit(f"value does not fit {kind.ddl} - at `{path}`") from error
        return
    for inner, inner_kind, name in _parts(value, kind):
        _check(inner, inner_kind, path + name)


def _parts(value: Any, kind: schema.Type) -> Iterator[tuple[Any, schema.Type, str]]:
    """The values within a value, with their types and how the path goes on."""
    if isinstance(kind, schema.Struct):
        for item, inner in zip(kind.fields, msgspec.structs.astuple(value), strict=True):
            yield inner, item.type, f".{item.name}"
    elif isinstance(kind, schema.Array):
        for number, inner in enumerate(value):
            yield inner, kind.element, f"[{number}]"
    elif isinstance(kind, schema.Map):
        for key, inner in value.items():
            yield inner, kind.value, f".{key}"


def python_struct(fields: tuple[schema.Field, ...]) -> type[msgspec.Struct]:
    """A class with the fields in their order; what is declared nullable may be missing."""
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
        return python_struct(kind.fields)
    if isinstance(kind, schema.Array):
        return list[_python_type(kind.element) | None]  # type: ignore[misc]
    if isinstance(kind, schema.Map):
        return dict[_python_type(kind.key), _python_type(kind.value) | None]  # type: ignore[misc]
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
    if isinstance(kind, schema.Map):
        return _maps(values, kind, missing)
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
    mask = pa.array(missing, pa.bool_()) if any(missing) else None
    return pa.ListArray.from_arrays(
        _ends(values), _to_arrow(flat, kind.element), type=schema.to_arrow(kind), mask=mask
    )


def _maps(values: Sequence[Any], kind: schema.Map, missing: list[bool]) -> pa.Array:
    keys = [key for value in values if value is not None for key in value]
    items = [item for value in values if value is not None for item in value.values()]
    mask = pa.array(missing, pa.bool_()) if any(missing) else None
    return pa.MapArray.from_arrays(
        _ends(values),
        _to_arrow(keys, kind.key),
        _to_arrow(items, kind.value),
        type=schema.to_arrow(kind),
        mask=mask,
    )


def _ends(values: Sequence[Any]) -> pa.Array:
    """Where each list begins among all elements, and where the last one ends."""
    lengths = [0 if value is None else len(value) for value in values]
    return pa.array(np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))).astype(np.int32))


def _decimals(values: Sequence[decimal.Decimal | None], kind: pa.DataType) -> pa.Array:
    # Arrow refuses a value with more digits than the scale, and so the row is rejected: rounding
    # money silently is worse. NaN and Infinity are decimals to Python but to no database.
    for value in values:
        if value is not None and not value.is_finite():
            raise OverflowError("not a finite decimal")
    return pa.array(values, kind)

"""Columns → Python values, many at once."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds


def values_of(column: pa.Array, *, maps: Literal["strict", "lossy"] = "strict") -> list[Any]:
    """What `to_pylist(maps_as_pydicts=maps)` gives. That makes an object of Arrow's for every value
    (measured: 1.4 to 10 µs for each); of the common types a whole column becomes values at once
    (0.01 to 0.1 µs for numbers, 0.6 to 2 µs for texts and decimals).

    Raises:
        KeyError: a map has a key twice, and `maps` is `strict`.
    """
    kind = column.type
    found: list[Any]
    if kinds.is_boolean(kind) or kinds.is_integer(kind) or kinds.is_floating(kind):
        found = _numbers(column)
    elif kinds.is_string(kind) or kinds.is_binary(kind) or kinds.is_decimal(kind):
        found = column.to_numpy(zero_copy_only=False).tolist()
    else:
        found = column.to_pylist(maps_as_pydicts=maps)
    return found


def _numbers(column: pa.Array) -> list[Any]:
    # NumPy has no null: integers with one would become floats, and NaN is a value of its own.
    whole = column.fill_null(False if kinds.is_boolean(column.type) else 0)
    found: list[Any] = whole.to_numpy(zero_copy_only=False).tolist()
    if column.null_count:
        for row in np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)).tolist():
            found[row] = None
    return found

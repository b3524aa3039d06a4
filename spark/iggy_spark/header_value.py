"""A header of a message as a column of a Spark type, computed by Spark itself.

On the wire numbers are little-endian (Iggy protocol 0.11).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as f

from iggy_spark.errors import OptionError

TYPES = (
    "string", "binary", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double",
)  # fmt: skip
_DECIMAL = re.compile(r"decimal(\(\d{1,2}(, ?\d{1,2})?\))?")
_NUMBER = "decimal(20,0)"  # holds what 64 bits do


def header(name: str, kind: str) -> Column:
    """The value of the header `name` in the column `headers`; null if it is missing or cannot be
    that.

    `kind` is a Spark type: one of `TYPES`, or `decimal(p,s)`. Text, numbers and booleans are
    converted as `try_cast` does; `binary` gives the bytes as they are.

    Raises:
        OptionError: another type.
    """
    wanted = kind.strip().lower()
    if wanted not in TYPES and not _DECIMAL.fullmatch(wanted):
        raise OptionError(f"header: {kind!r} is not possible, use {', '.join(TYPES)} or decimal")
    item = f.col("headers")[f.lit(name)]
    value = item["value"]
    if wanted == "binary":
        return value
    text = f.decode(value, "utf-8").try_cast(wanted)
    found = f.when(item["kind"].isin("string", "raw"), text)
    numbers = {"bool": _unsigned(value, 1) != 0}
    numbers |= {f"uint{8 * width}": _unsigned(value, width) for width in (1, 2, 4, 8)}
    numbers |= {f"int{8 * width}": _signed(value, width) for width in (1, 2, 4, 8)}
    numbers |= {"uint128": _wide(value, _unsigned), "int128": _wide(value, _signed)}
    numbers |= {"float32": _float32(value), "float64": _float64(value)}
    for of, number in numbers.items():
        found = found.when(item["kind"] == of, number.try_cast(wanted))
    return found


def _unsigned(value: Column, width: int, first: int = 0) -> Column:
    """The `width` bytes from `first` on as a number."""
    places = range(first + width, first, -1)
    digits = f.concat(*(f.hex(f.substring(value, place, 1)) for place in places))
    return f.conv(digits, 16, 10).cast(_NUMBER)


def _signed(value: Column, width: int, first: int = 0) -> Column:
    number, half = _unsigned(value, width, first), f.lit(str(1 << 8 * width - 1)).cast(_NUMBER)
    return f.when(number >= half, number - half - half).otherwise(number)


def _wide(value: Column, upper: Callable[[Column, int, int], Column]) -> Column:
    """128 bits; null beyond 38 digits, where Spark's numbers end."""
    high = f.try_multiply(upper(value, 8, 8).cast(_NUMBER), f.lit(str(1 << 64)).cast(_NUMBER))
    return f.try_add(high, _unsigned(value, 8))


def _float32(value: Column) -> Column:
    bits = _unsigned(value, 4).cast("bigint")
    return _float(bits, f.lit(0), exponent_bits=8, mantissa_bits=23)


def _float64(value: Column) -> Column:
    low, high = _unsigned(value, 4).cast("bigint"), _unsigned(value, 4, 4).cast("bigint")
    return _float(high, low, exponent_bits=11, mantissa_bits=52)


def _float(high: Column, low: Column, *, exponent_bits: int, mantissa_bits: int) -> Column:
    """IEEE 754 from its upper 32 bits and those below; all steps are exact in a double."""
    in_high = 31 - exponent_bits
    largest = (1 << exponent_bits) - 1
    exponent = f.shiftright(high, in_high).bitwiseAND(f.lit(largest))
    mantissa = high.bitwiseAND(f.lit((1 << in_high) - 1)) * (1 << mantissa_bits - in_high) + low
    sign = f.when(high >= 1 << 31, -1.0).otherwise(1.0)
    unit = largest // 2 + mantissa_bits  # the exponent at which the mantissa counts ones
    hidden = f.lit(1 << mantissa_bits)
    special = f.when(mantissa == 0, f.lit(float("inf"))).otherwise(f.lit(float("nan")))
    normal = (mantissa + hidden).cast("double") * f.pow(f.lit(2.0), exponent - unit)
    small = mantissa.cast("double") * f.pow(f.lit(2.0), f.lit(1 - unit))
    size = f.when(exponent == largest, special).when(exponent == 0, small).otherwise(normal)
    return sign * size

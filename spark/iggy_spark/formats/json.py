"""JSON documents as objects, and back, without loss.

A number with a fraction or an exponent is a float if that float is shown by the same digits, and
else a Decimal; whole numbers are ints of any size.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import msgspec

from iggy_spark.formats.base import Unreadable

EXACT_CHARS_MAX = 16  # a point and 15 digits: IEEE 754 doubles keep so many


def read_number(text: str) -> float | Decimal:
    """A JSON number that is not whole.

    Raises:
        Unreadable: it is beyond the range of DOUBLE.
    """
    number = float(text)
    if len(text) <= EXACT_CHARS_MAX and "e" not in text and "E" not in text:
        return number
    if math.isinf(number):
        raise Unreadable("MalformedJson", f"number out of range: {text[:40]}")
    try:
        exact = Decimal(text)
    except ArithmeticError as error:
        raise Unreadable("MalformedJson", f"number out of range: {text[:40]}") from error
    return number if exact == Decimal(repr(number)) else exact


_decoder = msgspec.json.Decoder(float_hook=read_number)
_encoder = msgspec.json.Encoder(decimal_format="number")


def read_value(payload: bytes | memoryview) -> Any:
    """Any JSON value.

    Raises:
        Unreadable: it is no JSON.
    """
    try:
        return _decoder.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Unreadable("MalformedJson", str(error)) from error


def read(payload: bytes | memoryview) -> dict[str, Any]:
    """A JSON object.

    Raises:
        Unreadable: it is no JSON, or no object.
    """
    found = read_value(payload)
    if not isinstance(found, dict):
        kind = "null" if found is None else type(found).__name__
        raise Unreadable("SchemaMismatch", f"expected an object, got {kind}")
    return found


def encode(value: Any) -> bytes:
    """The JSON of a value as `read_value` gives it."""
    return _encoder.encode(value)

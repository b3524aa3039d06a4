"""`cast_fields`: other types for values, without loss or not at all."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec

from iggy_spark.formats.base import Unreadable
from iggy_spark.formats.json import encode, read_number, read_value
from iggy_spark.transforms.arguments import Arguments
from iggy_spark.transforms.base import At, Document, Step, TransformError
from iggy_spark.transforms.computed import time_text
from iggy_spark.transforms.conditions import is_number
from iggy_spark.transforms.paths import Fields, parse_fields

DIGITS_MAX = 38  # of a whole number, as many as a DECIMAL has
_WHOLE = re.compile(r"[+-]?[0-9]{1,38}")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,37})(?:\.[0-9]{1,38})?(?:[eE][+-]?[0-9]{1,3})?")
_UNIT_US = {"seconds": 1_000_000, "millis": 1000, "micros": 1}

Cast = Callable[[Any], Any]


class _Impossible(Exception):
    """The value has no equal of the other type."""


def cast_fields(value: object, place: str) -> Step:
    """Change the types of fields. Null stays null, and a missing field is passed over."""
    given = Arguments(value, place, ("fields", "onError"))
    casts = [_field(part) for part in given.parts("fields", ("key", "to", "unit"))]
    instead = given.word("onError", ("error", "keep", "null"), "error")

    def step(document: Document, at: At) -> Document:
        for fields, cast, to in casts:
            for holder, key in fields.places(document):
                if holder[key] is not None:
                    _change(holder, key, cast, to, instead)
        return document

    return step


def _change(holder: Document, key: str, cast: Cast, to: str, instead: str) -> None:
    try:
        holder[key] = cast(holder[key])
    except _Impossible as error:
        if instead == "error":
            # The value itself is not told: errors go where not everybody may read messages.
            raise TransformError(f"{key}: this {_kind(holder[key])} is no {to}") from error
        if instead == "null":
            holder[key] = None


def _kind(value: Any) -> str:
    if isinstance(value, bool) or is_number(value):
        return "boolean" if isinstance(value, bool) else "number"
    return "text" if isinstance(value, str) else "object" if isinstance(value, dict) else "list"


def _field(part: Arguments) -> tuple[Fields, Cast, str]:
    to = part.word("to", _CASTS)
    return parse_fields(part.value("key"), part.at("key")), _cast(part, to), to


def _cast(part: Arguments, to: str) -> Cast:
    if to not in ("timestamp", "date"):
        return _CASTS[to]
    unit_us = _UNIT_US[part.word("unit", _UNIT_US, "millis")]
    read = _instant if to == "timestamp" else _day
    return lambda value: read(value, unit_us)


def _string(value: Any) -> str:
    if isinstance(value, float) and value - value != 0:  # NaN or infinite
        raise _Impossible
    return value if isinstance(value, str) else encode(value).decode()


def _integer(value: Any) -> int:
    if isinstance(value, int):
        return int(value)  # true is 1
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    # A Decimal may have an exponent of any size: look before it becomes an int.
    if (
        isinstance(value, Decimal)
        and value.adjusted() < DIGITS_MAX
        and value == value.to_integral()
    ):
        return int(value)
    raise _Impossible


def _number(value: Any) -> Any:
    if is_number(value):
        return value
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        try:
            return read_number(value)
        except Unreadable as error:
            raise _Impossible from error
    raise _Impossible


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false") or (isinstance(value, int) and value in (0, 1)):
        return value in ("true", 1)
    raise _Impossible


def _parsed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return read_value(value.encode())
    except Unreadable as error:
        raise _Impossible from error


def _moment(value: Any, unit_us: int) -> datetime.datetime:
    """Text by RFC 3339, UTC if it names no offset; a number counts units since 1970 UTC."""
    try:
        if is_number(value):
            value = time_text(round(value * unit_us))
        found = msgspec.convert(value, datetime.datetime)
        if found.tzinfo is None:
            return found
        return found.astimezone(datetime.UTC).replace(tzinfo=None)
    except (msgspec.ValidationError, ArithmeticError, ValueError) as error:
        raise _Impossible from error


def _instant(value: Any, unit_us: int) -> str:
    return _moment(value, unit_us).isoformat(timespec="microseconds") + "Z"


def _day(value: Any, unit_us: int) -> str:
    try:
        return msgspec.convert(value, datetime.date).isoformat()
    except msgspec.ValidationError:
        return _moment(value, unit_us).date().isoformat()


_CASTS: dict[str, Callable[..., Any]] = {
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "timestamp": _instant,
    "date": _day,
    "json": _parsed,
}

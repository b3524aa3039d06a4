"""Which types of ClickHouse take which types of a payload, value for value. Pure.

A type that would round, cut or wrap values around does not fit: ClickHouse does that without a
word. Source: its documentation of data types and of format Arrow, and what the engine does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from iggy_spark import schema

MICROSECONDS: Final = 6  # digits of a second that a TIMESTAMP has
DEPTH_MAX: Final = 64  # of types in types
_WIDTHS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_BITS = (8, 16, 32, 64, 128, 256)
_TAKEN = {
    "BOOLEAN": {"Bool", "UInt8"},
    "FLOAT": {"Float32", "Float64"},
    "DOUBLE": {"Float64"},
    "STRING": {"String", "Enum8", "Enum16", "UUID", "JSON"},
    "BINARY": {"String"},
    "DATE": {"Date32", "Date"},
}
# As Nullable these make null of a text that they do not understand.
_NULL_OF_ANYTHING = {"UUID", "JSON"}
_MADE = {
    "BOOLEAN": "Bool",
    "FLOAT": "Float32",
    "DOUBLE": "Float64",
    "STRING": "String",
    "BINARY": "String",
    "DATE": "Date32",
    "TIMESTAMP": "DateTime64(6, 'UTC')",
    "TIMESTAMP_NTZ": "DateTime64(6, 'UTC')",
}


@dataclass(frozen=True, slots=True)
class Kind:
    """A type as `system.columns` writes it, taken apart."""

    name: str
    arguments: tuple[str, ...] = ()
    nullable: bool = False

    @property
    def takes_null(self) -> bool:
        """Whether null stays null, or is the empty list or map, for which there is no null."""
        return self.nullable or self.name in ("Array", "Map")


def parse(text: str, *, depth: int = 0) -> Kind:
    """Take a type apart, without Nullable and LowCardinality around it."""
    name, bracket, rest = text.strip().partition("(")
    arguments = _split(rest[: rest.rfind(")")]) if bracket else ()
    if name in ("Nullable", "LowCardinality") and len(arguments) == 1 and depth < DEPTH_MAX:
        inner = parse(arguments[0], depth=depth + 1)
        return Kind(inner.name, inner.arguments, inner.nullable or name == "Nullable")
    return Kind(name, arguments)


def _split(text: str) -> tuple[str, ...]:
    """The parts between commas that are in no brackets and in no quotes."""
    parts, depth, quote, part = [], 0, "", ""
    skip = False
    for sign in text:
        if quote:
            if skip:
                skip = False
            elif sign == "\\":
                skip = True
            elif sign == quote:
                quote = ""
        elif sign in "'`":
            quote = sign
        elif sign == "," and depth == 0:
            parts.append(part.strip())
            part = ""
            continue
        else:
            depth += {"(": 1, ")": -1}.get(sign, 0)
        part += sign
    return (*parts, part.strip()) if part.strip() else tuple(parts)


def fits(kind: schema.Type, text: str, *, unsigned: bool = False) -> bool:
    """Whether the ClickHouse type `text` holds all values of a payload's type as they are.

    Null is another question: see `Kind.takes_null`. With `unsigned` no number is below 0.
    """
    found = parse(text)
    if isinstance(kind, schema.Array):
        return _is_of(found, "Array", 1) and fits(kind.element, found.arguments[0])
    if isinstance(kind, schema.Map):
        return (
            _is_of(found, "Map", 2)
            and fits(kind.key, found.arguments[0])
            and fits(kind.value, found.arguments[1])
        )
    if isinstance(kind, schema.Struct):
        return found.name == "Tuple" and _fits_tuple(kind, found.arguments)
    return _fits_scalar(kind, found, unsigned=unsigned)


def _is_of(found: Kind, name: str, count: int) -> bool:
    return found.name == name and len(found.arguments) == count


def _fits_tuple(kind: schema.Struct, arguments: tuple[str, ...]) -> bool:
    """Parts go by name; each must be there, and no other."""
    named = dict(map(_named, arguments))
    return set(named) == {item.name for item in kind.fields} and all(
        fits(item.type, named[item.name]) for item in kind.fields
    )


def _named(argument: str) -> tuple[str, str]:
    if argument.startswith("`"):
        name, _, rest = argument[1:].partition("`")
        return name, rest.strip()
    name, _, rest = argument.partition(" ")
    return name, rest


def _fits_scalar(kind: schema.Scalar, found: Kind, *, unsigned: bool) -> bool:
    if pa.types.is_decimal(kind.arrow):
        return _fits_decimal(kind.arrow, found)
    if kind.ddl in _WIDTHS:
        width = _WIDTHS[kind.ddl]
        names = {f"Int{bits}" for bits in _BITS if bits >= width}
        if unsigned:
            names |= {f"UInt{bits}" for bits in _BITS if bits >= width}
        return found.name in names
    if kind.ddl in ("TIMESTAMP", "TIMESTAMP_NTZ"):
        return _fits_time(kind.ddl, found)
    if found.nullable and found.name in _NULL_OF_ANYTHING:
        return False
    return found.name in _TAKEN.get(kind.ddl, ())


def _fits_decimal(kind: pa.Decimal128Type, found: Kind) -> bool:
    if not _is_of(found, "Decimal", 2):
        return False
    precision, scale = map(int, found.arguments)
    whole = precision - scale
    return bool(scale >= kind.scale and whole >= kind.precision - kind.scale)


def _fits_time(ddl: str, found: Kind) -> bool:
    if found.name != "DateTime64" or int(found.arguments[0]) < MICROSECONDS:
        return False
    # A time without a zone is shown as it is only where the column's zone is UTC.
    return ddl == "TIMESTAMP" or found.arguments[1:] == ("'UTC'",)


def made_of(kind: schema.Type, *, nullable: bool = True) -> str:
    """The type to give a column for such values, for errors and documents."""
    if isinstance(kind, schema.Array):
        return f"Array({made_of(kind.element)})"
    if isinstance(kind, schema.Map):
        return f"Map({made_of(kind.key, nullable=False)}, {made_of(kind.value)})"
    if isinstance(kind, schema.Struct):
        parts = ", ".join(
            f"{quoted(item.name)} {made_of(item.type, nullable=item.nullable)}"
            for item in kind.fields
        )
        return f"Tuple({parts})"
    if pa.types.is_decimal(kind.arrow):
        name = f"Decimal({kind.arrow.precision}, {kind.arrow.scale})"
    elif kind.ddl in _WIDTHS:
        name = f"Int{_WIDTHS[kind.ddl]}"
    else:
        name = _MADE[kind.ddl]
    return f"Nullable({name})" if nullable else name


def quoted(name: str) -> str:
    """A name as it stands in a statement."""
    escaped = name.replace("\\", "\\\\").replace("`", "\\`")
    return f"`{escaped}`"


def literal(text: str) -> str:
    """A text as it stands in a statement."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"

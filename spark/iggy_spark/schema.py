"""Declared payload schemas: Spark's DDL text → fields, and their Arrow and DDL forms.

A parser of our own, because Spark's lives in its JVM and a schema is checked before that starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from iggy_spark.errors import OptionError

FIELDS_MAX = 2000
DEPTH_MAX = 16
DECIMAL_DIGITS_MAX = 38  # Spark's limit


@dataclass(frozen=True, slots=True)
class Scalar:
    """A type without parts; `ddl` is Spark's name of it, such as BIGINT or DECIMAL(18,2)."""

    ddl: str
    arrow: pa.DataType


@dataclass(frozen=True, slots=True)
class Array:
    """A list of one type; elements may be null."""

    element: Type


@dataclass(frozen=True, slots=True)
class Map:
    """Values by key. Keys are texts or whole numbers; values may be null."""

    key: Scalar
    value: Type


@dataclass(frozen=True, slots=True)
class Struct:
    """Named parts."""

    fields: tuple[Field, ...]


Type = Scalar | Array | Map | Struct


@dataclass(frozen=True, slots=True)
class Field:
    """One column: its name as in the JSON document, its type, and whether null is allowed."""

    name: str
    type: Type
    nullable: bool


_SCALARS = {
    "BOOLEAN": ("BOOLEAN", pa.bool_()),
    "TINYINT": ("TINYINT", pa.int8()),
    "BYTE": ("TINYINT", pa.int8()),
    "SMALLINT": ("SMALLINT", pa.int16()),
    "SHORT": ("SMALLINT", pa.int16()),
    "INT": ("INT", pa.int32()),
    "INTEGER": ("INT", pa.int32()),
    "BIGINT": ("BIGINT", pa.int64()),
    "LONG": ("BIGINT", pa.int64()),
    "FLOAT": ("FLOAT", pa.float32()),
    "REAL": ("FLOAT", pa.float32()),
    "DOUBLE": ("DOUBLE", pa.float64()),
    "STRING": ("STRING", pa.string()),
    "BINARY": ("BINARY", pa.binary()),
    "DATE": ("DATE", pa.date32()),
    "TIMESTAMP": ("TIMESTAMP", pa.timestamp("us", tz="UTC")),
    "TIMESTAMP_LTZ": ("TIMESTAMP", pa.timestamp("us", tz="UTC")),
    "TIMESTAMP_NTZ": ("TIMESTAMP_NTZ", pa.timestamp("us")),
}
KEY_TYPES = ("STRING", "TINYINT", "SMALLINT", "INT", "BIGINT")  # what keys of JSON can be read as
_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|([A-Za-z0-9_]+)|([<>(),:]))")


def parse(text: str, *, name: str) -> tuple[Field, ...]:
    """Fields of a DDL text such as `id BIGINT NOT NULL, tags ARRAY<STRING>`.

    `name` is the option or setting that the text comes from.

    Raises:
        OptionError: not DDL, an unknown type, a name twice, or too many or too deep fields.
    """
    return _Parser(text, name).fields_to_the_end()


def fault_of(fields: Sequence[Field]) -> str | None:
    """Why these cannot be the fields of one struct; None if they can."""
    if not fields:
        return "there are no fields"
    if len(fields) > FIELDS_MAX:
        return f"more than {FIELDS_MAX} fields"
    seen: set[str] = set()
    for item in fields:
        if item.name.lower() in seen:  # Spark compares column names without case
            return f"field {item.name!r} is there twice"
        seen.add(item.name.lower())
    return None


class _Parser:
    """Recursive descent over the tokens of one DDL text."""

    def __init__(self, text: str, name: str) -> None:
        self._name = name
        self._text = text
        self._tokens = list(self._split(text))
        self._at = 0
        self._depth = 0

    def _split(self, text: str) -> Iterator[str]:
        at, text = 0, text.rstrip()
        while at < len(text):
            hit = _TOKEN.match(text, at)
            if hit is None:
                raise OptionError(f"{self._name}: {text[at:].strip()[:20]!r} cannot be read as DDL")
            yield hit[0].strip()
            at = hit.end()

    def fields_to_the_end(self) -> tuple[Field, ...]:
        fields = self._fields(separator=None)
        if self._at < len(self._tokens):
            raise self._error(f"{self._tokens[self._at]!r} is unexpected")
        return fields

    def _error(self, what: str) -> OptionError:
        return OptionError(f'{self._name}: {what}; write it like "id BIGINT NOT NULL, note STRING"')

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        if not token:
            raise self._error("it ends too early")
        self._at += 1
        return token

    def _take(self, token: str) -> bool:
        if self._peek().upper() != token:
            return False
        self._at += 1
        return True

    def _expect(self, token: str) -> None:
        found = self._next()
        if found != token:
            raise self._error(f"{token!r} expected, {found!r} found")

    def _fields(self, *, separator: str | None) -> tuple[Field, ...]:
        fields = [self._field(separator)]
        while self._take(","):
            fields.append(self._field(separator))
        fault = fault_of(fields)
        if fault is not None:
            raise self._error(fault)
        return tuple(fields)

    def _field(self, separator: str | None) -> Field:
        token = self._next()
        quoted = token.startswith("`")
        if not quoted and not re.fullmatch(r"\w+", token):
            raise self._error(f"a field name expected, {token!r} found")
        name = token[1:-1].replace("``", "`") if quoted else token
        if separator is not None:
            self._take(separator)
        kind = self._type(name)
        nullable = True
        if self._take("NOT"):
            if not self._take("NULL"):
                raise self._error(f"field {name!r}: NOT without NULL")
            nullable = False
        return Field(name, kind, nullable)

    def _type(self, field: str) -> Type:
        word = self._next().upper()
        if word in _SCALARS:
            return Scalar(*_SCALARS[word])
        if word in ("DECIMAL", "DEC", "NUMERIC"):
            return self._decimal(field)
        if word in ("ARRAY", "MAP", "STRUCT"):
            return self._nested(word, field)
        raise self._error(f"field {field!r}: {word} is not a type")

    def _nested(self, word: str, field: str) -> Type:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise self._error(f"field {field!r}: nested deeper than {DEPTH_MAX}")
        self._expect("<")
        kind: Type
        if word == "ARRAY":
            kind = Array(self._type(field))
        elif word == "STRUCT":
            kind = Struct(self._fields(separator=":"))
        else:
            kind = self._map(field)
        self._expect(">")
        self._depth -= 1
        return kind

    def _map(self, field: str) -> Map:
        key = self._type(field)
        if not isinstance(key, Scalar) or key.ddl not in KEY_TYPES:
            raise self._error(f"field {field!r}: a key of MAP is one of {', '.join(KEY_TYPES)}")
        self._expect(",")
        return Map(key, self._type(field))

    def _decimal(self, field: str) -> Scalar:
        precision, scale = "10", "0"
        if self._take("("):
            precision = self._next()
            if self._take(","):
                scale = self._next()
            self._expect(")")
        if (
            not (precision + scale).isdecimal()
            or not int(scale) <= int(precision) <= DECIMAL_DIGITS_MAX
        ):
            raise self._error(f"field {field!r}: DECIMAL({precision},{scale}) is not possible")
        return decimal(int(precision), int(scale))


def scalar(word: str) -> Scalar:
    """The type of a DDL word such as BIGINT."""
    return Scalar(*_SCALARS[word])


def decimal(precision: int, scale: int) -> Scalar:
    """DECIMAL of so many digits, `scale` of them behind the point."""
    return Scalar(f"DECIMAL({precision},{scale})", pa.decimal128(precision, scale))


def to_arrow(kind: Type) -> pa.DataType:
    """The Arrow type, as Spark's own conversion of the same DDL gives it."""
    if isinstance(kind, Scalar):
        return kind.arrow
    if isinstance(kind, Array):
        return pa.list_(pa.field("element", to_arrow(kind.element), nullable=True))
    if isinstance(kind, Map):
        return pa.map_(to_arrow(kind.key), pa.field("value", to_arrow(kind.value), nullable=True))
    return pa.struct([arrow_field(item) for item in kind.fields])


def arrow_field(item: Field) -> pa.Field:
    """The Arrow field of a column."""
    return pa.field(item.name, to_arrow(item.type), nullable=item.nullable)


def to_ddl(kind: Type) -> str:
    """The type as Spark's DDL, inside of which field names are quoted."""
    if isinstance(kind, Scalar):
        return kind.ddl
    if isinstance(kind, Array):
        return f"ARRAY<{to_ddl(kind.element)}>"
    if isinstance(kind, Map):
        return f"MAP<{to_ddl(kind.key)}, {to_ddl(kind.value)}>"
    parts = ", ".join(f"{quote(item.name)}: {_with_null(item)}" for item in kind.fields)
    return f"STRUCT<{parts}>"


def _with_null(item: Field) -> str:
    return to_ddl(item.type) + ("" if item.nullable else " NOT NULL")


def quote(name: str) -> str:
    """A name as DDL takes it whatever is in it."""
    return "`" + name.replace("`", "``") + "`"

"""Values of PostgreSQL's types, in the words of their output functions → JSON, exactly.

The words are those of a session with the settings of `postgres_link`: ISO dates, UTC, hex bytes,
and as many digits of a float as tell it from all others (PostgreSQL 15, chapters 8 and 9.9).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
from psycopg import postgres as known

Encode = Callable[[bytes], bytes]
"""From a type's text in UTF-8 to JSON in UTF-8."""

NULL: Final = b"null"
_encoder = msgspec.json.Encoder()
# A time with a date of four digits; what has another form, such as years BC, stays as it is.
_MOMENT = re.compile(rb"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?)(\+00)?")
_NOT_NUMBERS = frozenset({b"NaN", b"Infinity", b"-Infinity"})


def text(value: bytes) -> bytes:
    """Letters; also of numeric, which holds more than a reader's numbers may, and NaN."""
    return _encoder.encode(value.decode())


def _verbatim(value: bytes) -> bytes:
    """Whole numbers and JSON are JSON already."""
    return value


def _boolean(value: bytes) -> bytes:
    return b"true" if value == b"t" else b"false"


def _float(value: bytes) -> bytes:
    return b'"%b"' % value if value in _NOT_NUMBERS else value


def _bytes(value: bytes) -> bytes:
    return b'"%b"' % base64.b64encode(bytes.fromhex(value[2:].decode("ascii")))


def _moment(value: bytes) -> bytes:
    found = _MOMENT.fullmatch(value)
    if found is None:
        return text(value)
    return b'"%bT%b%b"' % (found[1], found[2], b"Z" if found[3] else b"")


_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
_MARKS = {b"{": b"[", b"}": b"]"}


def array_of(element: Encode, delimiter: str = ",") -> Encode:
    """Arrays as lists, of several dimensions as lists of lists. Bounds that do not begin at 1 are
    left out (PostgreSQL 15, chapter 8.15.6).
    """
    mark = re.escape(delimiter.encode())
    token = re.compile(
        rb'"((?:[^"\\]|\\.)*)"|([^{}"%b]+)|([{}]|%b)' % (mark, mark), re.DOTALL
    )  # quoted, plain, or between values

    def encode(value: bytes) -> bytes:
        if value.startswith(b"["):
            value = value[value.index(b"=") + 1 :]
        parts = []
        for quoted, plain, between in token.findall(value):
            if between:
                parts.append(_MARKS.get(between, b","))
            elif plain:
                parts.append(NULL if plain == b"NULL" else element(plain))
            else:
                parts.append(element(_ESCAPED.sub(rb"\1", quoted)))
        return b"".join(parts)

    return encode


_SCALARS: Final[Mapping[str, Encode]] = {
    "bool": _boolean,
    "bytea": _bytes,
    "int2": _verbatim,
    "int4": _verbatim,
    "int8": _verbatim,
    "oid": _verbatim,
    "float4": _float,
    "float8": _float,
    "json": _verbatim,
    "jsonb": _verbatim,
    "timestamp": _moment,
    "timestamptz": _moment,
}


@dataclass(frozen=True, slots=True)
class UserType:
    """A type that the database's users have made: a domain, or an array of something."""

    oid: int
    base: int  # oid of what is below a domain, or in an array
    is_domain: bool
    delimiter: str


USER_TYPES: Final = """
select t.oid, case t.typtype when 'd' then t.typbasetype else t.typelem end,
  t.typtype = 'd', coalesce(e.typdelim, ',')
from pg_type t left join pg_type e on e.oid = t.typelem and t.typlen = -1
where t.oid >= 16384
  and (t.typtype = 'd' or t.typcategory = 'A' and e.typtype in ('b', 'd', 'e', 'r', 'm'))
"""
"""Those of a database, as `UserType` has them. Types below 16384 come with the server."""


class Types:
    """How values of each type are written. Types that nobody knows here are text."""

    def __init__(self, made: Iterable[UserType] = ()) -> None:
        """`made`: types of users."""
        self._made = {item.oid: item for item in made}
        self._encoders = dict(_BUILT_IN)

    def encoder(self, oid: int) -> Encode:
        """For the values of one type."""
        found = self._encoders.get(oid)
        if found is None:
            found = self._encoders[oid] = self._find(oid)
        return found

    def _find(self, oid: int) -> Encode:
        made = self._made.get(oid)
        if made is None:
            return text
        below = self.encoder(made.base)
        return below if made.is_domain else array_of(below, made.delimiter)


def _built_in() -> dict[int, Encode]:
    found: dict[int, Encode] = {}
    for item in known.types:
        encode = _SCALARS.get(item.name, text)
        found[item.oid] = encode
        if item.array_oid:
            found[item.array_oid] = array_of(encode, item.delimiter)
    return found


_BUILT_IN: Final = _built_in()

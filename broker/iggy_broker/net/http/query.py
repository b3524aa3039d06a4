"""Query strings and identifiers. Known parameters must parse exactly; unknown ones are ignored."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final
from urllib.parse import parse_qsl

from iggy_broker.errors import Reject
from iggy_wire.errors import ErrorCode
from iggy_wire.primitives import Identifier

U32_MAX: Final = (1 << 32) - 1
U64_MAX: Final = (1 << 64) - 1
FIELDS_MAX: Final = 64  # parameters of one query, known or not

_NUMBER: Final = re.compile(r"\+?[0-9]{1,40}")
_NAME_BYTES_MAX: Final = 255


class Kind(Enum):
    """What the text of a parameter must be."""

    U32 = "u32"
    U64 = "u64"
    BOOL = "bool"
    NAME = "name"  # an identifier: number or name
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a query. Without a default it is required."""

    name: str
    kind: Kind | tuple[str, ...]  # or the words that it may be
    doc: str
    default: Any = None
    is_required: bool = False


CONSISTENCY: Final = Parameter(
    "consistency",
    ("serializable", "linearizable"),
    "Both are the same on a single node.",
    default="serializable",
)


class BadQuery(Exception):
    """A query that cannot be read; the text says which parameter and what it must be."""


def parse_query(query: str, parameters: Sequence[Parameter]) -> dict[str, Any]:
    """Values by name, defaults filled in. Raises BadQuery, and Reject for a bad identifier."""
    values = {one.name: one.default for one in parameters}
    known = {one.name: one for one in parameters}
    seen: set[str] = set()
    for name, text in _pairs(query) if query else ():
        parameter = known.get(name)
        if parameter is None:
            continue
        if name in seen:
            raise BadQuery(f"duplicate field `{name}`")
        seen.add(name)
        values[name] = _value(parameter, text)
    for one in parameters:
        if one.is_required and one.name not in seen:
            raise BadQuery(f"missing field `{one.name}`")
    return values


def number(text: str, most: int) -> int | None:
    """An unsigned number up to `most`, digits only; None for anything else."""
    if _NUMBER.fullmatch(text) and (value := int(text)) <= most:
        return value
    return None


def identifier(text: str, field: str = "identifier") -> Identifier:
    """Text that is a u32 is an id, all else a name. INVALID_IDENTIFIER if not 1 to 255 bytes."""
    length = len(text.encode())
    if not 1 <= length <= _NAME_BYTES_MAX:
        detail = f"{field}: write 1 to {_NAME_BYTES_MAX} bytes, not {length}"
        raise Reject(ErrorCode.INVALID_IDENTIFIER, detail)
    value = number(text, U32_MAX)
    return Identifier(text if value is None else value)


def _pairs(query: str) -> list[tuple[str, str]]:
    if "%" not in query and "+" not in query and query.count("&") < FIELDS_MAX:
        # As `parse_qsl` has it, where there is nothing to decode.
        return [
            (name, text)
            for name, _, text in (one.partition("=") for one in query.split("&") if one)
        ]
    try:
        return parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=FIELDS_MAX)
    except ValueError as error:  # also UnicodeDecodeError
        raise BadQuery(f"not a query string: {error}") from None


def _word(name: str, words: tuple[str, ...], text: str) -> str:
    if text not in words:
        wanted = ", ".join(f"`{word}`" for word in words)
        raise BadQuery(f"{name}: unknown variant `{text}`, expected one of {wanted}")
    return text


def _value(parameter: Parameter, text: str) -> Any:
    kind, name = parameter.kind, parameter.name
    if isinstance(kind, tuple):
        return _word(name, kind, text)
    if kind is Kind.NAME:
        if not text:
            raise BadQuery(f"{name}: write a number or a name")
        return identifier(text, name)
    if kind is Kind.TEXT:
        return text
    if kind is Kind.BOOL:
        if text not in ("true", "false"):
            raise BadQuery(f"{name}: write true or false")
        return text == "true"
    value = number(text, U32_MAX if kind is Kind.U32 else U64_MAX)
    if value is None:
        raise BadQuery(f"{name}: write a number, {kind.value}")
    return value

"""User headers of a message: the encoded block to and from values that JSON can show."""

import base64
import math
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from iggy_wire.cursor import Reader
from iggy_wire.errors import ErrorCode, WireError
from iggy_wire.kernel_types import HEADERS_BYTES_MAX
from iggy_wire.options import Option, ValueKind, pair_bytes

HEADER_BYTES_MAX: Final = 255
"""Iggy protocol 0.11: a key and a value have 1 to 255 bytes each."""

Shown: TypeAlias = str | int | float | bool | dict[str, str]


def encode(headers: Mapping[str, str]) -> bytes:
    """Texts as a block, in ascending order of their keys. Raises WireError for one too long."""
    pairs = sorted((key.encode(), value.encode()) for key, value in headers.items())
    block = b"".join(
        pair_bytes(ValueKind.STRING, key, ValueKind.STRING, value) for key, value in pairs
    )
    if len(block) > HEADERS_BYTES_MAX:
        detail = f"headers: at most {HEADERS_BYTES_MAX} bytes together, are {len(block)}"
        raise WireError(ErrorCode.TOO_BIG_USER_HEADERS, detail)
    return block


def decode(block: bytes) -> dict[str, Shown]:
    """A block as JSON values: text, numbers, true and false as they are, bytes as base64.

    A key that is no text appears as `kind:hex`. Raises WireError: servers keep whatever bytes came.
    """
    reader = Reader(block, ErrorCode.INVALID_FORMAT)
    return dict(_pairs(reader))


def _pairs(reader: Reader) -> Iterable[tuple[str, Shown]]:
    while reader.remaining:
        key = _item(reader, "header key")
        yield _key(key), _value(_item(reader, "header value"))


def _item(reader: Reader, field: str) -> Option:
    kind, length = reader.u8(f"{field}: kind"), reader.u32(f"{field}: length")
    return Option(field, kind, bytes(reader.take(length, field)))


def _key(item: Option) -> str:
    value = _python_value(item)
    if isinstance(value, str):
        return value
    known = item.kind in list(ValueKind)
    kind = ValueKind(item.kind).name.lower() if known else str(item.kind)
    return f"{kind}:{item.value.hex()}"


def _value(item: Option) -> Shown:
    value = _python_value(item)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no such number
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    return value


def _python_value(item: Option) -> str | int | float | bool | bytes:
    """The value as its kind says; bytes where kind and bytes disagree."""
    try:
        return item.get()
    except WireError:
        return item.value

"""One message as a line of output: for people, as JSON, or its bytes."""

import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

import msgspec

from iggy_wire.batch import Message
from iggy_wire.errors import WireError
from iggykube import headers as user_headers

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_DATETIME_US_MAX: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND

Format: TypeAlias = Callable[[int, Message], bytes]
"""From partition and message to bytes that end with their separator."""


class Line(msgspec.Struct, omit_defaults=False):
    """One message as JSON."""

    partition: int
    offset: int
    timestamp: str
    """When the broker appended it: ISO 8601, UTC, microseconds."""
    id: str
    """32 hexadecimal digits."""
    headers: dict[str, user_headers.Shown] | None
    payload: str
    payload_encoding: str
    """`utf8`: the payload is the text itself; `base64`: it is no UTF-8."""
    headers_base64: str | msgspec.UnsetType = msgspec.UNSET
    """In place of `headers`, where they cannot be decoded."""


def moment(timestamp_us: int) -> str:
    """Microseconds since 1970 as ISO 8601 in UTC, always with six digits of microseconds."""
    found = _EPOCH + min(timestamp_us, _DATETIME_US_MAX) * _MICROSECOND
    return found.isoformat(timespec="microseconds").replace("+00:00", "Z")


def json_line(partition: int, message: Message) -> bytes:
    """An object a line."""
    try:
        payload, encoding = message.payload.decode(), "utf8"
    except UnicodeDecodeError:
        payload, encoding = base64.b64encode(message.payload).decode(), "base64"
    headers: dict[str, user_headers.Shown] | None = None
    raw: str | msgspec.UnsetType = msgspec.UNSET
    try:
        headers = user_headers.decode(message.headers)
    except WireError:
        raw = base64.b64encode(message.headers).decode()
    line = Line(
        partition=partition,
        offset=message.offset,
        timestamp=moment(message.timestamp_us),
        id=f"{message.id:032x}",
        headers=headers,
        payload=payload,
        payload_encoding=encoding,
        headers_base64=raw,
    )
    return msgspec.json.encode(line) + b"\n"


def text_line(partition: int, message: Message) -> bytes:
    """Partition, offset, time, payload. What could move a terminal's cursor is written out."""
    text = message.payload.decode(errors="backslashreplace")
    if not text.isprintable():
        text = "".join(one if one.isprintable() else _escaped(one) for one in text)
    line = f"{partition}  {message.offset}  {moment(message.timestamp_us)}  {text}\n"
    return line.encode()


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def raw(separator: bytes) -> Format:
    """The payload and nothing else, then the separator."""
    return lambda partition, message: message.payload + separator

"""What values of options and arguments look like. A wrong one ends the command with code 2 and one
line that names option and value; nothing was sent then.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from iggy_operator import units
from iggykube.headers import HEADER_BYTES_MAX

NAME_BYTES_MAX: Final = 255
KEY_BYTES_MAX: Final = 255
SERVERS_MAX: Final = 64
PORT_MAX: Final = 65_535
PARTITION_MAX: Final = (1 << 32) - 1
OFFSET_MAX: Final = (1 << 62) - 1
COUNT_MAX: Final = 1 << 62
DURATION_US_MAX: Final = 86_400_000_000
"""A day: nothing on a command line waits longer."""
_SIZE: Final = re.compile(r"([0-9]{1,15}) ?(B|KiB|MiB|GiB|kB|MB|GB)?")
_SIZES: Final = {
    "": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
    "kB": 10**3, "MB": 10**6, "GB": 10**9,
}  # fmt: skip
_OFFSET: Final = re.compile(r"[0-9]{1,19}")

Context: TypeAlias = click.Context | None
Parameter: TypeAlias = click.Parameter | None


@dataclass(frozen=True, slots=True)
class Position:
    """Where reading begins: `first`, `last`, `next`, `offset` or `timestamp`.

    `value` is the offset, or microseconds since 1970 of the timestamp; else 0.
    """

    kind: str
    value: int = 0


if TYPE_CHECKING:  # generic since click 8.5, and no class of older ones can be subscripted
    Base = click.ParamType[Any]
else:
    Base = click.ParamType


class Parsed(Base):
    """A value that a function makes of the text. Its ValueError says what would be right."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        """`name` appears in the help."""
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: Parameter, ctx: Context) -> Any:
        """The value; one that is ready (a default) stays as it is."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            return self.fail(f"{value!r} {error}", param, ctx)


def utf8_bytes(text: str) -> bytes:
    """The text as it travels. Raises ValueError for what the terminal could not decode."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError("is not UTF-8") from None


def parse_name(text: str) -> str:
    """The name of a stream, topic or group."""
    if not 1 <= len(utf8_bytes(text)) <= NAME_BYTES_MAX:
        raise ValueError(f"is no name: it must have 1 to {NAME_BYTES_MAX} bytes")
    return text


def parse_key(text: str) -> bytes:
    """A message key."""
    key = utf8_bytes(text)
    if not 1 <= len(key) <= KEY_BYTES_MAX:
        raise ValueError(f"is no key: it must have 1 to {KEY_BYTES_MAX} bytes")
    return key


def parse_servers(text: str) -> tuple[str, ...]:
    """One or more addresses, tried in this order."""
    servers = tuple(part.strip() for part in text.split(","))
    for server in servers:
        host, colon, port = server.rpartition(":")
        # With a transport in front it is no address: all that is spoken here is TCP.
        if not (colon and host and re.fullmatch(r"[0-9]{1,5}", port)) or "/" in host:
            raise ValueError("must be HOST:PORT of TCP, such as 127.0.0.1:8090")
        if not 1 <= int(port) <= PORT_MAX:
            raise ValueError(f"must have a port from 1 to {PORT_MAX}")
    if len(servers) > SERVERS_MAX:
        raise ValueError(f"must be at most {SERVERS_MAX} servers")
    return servers


def duration(least_us: int = 0) -> Callable[[str], float]:
    """Reads a duration in seconds, from `least_us` microseconds to a day."""

    def parse(text: str) -> float:
        try:
            found_us = units.duration_us(text)
        except ValueError:
            raise ValueError("is no duration, such as 10ms, 5s or 1m") from None
        if not least_us <= found_us <= DURATION_US_MAX:
            raise ValueError(f"must be {least_us // 1000}ms to 1d")
        return found_us / 1_000_000

    return parse


def size(most_bytes: int) -> Callable[[str], int]:
    """Reads a size of 1 to `most_bytes` bytes."""

    def parse(text: str) -> int:
        found = _SIZE.fullmatch(text)
        if found is None:
            raise ValueError("is no size, such as 65536, 64KiB or 1MiB")
        bytes_count = int(found[1]) * _SIZES[found[2] or ""]
        if not 1 <= bytes_count <= most_bytes:
            raise ValueError(f"must be 1 to {most_bytes} bytes")
        return bytes_count

    return parse


def parse_header(text: str) -> tuple[str, str]:
    """NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError("must be NAME=VALUE")
    for part in (name, value):
        if not 1 <= len(utf8_bytes(part)) <= HEADER_BYTES_MAX:
            raise ValueError(f"must have 1 to {HEADER_BYTES_MAX} bytes on each side of the =")
    return name, value


def parse_position(text: str) -> Position:
    """A word, an offset, or a point in time. A time without a zone is UTC."""
    if text in ("first", "last", "next"):
        return Position(text)
    if _OFFSET.fullmatch(text):
        if int(text) > OFFSET_MAX:
            raise ValueError(f"must be at most {OFFSET_MAX} as an offset")
        return Position("offset", int(text))
    try:
        moment = parse_moment(text)
    except ValueError:
        expected = "first, last, next, an offset, or a time such as 2026-03-29T01:00:00Z"
        raise ValueError(f"must be {expected}") from None
    return Position("timestamp", microseconds(moment))


def parse_moment(text: str) -> datetime:
    """A point in time. One without a zone is UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("must be a time such as 2026-03-29T01:00:00Z") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def microseconds(moment: datetime) -> int:
    """Since 1970, exactly: a float has too few digits for it."""
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    total = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    if total < 0:
        raise ValueError("must be after 1970 as a time")
    return total


NAME: Final = Parsed("name", parse_name)
KEY: Final = Parsed("text", parse_key)
SERVERS: Final = Parsed("host:port", parse_servers)
HEADER: Final = Parsed("name=value", parse_header)
POSITION: Final = Parsed("position", parse_position)
MOMENT: Final = Parsed("time", parse_moment)
PARTITION: Final = click.IntRange(0, PARTITION_MAX)
COUNT: Final = click.IntRange(1, COUNT_MAX)

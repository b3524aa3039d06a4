"""Values as people write them: sizes, durations, addresses. Pure; a ValueError says the fix.

Every parser takes what a TOML file or an environment variable gives (`object`): text, or a number
or truth value that is already one. The same words are legal as topic options.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from iggy_wire.sealing import parse_key

T = TypeVar("T")

SECOND_US: Final = 1_000_000
UNLIMITED: Final = (1 << 64) - 1  # Iggy protocol 0.11: never expires, has no size limit
SERVER_DEFAULT: Final = 0  # Iggy protocol 0.11: the same as not given
PORT_MAX: Final = 0xFFFF
MTU_BYTES_MIN: Final = 1200
MTU_BYTES_MAX: Final = 0xFFFF
FRAME_BYTES_MIN: Final = 1 << 10  # a login must fit
FRAME_BYTES_MAX: Final = 1 << 30
EXPIRY_US_MAX: Final = ((1 << 32) - 1) * SECOND_US  # what the official clients can express

_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([kmgt])(i?))?b?")
_DURATION_PART: Final = re.compile(r"\s*(\d+)\s*([a-zµ]+)")
_NO_DURATION: Final = frozenset({"0", "none", "unlimited", "disabled"})
_NO_EXPIRY: Final = frozenset({"never_expire", "never", "none", "unlimited"})
_DEFAULT_EXPIRY: Final = frozenset({"server_default", "default"})

_UNITS_NS: Final[dict[str, int]] = {
    unit: nanoseconds
    for nanoseconds, units in {
        1: "ns nsec nanos",
        1_000: "us µs usec micros",
        1_000_000: "ms msec millis",
        1_000_000_000: "s sec secs second seconds",
        60_000_000_000: "m min mins minute minutes",
        3_600_000_000_000: "h hr hrs hour hours",
        86_400_000_000_000: "d day days",
        7 * 86_400_000_000_000: "w week weeks",
        2_630_016_000_000_000: "month months",
        31_557_600_000_000_000: "y year years",
    }.items()
    for unit in units.split()
}


_WEB_ADDRESS: Final = re.compile(r"https?://[^\s/@]+(/\S*)?")
_REACHABLE: Final = re.compile(
    r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9](?:[-A-Za-z0-9.]{0,252}))(?::(?P<port>[0-9]{1,5}))?"
)


class Address(msgspec.Struct, frozen=True):
    """Where to listen. Port 0: the system picks one."""

    host: str
    port: int

    def __str__(self) -> str:
        """As `address` reads it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class Secret(str):
    """Text that must not reach a log: `repr` hides it."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Stars."""
        return "'***'" if self else "''"


def boolean(value: object) -> bool:
    """`true` or `false`; from the environment in any case."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise ValueError("write true or false")


def whole(least: int, most: int) -> Callable[[object], int]:
    """A parser of whole numbers from `least` to `most`."""

    def parse(value: object) -> int:
        number = value if isinstance(value, int) and not isinstance(value, bool) else None
        if isinstance(value, str) and re.fullmatch(r"\d+", value.strip()):
            number = int(value)
        if number is None or not least <= number <= most:
            raise ValueError(f"write a whole number from {least} to {most}")
        return number

    return parse


def text(value: object) -> str:
    """Any text; a number in the environment stays text."""
    if not isinstance(value, str):
        raise ValueError("write text in quotes")
    return value


def secret(value: object) -> Secret:
    """Text that is shown to nobody."""
    return Secret(text(value))


def encryption_key(value: object) -> Secret:
    """The key of encrypted data, or none."""
    given = text(value).strip()
    if given:
        parse_key(given)
    return Secret(given)


def encryption_keys(value: object) -> Secret:
    """Several of them: with commas between, or a list."""
    parts = value if isinstance(value, list) else text(value).split(",")
    return Secret(",".join(filter(None, map(encryption_key, parts))))


def web_address(value: object) -> str:
    """`http://...` or `https://...`, or empty."""
    if not isinstance(value, str) or (value and not _WEB_ADDRESS.fullmatch(value)):
        raise ValueError("write an address like https://store.example.com:9000")
    return value


def reachable(value: object) -> str:
    """`HOST` or `HOST:PORT`, an IPv6 address in brackets; empty for none."""
    if not isinstance(value, str) or (value and not _REACHABLE.fullmatch(value)):
        raise ValueError("write HOST or HOST:PORT, as clients reach the broker")
    if value and reached(value)[1] > PORT_MAX:
        raise ValueError(f"the port may be at most {PORT_MAX}")
    return value


def reached(text: str) -> tuple[str, int]:
    """Host and port of what `reachable` took. Port 0: it named none."""
    match = _REACHABLE.fullmatch(text)
    assert match is not None, "checked"
    return match["host"].strip("[]"), int(match["port"] or 0)


def choice(*words: str) -> Callable[[object], str]:
    """A parser of one of `words`, in any case."""

    def parse(value: object) -> str:
        word = value.strip().lower() if isinstance(value, str) else None
        if word not in words:
            raise ValueError(f"write one of {', '.join(words)}")
        return word

    return parse


def size(value: object) -> int:
    """Bytes: `1048576`, `512 MiB` (powers of 1024), `2 MB` (powers of 1000)."""
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value <= UNLIMITED:
            raise ValueError("write a size from 0 bytes to below 16 EiB")
        return value
    found = _SIZE.fullmatch(value.strip().lower()) if isinstance(value, str) else None
    if found is None:
        raise ValueError("write a size like 1048576, 512 MiB (1024) or 2 MB (1000)")
    number, prefix, binary = found.groups()
    power = "kmgt".index(prefix) + 1 if prefix else 0
    factor = pow(1024 if binary else 1000, power)
    whole_part, _, fraction = number.partition(".")
    scaled: int = int(whole_part + fraction) * factor // 10 ** len(fraction)
    if scaled > UNLIMITED:
        raise ValueError("write a size below 16 EiB")
    return scaled


def frame_size(value: object) -> int:
    """The largest frame: more than its header, and no more than a shard should hold at once."""
    size_bytes = size(value)
    if not FRAME_BYTES_MIN <= size_bytes <= FRAME_BYTES_MAX:
        raise ValueError("write a size from 1 KiB to 1 GiB")
    return size_bytes


def topic_size(value: object) -> int:
    """A size, or `unlimited`, or `server_default` (which is 0)."""
    word = value.strip().lower() if isinstance(value, str) else ""
    if word in ("unlimited", "none"):
        return UNLIMITED
    if word in _DEFAULT_EXPIRY:
        return SERVER_DEFAULT
    try:
        return size(value)
    except ValueError as error:
        raise ValueError(f"{error}, or unlimited, or server_default") from None


def optional_size(value: object) -> int:
    """A size, or `none` (or `unlimited`), which is 0."""
    if isinstance(value, str) and value.strip().lower() in ("none", "unlimited"):
        return 0
    try:
        return size(value)
    except ValueError as error:
        raise ValueError(f"{error}, or none") from None


def positive_size(value: object) -> int:
    """A size above 0."""
    size_bytes = size(value)
    if size_bytes == 0:
        raise ValueError("write a size above 0, like 1048576 or 4 MiB")
    return size_bytes


def duration(value: object) -> int:
    """Microseconds: `500 ms`, `30 s`, `1h 30m`, `7 days`; `0` or `none` is 0."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise ValueError("write a duration like 500 ms, 30 s or 7 days")
    words = value.strip().lower()
    return 0 if words in _NO_DURATION else _sum_of_parts(words)


def _sum_of_parts(words: str) -> int:
    nanoseconds, at = 0, 0
    while at < len(words):
        part = _DURATION_PART.match(words, at)
        unit_ns = _UNITS_NS.get(part[2]) if part else None
        if part is None or unit_ns is None:
            break
        nanoseconds += int(part[1]) * unit_ns
        at = part.end()
    if at == 0 or words[at:].strip():
        raise ValueError("write a duration with its unit, like 500 ms, 30 s, 1h 30m or 7 days")
    microseconds = nanoseconds // 1000
    if microseconds >= UNLIMITED:
        raise ValueError("write a shorter duration")
    return microseconds


def positive_duration(value: object) -> int:
    """A duration above 0."""
    microseconds = duration(value)
    if microseconds == 0:
        raise ValueError("write a duration above 0, like 500 ms, 30 s or 7 days")
    return microseconds


def expiry(value: object) -> int:
    """A duration, or `never_expire` (2^64-1), or `server_default` (0)."""
    word = value.strip().lower() if isinstance(value, str) else ""
    if word in _NO_EXPIRY:
        return UNLIMITED
    if word in _DEFAULT_EXPIRY:
        return SERVER_DEFAULT
    try:
        microseconds = duration(value)
    except ValueError as error:
        raise ValueError(f"{error}, or never_expire, or server_default") from None
    if microseconds > EXPIRY_US_MAX:
        raise ValueError("write an expiry of at most 136 years, or never_expire")
    return microseconds


def address(value: object) -> Address:
    """`host:port`, with an IPv6 host in brackets."""
    host, _, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    if not host or not port.isdecimal() or int(port) > PORT_MAX:
        raise ValueError("write host:port, like 127.0.0.1:8090 or [::1]:8090")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError("write an IPv6 host in brackets, like [::1]:8090")
    return Address(host, int(port))


def show_size(size_bytes: int) -> str:
    """Text that `topic_size` reads back."""
    if size_bytes == UNLIMITED:
        return "unlimited"
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if size_bytes and size_bytes % 1024**power == 0:
            return f"{size_bytes // 1024**power} {unit}"
    return f"{size_bytes} B"


def mtu(value: object) -> int:
    """Bytes of a datagram of QUIC (RFC 9000, 14)."""
    size_bytes = size(value)
    if not MTU_BYTES_MIN <= size_bytes <= MTU_BYTES_MAX:
        raise ValueError("write a size from 1200 to 65535 bytes")
    return size_bytes


def window(value: object) -> int:
    """A window of QUIC: above 0, below 4 GiB."""
    size_bytes = positive_size(value)
    if size_bytes >= 1 << 32:
        raise ValueError("write a size below 4 GiB")
    return size_bytes


def show_optional_size(size_bytes: int) -> str:
    """Text that `optional_size` reads back."""
    return show_size(size_bytes) if size_bytes else "none"


def show_duration(duration_us: int) -> str:
    """Text that `expiry` and `duration` read back."""
    if duration_us == UNLIMITED:
        return "never_expire"
    if duration_us == 0:
        return "none"
    for factor, unit in ((86_400_000_000, "d"), (3_600_000_000, "h"), (60_000_000, "m")):
        if duration_us % factor == 0:
            return f"{duration_us // factor} {unit}"
    if duration_us % SECOND_US == 0:
        return f"{duration_us // SECOND_US} s"
    return f"{duration_us} us" if duration_us % 1000 else f"{duration_us // 1000} ms"


def path(value: object) -> Path:
    """A path, `~` for the home directory."""
    if not isinstance(value, str) or not value:
        raise ValueError("write a path in quotes")
    return Path(value).expanduser()


def cpu_allocation(value: object) -> str:
    """`all`, a number of shards, `a..b` (b not included), or the original's `numa:` words."""
    words = str(value).strip().lower() if isinstance(value, str | int) else ""
    if re.fullmatch(r"all|numa:\S+", words):
        return words
    if re.fullmatch(r"\d+(\.\.\d+)?", words) and cores_wanted(words):
        return words
    raise ValueError("write all, a number of shards like 4, or a range of cores like 0..4")


def cores_wanted(allocation: str) -> int:
    """How many shards an allocation asks for; 0: as many as there are cores."""
    if not allocation[0].isdigit():
        return 0
    first, _, last = allocation.partition("..")
    return max(0, int(last) - int(first)) if last else int(first)

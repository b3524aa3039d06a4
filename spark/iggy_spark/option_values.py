"""Texts of options → values. Every parser gets the option's name, for its error, and the text."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from iggy_spark.errors import OptionError

SERVERS_MAX = 64
PORT_MAX = 65535
NAME_BYTES_MAX = 255  # Iggy protocol 0.11: names have 1 to 255 bytes
DURATION_DAYS_MAX = 365
JSON_CHARS_MAX = 1 << 20  # of one option
MILLISECONDS_MAX = 10**14  # the year 5138; more is a time in microseconds

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def fail(name: str, value: object, expected: str) -> OptionError:
    """The error that says what is wrong and what to write instead."""
    return OptionError(f"{name}={value!r} is not valid: use {expected}")


def unknown(name: str, known: Mapping[str, str], *, of: str) -> OptionError:
    """The error for a name that is no option; `known` has names in lower case, and as written."""
    near = get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    hint = f"did you mean {known[near[0]]}?" if near else "see the list of options"
    return OptionError(f"{name} is not an option of {of}: {hint}")


def text(name: str, value: str) -> str:
    """A text that is not empty."""
    if not value:
        raise fail(name, value, "a text that is not empty")
    return value


def resource_name(name: str, value: str) -> str:
    """The name of a stream, topic or group."""
    if not 1 <= len(value.encode()) <= NAME_BYTES_MAX:
        raise fail(name, value, "a name of 1 to 255 bytes")
    return value


def boolean(name: str, value: str) -> bool:
    """`true` or `false`, in any case."""
    if value.lower() not in ("true", "false"):
        raise fail(name, value, "true or false")
    return value.lower() == "true"


def word(*words: str) -> Callable[[str, str], str]:
    """One of these words, in any case."""

    def parse(name: str, value: str) -> str:
        if value.lower() not in words:
            raise fail(name, value, f"one of {', '.join(words)}")
        return value.lower()

    return parse


def number(low: int, high: int) -> Callable[[str, str], int]:
    """A whole number from `low` to `high`."""

    def parse(name: str, value: str) -> int:
        if not re.fullmatch(r"[0-9]{1,19}", value) or not low <= int(value) <= high:
            raise fail(name, value, f"a whole number from {low} to {high}")
        return int(value)

    return parse


_UNITS_MS = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration_ms(name: str, value: str) -> int:
    """`500ms`, `10s`, `5m`, `1h30m`, or plain milliseconds.

    Raises:
        OptionError: anything else, or more than 365 days.
    """
    parts = re.findall(r"([0-9]{1,12})(ms|[smhd]|)", value)
    if (
        not parts
        or "".join(map("".join, parts)) != value
        or ("" in dict(parts).values() and parts[1:])
    ):
        raise fail(name, value, "a duration such as 500ms, 10s or 5m")
    total_ms = sum(int(count) * _UNITS_MS[unit] for count, unit in parts)
    if total_ms > DURATION_DAYS_MAX * _UNITS_MS["d"]:
        raise fail(name, value, f"at most {DURATION_DAYS_MAX}d")
    return total_ms


_SIZES = {"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}


def size(low: int, high: int) -> Callable[[str, str], int]:
    """Bytes from `low` to `high`, such as `65536` or `4MiB`."""

    def parse(name: str, value: str) -> int:
        hit = re.fullmatch(r"([0-9]{1,15}) ?([kmg]ib|b|)", value.lower())
        found = int(hit[1]) * _SIZES[hit[2]] if hit else -1
        if not low <= found <= high:
            raise fail(name, value, f"a size such as 65536 or 4MiB, at most {high >> 30}GiB")
        return found

    return parse


def servers(name: str, value: str) -> tuple[str, ...]:
    """`host:port`, with commas between several."""
    found = tuple(part.strip() for part in value.split(","))
    if len(found) > SERVERS_MAX:
        raise fail(name, value, f"at most {SERVERS_MAX} servers")
    for server in found:
        host, colon, port = server.rpartition(":")
        if not colon or not host or not port.isdecimal() or not 1 <= int(port) <= PORT_MAX:
            raise fail(name, value, "host:port, with commas between several")
    return found


def columns(name: str, value: str) -> tuple[str, ...]:
    """Column names in lower case, each once."""
    found = tuple(part.strip().lower() for part in value.split(","))
    if len(set(found)) != len(found):
        raise fail(name, value, "each column once")
    return found


def json_value(name: str, value: str, expected: str) -> Any:
    """The value of a JSON text; `expected` says what to write instead of something else."""
    if len(value) > JSON_CHARS_MAX:
        raise OptionError(f"{name} is too long: at most {JSON_CHARS_MAX} characters")
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise fail(name, value, expected) from None


def instant_us(name: str, value: object) -> int:
    """A time as microseconds since 1970 UTC, from epoch milliseconds or ISO 8601 with a zone.

    Raises:
        OptionError: anything else, or a number that can only be microseconds.
    """
    expected = "epoch milliseconds such as 1767225600000, or 2026-01-01T00:00:00Z"
    is_number = type(value) is int or (isinstance(value, str) and value.isdecimal())
    if is_number and (milliseconds := int(str(value)[:20])) >= 0:
        if milliseconds > MILLISECONDS_MAX:
            raise fail(name, value, f"{expected}; this looks like microseconds")
        return milliseconds * 1000
    try:
        moment = datetime.datetime.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        raise fail(name, value, expected) from None
    if moment.tzinfo is None:
        raise fail(name, value, f"{expected}; this one does not say in which zone it is")
    if moment < EPOCH:
        raise fail(name, value, f"{expected}; not before 1970")
    return (moment - EPOCH) // datetime.timedelta(microseconds=1)

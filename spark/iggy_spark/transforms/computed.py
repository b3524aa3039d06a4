"""Values that transforms put into documents: fixed ones, and those that are computed.

Most come from the message, so a replay gives the same ones; those of NOT_REPEATABLE do not.
"""

from __future__ import annotations

import datetime
import os
import time
import uuid
from collections.abc import Callable
from typing import Any

import msgspec

from iggy_spark.errors import OptionError
from iggy_spark.transforms.arguments import Arguments, nearest
from iggy_spark.transforms.base import At

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
# RFC 9562, name-based: any fixed namespace does, as long as it stays the same.
_NAMESPACE = uuid.UUID("5b0c4a36-6d3a-5c0f-9a5e-3f4be3f9a7d1")

Compute = Callable[[At], Any]


def time_text(timestamp_us: int) -> str:
    """Microseconds since 1970 UTC → RFC 3339.

    Raises:
        OverflowError: outside the years 1 to 9999.
    """
    moment = _EPOCH + datetime.timedelta(microseconds=timestamp_us)
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _position_id(at: At) -> str:
    """The same for a message however often it is read, and no other message's."""
    messages = at.messages
    position = f"{messages.incarnation}/{messages.partition}/{messages.offsets[at.row]}"
    return str(uuid.uuid5(_NAMESPACE, position))


def _uuid_v7(at: At) -> str:
    # RFC 9562: 48 bits of milliseconds, version, 12 random bits, variant, 62 random bits.
    random = int.from_bytes(os.urandom(10), "big")
    number = (time.time_ns() // 1_000_000) << 80 | random
    number = number & ~(0xF << 76) | 7 << 76
    return str(uuid.UUID(int=number & ~(0x3 << 62) | 0x2 << 62))


_UNITS = {
    "nanos": lambda us: us * 1000,
    "micros": lambda us: us,
    "millis": lambda us: us // 1000,
    "seconds": lambda us: us // 1_000_000,
}


def _times(prefix: str, read: Callable[[At], int]) -> dict[str, Compute]:
    def one(convert: Callable[[int], int]) -> Compute:
        return lambda at: convert(read(at))

    return {f"{prefix}_{unit}": one(convert) for unit, convert in _UNITS.items()}


_REPEATABLE: dict[str, Compute] = {
    **_times("broker_timestamp", lambda at: at.messages.timestamps_us[at.row]),
    **_times("origin_timestamp", lambda at: at.messages.origin_timestamps_us[at.row]),
    "stream": lambda at: at.messages.stream,
    "topic": lambda at: at.messages.topic,
    "partition": lambda at: at.messages.partition,
    "offset": lambda at: at.messages.offsets[at.row],
    "message_id": lambda at: at.messages.ids[at.row],
    "uuid_v5": _position_id,
}
_CHANGING: dict[str, Compute] = {
    "date_time": lambda at: time_text(time.time_ns() // 1000),
    **_times("timestamp", lambda at: time.time_ns() // 1000),
    "uuid_v4": lambda at: str(uuid.uuid4()),
    "uuid_v7": _uuid_v7,
}
NOT_REPEATABLE = frozenset(_CHANGING)
ALLOW_UNREPEATABLE = "allowUnrepeatable"
"""The argument by which somebody says that these may differ, where a target tells repeated messages
by something else.
"""
_COMPUTED = {**_REPEATABLE, **_CHANGING}


def parse_value(arguments: Arguments, name: str) -> Compute:
    """The argument `{static: VALUE}` or `{computed: KIND}`.

    Raises:
        OptionError: it is neither, or the kind is unknown.
    """
    given = Arguments(arguments.value(name), arguments.at(name), ("static", "computed"))
    if ("static" in given) == ("computed" in given):
        raise OptionError(f"{given.place}: either static or computed is expected")
    if "static" in given:
        return _fixed(given.value("static"))
    kind = given.value("computed")
    if not isinstance(kind, str) or kind not in _COMPUTED:
        raise OptionError(f"{given.at('computed')}: {kind!r:.60}: {nearest(kind, _COMPUTED)}")
    return _COMPUTED[kind]


def _fixed(value: Any) -> Compute:
    if isinstance(value, (dict, list)):
        encoded = msgspec.json.encode(value)  # every document gets one of its own
        return lambda at: msgspec.json.decode(encoded)
    return lambda at: value

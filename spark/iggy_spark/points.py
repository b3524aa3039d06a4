"""Where a read starts and ends, as the options say it: words, offsets and times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from iggy_spark.errors import OptionError
from iggy_spark.offsets import COMMITTED, EARLIEST, LATEST, OFFSET_MAX
from iggy_spark.option_values import fail, instant_us, json_value
from iggy_spark.selection import Selection

WORDS = {"earliest": EARLIEST, "latest": LATEST, "committed": COMMITTED}


@dataclass(frozen=True, slots=True)
class Instant:
    """The first message that the broker took at or after this time."""

    us: int  # since 1970 UTC


Mark = int | Instant  # an offset, one of WORDS' numbers, or a time


@dataclass(frozen=True, slots=True)
class Point:
    """One mark for every partition, or marks by topic and partition."""

    option: str  # where it comes from, for messages
    everywhere: Mark | None
    places: Mapping[str, Mapping[int, Mark]] = field(default_factory=dict)

    @property
    def marks(self) -> set[Mark]:
        """All marks in it."""
        inner = {mark for marks in self.places.values() for mark in marks.values()}
        return inner if self.everywhere is None else {self.everywhere}

    @property
    def moves(self) -> str | None:
        """What in it is somewhere else when it is looked up later; None if nothing is."""
        for mark in self.marks:
            if isinstance(mark, Instant):
                return f"{self.option}, a time,"
            if mark in (LATEST, COMMITTED):
                return f"{self.option}={'latest' if mark == LATEST else 'committed'}"
        return None


def starting(values: Mapping[str, Any], selection: Selection, mode: str | None) -> Point:
    """The start: `startingTimestamp`, else `startingOffsetsByTimestamp`, else `startingOffsets`.

    Raises:
        OptionError: a wrong text, or a start that this kind of read cannot have.
    """
    point = _given(values, selection, "starting")
    if point is None:
        return Point("startingOffsets", LATEST if mode == "stream" else EARLIEST)
    if mode == "batch" and LATEST in point.marks:
        raise OptionError("startingOffsets=latest would read nothing in a batch: use earliest")
    if COMMITTED in point.marks and values["consumerGroup"] is None:
        raise OptionError("startingOffsets=committed needs consumerGroup: whose offsets are meant?")
    return point


def ending(values: Mapping[str, Any], selection: Selection) -> Point:
    """The exclusive end of a batch, by the same rule.

    Raises:
        OptionError: a wrong text, or an end that is a start.
    """
    point = _given(values, selection, "ending") or Point("endingOffsets", LATEST)
    if point.marks & {EARLIEST, COMMITTED}:
        raise OptionError("endingOffsets must be latest or offsets: an end at the start is empty")
    return point


def _given(values: Mapping[str, Any], selection: Selection, which: str) -> Point | None:
    moment, by_time, by_offset = (
        f"{which}Timestamp", f"{which}OffsetsByTimestamp", f"{which}Offsets"
    )  # fmt: skip
    if values[moment] is not None:
        return Point(moment, Instant(values[moment]))
    if values[by_time] is not None:
        return _point(by_time, values[by_time], selection, _instant)
    if values[by_offset] is None:
        return None
    known = WORDS.get(values[by_offset].lower())
    if known is not None:
        return Point(by_offset, known)
    return _point(by_offset, values[by_offset], selection, _offset)


def _point(option: str, text: str, selection: Selection, read: Any) -> Point:
    example = '{"0": 23, "1": -2}' if read is _offset else '{"0": "2026-01-01T00:00:00Z"}'
    words = "earliest, latest, committed, or " if read is _offset else ""
    value = json_value(option, text, f"{words}JSON such as {example}")
    shape = (
        f'{option} must be JSON such as {example}, or {{"stream/topic": {example}}}: partition to '
        f"{'offset' if read is _offset else 'time'}"
    )
    if not isinstance(value, dict) or not value:
        raise OptionError(shape)
    only = selection.only
    if only is not None and set(value) != {str(only)}:
        value = {str(only): value}
    places: dict[str, Mapping[int, Mark]] = {}
    for name, inner in value.items():
        if not selection.matches(name):
            raise OptionError(f"{option}: topic {name!r} is not read, {selection} is")
        if not isinstance(inner, dict) or not inner:
            raise OptionError(shape)
        places[name] = {
            _partition(option, key, name, selection, shape): read(option, key, mark)
            for key, mark in inner.items()
        }
    return Point(option, None, places)


def _partition(option: str, key: str, topic: str, selection: Selection, shape: str) -> int:
    if not key.isdecimal():
        raise OptionError(f"{shape}; {key!r} is no partition of topic {topic}")
    if not selection.reads(topic, int(key)):
        raise OptionError(f"{option}: partition {key} of {topic} is not read, {selection} is")
    return int(key)


def _offset(option: str, key: str, mark: Any) -> int:
    if type(mark) is not int or not COMMITTED <= mark <= OFFSET_MAX:
        raise OptionError(
            f"{option}: partition {key}: {mark!r} is not an offset "
            "(a number from 0, -2 for earliest, -1 for latest)"
        )
    return mark


def _instant(option: str, key: str, mark: Any) -> Instant:
    if type(mark) not in (int, str):
        raise fail(f"{option}: partition {key}", mark, "epoch milliseconds or ISO 8601")
    return Instant(instant_us(f"{option}: partition {key}", mark))

"""Marks of a start or an end → positions in one topic, with the broker's help."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iggy_spark.connections import Connection
from iggy_spark.errors import OptionError
from iggy_spark.offsets import COMMITTED, EARLIEST, LATEST, Offsets, TopicState
from iggy_spark.option_values import EPOCH
from iggy_spark.options import ReadOptions
from iggy_spark.points import Instant, Mark, Point
from iggy_spark.selection import Selection


def check_places(selection: Selection, states: Sequence[TopicState], *points: Point) -> None:
    """Refuse partitions and marks that are named and not there.

    Raises:
        OptionError: there is no such topic, or no such partition of `assign`.
    """
    there = {state.name: state.ends for state in states}
    for point in points:
        for name in point.places.keys() - there.keys():
            raise OptionError(f"{point.option}: topic {name} does not exist")
    for name, numbers in selection.partitions.items():
        for number in sorted(numbers - there[name].keys()):
            raise OptionError(f"assign: partition {number} of {name} does not exist")


def resolve_start(
    options: ReadOptions, state: TopicState, connection: Connection, *, stream: bool
) -> Offsets:
    """The first offset to read in every partition.

    Partitions that the option leaves out start at the earliest message in a stream.

    Raises:
        OptionError: a partition does not exist, is left out of a batch, or ends before the start.
    """
    wanted = _per_partition(options.starting, state, EARLIEST if stream else None)
    resolver = _Resolver(options, state, connection)
    positions = {number: resolver.offset(number, mark) for number, mark in wanted.items()}
    return Offsets(state.name, str(state.incarnation), positions)


def resolve_end(
    options: ReadOptions, state: TopicState, connection: Connection, start: Offsets
) -> Offsets:
    """Where a batch read ends, exclusive, in every partition.

    Raises:
        OptionError: a partition does not exist, is left out, or the end is below the start.
    """
    point = options.ending
    ends = {}
    for number, mark in _per_partition(point, state, None).items():
        end = _end(point.option, number, mark, state, connection)
        if end < start.positions[number]:
            raise OptionError(
                f"{point.option}: partition {number} would end at {end}, before its start at "
                f"{start.positions[number]}"
            )
        ends[number] = end
    return Offsets(state.name, str(state.incarnation), ends)


def _end(option: str, number: int, mark: Mark, state: TopicState, connection: Connection) -> int:
    if isinstance(mark, Instant):
        found = connection.at_time(number, mark.us)
        return state.ends[number] if found is None else min(found, state.ends[number])
    return state.ends[number] if mark == LATEST else _within(number, mark, state, option)


def _per_partition(point: Point, state: TopicState, default: int | None) -> Mapping[int, Mark]:
    if point.everywhere is not None:
        return dict.fromkeys(state.ends, point.everywhere)
    given = point.places.get(state.name, {})
    for number in given:
        if number not in state.ends:
            raise OptionError(
                f"{point.option}: partition {number} does not exist, {state.name} has "
                f"{len(state.ends)} partitions"
            )
    missing = [number for number in state.ends if number not in given]
    if missing and default is None:
        raise OptionError(
            f"{point.option}: partitions {missing} are missing, a batch needs all of them"
            f" ({state.name})"
        )
    return {number: given.get(number, default or 0) for number in state.ends}


@dataclass(frozen=True, slots=True)
class _Resolver:
    """Marks of a start in one topic → offsets."""

    options: ReadOptions
    state: TopicState
    connection: Connection

    def offset(self, number: int, mark: Mark) -> int:
        if isinstance(mark, Instant):
            return self._at_time(number, mark.us)
        if mark == LATEST:
            return self.state.ends[number]
        if mark == EARLIEST:
            return self._earliest(number)
        if mark == COMMITTED:
            assert self.options.consumer_group is not None, "checked with the options"
            stored = self.connection.stored(self.options.consumer_group, number)
            return self._earliest(number) if stored is None else stored + 1
        return _within(number, mark, self.state, self.options.starting.option)

    def _earliest(self, number: int) -> int:
        found = self.connection.earliest(number) if self.state.ends[number] else None
        return self.state.ends[number] if found is None else found

    def _at_time(self, number: int, us: int) -> int:
        end = self.state.ends[number]
        found = self.connection.at_time(number, us)
        if found is not None:
            return min(found, end)
        if self.options.timestamp_strategy == "latest":
            return end
        moment = EPOCH + datetime.timedelta(microseconds=us)
        raise OptionError(
            f"{self.options.starting.option}: partition {number} of {self.state.name} has no "
            f"message from {moment} on: take an earlier time, or "
            "startingOffsetsByTimestampStrategy=latest to start at its end"
        )


def _within(number: int, offset: int, state: TopicState, option: str) -> int:
    if offset > state.ends[number]:
        raise OptionError(
            f"{option}: partition {number} ends at {state.ends[number]}, {offset} is beyond it"
        )
    return offset

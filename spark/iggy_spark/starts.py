"""Words and numbers of startingOffsets and endingOffsets → positions, with the broker's help."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from iggy_spark.connections import Connection
from iggy_spark.errors import OptionError
from iggy_spark.offsets import COMMITTED, EARLIEST, LATEST, Offsets, TopicState
from iggy_spark.options import ReadOptions, Start

_WORDS = {"earliest": EARLIEST, "latest": LATEST, "committed": COMMITTED}


def resolve_start(
    options: ReadOptions, state: TopicState, connection: Connection, *, stream: bool
) -> Offsets:
    """The first offset to read in every partition.

    Partitions that the option leaves out start at the earliest message in a stream.

    Raises:
        OptionError: a partition does not exist, is left out of a batch, or ends before the start.
    """
    default = EARLIEST if stream else None
    wanted = _per_partition(options.starting_offsets, state, "startingOffsets", default)
    resolve = _resolver(options, state, connection)
    positions = {number: resolve(number, mark) for number, mark in wanted.items()}
    return Offsets(state.name, str(state.incarnation), positions)


def resolve_end(options: ReadOptions, state: TopicState, start: Offsets) -> Offsets:
    """Where a batch read ends, exclusive, in every partition.

    Raises:
        OptionError: a partition does not exist, is left out, or the end is below the start.
    """
    wanted = _per_partition(options.ending_offsets, state, "endingOffsets", None)
    ends = {
        number: state.ends[number]
        if mark == LATEST
        else _within(number, mark, state, "endingOffsets")
        for number, mark in wanted.items()
    }
    for number, end in ends.items():
        if end < start.positions[number]:
            raise OptionError(
                f"endingOffsets: partition {number} would end at {end}, before its start at "
                f"{start.positions[number]}"
            )
    return Offsets(state.name, str(state.incarnation), ends)


def _per_partition(
    value: Start, state: TopicState, option: str, default: int | None
) -> Mapping[int, int]:
    if isinstance(value, str):
        return dict.fromkeys(state.ends, _WORDS[value])
    for number in value:
        if number not in state.ends:
            raise OptionError(
                f"{option}: partition {number} does not exist, {state.name} has "
                f"{len(state.ends)} partitions"
            )
    missing = [number for number in state.ends if number not in value]
    if missing and default is None:
        raise OptionError(f"{option}: partitions {missing} are missing, a batch needs all of them")
    return {number: value.get(number, default or 0) for number in state.ends}


def _resolver(
    options: ReadOptions, state: TopicState, connection: Connection
) -> Callable[[int, int], int]:
    def earliest(number: int) -> int:
        found = connection.earliest(number) if state.ends[number] else None
        return state.ends[number] if found is None else found

    def resolve(number: int, mark: int) -> int:
        if mark == LATEST:
            return state.ends[number]
        if mark == EARLIEST:
            return earliest(number)
        if mark == COMMITTED:
            assert options.consumer_group is not None, "checked with the options"
            stored = connection.stored(options.consumer_group, number)
            return earliest(number) if stored is None else stored + 1
        return _within(number, mark, state, "startingOffsets")

    return resolve


def _within(number: int, offset: int, state: TopicState, option: str) -> int:
    if offset > state.ends[number]:
        raise OptionError(
            f"{option}: partition {number} ends at {state.ends[number]}, {offset} is beyond it"
        )
    return offset

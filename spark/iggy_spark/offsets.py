"""Which offsets each micro-batch and each task reads. Pure: no broker, no clock, no files.

All ends are exclusive. Offsets travel through Spark's checkpoint as JSON and Spark compares them as
text, so partitions always come in numerical order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from iggy_spark.errors import DataLoss, OffsetFormatError, OptionError, TopicRecreated

OFFSETS_VERSION = 1
EARLIEST = -2
LATEST = -1
COMMITTED = -3
RANGE_ROWS_MIN = 1000  # messages of a task when `minPartitions` splits; less is not worth a task
OFFSET_MAX = (1 << 62) - 1  # the wire's offsets end below this


@dataclass(frozen=True, slots=True)
class Incarnation:
    """One life of a topic: recreated under the same name it is another one."""

    topic_id: int
    created_at_us: int

    def __str__(self) -> str:
        """As offsets and file names carry it: "<topic id>-<creation time>"."""
        return f"{self.topic_id}-{self.created_at_us}"


@dataclass(frozen=True, slots=True)
class TopicState:
    """What the broker says about a topic: per partition the end, one past the last message."""

    name: str  # "stream/topic"
    incarnation: Incarnation
    ends: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Offsets:
    """The next offset to read in each partition of one topic."""

    topic: str  # "stream/topic"
    incarnation: str
    positions: Mapping[int, int]

    def to_json(self) -> dict[str, Any]:
        """As the checkpoint stores it; the same positions always give the same text."""
        inner: dict[str, Any] = {"incarnation": self.incarnation}
        inner.update((str(number), self.positions[number]) for number in sorted(self.positions))
        return {"v": OFFSETS_VERSION, "topics": {self.topic: inner}}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Offsets:
        """Read what `to_json` wrote.

        Raises:
            OffsetFormatError: another version or shape; the message says what to do.
        """
        try:
            version, topics = value["v"], value["topics"]
            if version != OFFSETS_VERSION:
                raise OffsetFormatError(
                    f"the checkpoint holds offsets of format {version!r}, this version reads "
                    f"{OFFSETS_VERSION}: use the version that wrote them or a new checkpoint"
                )
            ((topic, inner),) = topics.items()
            positions = {int(k): int(v) for k, v in inner.items() if k != "incarnation"}
            return Offsets(topic, str(inner["incarnation"]), dict(sorted(positions.items())))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise OffsetFormatError(
                f"the checkpoint's offsets are not offsets of one Iggy topic ({error}): "
                "use the checkpoint that belongs to this query or a new one"
            ) from error


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """A run of messages of one partition, `first` included, `end` excluded. One task reads it."""

    incarnation: str
    partition: int
    first: int
    end: int

    @property
    def count(self) -> int:
        """How many messages the range asks for."""
        return self.end - self.first


@dataclass(frozen=True, slots=True)
class Advance:
    """Where reading may go on after a look at the broker."""

    start: Offsets  # `start` as given, or corrected where data was lost and that is allowed
    ends: Mapping[int, int]  # never below `start`
    notes: tuple[str, ...]  # what was lost, a sentence each


def check_topic(offsets: Offsets, topic: str) -> None:
    """Refuse offsets of another topic.

    Raises:
        OffsetFormatError: the checkpoint belongs to another query.
    """
    if offsets.topic != topic:
        raise OffsetFormatError(
            f"the checkpoint belongs to topic {offsets.topic!r}, this query reads {topic!r}: "
            "use another checkpoint"
        )


def advance(
    start: Offsets, state: TopicState, *, fail_on_data_loss: bool, restart_recreated: bool
) -> Advance:
    """Compare where a query stands with what the broker has.

    New partitions start at 0. Vanished ones, and ends below the start, are data loss.

    Raises:
        TopicRecreated: another incarnation, unless `restart_recreated`.
        DataLoss: something is gone, unless `fail_on_data_loss` is false.
    """
    check_topic(start, state.name)
    if start.incarnation != str(state.incarnation):
        note = (
            f"topic {state.name} was deleted and created again (now {state.incarnation}, the "
            f"offsets are of {start.incarnation})"
        )
        if not restart_recreated:
            raise TopicRecreated(
                f"{note}: set onTopicRecreated=restart to read the new one from its beginning, "
                "or use a new checkpoint"
            )
        fresh = Offsets(state.name, str(state.incarnation), dict.fromkeys(sorted(state.ends), 0))
        return Advance(fresh, state.ends, (note,))
    positions = {number: start.positions.get(number, 0) for number in sorted(state.ends)}
    losses = [
        f"partition {number} no longer exists; it was read up to offset {start.positions[number]}"
        for number in sorted(start.positions.keys() - state.ends.keys())
    ]
    losses += [
        f"partition {number}: the broker lost its tail, offsets {end}\u2013{positions[number] - 1} "
        f"were read but the partition ends at {end}; was fsync off?"
        for number, end in sorted(state.ends.items())
        if _ends_below(end, positions[number])
    ]
    if losses and fail_on_data_loss:
        raise DataLoss(
            f"{state.name}: {'; '.join(losses)}. Set failOnDataLoss=false to go on without"
        )
    # A partition that ends below its start waits until new messages pass the old end: reading other
    # messages under old numbers would look like duplicates to every sink that is keyed by offset.
    ends = {number: max(end, positions[number]) for number, end in sorted(state.ends.items())}
    return Advance(Offsets(state.name, start.incarnation, positions), ends, tuple(losses))


def _ends_below(end: int, position: int) -> bool:
    # Iggy protocol 0.11 reports current offset 0 and no messages both for an empty partition and
    # for one whose only message was deleted: an end of 0 says nothing against a start of 1.
    return end < position and not (end == 0 and position == 1)


def limit_end(start: Offsets, ends: Mapping[int, int], rows_max: int | None) -> Offsets:
    """The end of the next micro-batch: at most `rows_max` messages past `start`.

    Shares are in proportion to backlog; every waiting partition gets at least one message as long
    as `rows_max` reaches, and what rounding leaves over goes to the largest backlog.
    """
    backlog = {n: ends[n] - p for n, p in start.positions.items() if ends.get(n, p) > p}
    if rows_max is None or sum(backlog.values()) <= rows_max:
        shares = backlog
    else:
        shares = _shares(backlog, rows_max)
    positions = {n: p + shares.get(n, 0) for n, p in sorted(start.positions.items())}
    return Offsets(start.topic, start.incarnation, positions)


def _shares(backlog: Mapping[int, int], rows_max: int) -> dict[int, int]:
    total = sum(backlog.values())
    largest_first = sorted(backlog, key=lambda n: (-backlog[n], n))
    if rows_max <= len(largest_first):
        return dict.fromkeys(largest_first[:rows_max], 1)
    shares = {n: max(1, backlog[n] * rows_max // total) for n in largest_first}
    rest = rows_max - sum(shares.values())
    for n in largest_first:
        # The rest is negative when the minimum of one message gave out more than there was.
        change = min(rest, backlog[n] - shares[n]) if rest >= 0 else -min(-rest, shares[n] - 1)
        shares[n] += change
        rest -= change
    assert rest == 0, "shares must add up to the limit, since the backlog is larger"
    return shares


def plan_ranges(
    start: Offsets, end: Offsets, *, partitions_min: int | None = None
) -> list[OffsetRange]:
    """Ranges in partition order that together hold each offset between `start` and `end` once.

    One for each partition that has something to read, or about `partitions_min`, as long as each
    has `RANGE_ROWS_MIN` messages. Depends on its arguments alone: a replay after a crash gets the
    same tasks.
    """
    if start.incarnation != end.incarnation:
        first = dict.fromkeys(end.positions, 0)
    else:
        first = {n: start.positions.get(n, 0) for n in end.positions}
    ranges = [
        OffsetRange(end.incarnation, n, first[n], stop)
        for n, stop in sorted(end.positions.items())
        if stop > first[n]
    ]
    if partitions_min is None or len(ranges) >= partitions_min:
        return ranges
    step = _step(sum(item.count for item in ranges), partitions_min)
    return [piece for item in ranges for piece in _split(item, step)]


def _step(rows: int, partitions_min: int) -> int:
    """Doubled again and again, so that cuts lie at the same offsets whatever the backlog."""
    step = RANGE_ROWS_MIN
    while 2 * step * partitions_min <= rows:
        step *= 2
    return step


def _split(item: OffsetRange, step: int) -> list[OffsetRange]:
    """Cut at multiples of `step`; an end that would be too short stays with its neighbour."""
    cuts = [
        cut
        for cut in range(item.first - item.first % step + step, item.end, step)
        if cut - item.first >= RANGE_ROWS_MIN and item.end - cut >= RANGE_ROWS_MIN
    ]
    bounds = [item.first, *cuts, item.end]
    return [replace(item, first=a, end=b) for a, b in pairwise(bounds)]


def parse_positions(text_value: Any, *, option: str, topic: str) -> dict[int, int]:
    """Positions from a decoded JSON value: `{"0": 23, "1": -2}`, or that under "stream/topic".

    Raises:
        OptionError: not such an object; the message names the option.
    """
    value = text_value
    if isinstance(value, dict) and set(value) == {topic} and isinstance(value[topic], dict):
        value = value[topic]
    shape = f'{option} must be JSON such as {{"0": 23, "1": -2}}: partition to offset'
    if not isinstance(value, dict) or not value:
        raise OptionError(shape)
    positions: dict[int, int] = {}
    for key, offset in value.items():
        if not key.isdecimal():
            raise OptionError(f"{shape}; {key!r} is no partition of topic {topic}")
        if type(offset) is not int or not COMMITTED <= offset <= OFFSET_MAX:
            raise OptionError(
                f"{option}: partition {key}: {offset!r} is not an offset "
                "(a number from 0, -2 for earliest, -1 for latest)"
            )
        positions[int(key)] = offset
    return dict(sorted(positions.items()))

"""Which offsets each micro-batch and each task reads. Pure: no broker, no clock, no files.

All ends are exclusive. Offsets travel through Spark's checkpoint as JSON and Spark compares them as
text, so topics always come in the order of their names and partitions in numerical order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

from iggy_spark.errors import DataLoss, OffsetFormatError, TopicRecreated

OFFSETS_VERSION = 1
EARLIEST = -2
LATEST = -1
COMMITTED = -3
RANGE_ROWS_MIN = 1000  # messages of a task when `minPartitions` splits; less is not worth a task
OFFSET_MAX = (1 << 62) - 1  # the wire's offsets end below this

Place = tuple[str, int]  # topic and partition


@dataclass(frozen=True, slots=True)
class Incarnation:
    """One life of a topic: recreated under the same name it is another one."""

    topic_id: int
    created_at_us: int

    def __str__(self) -> str:
        """As offsets and file names carry it: "<topic id>-<creation time>"."""
        return f"{self.topic_id}-{self.created_at_us}"


class Kept(NamedTuple):
    """How much a partition holds."""

    messages: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class TopicState:
    """What the broker says about a topic: per partition the end, one past the last message."""

    name: str  # "stream/topic"
    incarnation: Incarnation | str  # a text where it is the archive's
    ends: Mapping[int, int]
    kept: Mapping[int, Kept] = field(default_factory=dict)
    expiry_us: int | None = None  # how long messages are kept; None: for ever, or not told


@dataclass(frozen=True, slots=True)
class Offsets:
    """The next offset to read in each partition of one topic."""

    topic: str  # "stream/topic"
    incarnation: str
    positions: Mapping[int, int]
    # When the broker took the last message before each position, microseconds, where that is known.
    # It tells a partition that was read from one that gave the same offsets to other messages.
    last_us: Mapping[int, int] = field(default_factory=dict, compare=False)

    def to_json(self) -> dict[str, Any]:
        """As the checkpoint of a query of this topic stores it."""
        return QueryOffsets.of([self]).to_json()

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Offsets:
        """Read what `to_json` wrote.

        Raises:
            OffsetFormatError: another version or shape; the message says what to do.
        """
        topics = QueryOffsets.from_json(value).topics
        if len(topics) != 1:
            raise OffsetFormatError(
                f"the checkpoint holds offsets of {len(topics)} topics, and one is read: use the "
                "checkpoint that belongs to this query or a new one"
            )
        return next(iter(topics.values()))


@dataclass(frozen=True, slots=True)
class QueryOffsets:
    """The next offsets to read in all topics of a query."""

    topics: Mapping[str, Offsets]  # by name, in the order of the names

    @staticmethod
    def of(topics: Iterable[Offsets]) -> QueryOffsets:
        """Those of these topics."""
        return QueryOffsets({item.topic: item for item in sorted(topics, key=_name)})

    @property
    def places(self) -> dict[Place, int]:
        """The same, one entry a partition."""
        return {
            (name, number): position
            for name, item in self.topics.items()
            for number, position in item.positions.items()
        }

    def to_json(self) -> dict[str, Any]:
        """As the checkpoint stores it; the same positions always give the same text."""
        topics: dict[str, Any] = {}
        for name, item in sorted(self.topics.items()):
            inner: dict[str, Any] = {"incarnation": item.incarnation}
            inner.update((str(number), item.positions[number]) for number in sorted(item.positions))
            topics[name] = inner
        value: dict[str, Any] = {"v": OFFSETS_VERSION, "topics": topics}
        times = {
            name: {str(number): at for number, at in sorted(item.last_us.items())}
            for name, item in sorted(self.topics.items())
            if item.last_us
        }
        return {**value, "last_us": times} if times else value

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> QueryOffsets:
        """Read what `to_json` wrote.

        Raises:
            OffsetFormatError: another version or shape; the message says what to do.
        """
        try:
            version = value["v"]
            if version != OFFSETS_VERSION:
                raise OffsetFormatError(
                    f"the checkpoint holds offsets of format {version!r}, this version reads "
                    f"{OFFSETS_VERSION}: use the version that wrote them or a new checkpoint"
                )
            times = value.get("last_us", {})  # not in checkpoints of older versions
            topics = [
                _offsets(name, inner, times.get(name, {}))
                for name, inner in value["topics"].items()
            ]
            return QueryOffsets.of(topics)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise OffsetFormatError(
                f"the checkpoint's offsets are not offsets of Iggy topics ({error}): "
                "use the checkpoint that belongs to this query or a new one"
            ) from error


def _name(offsets: Offsets) -> str:
    return offsets.topic


def _offsets(topic: str, inner: Mapping[str, Any], times: Mapping[str, Any]) -> Offsets:
    positions = {int(k): int(v) for k, v in inner.items() if k != "incarnation"}
    last_us = {int(k): int(v) for k, v in times.items()}
    return Offsets(topic, str(inner["incarnation"]), dict(sorted(positions.items())), last_us)


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
class Task:
    """What one task reads."""

    topic: str  # "stream/topic"
    wanted: OffsetRange


@dataclass(frozen=True, slots=True)
class Advance:
    """Where reading may go on after a look at the broker."""

    start: QueryOffsets  # as given, or corrected where data was lost and that is allowed
    ends: Mapping[Place, int]  # never below `start`
    notes: tuple[str, ...]  # what was lost, a sentence each

    @property
    def backlog(self) -> dict[Place, int]:
        """Messages that wait, where any do."""
        start = self.start.places
        return {place: end - start[place] for place, end in self.ends.items() if end > start[place]}


def advance(
    start: QueryOffsets,
    states: Iterable[TopicState],
    *,
    fail_on_data_loss: bool,
    restart_recreated: bool,
    replaced: Mapping[str, Sequence[str]] | None = None,
) -> Advance:
    """Compare where a query stands with what the broker has.

    New topics and partitions start at 0. Vanished ones, and ends below the start, are data loss,
    and so is what `replaced` says of a topic: see `tails`.

    Raises:
        TopicRecreated: another incarnation, unless `restart_recreated`.
        DataLoss: something is gone, unless `fail_on_data_loss` is false.
    """
    topics: list[Offsets] = []
    ends: dict[Place, int] = {}
    notes: list[str] = []
    for state in sorted(states, key=lambda state: state.name):
        before = start.topics.get(state.name)
        if before is None or before.incarnation != str(state.incarnation):
            if before is not None:
                notes.append(_recreated(before, state, restart=restart_recreated))
            now = Offsets(state.name, str(state.incarnation), dict.fromkeys(sorted(state.ends), 0))
        else:
            now, losses = _advance(before, state)
            told = (replaced or {}).get(state.name, ())
            losses = [*told, *(loss for loss in losses if loss not in told)]
            lose(state.name, losses, fail=fail_on_data_loss)
            notes += [f"{state.name}: {loss}" for loss in losses]
        topics.append(now)
        # A partition that ends below its start waits until new messages pass the old end: reading
        # other messages under old numbers would look like duplicates to every sink that is keyed
        # by offset.
        ends |= {(state.name, n): max(state.ends[n], at) for n, at in now.positions.items()}
    for name in start.topics.keys() - {item.topic for item in topics}:
        read = ", ".join(f"{n} up to {at}" for n, at in start.topics[name].positions.items())
        loss = f"the topic no longer exists; partitions were read: {read}"
        lose(name, [loss], fail=fail_on_data_loss)
        notes.append(f"{name}: {loss}")
    return Advance(QueryOffsets.of(topics), ends, tuple(notes))


def _recreated(before: Offsets, state: TopicState, *, restart: bool) -> str:
    note = (
        f"topic {state.name} was deleted and created again (now {state.incarnation}, the "
        f"offsets are of {before.incarnation})"
    )
    if not restart:
        raise TopicRecreated(
            f"{note}: set onTopicRecreated=restart to read the new one from its beginning, "
            "or use a new checkpoint"
        )
    return note


def _advance(start: Offsets, state: TopicState) -> tuple[Offsets, list[str]]:
    """Positions in the partitions that there are, and what was lost."""
    positions = {number: start.positions.get(number, 0) for number in sorted(state.ends)}
    losses = [
        f"partition {number} no longer exists; it was read up to offset {start.positions[number]}"
        for number in sorted(start.positions.keys() - state.ends.keys())
    ]
    losses += lost_tails(positions, state.ends)
    return Offsets(start.topic, start.incarnation, positions), losses


def lost_tails(positions: Mapping[int, int], ends: Mapping[int, int]) -> list[str]:
    """A sentence for each partition that ends before the position that was read up to."""
    return [
        f"partition {number}: the broker lost its tail, offsets {end}\u2013{positions[number] - 1} "
        f"were read but the partition ends at {end}; was fsync off?"
        for number, end in sorted(ends.items())
        if _ends_below(end, positions.get(number, 0))
    ]


def lose(topic: str, losses: Sequence[str], *, fail: bool) -> None:
    """Messages of a topic are gone, a sentence each.

    Raises:
        DataLoss: there are some, and `fail`.
    """
    if losses and fail:
        raise DataLoss(f"{topic}: {'; '.join(losses)}. Set failOnDataLoss=false to go on without")


def _ends_below(end: int, position: int) -> bool:
    # Iggy protocol 0.11 reports current offset 0 and no messages both for an empty partition and
    # for one whose only message was deleted: an end of 0 says nothing against a start of 1.
    return end < position and not (end == 0 and position == 1)


def limit_end(found: Advance, rows_max: int | None) -> QueryOffsets:
    """The end of the next micro-batch: at most `rows_max` messages, of all topics together.

    Shares are in proportion to backlog; every waiting partition gets at least one message as long
    as `rows_max` reaches, and what rounding leaves over goes to the largest backlog.
    """
    backlog = found.backlog
    if rows_max is None or sum(backlog.values()) <= rows_max:
        shares = backlog
    else:
        shares = _shares(backlog, rows_max)
    return QueryOffsets.of(
        replace(
            item, positions={n: at + shares.get((name, n), 0) for n, at in item.positions.items()}
        )
        for name, item in found.start.topics.items()
    )


def _shares(backlog: Mapping[Place, int], rows_max: int) -> dict[Place, int]:
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


def rows_within(
    backlog: Mapping[Place, int], message_bytes: Mapping[Place, float], bytes_max: int
) -> int:
    """How many messages of a backlog make about `bytes_max`, shared out as by `limit_end`.

    `message_bytes` is the size of a message in each partition of the backlog. At least 1.
    """
    total_bytes = sum(waiting * message_bytes[place] for place, waiting in backlog.items())
    rows = sum(backlog.values())
    return rows if total_bytes <= bytes_max else max(1, int(rows * (bytes_max / total_bytes)))


def plan_tasks(
    start: QueryOffsets, end: QueryOffsets, *, partitions_min: int | None = None
) -> list[Task]:
    """Ranges in the order of topics and partitions that together hold each offset between `start`
    and `end` once.

    One for each partition that has something to read, or about `partitions_min`, as long as each
    has `RANGE_ROWS_MIN` messages. Depends on its arguments alone: a replay after a crash gets the
    same tasks.
    """
    tasks = [
        Task(name, wanted)
        for name, until in end.topics.items()
        for wanted in _ranges(start.topics.get(name), until)
    ]
    if partitions_min is None or len(tasks) >= partitions_min:
        return tasks
    step = _step(sum(task.wanted.count for task in tasks), partitions_min)
    return [Task(task.topic, piece) for task in tasks for piece in _split(task.wanted, step)]


def _ranges(start: Offsets | None, end: Offsets) -> list[OffsetRange]:
    goes_on = start is not None and start.incarnation == end.incarnation
    before = start.positions if start is not None and goes_on else {}
    return [
        OffsetRange(end.incarnation, n, before.get(n, 0), stop)
        for n, stop in sorted(end.positions.items())
        if stop > before.get(n, 0)
    ]


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

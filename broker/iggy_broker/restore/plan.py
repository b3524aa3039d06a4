"""What a restored data directory is to have. Decides only.

Metadata of the archive say which partitions there are, and in which lives; where the archive has a
later one, somebody emptied the partition after they were copied, and that is followed. A partition
that was made after that is adopted if that is wanted. Without metadata all is adopted, from the
names in manifests.

Numbers of changes go on behind all that the archive knows of: a life is never given twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from iggy_broker.metadata.applied import replace, with_item
from iggy_broker.metadata.model import Partition, Placed, State, Stream, Topic
from iggy_broker.metadata.recreate import Found, adopt, with_partition
from iggy_broker.restore.survey import Held
from iggy_wire.archive import Life
from iggy_wire.archive_fences import Era, Fence, name_of

Key = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Target:
    """A partition to be made, and what the archive has of it, if anything."""

    placed: Placed
    held: Held | None


@dataclass(slots=True)
class Plan:
    """What is to be made."""

    state: State
    targets: list[Target] = field(default_factory=list)
    adopted: list[Held] = field(default_factory=list)
    unknown: list[Held] = field(default_factory=list)
    """Made after the metadata were copied, and left alone."""
    earlier: int = 0
    """Folders of partitions that were deleted or emptied before that."""


def make_plan(known: State | None, held: Iterable[Held], *, recreate: bool, now_us: int) -> Plan:
    """`known`: metadata of the archive, None without. MetadataDamaged: too much to adopt."""
    state = known or State()
    by_place: dict[Key, list[Held]] = {}
    for one in held:
        by_place.setdefault((*one.partition,), []).append(one)
    if known is None:
        plan = Plan(state, unknown=_latest(by_place))
        recreate = True
    else:
        plan = Plan(_follow_purges(state, by_place))
        for place, lives in by_place.items():
            plan.unknown += _made_later(state, place, lives)
    if recreate:
        _adopt(plan, now_us)
    last = max((one.life.incarnation for lives in by_place.values() for one in lives), default=0)
    plan.state = replace(plan.state, op=max(plan.state.op, last))
    for placed in plan.state.placed():
        place = (placed.stream_id, placed.topic_id, placed.partition.id)
        found = _of_life(by_place.get(place, []), placed.partition)
        plan.targets.append(Target(placed, found))
    used = sum(target.held is not None for target in plan.targets) + len(plan.unknown)
    plan.earlier = sum(map(len, by_place.values())) - used
    return plan


def era_of(plan: Plan, generation: int) -> Era:
    """Where the restored directory begins: what others copy from there on does not count."""
    fences: dict[str, Fence] = {}
    for one in plan.unknown:  # left alone, and not to grow either
        place = name_of(one.partition)
        fences[place] = Fence(
            one.life.incarnation, one.life.purges, one.next_offset, one.last_timestamp_us
        )
    for target in plan.targets:
        placed, held = target.placed, target.held
        life = Life(placed.partition.incarnation, placed.partition.purges)
        end, last_us = (held.next_offset, held.last_timestamp_us) if held else (0, 0)
        place = name_of((placed.stream_id, placed.topic_id, placed.partition.id))
        fences[place] = Fence(life.incarnation, life.purges, end, last_us)
    return Era(generation, plan.state.op, fences)


def _of_life(lives: list[Held], partition: Partition) -> Held | None:
    for one in lives:
        if (one.life.incarnation, one.life.purges) == (partition.incarnation, partition.purges):
            return one
    return None


def _follow_purges(state: State, by_place: dict[Key, list[Held]]) -> State:
    for placed in list(state.placed()):
        partition = placed.partition
        lives = by_place.get((placed.stream_id, placed.topic_id, partition.id), ())
        purges = [one.life.purges for one in lives if one.life.incarnation == partition.incarnation]
        if purges and max(purges) > partition.purges:
            changed = replace(partition, purges=max(purges))
            state = with_partition(state, placed.stream_id, placed.topic_id, changed)
    return state


def _made_later(state: State, place: Key, lives: list[Held]) -> list[Held]:
    """The last life of a partition, if the metadata are from before it."""
    last = max(lives, key=lambda one: one.life)
    return [last] if last.life.incarnation > state.op else []


def _latest(by_place: dict[Key, list[Held]]) -> list[Held]:
    """The last lives of all partitions.

    One that is older than a partition of its topic with a lower number is of an earlier topic:
    partitions are made, and deleted, at the end.
    """
    found = []
    newest: dict[tuple[int, int], int] = {}
    for place in sorted(by_place):
        last = max(by_place[place], key=lambda one: one.life)
        if last.life.incarnation >= newest.get(place[:2], 0):
            newest[place[:2]] = last.life.incarnation
            found.append(last)
    return found


def _adopt(plan: Plan, now_us: int) -> None:
    """Those that take nobody's place."""
    before = plan.state
    free = [one for one in plan.unknown if not _is_taken(before, one)]
    if not free:
        return
    found = [
        Found(*one.partition, incarnation=one.life.incarnation, purges=one.life.purges)
        for one in free
    ]
    plan.state = adopt(plan.state, found, _names(free, now_us), now_us)
    plan.adopted = free
    plan.unknown = [one for one in plan.unknown if _is_taken(before, one)]


def _is_taken(state: State, one: Held) -> bool:
    stream = state.streams.get(one.partition.stream_id)
    topic = stream.topics.get(one.partition.topic_id) if stream else None
    return topic is not None and one.partition.partition_id < len(topic.partitions)


def _names(held: list[Held], now_us: int) -> State:
    """Streams and topics by the names that the latest manifests have."""
    streams: dict[int, Stream] = {}
    for one in sorted(held, key=lambda one: one.named_at_us):
        stream_id, topic_id, _ = one.partition
        stream = streams.get(stream_id) or Stream(stream_id, one.stream, now_us)
        topics = with_item(stream.topics, topic_id, Topic(topic_id, one.topic, now_us))
        streams[stream_id] = replace(stream, name=one.stream, topics=topics)
    return State(streams=streams)

"""From the bytes that name a partition to the partition: here, or on which shard.

Clients repeat the same target in every request, so a connection remembers what the bytes meant and
compares bytes. The metadata is a frozen value: when the shard has another one, all is forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from iggy_broker.errors import Reject
from iggy_broker.metadata.memberships import GroupPlace
from iggy_broker.metadata.model import Reference, State, Stream, Topic
from iggy_broker.metadata.placement import pack, shard_of
from iggy_broker.net.context import Services
from iggy_broker.storage.partition import ConsumerKey, Partition
from iggy_wire.errors import ErrorCode
from iggy_wire.primitives import (
    Consumer,
    ConsumerKind,
    Identifier,
    Partitioning,
    PartitioningKind,
    partition_of_key,
)
from iggy_wire.requests import PollMessages

TARGETS_MAX: Final = 256  # remembered per connection and direction; then all are forgotten
ROTATIONS_MAX: Final = 65_536  # topics with a round-robin position per shard; then all start at 0


@dataclass(frozen=True, slots=True)
class Target:
    """One partition as a shard sees it. `partition` is None where another shard owns it."""

    stream_id: int
    topic_id: int
    partition_id: int
    incarnation: int  # which life of the partition the metadata speaks of
    packed: int
    owner: int  # shard
    partition: Partition | None


class Rotation:
    """All partitions of a topic, taken in turn (Iggy protocol 0.11, partitioning kind 1)."""

    __slots__ = ("_positions", "_services", "_stream", "_topic")

    def __init__(self, services: Services, stream: Stream, topic: Topic) -> None:
        """The position belongs to the topic and the shard, and starts at partition 0."""
        self._services = services
        self._stream = stream
        self._topic = topic

    def next(self) -> Target:
        """The partition whose turn it is."""
        positions = self._services.rotations
        key = self._topic.partitions[0].incarnation  # a namesake begins at partition 0 again
        if len(positions) >= ROTATIONS_MAX and key not in positions:
            positions.clear()
        place = positions.get(key, 0) % len(self._topic.partitions)
        positions[key] = place + 1
        return target_of(self._services, self._stream, self._topic, place)


@dataclass(frozen=True, slots=True)
class ReadTarget:
    """A partition and under which key its reader's offset is kept.

    Both are None for a member of a group who does not own the partition.
    """

    target: Target | None
    key: ConsumerKey | None
    session: int = 0  # of the member, if a group reads

    @property
    def partition(self) -> Partition | None:
        """The partition if this shard owns it."""
        return None if self.target is None else self.target.partition


NOT_OWNED: Final = ReadTarget(None, None)
NOT_NAMED: Final = ReadTarget(None, None)  # a group must name it; or the poll does not decode


def target_of(services: Services, stream: Stream, topic: Topic, partition_id: int) -> Target:
    """The partition with this id; PARTITION_NOT_FOUND."""
    partition = topic.partition(partition_id)
    packed = pack(stream.id, topic.id, partition_id)
    return Target(
        stream.id,
        topic.id,
        partition_id,
        partition.incarnation,
        packed,
        shard_of(packed, services.shards_count),
        services.partitions.get(packed),
    )


def owned_target(services: Services, packed: int, incarnation: int) -> Target | None:
    """A partition of this shard that another shard resolved; None if it has gone meanwhile."""
    state = services.replica.state
    stream_id, rest = packed >> 32, packed & 0xFFFFFFFF
    stream = state.streams.get(stream_id)
    topic = None if stream is None else stream.topics.get(rest >> 20)
    partition_id = rest & 0xFFFFF
    if stream is None or topic is None or partition_id >= len(topic.partitions):
        return None
    target = target_of(services, stream, topic, partition_id)
    same = target.incarnation == incarnation and target.partition is not None
    return target if same else None


def send_target(
    services: Services, stream: Identifier, topic: Identifier, partitioning: Partitioning
) -> Target | Rotation:
    """Where a batch goes. RESOURCE_NOT_FOUND for whatever is missing (Iggy protocol 0.11)."""
    found = services.replica.state.find_topic(stream.value, topic.value)
    if found is None or not found[1].partitions:
        raise Reject(ErrorCode.RESOURCE_NOT_FOUND, f"send to stream {stream}, topic {topic}")
    if partitioning.kind is PartitioningKind.BALANCED:
        return Rotation(services, *found)
    count = len(found[1].partitions)
    if partitioning.kind is PartitioningKind.KEY:
        return target_of(services, *found, partition_of_key(partitioning.value, count))
    if partitioning.partition_id >= count:
        detail = f"partition {partitioning.partition_id} of stream {stream}, topic {topic}"
        raise Reject(ErrorCode.RESOURCE_NOT_FOUND, detail)
    return target_of(services, *found, partitioning.partition_id)


def read_target(
    services: Services, stream: Reference, topic: Reference, partition_id: int | None
) -> Target:
    """What a read names; STREAM_ID_, TOPIC_ID_ or PARTITION_NOT_FOUND. None is partition 0."""
    found = services.replica.state.topic(stream, topic)
    return target_of(services, *found, partition_id or 0)


def consumer_key(state: State, consumer: Consumer, target: Target) -> ConsumerKey | None:
    """Under which key the consumer's offset is kept; None for a group that does not exist."""
    if consumer.kind is ConsumerKind.CONSUMER:
        return ConsumerKey(ConsumerKind.CONSUMER, consumer.number)
    topic = state.streams[target.stream_id].topics[target.topic_id]
    group = topic.find_group(consumer.id.value)
    return None if group is None else ConsumerKey(ConsumerKind.GROUP, group.id)


def poll_target(services: Services, request: PollMessages, session: int) -> ReadTarget:
    """What a poll names; STREAM_ID_, TOPIC_ID_ or PARTITION_NOT_FOUND, for groups `NOT_OWNED`."""
    if request.consumer.kind is ConsumerKind.GROUP:
        return _group_target(services, request, session)
    target = read_target(services, request.stream.value, request.topic.value, request.partition_id)
    return ReadTarget(target, ConsumerKey(ConsumerKind.CONSUMER, request.consumer.number))


def group_place(state: State, consumer: Consumer, target: Target) -> GroupPlace | None:
    """Which group of the target's topic is meant; None if there is none, or a plain consumer."""
    if consumer.kind is not ConsumerKind.GROUP:
        return None
    topic = state.streams[target.stream_id].topics[target.topic_id]
    group = topic.find_group(consumer.id.value)
    return None if group is None else GroupPlace(target.stream_id, target.topic_id, group.id)


def _group_target(services: Services, request: PollMessages, session: int) -> ReadTarget:
    """Only what this session may read as a member: no more is said about what is missing."""
    if request.partition_id is None:
        return NOT_NAMED
    state = services.replica.state
    found = state.find_topic(request.stream.value, request.topic.value)
    if found is None or not 0 <= request.partition_id < len(found[1].partitions):
        return NOT_OWNED
    target = target_of(services, *found, request.partition_id)
    place = group_place(state, request.consumer, target)
    if place is None:
        return NOT_OWNED
    if not state.memberships.of_group(place).may_read(session, request.partition_id):
        return NOT_OWNED
    return ReadTarget(target, ConsumerKey(ConsumerKind.GROUP, place.group_id), session)

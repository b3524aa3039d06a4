"""Bodies of replies about streams, topics, partitions and consumer groups.

An absent single resource is not one of these: it is an empty body with status 0.
"""

from struct import Struct
from typing import Final, Self

import msgspec

from iggy_wire.cursor import Reader, name_bytes, pack, u32_bytes
from iggy_wire.options import Options, options32_bytes, read_options32
from iggy_wire.reply_base import Reply

_STREAM: Final = Struct("<IQIQQ")
_TOPIC: Final = Struct("<IQIQBQQQ")
_TOPIC_BYTES_MIN: Final = _TOPIC.size + 10
_PARTITION: Final = Struct("<IQIQQQ")
_PARTITION_COUNT: Final = 6  # fields of `PartitionInfo`; a later protocol has more
_GROUP: Final = Struct("<III")
_MEMBER: Final = Struct("<II")
_ASSIGNMENT: Final = Struct("<QI")


class Stream(Reply, frozen=True, gc=False):
    """One stream. Sizes count message frames and batch headers, in bytes."""

    id: int
    created_at_us: int
    topics_count: int
    size_bytes: int
    messages_count: int
    name: str
    options: Options = ()

    def encode(self) -> bytes:
        """Numbers, name, options."""
        head = pack(
            _STREAM,
            "stream",
            self.id,
            self.created_at_us,
            self.topics_count,
            self.size_bytes,
            self.messages_count,
        )
        return head + name_bytes(self.name, "stream name") + options32_bytes(self.options)

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        head = reader.unpack(_STREAM, "stream")
        return cls(*(*head, reader.name("stream name"), read_options32(reader)))


class Streams(Reply, frozen=True, gc=False):
    """All streams."""

    streams: tuple[Stream, ...] = ()

    def encode(self) -> bytes:
        """One after another."""
        return b"".join(stream.encode() for stream in self.streams)

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        streams = []
        while reader.remaining:
            streams.append(Stream._read(reader))
        return cls(tuple(streams))


class TopicHeader(Reply, frozen=True, gc=False):
    """One topic. `options` are those that were given, `derived` the effective rest."""

    id: int
    created_at_us: int
    partitions_count: int
    message_expiry_us: int
    compression: int  # 1 none, 2 gzip: recorded only, never applied by a server
    max_topic_size_bytes: int
    size_bytes: int
    messages_count: int
    name: str
    options: Options = ()
    derived: Options = ()

    def encode(self) -> bytes:
        """Numbers, name, both blocks of options."""
        head = pack(
            _TOPIC,
            "topic",
            self.id,
            self.created_at_us,
            self.partitions_count,
            self.message_expiry_us,
            self.compression,
            self.max_topic_size_bytes,
            self.size_bytes,
            self.messages_count,
        )
        return (
            head
            + name_bytes(self.name, "topic name")
            + options32_bytes(self.options)
            + options32_bytes(self.derived)
        )

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        head = reader.unpack(_TOPIC, "topic")
        name = reader.name("topic name")
        return cls(*(*head, name, read_options32(reader), read_options32(reader)))


class Topics(Reply, frozen=True, gc=False):
    """All topics of a stream; none if the stream is absent."""

    topics: tuple[TopicHeader, ...] = ()

    def encode(self) -> bytes:
        """Count, then one after another."""
        count = u32_bytes(len(self.topics), "topics count")
        return count + b"".join(topic.encode() for topic in self.topics)

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        count = reader.count("topics count", _TOPIC_BYTES_MIN)
        return cls(tuple(TopicHeader._read(reader) for _ in range(count)))


class StreamDetails(Reply, frozen=True, gc=False):
    """One stream and its topics; as many as `stream.topics_count` says."""

    stream: Stream
    topics: tuple[TopicHeader, ...] = ()

    def encode(self) -> bytes:
        """Stream, then one topic after another."""
        return self.stream.encode() + b"".join(topic.encode() for topic in self.topics)

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        stream = Stream._read(reader)
        if stream.topics_count * _TOPIC_BYTES_MIN > reader.remaining:
            reader.fail(f"topics: {stream.topics_count} announced, {reader.remaining} bytes left")
        topics = tuple(TopicHeader._read(reader) for _ in range(stream.topics_count))
        return cls(stream, topics)


class PartitionInfo(msgspec.Struct, frozen=True, gc=False):
    """One partition. `current_offset` is 0 while it is empty."""

    id: int
    created_at_us: int
    segments_count: int = 0
    current_offset: int = 0
    size_bytes: int = 0
    messages_count: int = 0


class TopicDetails(Reply, frozen=True, gc=False):
    """One topic and its partitions; as many as `topic.partitions_count` says."""

    topic: TopicHeader
    partitions: tuple[PartitionInfo, ...] = ()

    def encode(self) -> bytes:
        """Topic, then one partition after another."""
        return self.topic.encode() + b"".join(
            pack(_PARTITION, "partition", *msgspec.structs.astuple(partition)[:_PARTITION_COUNT])
            for partition in self.partitions
        )

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        topic = TopicHeader._read(reader)
        count = topic.partitions_count
        if count * _PARTITION.size > reader.remaining:
            reader.fail(f"partitions: {count} announced, {reader.remaining} bytes left")
        return cls(
            topic,
            tuple(PartitionInfo(*reader.unpack(_PARTITION, "partition")) for _ in range(count)),
        )


class Group(Reply, frozen=True, gc=False):
    """One consumer group. `partitions_count` is the topic's."""

    id: int
    partitions_count: int
    members_count: int
    name: str

    def encode(self) -> bytes:
        """Numbers, name."""
        head = pack(_GROUP, "group", self.id, self.partitions_count, self.members_count)
        return head + name_bytes(self.name, "group name")

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        return cls(*(*reader.unpack(_GROUP, "group"), reader.name("group name")))


class Groups(Reply, frozen=True, gc=False):
    """All consumer groups of a topic."""

    groups: tuple[Group, ...] = ()

    def encode(self) -> bytes:
        """One after another."""
        return b"".join(group.encode() for group in self.groups)

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        groups = []
        while reader.remaining:
            groups.append(Group._read(reader))
        return cls(tuple(groups))


class Member(msgspec.Struct, frozen=True, gc=False):
    """One member of a group and its partitions, in the order it got them."""

    id: int
    partitions: tuple[int, ...] = ()


class GroupDetails(Reply, frozen=True, gc=False):
    """One consumer group and its members; as many as `group.members_count` says."""

    group: Group
    members: tuple[Member, ...] = ()

    def encode(self) -> bytes:
        """Group, then one member after another."""
        return self.group.encode() + b"".join(
            pack(_MEMBER, "member", member.id, len(member.partitions))
            + _partitions_bytes(member.partitions)
            for member in self.members
        )

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        group = Group._read(reader)
        if group.members_count * _MEMBER.size > reader.remaining:
            reader.fail(f"members: {group.members_count} announced, {reader.remaining} bytes left")
        return cls(group, tuple(_read_member(reader) for _ in range(group.members_count)))


class GroupAssignment(Reply, frozen=True, gc=False):
    """What the caller reads now. Not a member at all: an empty body instead of this."""

    generation: int
    partitions: tuple[int, ...] = ()

    def encode(self) -> bytes:
        """Generation, count, partitions."""
        head = pack(_ASSIGNMENT, "assignment", self.generation, len(self.partitions))
        return head + _partitions_bytes(self.partitions)

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        generation, count = reader.unpack(_ASSIGNMENT, "assignment")
        return cls(generation, _read_partitions(reader, count))


def _read_member(reader: Reader) -> Member:
    member_id, count = reader.unpack(_MEMBER, "member")
    return Member(member_id, _read_partitions(reader, count))


def _partitions_bytes(partitions: tuple[int, ...]) -> bytes:
    return b"".join(u32_bytes(partition, "partition") for partition in partitions)


def _read_partitions(reader: Reader, count: int) -> tuple[int, ...]:
    if count * 4 > reader.remaining:
        reader.fail(f"partitions: {count} announced, {reader.remaining} bytes left")
    return tuple(reader.u32("partition") for _ in range(count))

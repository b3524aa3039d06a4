"""Bodies of requests about streams, topics, partitions, segments and consumer groups."""

from typing import ClassVar, Self

from iggy_wire.codes import Command
from iggy_wire.cursor import Reader, name_bytes, u32_bytes
from iggy_wire.options import Options, options_bytes, read_options
from iggy_wire.primitives import Identifier
from iggy_wire.request_base import EmptyRequest, Request


class StreamRequest(Request, frozen=True, gc=False):
    """A command whose body is one stream."""

    stream: Identifier

    def encode(self) -> bytes:
        """Identifier."""
        return self.stream.encode()

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        return cls(Identifier.read(reader, "stream"))


class TopicRequest(Request, frozen=True, gc=False):
    """A command whose body is one topic."""

    stream: Identifier
    topic: Identifier

    def encode(self) -> bytes:
        """Two identifiers."""
        return self.stream.encode() + self.topic.encode()

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        return cls(Identifier.read(reader, "stream"), Identifier.read(reader, "topic"))


class PartitionsRequest(Request, frozen=True, gc=False):
    """A command whose body is a topic and a number of partitions."""

    stream: Identifier
    topic: Identifier
    partitions_count: int

    def encode(self) -> bytes:
        """Two identifiers, count."""
        count = u32_bytes(self.partitions_count, "partitions count")
        return self.stream.encode() + self.topic.encode() + count

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        stream, topic = Identifier.read(reader, "stream"), Identifier.read(reader, "topic")
        return cls(stream, topic, reader.u32("partitions count"))


class GroupRequest(Request, frozen=True, gc=False):
    """A command whose body is one consumer group."""

    stream: Identifier
    topic: Identifier
    group: Identifier

    def encode(self) -> bytes:
        """Three identifiers."""
        return self.stream.encode() + self.topic.encode() + self.group.encode()

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        stream, topic = Identifier.read(reader, "stream"), Identifier.read(reader, "topic")
        return cls(stream, topic, Identifier.read(reader, "group"))


class GetStream(StreamRequest, frozen=True, gc=False):
    """One stream and its topics."""

    command: ClassVar[Command] = Command.GET_STREAM


class GetStreams(EmptyRequest, frozen=True, gc=False):
    """All streams."""

    command: ClassVar[Command] = Command.GET_STREAMS


class CreateStream(Request, frozen=True, gc=False):
    """A new stream."""

    command: ClassVar[Command] = Command.CREATE_STREAM

    name: str
    options: Options = ()

    def encode(self) -> bytes:
        """Name, options."""
        return name_bytes(self.name, "stream name") + options_bytes(self.options)

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        return cls(reader.name("stream name"), read_options(reader))


class UpdateStream(Request, frozen=True, gc=False):
    """A new name for a stream."""

    command: ClassVar[Command] = Command.UPDATE_STREAM

    stream: Identifier
    name: str
    options: Options = ()

    def encode(self) -> bytes:
        """Identifier, name, options."""
        name = name_bytes(self.name, "stream name")
        return self.stream.encode() + name + options_bytes(self.options)

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        stream, name = Identifier.read(reader, "stream"), reader.name("stream name")
        return cls(stream, name, read_options(reader))


class DeleteStream(StreamRequest, frozen=True, gc=False):
    """Remove a stream with everything in it."""

    command: ClassVar[Command] = Command.DELETE_STREAM


class PurgeStream(StreamRequest, frozen=True, gc=False):
    """Remove all messages and stored offsets of a stream."""

    command: ClassVar[Command] = Command.PURGE_STREAM


class GetTopic(TopicRequest, frozen=True, gc=False):
    """One topic and its partitions."""

    command: ClassVar[Command] = Command.GET_TOPIC


class GetTopics(StreamRequest, frozen=True, gc=False):
    """All topics of a stream."""

    command: ClassVar[Command] = Command.GET_TOPICS


class CreateTopic(Request, frozen=True, gc=False):
    """A new topic."""

    command: ClassVar[Command] = Command.CREATE_TOPIC

    stream: Identifier
    partitions_count: int
    name: str
    options: Options = ()

    def encode(self) -> bytes:
        """Stream, count, name, options."""
        return (
            self.stream.encode()
            + u32_bytes(self.partitions_count, "partitions count")
            + name_bytes(self.name, "topic name")
            + options_bytes(self.options)
        )

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        stream, partitions_count = Identifier.read(reader, "stream"), reader.u32("partitions count")
        return cls(stream, partitions_count, reader.name("topic name"), read_options(reader))


class UpdateTopic(Request, frozen=True, gc=False):
    """A new name and new options for a topic. Options not given stay as they are."""

    command: ClassVar[Command] = Command.UPDATE_TOPIC

    stream: Identifier
    topic: Identifier
    name: str
    options: Options = ()

    def encode(self) -> bytes:
        """Two identifiers, name, options."""
        name = name_bytes(self.name, "topic name")
        return self.stream.encode() + self.topic.encode() + name + options_bytes(self.options)

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        stream, topic = Identifier.read(reader, "stream"), Identifier.read(reader, "topic")
        return cls(stream, topic, reader.name("topic name"), read_options(reader))


class DeleteTopic(TopicRequest, frozen=True, gc=False):
    """Remove a topic with everything in it."""

    command: ClassVar[Command] = Command.DELETE_TOPIC


class PurgeTopic(TopicRequest, frozen=True, gc=False):
    """Remove all messages and stored offsets of a topic."""

    command: ClassVar[Command] = Command.PURGE_TOPIC


class CreatePartitions(PartitionsRequest, frozen=True, gc=False):
    """More partitions, with the next ids."""

    command: ClassVar[Command] = Command.CREATE_PARTITIONS


class DeletePartitions(PartitionsRequest, frozen=True, gc=False):
    """Fewer partitions: the highest ids go."""

    command: ClassVar[Command] = Command.DELETE_PARTITIONS


class DeleteSegments(Request, frozen=True, gc=False):
    """Drop the oldest closed segments of a partition."""

    command: ClassVar[Command] = Command.DELETE_SEGMENTS

    stream: Identifier
    topic: Identifier
    partition_id: int
    segments_count: int

    def encode(self) -> bytes:
        """Two identifiers, partition, count."""
        return (
            self.stream.encode()
            + self.topic.encode()
            + u32_bytes(self.partition_id, "partition")
            + u32_bytes(self.segments_count, "segments count")
        )

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        stream, topic = Identifier.read(reader, "stream"), Identifier.read(reader, "topic")
        return cls(stream, topic, reader.u32("partition"), reader.u32("segments count"))


class CreateConsumerGroup(Request, frozen=True, gc=False):
    """A new consumer group of a topic."""

    command: ClassVar[Command] = Command.CREATE_CONSUMER_GROUP

    stream: Identifier
    topic: Identifier
    name: str

    def encode(self) -> bytes:
        """Two identifiers, name."""
        return self.stream.encode() + self.topic.encode() + name_bytes(self.name, "group name")

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        stream, topic = Identifier.read(reader, "stream"), Identifier.read(reader, "topic")
        return cls(stream, topic, reader.name("group name"))


class GetConsumerGroup(GroupRequest, frozen=True, gc=False):
    """One group and its members."""

    command: ClassVar[Command] = Command.GET_CONSUMER_GROUP


class GetConsumerGroups(TopicRequest, frozen=True, gc=False):
    """All groups of a topic."""

    command: ClassVar[Command] = Command.GET_CONSUMER_GROUPS


class DeleteConsumerGroup(GroupRequest, frozen=True, gc=False):
    """Remove a group with its stored offsets."""

    command: ClassVar[Command] = Command.DELETE_CONSUMER_GROUP


class JoinConsumerGroup(GroupRequest, frozen=True, gc=False):
    """The calling session becomes a member."""

    command: ClassVar[Command] = Command.JOIN_CONSUMER_GROUP


class LeaveConsumerGroup(GroupRequest, frozen=True, gc=False):
    """The calling session is no member any more."""

    command: ClassVar[Command] = Command.LEAVE_CONSUMER_GROUP


class SyncConsumerGroup(GroupRequest, frozen=True, gc=False):
    """Which partitions the calling session reads now."""

    command: ClassVar[Command] = Command.SYNC_CONSUMER_GROUP

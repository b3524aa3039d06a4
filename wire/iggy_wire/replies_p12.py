"""Bodies of replies that P12 has otherwise: one class per layout.

Topics lose the columns that are options, and streams and users gain a block of derived options;
partitions say in which context they are served (Iggy protocol 0.12).
"""

from struct import Struct
from typing import Final, Self

import msgspec

from iggy_wire import replies
from iggy_wire.buffer import Buffer
from iggy_wire.cursor import (
    Reader,
    name_bytes,
    pack,
    text32_bytes,
    u8_bytes,
    u32_bytes,
)
from iggy_wire.options import Options, options32_bytes, read_options32
from iggy_wire.permissions import (
    Permissions,
    optional_permissions_bytes,
    read_optional_permissions,
)
from iggy_wire.reply_base import Reply

NODE_ID: Final = 0  # of the only node

_TOPIC: Final = Struct("<IQIQQ")
_TOPIC_BYTES_MIN: Final = _TOPIC.size + 10
_PARTITION: Final = Struct("<IQIQQQQQQ")
_POLL_HEAD: Final = Struct("<IQIQQQ")
_OPEN_FILES: Final = Struct("<QQ")
_NODE: Final = Struct("<HHHHBB")
_NODE_BYTES_MIN: Final = 19
_DESCRIPTION_BYTES_MIN: Final = 12

POLL_HEAD_BYTES: Final = _POLL_HEAD.size


class Stream(replies.Stream, frozen=True, gc=False):
    """One stream. `derived` are the options in force that nobody gave."""

    derived: Options = ()

    def encode(self) -> bytes:
        """As in P11, then derived options."""
        return replies.Stream.encode(self) + options32_bytes(self.derived)

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        plain = replies.Stream.take(reader)
        return cls(*(*msgspec.structs.astuple(plain), read_options32(reader)))


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
            streams.append(Stream.take(reader))
        return cls(tuple(streams))


class TopicHeader(Reply, frozen=True, gc=False):
    """One topic. `options` are those that were given, `derived` the effective rest."""

    id: int
    created_at_us: int
    partitions_count: int
    size_bytes: int
    messages_count: int
    name: str
    options: Options = ()
    derived: Options = ()

    def encode(self) -> bytes:
        """Numbers, name, both blocks of options."""
        numbers = (self.created_at_us, self.partitions_count, self.size_bytes, self.messages_count)
        return (
            pack(_TOPIC, "topic", self.id, *numbers)
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
        return cls(tuple(TopicHeader.take(reader) for _ in range(count)))


class StreamDetails(Reply, frozen=True, gc=False):
    """One stream and its topics; as many as `stream.topics_count` says."""

    stream: Stream
    topics: tuple[TopicHeader, ...] = ()

    def encode(self) -> bytes:
        """Stream, then one topic after another."""
        return self.stream.encode() + b"".join(topic.encode() for topic in self.topics)

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        stream = Stream.take(reader)
        if stream.topics_count * _TOPIC_BYTES_MIN > reader.remaining:
            reader.fail(f"topics: {stream.topics_count} announced, {reader.remaining} bytes left")
        topics = tuple(TopicHeader.take(reader) for _ in range(stream.topics_count))
        return cls(stream, topics)


class PartitionInfo(replies.PartitionInfo, frozen=True, gc=False):
    """One partition and its context: which life, whose (in a group), and as of which change."""

    incarnation: int = 0
    owner_generation: int = 0
    metadata_op: int = 0


class TopicDetails(Reply, frozen=True, gc=False):
    """One topic and its partitions; as many as `topic.partitions_count` says."""

    topic: TopicHeader
    partitions: tuple[PartitionInfo, ...] = ()

    def encode(self) -> bytes:
        """Topic, then one partition after another."""
        return self.topic.encode() + b"".join(_partition_bytes(one) for one in self.partitions)

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        topic = _read_counted(reader, _PARTITION.size)
        count = range(topic.partitions_count)
        return cls(topic, tuple(_read_partition(reader) for _ in count))


class PlacedPartition(msgspec.Struct, frozen=True, gc=False):
    """A partition with the ids of the nodes that store it, one byte each, and of those in sync."""

    partition: PartitionInfo
    nodes: bytes = bytes((NODE_ID,))
    in_sync: bytes = bytes((NODE_ID,))

    def encode(self) -> bytes:
        """Partition, then both lists behind their lengths."""
        return (
            _partition_bytes(self.partition)
            + u8_bytes(len(self.nodes), "nodes")
            + self.nodes
            + u8_bytes(len(self.in_sync), "nodes in sync")
            + self.in_sync
        )


class PlacedTopicDetails(Reply, frozen=True, gc=False):
    """The same from 0.12.2 on: with the nodes of each partition."""

    topic: TopicHeader
    partitions: tuple[PlacedPartition, ...] = ()

    def encode(self) -> bytes:
        """Topic, then one partition after another."""
        return self.topic.encode() + b"".join(one.encode() for one in self.partitions)

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        topic = _read_counted(reader, _PARTITION.size + 2)
        placed = []
        for _ in range(topic.partitions_count):
            partition = _read_partition(reader)
            nodes = bytes(reader.take(reader.u8("nodes"), "nodes"))
            in_sync = bytes(reader.take(reader.u8("nodes in sync"), "nodes in sync"))
            placed.append(PlacedPartition(partition, nodes, in_sync))
        return cls(topic, tuple(placed))


class User(replies.User, frozen=True, gc=False):
    """One user. `derived` are the options in force that nobody gave."""

    derived: Options = ()

    def encode(self) -> bytes:
        """As in P11, then derived options."""
        return replies.User.encode(self) + options32_bytes(self.derived)

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        plain = replies.User.take(reader)
        return cls(*(*msgspec.structs.astuple(plain), read_options32(reader)))


class Users(Reply, frozen=True, gc=False):
    """All users in ascending order of their ids."""

    users: tuple[User, ...] = ()

    def encode(self) -> bytes:
        """One after another."""
        return b"".join(user.encode() for user in self.users)

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        users = []
        while reader.remaining:
            users.append(User.take(reader))
        return cls(tuple(users))


class UserDetails(Reply, frozen=True, gc=False):
    """One user with permissions, if any are set."""

    user: User
    permissions: Permissions | None = None

    def encode(self) -> bytes:
        """User, then permissions; none are four zero bytes, as in P11."""
        block = bytes(4) if self.permissions is None else None
        return self.user.encode() + (block or optional_permissions_bytes(self.permissions))

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        return cls(User.take(reader), read_optional_permissions(reader))


class Node(replies.Node, frozen=True, gc=False):
    """One server, and its id in lists of nodes."""

    node_id: int = NODE_ID


class Cluster(Reply, frozen=True, gc=False):
    """All servers."""

    name: str
    nodes: tuple[Node, ...]

    def encode(self) -> bytes:
        """Name, then every node."""
        parts = [text32_bytes(self.name, "cluster name"), u32_bytes(len(self.nodes), "nodes")]
        for node in self.nodes:
            name, address, *numbers, node_id = msgspec.structs.astuple(node)
            parts.append(u8_bytes(node_id, "node id") + text32_bytes(name, "node name"))
            parts.append(text32_bytes(address, "node address") + pack(_NODE, "node", *numbers))
        return b"".join(parts)

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        name = reader.text32("cluster name")
        count = reader.count("nodes", _NODE_BYTES_MIN)
        return cls(name, tuple(_read_node(reader) for _ in range(count)))


class OptionDescription(replies.OptionDescription, frozen=True, gc=False):
    """One option of a catalogue. `flags` are `OptionFlag`s."""

    flags: int = 0


class Catalog(Reply, frozen=True, gc=False):
    """Which options a scope has."""

    options: tuple[OptionDescription, ...] = ()

    def encode(self) -> bytes:
        """Count, then one after another."""
        parts = [u32_bytes(len(self.options), "options count")]
        for one in self.options:
            parts.append(name_bytes(one.key, "option key") + u8_bytes(one.kind, "option kind"))
            parts.append(u8_bytes(one.flags, "option flags"))
            parts.append(u32_bytes(len(one.default), "default length") + one.default)
            parts.append(text32_bytes(one.description, "option description"))
        return b"".join(parts)

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        count = reader.count("options count", _DESCRIPTION_BYTES_MIN)
        return cls(tuple(_read_description(reader) for _ in range(count)))


class Stats(replies.Stats, frozen=True, gc=False):
    """How the server is doing."""

    open_files: int = 0
    open_files_max: int = 0

    def encode(self) -> bytes:
        """As in P11, then the open files."""
        files = pack(_OPEN_FILES, "open files", self.open_files, self.open_files_max)
        return replies.Stats.encode(self) + files

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        plain = msgspec.structs.astuple(replies.Stats.take(reader))
        return cls(*(*plain, *reader.unpack(_OPEN_FILES, "open files")))


class Polled(Reply, frozen=True, gc=False):
    """Messages of one partition, and the context that they were served in; else as in P11."""

    partition_id: int
    current_offset: int
    count: int
    incarnation: int
    owner_generation: int
    metadata_op: int
    region: Buffer = b""

    def encode(self) -> bytes:
        """Head and region in one piece: copies the region."""
        head = msgspec.structs.astuple(self)[:-1]
        return pack(_POLL_HEAD, "poll head", *head) + self.region

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        return cls(*(*reader.unpack(_POLL_HEAD, "poll head"), reader.rest()))


def _partition_bytes(partition: PartitionInfo) -> bytes:
    return pack(_PARTITION, "partition", *msgspec.structs.astuple(partition))


def _read_partition(reader: Reader) -> PartitionInfo:
    return PartitionInfo(*reader.unpack(_PARTITION, "partition"))


def _read_counted(reader: Reader, partition_bytes_min: int) -> TopicHeader:
    """A topic, if as many partitions as it announces can follow."""
    topic = TopicHeader.take(reader)
    count = topic.partitions_count
    if count * partition_bytes_min > reader.remaining:
        reader.fail(f"partitions: {count} announced, {reader.remaining} bytes left")
    return topic


def _read_node(reader: Reader) -> Node:
    node_id = reader.u8("node id")
    name, address = reader.text32("node name"), reader.text32("node address")
    return Node(*(name, address, *reader.unpack(_NODE, "node"), node_id))


def _read_description(reader: Reader) -> OptionDescription:
    key, kind, flags = reader.name("option key"), reader.u8("option kind"), reader.u8("flags")
    default = bytes(reader.take(reader.u32("default length"), "default"))
    return OptionDescription(key, kind, default, reader.text32("option description"), flags)

"""What a user may do: globally, in a stream, in a topic. Layout only: nothing is decided here."""

from struct import Struct
from typing import Final, Self

import msgspec

from iggy_wire.cursor import Reader, u32_bytes

_GLOBAL: Final = Struct("<10?")
_STREAM: Final = Struct("<6?")
_TOPIC: Final = Struct("<4?")


class GlobalPermissions(msgspec.Struct, frozen=True, gc=False):
    """Ten flags that hold for everything."""

    manage_servers: bool = False
    read_servers: bool = False
    manage_users: bool = False
    read_users: bool = False
    manage_streams: bool = False
    read_streams: bool = False
    manage_topics: bool = False
    read_topics: bool = False
    poll_messages: bool = False
    send_messages: bool = False


class TopicPermissions(msgspec.Struct, frozen=True, gc=False):
    """Four flags that hold for one topic."""

    topic_id: int
    manage_topic: bool = False
    read_topic: bool = False
    poll_messages: bool = False
    send_messages: bool = False


class StreamPermissions(msgspec.Struct, frozen=True, gc=False):
    """Six flags that hold for one stream, and its topics' own."""

    stream_id: int
    manage_stream: bool = False
    read_stream: bool = False
    manage_topics: bool = False
    read_topics: bool = False
    poll_messages: bool = False
    send_messages: bool = False
    topics: tuple[TopicPermissions, ...] = ()


_STREAM_FLAGS: Final = StreamPermissions.__struct_fields__[1:7]


class Permissions(msgspec.Struct, frozen=True, gc=False):
    """Everything a user may do. References are numeric ids."""

    everywhere: GlobalPermissions = GlobalPermissions()
    streams: tuple[StreamPermissions, ...] = ()

    def encode(self) -> bytes:
        """The block without a length in front."""
        parts = [_GLOBAL.pack(*msgspec.structs.astuple(self.everywhere))]
        parts.append(_flag(bool(self.streams)))
        for index, stream in enumerate(self.streams):
            parts.append(_stream_bytes(stream))
            parts.append(_flag(index + 1 < len(self.streams)))
        return b"".join(parts)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Take a block off `reader`."""
        everywhere = GlobalPermissions(*_flags(reader, _GLOBAL, "global permissions"))
        streams: list[StreamPermissions] = []
        more = reader.flag("has streams")
        while more:
            streams.append(_read_stream(reader))
            more = reader.flag("another stream")
        return cls(everywhere, tuple(streams))


def optional_permissions_bytes(permissions: Permissions | None) -> bytes:
    """Flag, and if there are any: length and block."""
    if permissions is None:
        return b"\x00"
    block = permissions.encode()
    return b"\x01" + u32_bytes(len(block), "permissions") + block


def read_optional_permissions(reader: Reader) -> Permissions | None:
    """Take a flag and maybe a block off `reader`."""
    if not reader.flag("has permissions"):
        return None
    length = reader.u32("permissions length")
    block = Reader(reader.take(length, "permissions"), reader.code)
    permissions = Permissions.read(block)
    block.finish("permissions")
    return permissions


def _flag(value: bool) -> bytes:
    return b"\x01" if value else b"\x00"


def _flags(reader: Reader, layout: Struct, field: str) -> tuple[bool, ...]:
    raw = reader.take(layout.size, field)
    if max(raw) > 1:
        reader.fail(f"{field}: every flag must be 0 or 1")
    return layout.unpack(raw)


def _stream_bytes(stream: StreamPermissions) -> bytes:
    stream_id, *flags, topics = msgspec.structs.astuple(stream)
    parts = [u32_bytes(stream_id, "stream id"), _STREAM.pack(*flags), _flag(bool(topics))]
    for index, topic in enumerate(stream.topics):
        topic_id, *flags = msgspec.structs.astuple(topic)
        parts.append(u32_bytes(topic_id, "topic id") + _TOPIC.pack(*flags))
        parts.append(_flag(index + 1 < len(stream.topics)))
    return b"".join(parts)


def _read_stream(reader: Reader) -> StreamPermissions:
    stream_id = reader.u32("stream id")
    flags = _flags(reader, _STREAM, "stream permissions")
    topics: list[TopicPermissions] = []
    more = reader.flag("has topics")
    while more:
        topic_id = reader.u32("topic id")
        topics.append(TopicPermissions(topic_id, *_flags(reader, _TOPIC, "topic permissions")))
        more = reader.flag("another topic")
    return StreamPermissions(
        stream_id,
        **dict(zip(_STREAM_FLAGS, flags, strict=True)),
        topics=tuple(topics),
    )

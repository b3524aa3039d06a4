"""Messages from and to the batches of 0.11: what is sent, and what a poll brings."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from struct import Struct
from typing import Final

import msgspec
import xxhash
from msgspec.structs import replace

from iggy_wire.batch import TIMESTAMP_DELTA_US_MAX, Message, build, messages
from iggy_wire.buffer import Buffer
from iggy_wire.cursor import Reader
from iggy_wire.errors import ErrorCode
from iggy_wire.primitives import Identifier, Partitioning
from iggy_wire.replies import Polled
from iggy_wire.requests import SendMessages
from iggy_wire.v08 import v06

INDEX_BYTES: Final = 16
_INDEX: Final = Struct("<IIQ")  # an entry: offset, end of the message, time
_LENGTHS: Final = Struct("<48xII")  # in the header of a message
_HEADER: Final = Struct("<Q16sQQQIIQ")
# checksum, id, offset, timestamp, origin timestamp, headers length, payload length, reserved
_V06_HEADER: Final = Struct("<Q16sQQQII")
_CHECKSUM_BYTES: Final = 8
_POLL_HEAD: Final = Struct("<IQI")


class Sent(msgspec.Struct, frozen=True):
    """What a request asks to store."""

    stream: Identifier
    topic: Identifier
    partitioning: Partitioning
    messages: tuple[Message, ...]
    is_v06: bool = False  # laid out as clients of servers up to 0.6 do it

    @classmethod
    def decode(cls, payload: Buffer) -> Sent:
        """Read a request. A message without an id gets a random one, as servers up to 0.8 did.

        WireError: it is malformed.
        """
        reader = Reader(payload, ErrorCode.INVALID_COMMAND)
        head = Reader(reader.take(reader.u32("metadata length"), "metadata"), reader.code)
        stream, topic = Identifier.read(head, "stream"), Identifier.read(head, "topic")
        partitioning = Partitioning.read(head)
        count = head.u32("messages count")
        head.finish("metadata")
        index = reader.take(count * INDEX_BYTES, "index")
        is_v06 = _is_v06(index, reader.data[reader.at :])
        read = _read_v06 if is_v06 else _read
        found = tuple(read(reader) for _ in range(count))
        reader.finish("messages")
        return cls(stream, topic, partitioning, found, is_v06)

    def requests(self) -> Iterator[SendMessages]:
        """The same as requests of 0.11, one after the other: a batch spans 71 minutes at most."""
        for part in _spans(self.messages):
            origin_us = min(message.origin_timestamp_us for message in part)
            batch = build(part, origin_timestamp_us=origin_us)
            yield SendMessages(self.stream, self.topic, self.partitioning, len(part), batch)


def _is_v06(index: memoryview, first: memoryview) -> bool:
    """The index says where the first message ends, which tells how long its header is."""
    if len(index) < INDEX_BYTES or len(first) < v06.MESSAGE_HEADER_BYTES:
        return False
    _, end, _ = _INDEX.unpack_from(index)
    headers_bytes, payload_bytes = _LENGTHS.unpack_from(first)
    return bool(end == v06.MESSAGE_HEADER_BYTES + headers_bytes + payload_bytes)


def _read(reader: Reader, layout: Struct = _HEADER) -> Message:
    fields = reader.unpack(layout, "message")
    _, raw_id, _, _, origin_us, headers_bytes, payload_bytes = fields[:7]
    payload = bytes(reader.take(payload_bytes, "payload"))
    return Message(
        payload,
        int.from_bytes(raw_id, "little") or secrets.randbits(128) or 1,
        bytes(reader.take(headers_bytes, "headers")),
        origin_timestamp_us=origin_us,
    )


def _read_v06(reader: Reader) -> Message:
    message = _read(reader, _V06_HEADER)
    return replace(message, headers=v06.with_key_kinds(message.headers))


def _spans(given: tuple[Message, ...]) -> Iterator[list[Message]]:
    """In order, in as few parts as can be."""
    part: list[Message] = []
    first_us = last_us = 0
    for message in given:
        at_us = message.origin_timestamp_us
        low, high = (min(first_us, at_us), max(last_us, at_us)) if part else (at_us, at_us)
        if high - low > TIMESTAMP_DELTA_US_MAX:
            yield part
            part, low, high = [], at_us, at_us
        part.append(message)
        first_us, last_us = low, high
    if part:
        yield part


def polled_payload(body: Buffer, *, is_v06: bool = False) -> bytes:
    """The reply to a poll, from that of 0.11. `is_v06`: for a client of servers up to 0.6."""
    polled = Polled.decode(body)
    parts = [_POLL_HEAD.pack(polled.partition_id, polled.current_offset, polled.count)]
    size_bytes = v06.MESSAGE_HEADER_BYTES if is_v06 else _HEADER.size
    for message in messages(polled.region):
        if is_v06:
            message = replace(message, headers=v06.without_key_kinds(message.headers))
        parts.append(_header(message, size_bytes))
        parts.append(message.payload)
        parts.append(message.headers)
    return b"".join(parts)


def empty_poll(partition_id: int = 0) -> bytes:
    """The reply to a poll where there is nothing to read."""
    return _POLL_HEAD.pack(partition_id, 0, 0)


def _header(message: Message, size_bytes: int) -> bytes:
    whole = _HEADER.pack(
        0,
        message.id.to_bytes(16, "little"),
        message.offset,
        message.timestamp_us,
        message.origin_timestamp_us,
        len(message.headers),
        len(message.payload),
        0,
    )
    rest = whole[_CHECKSUM_BYTES:size_bytes]
    checksum = xxhash.xxh3_64(rest)
    checksum.update(message.payload)
    checksum.update(message.headers)
    return checksum.intdigest().to_bytes(_CHECKSUM_BYTES, "little") + rest

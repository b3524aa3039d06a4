"""Messages from and to the batches of 0.11: what is sent, and what a poll brings."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from struct import Struct
from typing import Final

import msgspec
import xxhash

from iggy_wire.batch import TIMESTAMP_DELTA_US_MAX, Message, build, messages
from iggy_wire.buffer import Buffer
from iggy_wire.cursor import Reader
from iggy_wire.errors import ErrorCode
from iggy_wire.primitives import Identifier, Partitioning
from iggy_wire.replies import Polled
from iggy_wire.requests import SendMessages

INDEX_BYTES: Final = 16  # an entry: offset, end of the message, time
_HEADER: Final = Struct("<Q16sQQQIIQ")
# checksum, id, offset, timestamp, origin timestamp, headers length, payload length, reserved
_CHECKSUM_BYTES: Final = 8
_POLL_HEAD: Final = Struct("<IQI")


class Sent(msgspec.Struct, frozen=True):
    """What a request asks to store."""

    stream: Identifier
    topic: Identifier
    partitioning: Partitioning
    messages: tuple[Message, ...]

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
        # Where messages end stands in their headers, too.
        reader.take(count * INDEX_BYTES, "index")
        found = tuple(_read(reader) for _ in range(count))
        reader.finish("messages")
        return cls(stream, topic, partitioning, found)

    def requests(self) -> Iterator[SendMessages]:
        """The same as requests of 0.11, one after the other: a batch spans 71 minutes at most."""
        for part in _spans(self.messages):
            origin_us = min(message.origin_timestamp_us for message in part)
            batch = build(part, origin_timestamp_us=origin_us)
            yield SendMessages(self.stream, self.topic, self.partitioning, len(part), batch)


def _read(reader: Reader) -> Message:
    _, raw_id, _, _, origin_us, headers_bytes, payload_bytes, _ = reader.unpack(_HEADER, "message")
    payload = bytes(reader.take(payload_bytes, "payload"))
    return Message(
        payload,
        int.from_bytes(raw_id, "little") or secrets.randbits(128) or 1,
        bytes(reader.take(headers_bytes, "headers")),
        origin_timestamp_us=origin_us,
    )


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


def polled_payload(body: Buffer) -> bytes:
    """The reply to a poll, from that of 0.11."""
    polled = Polled.decode(body)
    parts = [_POLL_HEAD.pack(polled.partition_id, polled.current_offset, polled.count)]
    for message in messages(polled.region):
        parts.append(_header(message))
        parts.append(message.payload)
        parts.append(message.headers)
    return b"".join(parts)


def empty_poll(partition_id: int = 0) -> bytes:
    """The reply to a poll where there is nothing to read."""
    return _POLL_HEAD.pack(partition_id, 0, 0)


def _header(message: Message) -> bytes:
    header = bytearray(
        _HEADER.pack(
            0,
            message.id.to_bytes(16, "little"),
            message.offset,
            message.timestamp_us,
            message.origin_timestamp_us,
            len(message.headers),
            len(message.payload),
            0,
        )
    )
    checksum = xxhash.xxh3_64(memoryview(header)[_CHECKSUM_BYTES:])
    checksum.update(message.payload)
    checksum.update(message.headers)
    header[:_CHECKSUM_BYTES] = checksum.intdigest().to_bytes(_CHECKSUM_BYTES, "little")
    return bytes(header)

"""Bodies of requests that move messages and consumer offsets.

The hot ones. Clients repeat the same target again and again, so the last `TARGETS_MAX` different
ones are kept in both forms: decoded by their bytes, encoded by their values.
"""

from functools import lru_cache
from struct import Struct
from typing import ClassVar, Final, Self

from iggy_wire.buffer import Buffer
from iggy_wire.codes import Command
from iggy_wire.cursor import Reader, u8_bytes, u32_bytes, u64_bytes
from iggy_wire.errors import ErrorCode, WireError
from iggy_wire.primitives import (
    AckLevel,
    Consumer,
    Identifier,
    Partitioning,
    PollingStrategy,
    partition_bytes,
    read_ack,
    read_partition,
    strategy_kind,
)
from iggy_wire.request_base import Request

_ACKS: Final = tuple(AckLevel)

TARGETS_MAX: Final = 1024  # of at most 1 KiB each; the one not used for longest is forgotten
_TARGET_BYTES_MAX: Final = 1024

_U32: Final = Struct("<I")
_STORE_TAIL: Final = Struct("<QB")  # offset, ack level
_POLL_TAIL: Final = Struct("<BQIB")  # strategy kind and value, count, auto commit

SendTarget = tuple[Identifier, Identifier, Partitioning]
ReadTarget = tuple[Consumer, Identifier, Identifier, int | None]


class SendMessages(Request, frozen=True, gc=False):
    """One batch for one topic. `batch` is not looked into here and not copied."""

    command: ClassVar[Command] = Command.SEND_MESSAGES
    malformed: ClassVar[ErrorCode] = ErrorCode.RESOURCE_NOT_FOUND

    stream: Identifier
    topic: Identifier
    partitioning: Partitioning
    messages_count: int
    batch: Buffer

    def encode(self) -> bytes:
        """Head and batch in one piece: copies the batch."""
        return self.encode_head() + self.batch

    def encode_head(self) -> bytes:
        """All that stands before the batch."""
        return send_head(self.stream, self.topic, self.partitioning, self.messages_count)

    @classmethod
    def decode(cls, body: Buffer) -> Self:
        """Split head and batch. `RESOURCE_NOT_FOUND` if the head does not decode."""
        view = memoryview(body)
        length = len(view)
        if length < _U32.size:
            cls._fail(f"metadata length: 4 bytes needed, {length} given")
        end = _U32.size + _U32.unpack_from(view)[0]
        target_end = end - _U32.size
        if not _U32.size <= target_end <= length - _U32.size:
            cls._fail(f"metadata length: {end - 4} bytes do not fit a body of {length}")
        target = bytes(view[_U32.size : target_end])
        if len(target) > _TARGET_BYTES_MAX:
            cls._fail(f"metadata length: at most {_TARGET_BYTES_MAX}, is {len(target)}")
        count = _U32.unpack_from(view, target_end)[0]
        return cls(*_send_target(target), count, view[end:])

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        return cls.decode(reader.rest())

    @classmethod
    def _fail(cls, detail: str) -> None:
        raise WireError(cls.malformed, detail)


class PollMessages(Request, frozen=True, gc=False):
    """Up to `count` messages of one partition. `partition_id` None means partition 0."""

    command: ClassVar[Command] = Command.POLL_MESSAGES

    consumer: Consumer
    stream: Identifier
    topic: Identifier
    partition_id: int | None
    strategy: PollingStrategy
    count: int
    auto_commit: bool = False

    def encode(self) -> bytes:
        """Consumer, target, strategy, count, auto commit."""
        return (
            read_target_bytes(self.consumer, self.stream, self.topic, self.partition_id)
            + self.strategy.encode()
            + u32_bytes(self.count, "count")
            + u8_bytes(self.auto_commit, "auto commit")
        )

    @classmethod
    def decode(cls, body: Buffer) -> Self:
        """The request of this body."""
        view = memoryview(body)
        tail_at = len(view) - _POLL_TAIL.size
        target = _target_before(view, tail_at)
        if target is None:
            return super().decode(body)
        kind, value, count, auto_commit = _POLL_TAIL.unpack_from(view, tail_at)
        reader = Reader(view)
        strategy = PollingStrategy(strategy_kind(kind, reader), value)
        return cls(*target, strategy, count, _is_set(auto_commit, reader))

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        target = _take_read_target(reader)
        strategy, count = PollingStrategy.read(reader), reader.u32("count")
        return cls(*target, strategy, count, reader.flag("auto commit"))


class StoreConsumerOffset(Request, frozen=True, gc=False):
    """The consumer has dealt with everything up to and including `offset`."""

    command: ClassVar[Command] = Command.STORE_CONSUMER_OFFSET
    malformed: ClassVar[ErrorCode] = ErrorCode.RESOURCE_NOT_FOUND

    consumer: Consumer
    stream: Identifier
    topic: Identifier
    partition_id: int | None
    offset: int
    ack: AckLevel = AckLevel.QUORUM

    def encode(self) -> bytes:
        """Consumer, target, offset, ack level."""
        return (
            read_target_bytes(self.consumer, self.stream, self.topic, self.partition_id)
            + u64_bytes(self.offset, "offset")
            + u8_bytes(self.ack, "ack level")
        )

    @classmethod
    def decode(cls, body: Buffer) -> Self:
        """The request of this body."""
        view = memoryview(body)
        tail_at = len(view) - _STORE_TAIL.size
        target = _target_before(view, tail_at)
        if target is None:
            return super().decode(body)
        offset, ack = _STORE_TAIL.unpack_from(view, tail_at)
        if ack > AckLevel.QUORUM:
            return super().decode(body)  # to be refused there
        return cls(*target, offset, _ACKS[ack])

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        target = _take_read_target(reader)
        return cls(*target, reader.u64("offset"), read_ack(reader))


class DeleteConsumerOffset(Request, frozen=True, gc=False):
    """Forget the stored offset of a consumer."""

    command: ClassVar[Command] = Command.DELETE_CONSUMER_OFFSET
    malformed: ClassVar[ErrorCode] = ErrorCode.RESOURCE_NOT_FOUND

    consumer: Consumer
    stream: Identifier
    topic: Identifier
    partition_id: int | None
    ack: AckLevel = AckLevel.QUORUM

    def encode(self) -> bytes:
        """Consumer, target, ack level."""
        target = read_target_bytes(self.consumer, self.stream, self.topic, self.partition_id)
        return target + u8_bytes(self.ack, "ack level")

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        target = _take_read_target(reader)
        return cls(*target, read_ack(reader))


class GetConsumerOffset(Request, frozen=True, gc=False):
    """The stored offset of a consumer. `partition_id` None means partition 0."""

    command: ClassVar[Command] = Command.GET_CONSUMER_OFFSET

    consumer: Consumer
    stream: Identifier
    topic: Identifier
    partition_id: int | None

    def encode(self) -> bytes:
        """Consumer, target."""
        return read_target_bytes(self.consumer, self.stream, self.topic, self.partition_id)

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        return cls(*_take_read_target(reader))


class FlushUnsavedBuffer(Request, frozen=True, gc=False):
    """Write what is in memory. Iggy protocol 0.11: servers always answer `FEATURE_UNAVAILABLE`."""

    command: ClassVar[Command] = Command.FLUSH_UNSAVED_BUFFER

    stream: Identifier
    topic: Identifier
    partition_id: int
    fsync: bool = False

    def encode(self) -> bytes:
        """Two identifiers, partition, flag."""
        partition = u32_bytes(self.partition_id, "partition")
        return (
            self.stream.encode() + self.topic.encode() + partition + u8_bytes(self.fsync, "fsync")
        )

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        stream, topic = Identifier.read(reader, "stream"), Identifier.read(reader, "topic")
        return cls(stream, topic, reader.u32("partition"), reader.flag("fsync"))


def send_head(
    stream: Identifier, topic: Identifier, partitioning: Partitioning, messages_count: int
) -> bytes:
    """All of a send body that stands before its batch."""
    return _send_target_bytes(stream, topic, partitioning) + u32_bytes(messages_count, "count")


@lru_cache(TARGETS_MAX)
def _send_target_bytes(stream: Identifier, topic: Identifier, partitioning: Partitioning) -> bytes:
    target = stream.encode() + topic.encode() + partitioning.encode()
    return _U32.pack(len(target) + _U32.size) + target


@lru_cache(TARGETS_MAX)
def read_target_bytes(
    consumer: Consumer, stream: Identifier, topic: Identifier, partition_id: int | None
) -> bytes:
    """The first four fields of polls and of all offset commands."""
    return consumer.encode() + stream.encode() + topic.encode() + partition_bytes(partition_id)


@lru_cache(TARGETS_MAX)
def _send_target(target: bytes) -> SendTarget:
    reader = Reader(target, SendMessages.malformed)
    stream, topic = Identifier.read(reader, "stream"), Identifier.read(reader, "topic")
    partitioning = Partitioning.read(reader)
    reader.finish("metadata")
    return stream, topic, partitioning


def _target_before(body: memoryview, tail_at: int) -> ReadTarget | None:
    """The target that fills `body` up to `tail_at`, or None: read it field by field.

    None means bytes behind the end, or a fault, which must be told in its own words.
    """
    if not 0 < tail_at <= _TARGET_BYTES_MAX:
        return None
    return _read_target(bytes(body[:tail_at]))


@lru_cache(TARGETS_MAX)
def _read_target(target: bytes) -> ReadTarget | None:
    """The target that these bytes are exactly, or None. Refusals are not worth an exception."""
    reader = Reader(target)
    try:
        fields = _take_read_target(reader)
    except WireError:
        return None
    return None if reader.remaining else fields


def _take_read_target(reader: Reader) -> ReadTarget:
    consumer = Consumer.read(reader)
    stream, topic = Identifier.read(reader, "stream"), Identifier.read(reader, "topic")
    return consumer, stream, topic, read_partition(reader)


def _is_set(value: int, reader: Reader) -> bool:
    if value > 1:
        reader.fail(f"auto commit: must be 0 or 1, is {value}")
    return value == 1

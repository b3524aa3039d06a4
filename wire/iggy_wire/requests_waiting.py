"""Bodies of requests that wait at the server until messages are there (Iggy protocol 0.12).

Their limits are part of the layout: a body beyond them does not decode.
"""

from struct import Struct
from typing import ClassVar, Final, Self

import msgspec

from iggy_wire.codes import Command
from iggy_wire.cursor import Reader, pack, u32_bytes
from iggy_wire.errors import ErrorCode, WireError
from iggy_wire.primitives import Consumer, Identifier, PollingStrategy, StrategyKind
from iggy_wire.request_base import EmptyRequest, Request
from iggy_wire.requests_messages import PollMessages

WAIT_US_MAX: Final = 600_000_000
TIMEOUT_US_MAX: Final = 630_000_000
MARGIN_US: Final = 1_000_000  # between the end of a wait and the client's own timeout
REPLY_BYTES_MIN: Final = 344  # head of a poll reply, of a batch, and of a message
PARTITIONS_MAX: Final = 1000  # of one request

_TIMES: Final = Struct("<QQ")  # wait, timeout
_DEFERRED_TAIL: Final = Struct("<QIIQ")  # wait, least messages, bytes, timeout
_FETCH_HEAD: Final = Struct("<QQIIIB")  # times, least and most messages, bytes, auto commit
_FETCH_TAIL: Final = Struct("<IQQ")  # bytes, incarnation, owner generation
DEFERRED_TAIL_BYTES: Final = _DEFERRED_TAIL.size
_STRATEGY_BYTES: Final = 9
_WAIT_TARGET_BYTES: Final = 4 + _STRATEGY_BYTES
_FETCH_TARGET_BYTES: Final = _WAIT_TARGET_BYTES + _FETCH_TAIL.size
_STARTS: Final = (StrategyKind.OFFSET, StrategyKind.NEXT)


class GetPartitionRoute(Request, frozen=True, gc=False):
    """Where a partition is served, and in which of its lives."""

    command: ClassVar[Command] = Command.GET_PARTITION_ROUTE

    stream: Identifier
    topic: Identifier
    partition_id: int

    def encode(self) -> bytes:
        """Two identifiers, partition."""
        return (
            self.stream.encode() + self.topic.encode() + u32_bytes(self.partition_id, "partition")
        )

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        stream, topic = Identifier.read(reader, "stream"), Identifier.read(reader, "topic")
        return cls(stream, topic, reader.u32("partition"))


class PollMessagesDeferred(Request, frozen=True, gc=False):
    """A poll that is answered when `min_count` messages are there, or `wait_us` is over.

    `max_bytes`: of the reply's body, unless its first batch alone is larger.
    """

    command: ClassVar[Command] = Command.POLL_MESSAGES_DEFERRED

    poll: PollMessages
    wait_us: int
    min_count: int
    max_bytes: int
    timeout_us: int

    def encode(self) -> bytes:
        """The poll, then wait, least messages, bytes, timeout."""
        tail = (self.wait_us, self.min_count, self.max_bytes, self.timeout_us)
        return self.poll.encode() + pack(_DEFERRED_TAIL, "wait", *tail)

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        poll = PollMessages._read(reader)
        wait_us, min_count, max_bytes, timeout_us = reader.unpack(_DEFERRED_TAIL, "wait")
        reader.finish("deferred poll")
        _check_times(reader, wait_us, timeout_us, margin_us=MARGIN_US if wait_us else 1)
        _check_counts(min_count, poll.count)
        _check_bytes("max bytes", max_bytes)
        return cls(poll, wait_us, min_count, max_bytes, timeout_us)


class WaitTarget(msgspec.Struct, frozen=True, gc=False):
    """A partition, and where a poll of it would start: an offset, or behind the stored one."""

    partition_id: int
    strategy: PollingStrategy

    def encode(self) -> bytes:
        """13 bytes."""
        return u32_bytes(self.partition_id, "partition") + self.strategy.encode()


class WaitForMessages(Request, frozen=True, gc=False):
    """Which partitions have messages, as soon as one has (only protocol 0.12.0 has this)."""

    command: ClassVar[Command] = Command.WAIT_FOR_MESSAGES

    consumer: Consumer
    stream: Identifier
    topic: Identifier
    wait_us: int
    timeout_us: int
    targets: tuple[WaitTarget, ...]

    def encode(self) -> bytes:
        """Consumer, topic, times, targets behind their count."""
        return (
            self.consumer.encode()
            + self.stream.encode()
            + self.topic.encode()
            + pack(_TIMES, "wait", self.wait_us, self.timeout_us)
            + u32_bytes(len(self.targets), "partitions")
            + b"".join(target.encode() for target in self.targets)
        )

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        names = _read_topic(reader)
        wait_us, timeout_us = reader.unpack(_TIMES, "wait")
        count = _read_count(reader, _WAIT_TARGET_BYTES)
        targets = tuple(WaitTarget(*_read_start(reader)) for _ in range(count))
        _check_times(reader, wait_us, timeout_us, margin_us=MARGIN_US if wait_us else 1)
        _check_unique(reader, targets)
        return cls(*names, wait_us, timeout_us, targets)


class FetchTarget(msgspec.Struct, frozen=True, gc=False):
    """One partition of a fetch, in this life and with this owner; `max_bytes` of batches."""

    partition_id: int
    strategy: PollingStrategy
    max_bytes: int
    incarnation: int
    owner_generation: int

    def encode(self) -> bytes:
        """33 bytes."""
        tail = (self.max_bytes, self.incarnation, self.owner_generation)
        start = u32_bytes(self.partition_id, "partition") + self.strategy.encode()
        return start + pack(_FETCH_TAIL, "target", *tail)


class FetchMessages(Request, frozen=True, gc=False):
    """A poll of several partitions of a topic, which together are to have `min_count` messages.

    `count` and `max_bytes` (of batches) are for all of them together. Since protocol 0.12.1.
    """

    command: ClassVar[Command] = Command.FETCH_MESSAGES

    consumer: Consumer
    stream: Identifier
    topic: Identifier
    wait_us: int
    timeout_us: int
    min_count: int
    count: int
    max_bytes: int
    auto_commit: bool
    targets: tuple[FetchTarget, ...]

    def encode(self) -> bytes:
        """Consumer, topic, times, least and most messages, bytes, auto commit, targets."""
        head = (self.wait_us, self.timeout_us, self.min_count, self.count, self.max_bytes)
        return (
            self.consumer.encode()
            + self.stream.encode()
            + self.topic.encode()
            + pack(_FETCH_HEAD, "fetch", *head, self.auto_commit)
            + u32_bytes(len(self.targets), "partitions")
            + b"".join(target.encode() for target in self.targets)
        )

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        names = _read_topic(reader)
        wait_us, timeout_us, *limits, commit = reader.unpack(_FETCH_HEAD, "fetch")
        min_count, count, max_bytes = limits
        if commit > 1:
            reader.fail(f"auto commit: must be 0 or 1, is {commit}")
        targets_count = _read_count(reader, _FETCH_TARGET_BYTES)
        targets = tuple(_read_fetch_target(reader) for _ in range(targets_count))
        _check_times(reader, wait_us, timeout_us, margin_us=MARGIN_US)
        _check_counts(min_count, count)
        _check_bytes("max bytes", max_bytes)
        for target in targets:
            _check_bytes(f"max bytes of partition {target.partition_id}", target.max_bytes)
            if target.max_bytes > max_bytes:
                detail = f"max bytes: {target.max_bytes} for a partition, {max_bytes} for all"
                raise WireError(ErrorCode.INVALID_SIZE_BYTES, detail)
        _check_unique(reader, targets)
        return cls(*names, wait_us, timeout_us, min_count, count, max_bytes, commit == 1, targets)


class CancelDeferred(EmptyRequest, frozen=True, gc=False):
    """Wait no longer: for the request with the same number. Only that one is answered."""

    command: ClassVar[Command] = Command.CANCEL_DEFERRED


def _read_topic(reader: Reader) -> tuple[Consumer, Identifier, Identifier]:
    consumer = Consumer.read(reader)
    return consumer, Identifier.read(reader, "stream"), Identifier.read(reader, "topic")


def _read_count(reader: Reader, target_bytes: int) -> int:
    count = reader.u32("partitions")
    if not 1 <= count <= PARTITIONS_MAX:
        reader.fail(f"partitions: name 1 to {PARTITIONS_MAX}, are {count}")
    if reader.remaining != count * target_bytes:
        detail = f"{count} of {target_bytes} bytes announced, {reader.remaining} bytes left"
        reader.fail(f"partitions: {detail}")
    return count


def _read_start(reader: Reader) -> tuple[int, PollingStrategy]:
    partition_id, strategy = reader.u32("partition"), PollingStrategy.read(reader)
    if strategy.kind not in _STARTS:
        detail = f"must be 1 (offset) or 5 (next), is {strategy.kind.value}"
        reader.fail(f"polling strategy of partition {partition_id}: {detail}")
    return partition_id, strategy


def _read_fetch_target(reader: Reader) -> FetchTarget:
    return FetchTarget(*_read_start(reader), *reader.unpack(_FETCH_TAIL, "target"))


def _check_times(reader: Reader, wait_us: int, timeout_us: int, *, margin_us: int) -> None:
    if wait_us > WAIT_US_MAX:
        reader.fail(f"wait: at most {WAIT_US_MAX} us, is {wait_us}")
    if not wait_us + margin_us <= timeout_us <= TIMEOUT_US_MAX:
        allowed = f"must be {wait_us + margin_us} to {TIMEOUT_US_MAX} us"
        reader.fail(f"timeout: {allowed} for a wait of {wait_us} us, is {timeout_us}")


def _check_counts(min_count: int, count: int) -> None:
    if not 1 <= min_count <= count:
        detail = f"least number of messages: must be 1 to {count} (the most), is {min_count}"
        raise WireError(ErrorCode.INVALID_MESSAGES_COUNT, detail)


def _check_bytes(field: str, max_bytes: int) -> None:
    if max_bytes < REPLY_BYTES_MIN:
        detail = f"{field}: at least {REPLY_BYTES_MIN}, is {max_bytes}"
        raise WireError(ErrorCode.INVALID_SIZE_BYTES, detail)


def _check_unique(
    reader: Reader, targets: tuple[WaitTarget, ...] | tuple[FetchTarget, ...]
) -> None:
    if len({target.partition_id for target in targets}) < len(targets):
        reader.fail("partitions: name each one once")

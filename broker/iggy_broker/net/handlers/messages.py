"""Send and poll: the two requests that are served in the socket's callback, without a coroutine.

Functions here take a whole frame (header and body, lent) and a resolved target, and give the pieces
of the reply. They are the same on the shard that the client is connected to and on the owner that
got the frame forwarded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from struct import Struct
from typing import Final

from iggy_broker.errors import Reject
from iggy_broker.net.context import Services
from iggy_broker.net.outbox import Part
from iggy_broker.net.targets import NOT_NAMED, ReadTarget, Target
from iggy_broker.storage.partition import NOTHING_NEW, FileRange, Partition, Polled
from iggy_wire.codes import FrameKind, Operation
from iggy_wire.errors import ErrorCode
from iggy_wire.header import HEADER_BYTES, RequestHeader
from iggy_wire.kernel import BATCH_HEADER_BYTES
from iggy_wire.primitives import PARTITION_NOT_OWNED, PollingStrategy, StrategyKind

_U32: Final = Struct("<I")
_COUNT_AT_BYTES: Final = 48  # of the message count in a batch header
_SEND_BODY_BYTES_MIN: Final = 8  # metadata length and messages count

# size, command | request checksum, client, op, commit, timestamp, request, operation, status
# and the body. A send's: count, stream, topic, partition, base offset; a poll's: partition, current
# offset, messages count, then the batches.
_SEND_REPLY: Final = Struct("<48xI8xB67x16s16x16sQQQQB7xI36x4IQ")
_POLL_REPLY: Final = Struct("<48xI8xB67x16s16x16sQQQQB7xI36xIQI")
_SEND_REPLY_BYTES: Final = _SEND_REPLY.size
_EMPTY_REPLY_BYTES: Final = HEADER_BYTES + 4
_POLL_HEAD_BYTES: Final = _POLL_REPLY.size

_POLL_TAIL: Final = Struct("<BQIB")  # strategy kind and value, count, auto commit
POLL_TAIL_BYTES: Final = _POLL_TAIL.size
WAITING_BYTES_MAX: Final = 1024 * 1024  # of batches, where a reply lies in memory until a sync
_STRATEGIES: Final[dict[int, StrategyKind]] = {kind.value: kind for kind in StrategyKind}


def batch_start(frame: memoryview) -> int:
    """Where the batch of a send frame begins. RESOURCE_NOT_FOUND if the head does not fit."""
    if len(frame) < HEADER_BYTES + _SEND_BODY_BYTES_MIN:
        raise Reject(ErrorCode.RESOURCE_NOT_FOUND, "the body of a send is too short for a target")
    start: int = HEADER_BYTES + 4 + _U32.unpack_from(frame, HEADER_BYTES)[0]
    if not HEADER_BYTES + _SEND_BODY_BYTES_MIN <= start <= len(frame):
        raise Reject(ErrorCode.RESOURCE_NOT_FOUND, "metadata length does not fit the body")
    return start


def append(partition: Partition, frame: memoryview, start: int) -> tuple[int, int]:
    """Store the batch at `start`: base offset and messages. Reject, and then nothing was stored.

    The offset is NOTHING_NEW where the partition has all of them already.
    """
    batch = frame[start:]
    if len(batch) < BATCH_HEADER_BYTES:
        raise Reject(ErrorCode.INVALID_FORMAT, "a batch is at least a 256-byte header")
    count: int = _U32.unpack_from(batch, _COUNT_AT_BYTES)[0]
    if not count or count != _U32.unpack_from(frame, start - 4)[0]:
        raise Reject(ErrorCode.INVALID_MESSAGES_COUNT, f"the batch says {count} messages")
    return partition.append(batch), count


def store(services: Services, target: Target, frame: memoryview, start: int) -> int:
    """The same for a target of this shard, and counted: the base offset."""
    assert target.partition is not None, "sends are served by the owner"
    base_offset, count = append(target.partition, frame, start)
    counters = services.counters
    counters.sends_total += 1
    counters.messages_received_total += count
    counters.bytes_received_total += len(frame) - start
    return base_offset


def send_reply(target: Target, base_offset: int, client: bytes, request: int) -> bytes:
    """The 280 bytes that confirm a send: where the batch is, and its first offset.

    Where nothing was new, an empty list of such places.
    """
    if base_offset == NOTHING_NEW:
        return _SEND_REPLY.pack(
            _EMPTY_REPLY_BYTES, FrameKind.REPLY, _NO_CHECKSUM, client, 0, 0, 0, request,
            Operation.SEND_MESSAGES, 0, 0, 0, 0, 0, 0,
        )[:_EMPTY_REPLY_BYTES]  # fmt: skip
    op = base_offset + 1  # nonzero, of the partition's own sequence
    return _SEND_REPLY.pack(
        _SEND_REPLY_BYTES, FrameKind.REPLY, _NO_CHECKSUM, client, op, op, 0, request,
        Operation.SEND_MESSAGES, 0,
        1, target.stream_id, target.topic_id, target.partition_id, base_offset,
    )  # fmt: skip


PollTail = tuple[PollingStrategy, int, bool]  # where to start, how many messages, auto-commit


NOTHING: Final[PollTail] = (PollingStrategy.first(), 0, False)


def poll_tail(frame: memoryview) -> PollTail | None:
    """The end of a poll frame whose body has nothing behind it; None if it does not decode."""
    kind, value, count, auto_commit = _POLL_TAIL.unpack_from(frame, len(frame) - POLL_TAIL_BYTES)
    strategy = _STRATEGIES.get(kind)
    if strategy is None or auto_commit > 1:
        return None
    return PollingStrategy(strategy, value), count, auto_commit == 1


def poll(
    services: Services,
    read: ReadTarget,
    tail: PollTail,
    header: RequestHeader,
    *,
    bytes_max: int | None = None,
) -> list[Part]:
    """The reply to a poll as pieces to send back to back. Auto-commit is done when this returns.

    `bytes_max` is how much of batches it brings, about, where that is less than for all.
    """
    commit = services.replica.state.op
    target, partition = read.target, read.partition
    if read.key is None:
        named = 0 if read is NOT_NAMED else PARTITION_NOT_OWNED
        return [poll_head(header, commit, (named, 0, 0), 0)]
    assert target is not None and partition is not None, "polls are served by the owner"
    strategy, count, auto_commit = tail
    limit = services.poll_bytes_max
    if bytes_max is not None:
        limit = min(limit, bytes_max)
    if auto_commit and partition.offsets_persisted:
        limit = min(limit, WAITING_BYTES_MAX)
    polled = partition.poll(
        strategy,
        count,
        bytes_max=limit,
        consumer=read.key,
        auto_commit=auto_commit,
    )
    count_poll(services, read, polled)
    head = (target.partition_id, polled.current_offset, polled.count)
    parts: list[Part] = [poll_head(header, commit, head, polled.size_bytes)]
    parts += polled.parts
    return parts


def count_poll(services: Services, read: ReadTarget, polled: Polled) -> None:
    """Count a poll, and note what a member of a group was handed."""
    if read.session and polled.count:
        partition, key = read.partition, read.key
        assert partition is not None and key is not None, "served by the owner"
        stored, last_offset = partition.offsets.get(key), polled.last_offset
        partition.reads.polled(key.id, read.session, last_offset=last_offset, stored=stored)
    counters = services.counters
    counters.polls_total += 1
    counters.messages_sent_total += polled.count
    counters.bytes_sent_total += polled.size_bytes


def commit_wait(read: ReadTarget, tail: PollTail) -> asyncio.Future[None] | None:
    """What the answer to a poll with auto-commit must wait for, if the topic wants that."""
    partition = read.partition
    if partition is None or not tail[2] or not partition.offsets_persisted:
        return None
    return partition.wait_durable()


def whole(parts: Sequence[Part]) -> bytes:
    """The pieces of a reply as one, for those that cannot go out now: file ranges do not last."""
    return b"".join(part.read() if isinstance(part, FileRange) else part for part in parts)


def poll_head(
    header: RequestHeader, commit: int, head: tuple[int, int, int], batches_bytes: int
) -> bytes:
    """Header and head of a poll reply: partition, current offset and messages count are `head`."""
    return _POLL_REPLY.pack(
        _POLL_HEAD_BYTES + batches_bytes, FrameKind.REPLY, header.request_checksum, header.client,
        header.session, commit, header.timestamp, header.request, header.operation, 0, *head,
    )  # fmt: skip


_NO_CHECKSUM: Final = bytes(16)

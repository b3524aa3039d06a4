"""Requests of P12 clients that wait for messages: each in a coroutine beside its connection.

A poll or fetch is served when there is enough, when its time is up, and when the shard stops. One
that its client cancels has read nothing, and its answer says so (Iggy protocol 0.12, deferred
polls).
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from iggy_broker.errors import Deny, Reject
from iggy_broker.metadata import access
from iggy_broker.net import dispatch
from iggy_broker.net.context import Answer, Context
from iggy_broker.net.handlers import messages
from iggy_broker.net.handlers.fetching import fetch
from iggy_broker.net.p12 import check_life, check_owner, settled
from iggy_broker.net.p12_requests import poll_of, serve_poll
from iggy_broker.net.requests import forwarded
from iggy_broker.net.session import deny
from iggy_broker.net.targets import ReadTarget, poll_target
from iggy_broker.net.waiting import Wish, asker, until_there
from iggy_wire.codes import Command
from iggy_wire.errors import ErrorCode, WireError
from iggy_wire.header import (
    HEADER_BYTES,
    PartitionContext,
    ReplyHeader,
    RequestHeader,
    encode_reply_header,
)
from iggy_wire.primitives import PollingStrategy
from iggy_wire.replies_p12 import POLL_HEAD_BYTES
from iggy_wire.replies_waiting import Fetched, ReadyPartitions, Section, sections_bytes
from iggy_wire.requests import PollMessages
from iggy_wire.requests_waiting import (
    DEFERRED_TAIL_BYTES,
    MARGIN_US,
    REPLY_BYTES_MIN,
    FetchMessages,
    FetchTarget,
    PollMessagesDeferred,
    WaitForMessages,
    WaitTarget,
)

if TYPE_CHECKING:
    from iggy_broker.net.connection import Connection
    from iggy_broker.net.edge import Edge
    from iggy_broker.net.outbox import Part

_MICRO: Final = 1_000_000


class Ending(enum.Enum):
    """What ends a wait beside messages and time."""

    CANCELLED = "cancelled by its client"
    NOW = "the shard stops, or the session ended"


class CancelledByClient(Exception):
    """Nothing was read."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request that may wait. `over` is done when it must wait no more."""

    edge: Edge
    connection: Connection
    header: RequestHeader
    frame: bytes
    over: asyncio.Future[Ending]
    context: Context

    @property
    def body(self) -> memoryview:
        """Behind the header."""
        return memoryview(self.frame)[HEADER_BYTES:]

    async def until_there(
        self, wishes: Sequence[tuple[ReadTarget, Wish]], least: int, wait_us: int
    ) -> list[int]:
        """Wait; then Reject, or CancelledByClient, what is not to be served any more."""
        edge, session = self.edge, self.connection.session.number
        asks = [asker(edge.services, edge.links, *wish) for wish in wishes]
        there = await until_there(asks, least, wait_s=wait_us / _MICRO, over=self.over)
        if self.over.done() and self.over.result() is Ending.CANCELLED:
            raise CancelledByClient
        if self.connection.session.number != session or not session:
            raise Deny(ErrorCode.UNAUTHENTICATED, "the session ended while the request waited")
        return there


async def serve_waiting(call: Call) -> Sequence[Part]:
    """The reply to one request of `WAITING`, whatever the outcome."""
    known = PartitionContext.of_request(call.frame)
    refusal: Reject
    try:
        return await WAITING[call.header.code](call)
    except CancelledByClient:  # which counts as no refusal
        commit = call.edge.services.replica.state.op
        return (deny(call.header, ErrorCode.TRANSIENT_NOT_ACCEPTED, commit=commit),)
    except WireError as malformed:
        refusal = Deny(malformed.code, malformed.detail)
    except Reject as refused:
        refusal = refused
    return (settled(dispatch.refuse(call.context, refusal), call.header, known),)


async def _poll_deferred(call: Call) -> Sequence[Part]:
    request = PollMessagesDeferred.decode(call.body)
    plain = call.frame[:-DEFERRED_TAIL_BYTES]  # a poll's frame
    if request.wait_us:
        read, (strategy, count, _) = poll_of(call.connection, plain)
        wishes = [(read, _wish(read, strategy, count))]
        await call.until_there(wishes, request.min_count, request.wait_us)
    bytes_max = request.max_bytes - POLL_HEAD_BYTES
    return await serve_poll(
        call.edge, call.connection, call.header, plain, deferred=call.frame, bytes_max=bytes_max
    )


async def _wait_for_messages(call: Call) -> Sequence[Part]:
    """Which partitions have messages."""
    request = WaitForMessages.decode(call.body)
    _check_topic(call, request)
    reads = [_read_target(call, request, target) for target in request.targets]
    wishes = [
        (read, _wish(read, target.strategy, 1))
        for read, target in zip(reads, request.targets, strict=True)
    ]
    there = await call.until_there(wishes, 1, request.wait_us)
    ids = [target.partition_id for target, n in zip(request.targets, there, strict=True) if n]
    reply = dispatch.reply(call.context, Answer(ReadyPartitions(tuple(ids)).encode()))
    return (settled(reply, call.header, PartitionContext.of_request(call.frame)),)


async def _fetch_messages(call: Call) -> Sequence[Part]:
    request = FetchMessages.decode(call.body)
    _check_topic(call, request)
    if request.wait_us:
        wishes = []
        for target in request.targets:
            try:
                read = _fenced(call, request, target)
            except Reject:  # it is told at once, beside what the others have
                break
            wishes.append((read, _wish(read, target.strategy, request.count)))
        if len(wishes) == len(request.targets):
            await call.until_there(wishes, request.min_count, request.wait_us)
    sections, records = await _sections(call, request)
    head = sections_bytes(sections)
    size_bytes = len(head) + sum(map(len, records))
    reply = encode_reply_header(
        call.header,
        size_bytes,
        op=call.connection.session.number,
        commit=call.edge.services.replica.state.op,
        timestamp=call.header.timestamp,
    )
    known = PartitionContext.of_request(call.frame)
    return (settled(reply, call.header, known) + head, *records)


WAITING: Final[dict[int, Callable[[Call], Awaitable[Sequence[Part]]]]] = {
    Command.POLL_MESSAGES_DEFERRED: _poll_deferred,
    Command.WAIT_FOR_MESSAGES: _wait_for_messages,
    Command.FETCH_MESSAGES: _fetch_messages,
}


async def _sections(call: Call, request: FetchMessages) -> tuple[list[Section], list[bytes]]:
    """One section for each partition that was read, within the limits for all of them.

    Another one is first in each request, so that the last is not always what has to wait.
    """
    first = call.header.request % len(request.targets)
    count_left, bytes_left = request.count, request.max_bytes
    sections, records = [], []
    for target in (*request.targets[first:], *request.targets[:first]):
        if not count_left or bytes_left < REPLY_BYTES_MIN:
            break
        bytes_max = min(target.max_bytes, bytes_left)
        section, batches = await _section(call, request, target, (count_left, bytes_max))
        if section.status == ErrorCode.INVALID_SIZE_BYTES and bytes_max < target.max_bytes:
            continue  # it would fit, but for the others
        count_left -= section.messages_count
        bytes_left -= section.records_bytes
        sections.append(section)
        records.append(batches)
    return sections, records


async def _section(
    call: Call, request: FetchMessages, target: FetchTarget, limits: tuple[int, int]
) -> tuple[Section, bytes]:
    count, bytes_max = limits
    try:
        read = _fenced(call, request, target)
        assert read.target is not None, "fenced"
        if read.target.partition is None:
            frame = _frame_of_one(call, request, target, limits)
            return _only(target, await forwarded(call.edge, read.target, frame))
        tail = (target.strategy, count, request.auto_commit)
        section, parts = fetch(call.edge.services, read, tail, bytes_max)
        batches = messages.whole(parts)
        durable = messages.commit_wait(read, tail)
        if durable is not None:
            await durable
    except Reject as refusal:
        call.edge.services.counters.refused(refusal.code)
        return Section(target.partition_id, refusal.code), b""
    return section, batches


def _frame_of_one(
    call: Call, request: FetchMessages, target: FetchTarget, limits: tuple[int, int]
) -> bytes:
    """The fetch of one partition, for the shard that owns it."""
    count, bytes_max = limits
    one = FetchTarget(
        target.partition_id, target.strategy, bytes_max, target.incarnation, target.owner_generation
    )
    body = FetchMessages(
        request.consumer, request.stream, request.topic, 0, MARGIN_US, 1, count, bytes_max,
        request.auto_commit, (one,),
    ).encode()  # fmt: skip
    header = call.header
    return (
        RequestHeader(
            header.operation,
            header.client,
            HEADER_BYTES + len(body),
            header.request,
            call.connection.session.number,
            header.code,
        ).encode()
        + body
    )


def _only(target: FetchTarget, reply: bytes) -> tuple[Section, bytes]:
    """The one section of another shard's reply."""
    status = ReplyHeader.decode(reply).status
    if status:
        return Section(target.partition_id, status), b""
    fetched = Fetched.decode(memoryview(reply)[HEADER_BYTES:])
    return fetched.sections[0], bytes(fetched.records)


def _check_topic(call: Call, request: WaitForMessages | FetchMessages) -> None:
    """Reject all of a request for a topic that is not there, or not for the caller to read."""
    services, stream, topic = call.edge.services, request.stream.value, request.topic.value
    target = access.Target(stream, topic)
    access.authorize(services.replica.state, call.context.user_id, Command.POLL_MESSAGES, target)
    services.replica.state.topic(stream, topic)


def _read_target(
    call: Call, request: WaitForMessages | FetchMessages, target: WaitTarget | FetchTarget
) -> ReadTarget:
    poll = PollMessages(
        request.consumer, request.stream, request.topic, target.partition_id, target.strategy, 1
    )
    read = poll_target(call.edge.services, poll, call.connection.session.number)
    check_owner(read, PartitionContext(owner_generation=getattr(target, "owner_generation", 0)))
    return read


def _fenced(call: Call, request: FetchMessages, target: FetchTarget) -> ReadTarget:
    read = _read_target(call, request, target)
    assert read.target is not None, "who does not own it is refused"
    check_life(read.target, PartitionContext(target.incarnation))
    return read


def _wish(read: ReadTarget, strategy: PollingStrategy, count: int) -> Wish:
    assert read.key is not None, "who does not own it is refused"
    return Wish(strategy, count, read.key)

"""Requests of P12 clients: served as those of P11, with the context of partitions around them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from iggy_broker.errors import Deny, Reject
from iggy_broker.net import dispatch
from iggy_broker.net.context import Context
from iggy_broker.net.handlers import messages
from iggy_broker.net.late_polls import client_poll_late
from iggy_broker.net.p12 import check_life, check_owner, in_context, served_in, settled
from iggy_broker.net.requests import forwarded, serve_request
from iggy_broker.net.targets import NOT_NAMED, ReadTarget
from iggy_broker.storage.older import NotHere
from iggy_wire.buffer import Buffer
from iggy_wire.codes import Command, Operation
from iggy_wire.errors import ErrorCode
from iggy_wire.header import (
    HEADER_BYTES,
    PartitionContext,
    ReplyHeader,
    RequestHeader,
    encode_reply,
    stamped,
)

if TYPE_CHECKING:
    from iggy_broker.net.connection import Connection
    from iggy_broker.net.edge import Edge
    from iggy_broker.net.outbox import Part
    from iggy_broker.net.session import ReplyMemory
    from iggy_broker.storage.partition import Partition


Work: TypeAlias = "Coroutine[Any, Any, bytes | Sequence[Part]]"


def take_up(
    edge: Edge,
    connection: Connection,
    header: RequestHeader,
    frame: memoryview,
    later: Callable[[Work], None],
) -> None:
    """Serve a request that `Session.refuse` let pass, or hand the work for it to `later`.

    Most sends and polls are answered at once, as in P11. `frame` is only lent.
    """
    reply: Sequence[Part] | Work | None = None
    try:
        if header.operation == Operation.SEND_MESSAGES:
            reply = _send_now(edge, connection, header, frame)
        elif header.operation == Operation.NON_REPLICATED and header.code == Command.POLL_MESSAGES:
            reply = _poll_now(edge, connection, header, frame)
        elif edge.waits.take(connection, header, frame):
            return
    except Reject as refusal:
        refused = dispatch.refuse(Context(edge.services, connection.session, header), refusal)
        reply = (settled(refused, header, PartitionContext.of_request(frame)),)
    if isinstance(reply, Sequence):
        connection.answer(reply)
    else:
        later(reply or _serve(edge, connection, header, bytes(frame)))


def _send_now(
    edge: Edge, connection: Connection, header: RequestHeader, frame: memoryview
) -> Sequence[Part] | Work | None:
    """None: another shard is to serve it."""
    memory, known = connection.session.memory, PartitionContext.of_request(frame)
    body = memory.recall_send(header.request)
    if body is not None:
        return (settled(encode_reply(header, body), header, known),)
    start = messages.batch_start(frame)
    target = connection.resolver.send_target(frame, start)
    check_life(target, known)
    partition = target.partition
    if partition is None:
        return None
    base_offset = messages.store(edge.services, target, frame, start)
    reply = messages.send_reply(target, base_offset, header.client, header.request)
    if partition.must_wait:
        memory.serving = True
        return _when_durable(partition, memory, header, settled(reply, header, known))
    memory.keep_send(header.request, reply[HEADER_BYTES:])
    return (settled(reply, header, known),)


async def _when_durable(
    partition: Partition, memory: ReplyMemory, header: RequestHeader, reply: bytes
) -> bytes:
    try:
        await partition.wait_durable()
        memory.keep_send(header.request, reply[HEADER_BYTES:])
    finally:
        memory.settle()
    return reply


def _poll_now(
    edge: Edge, connection: Connection, header: RequestHeader, frame: memoryview
) -> Sequence[Part] | None:
    """None: another shard, the archive, or a sync, is to be waited for."""
    read, tail = poll_of(connection, frame)
    partition = read.partition
    if partition is None or (tail[2] and partition.offsets_persisted):
        return None
    served = served_in(edge.services.replica.state, read)
    try:
        parts = messages.poll(edge.services, read, tail, header)
    except NotHere:
        return None  # nothing was done yet
    return in_context(parts, header, known=PartitionContext.of_request(frame), served=served)


async def _serve(
    edge: Edge, connection: Connection, header: RequestHeader, frame: bytes
) -> bytes | Sequence[Part]:
    known = PartitionContext.of_request(frame)
    context = Context(edge.services, connection.session, header)
    try:
        if header.operation == Operation.SEND_MESSAGES:
            return settled(await _send(edge, connection, header, frame), header, known)
        if header.operation == Operation.NON_REPLICATED and header.code == Command.POLL_MESSAGES:
            return await serve_poll(edge, connection, header, frame)
    except Reject as refusal:
        return settled(dispatch.refuse(context, refusal), header, known)
    return settled(await serve_request(edge, connection, header, frame), header, known)


async def _send(edge: Edge, connection: Connection, header: RequestHeader, frame: bytes) -> bytes:
    """Store a batch, or repeat what was said when it came first: on a link that then broke."""
    memory = connection.session.memory
    body = memory.recall_send(header.request)
    if body is not None:
        return encode_reply(header, body)
    memory.serving = True
    try:
        reply = await _store(edge, connection, header, frame)
        if not ReplyHeader.decode(reply).status:
            memory.keep_send(header.request, reply[HEADER_BYTES:])
    finally:
        memory.settle()
    return reply


async def _store(edge: Edge, connection: Connection, header: RequestHeader, frame: bytes) -> bytes:
    own = memoryview(bytearray(frame))  # the batch is stamped in place
    start = messages.batch_start(own)
    target = connection.resolver.send_target(own, start)
    check_life(target, PartitionContext.of_request(frame))
    partition = target.partition
    if partition is None:
        return await forwarded(edge, target, own)
    # A topic of the same name was made meanwhile, and is this shard's.
    base_offset = messages.store(edge.services, target, own, start)
    if partition.must_wait:
        await partition.wait_durable()
    return messages.send_reply(target, base_offset, header.client, header.request)


def poll_of(connection: Connection, frame: Buffer) -> tuple[ReadTarget, messages.PollTail]:
    """What a poll wants to read, and how; Reject what is not the caller's, or another life's."""
    known = PartitionContext.of_request(frame)
    read, tail = connection.resolver.read_target(memoryview(frame))
    if read is NOT_NAMED:
        raise Deny(ErrorCode.INVALID_COMMAND, "poll: name a consumer, a partition and a strategy")
    check_owner(read, known)
    assert read.target is not None, "who does not own it is refused"
    check_life(read.target, known)
    return read, tail


async def serve_poll(
    edge: Edge,
    connection: Connection,
    header: RequestHeader,
    frame: bytes,
    *,
    deferred: bytes | None = None,
    bytes_max: int | None = None,
) -> Sequence[Part]:
    """The reply to a poll. `deferred`: the frame of one that waited; it says `bytes_max`, too."""
    services, known = edge.services, PartitionContext.of_request(frame)
    read, tail = poll_of(connection, frame)
    assert read.target is not None, "who does not own it is refused"
    served = served_in(services.replica.state, read)
    parts: Sequence[Part]
    if read.target.partition is None:
        sent = stamped(deferred or frame, connection.session.number)
        parts = (await forwarded(edge, read.target, sent),)
        return in_context(parts, header, known=known, served=served)
    try:
        parts = messages.poll(services, read, tail, header, bytes_max=bytes_max)
    except NotHere as missing:
        resolver = connection.resolver
        parts = await client_poll_late(resolver, header, frame, missing, bytes_max=bytes_max)
    else:
        parts = (messages.whole(parts),)  # file ranges do not last until the reply goes out
        durable = messages.commit_wait(read, tail)
        if durable is not None:
            await durable
    return in_context(parts, header, known=known, served=served)

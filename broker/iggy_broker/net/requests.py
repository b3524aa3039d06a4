"""Requests that run as a coroutine: login and logout, changes of metadata, offsets, all reads."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from iggy_broker.errors import Deny, Reject
from iggy_broker.net import dispatch
from iggy_broker.net.bind_session import bind_session, refused_version
from iggy_broker.net.context import DONE, Context
from iggy_broker.net.handlers.offsets import PARTITION_COMMANDS, PartitionCommand
from iggy_broker.net.login import log_in
from iggy_broker.net.p12 import check_committer, check_life
from iggy_wire.codes import Command, Operation, is_metadata
from iggy_wire.errors import ErrorCode, WireError
from iggy_wire.header import (
    HEADER_BYTES,
    PartitionContext,
    ReplyHeader,
    RequestHeader,
    stamped,
)
from iggy_wire.results import split_result

if TYPE_CHECKING:
    from iggy_broker.net.connection import Connection
    from iggy_broker.net.edge import Edge
    from iggy_broker.net.targets import Target


async def serve_request(
    edge: Edge, connection: Connection, header: RequestHeader, frame: bytes
) -> bytes:
    """Serve one request that `Session.refuse` let pass: the reply frame, whatever the outcome."""
    session = connection.session
    context = Context(edge.services, session, header)
    if header.operation == Operation.REGISTER:
        return await _log_in(edge, connection, context, frame[HEADER_BYTES:])
    if header.operation == Operation.LOGOUT:
        number = session.number
        edge.end_session(connection)
        await edge.services.members.session_ended(number)
        return dispatch.reply(context, DONE)
    if header.operation == Operation.NON_REPLICATED and header.code == Command.BIND_SESSION:
        return await _bind(edge, connection, context, frame[HEADER_BYTES:])
    if is_metadata(header.operation):
        return await _serve_change(edge, context, frame)
    return await _serve_once(edge, context, frame)


async def _serve_change(edge: Edge, context: Context, frame: bytes) -> bytes:
    """Serve a change of metadata, or repeat what was said when it came first."""
    header, memory = context.header, context.session.memory
    stored = memory.recall(header)
    if isinstance(stored, ErrorCode):
        return dispatch.refuse(context, Reject(stored, f"request {header.request} is an old retry"))
    if stored is not None:
        return stored
    memory.begin(header.request)
    reply = await _serve_once(edge, context, frame)
    memory.keep(header.request, header.request_checksum, _for_retries(context, reply))
    return reply


async def _log_in(edge: Edge, connection: Connection, context: Context, body: bytes) -> bytes:
    try:
        return await log_in(edge, connection, context.header, body)
    except Deny as busy:
        edge.services.counters.refused(busy.code)
        return dispatch.rejection(context, busy.code)  # an eviction would be final


async def _bind(edge: Edge, connection: Connection, context: Context, body: bytes) -> bytes:
    refused = refused_version(edge, context.header, body)
    if refused is not None:
        return refused
    try:
        answer = await bind_session(edge, connection, body)
    except Deny as refusal:
        return dispatch.refuse(context, refusal)
    except WireError as malformed:
        return dispatch.refuse(context, Deny(malformed.code, malformed.detail))
    return dispatch.reply(context, answer)


def _for_retries(context: Context, reply: bytes) -> bytes:
    """What a retry is answered: the same bytes, but never the text of a token again."""
    header = context.header
    made_token = (
        header.operation == Operation.CREATE_PERSONAL_ACCESS_TOKEN
        and ReplyHeader.decode(reply).status == 0
        and split_result(reply[HEADER_BYTES:])[0] == 0
    )
    if not made_token:
        return reply
    # Iggy protocol 0.11: such a retry is told that there is one of this name.
    return dispatch.rejection(context, ErrorCode.PERSONAL_ACCESS_TOKEN_ALREADY_EXISTS)


async def _serve_once(edge: Edge, context: Context, frame: bytes) -> bytes:
    try:
        command = dispatch.command_of(context.header)
        row = PARTITION_COMMANDS.get(command)
        if row is not None:
            return await _serve_partition(edge, context, row, frame)
        return await dispatch.serve(context, command, frame[HEADER_BYTES:])
    except Reject as refusal:
        return dispatch.refuse(context, refusal)
    except WireError as malformed:
        return dispatch.refuse(context, Deny(malformed.code, malformed.detail))


async def _serve_partition(
    edge: Edge, context: Context, row: PartitionCommand, frame: bytes
) -> bytes:
    request = row.request.decode(frame[HEADER_BYTES:])
    dispatch.check_access(context, row.request.command, request)
    target = row.resolve(edge.services, request)
    if target is None:
        return dispatch.reply(context, DONE)
    if context.dialect.is_p12 and row.names_life:
        check_life(target, PartitionContext.of_request(frame))
        check_committer(edge.services, request, target, context.session.number)
    if target.partition is not None:
        return dispatch.reply(context, await row.serve(context, target, request))
    return await forwarded(edge, target, stamped(frame, context.session.number))


async def forwarded(edge: Edge, target: Target, frame: bytes | memoryview) -> bytes:
    """Have the owner of a partition serve a frame, and return its reply."""
    link = edge.links.to(target.owner)
    while link.full:
        free: asyncio.Future[None] = edge.loop.create_future()
        link.when_free(partial(_set, free))
        await free
    answer: asyncio.Future[bytes] = edge.loop.create_future()
    link.forward(target, frame, partial(_take, answer))
    edge.services.counters.forwarded_total += 1
    return await answer


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _take(future: asyncio.Future[bytes], reply: memoryview) -> None:
    if not future.done():
        future.set_result(bytes(reply))

"""Polls of messages that must be fetched first: asked again when they are there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from iggy_broker.errors import Reject
from iggy_broker.net import dispatch
from iggy_broker.net.context import Context
from iggy_broker.net.handlers import messages
from iggy_broker.net.outbox import Part
from iggy_broker.net.resolver import Resolver
from iggy_broker.net.targets import ReadTarget
from iggy_broker.storage.older import NotHere
from iggy_broker.storage.partition import FileRange
from iggy_wire.errors import ErrorCode
from iggy_wire.header import RequestHeader

WAIT_S_MAX: Final = 8.0
"""Of one poll. What it waited for goes on being fetched: the client asks again."""

Poll = Callable[[], tuple[Sequence[Part], ReadTarget, messages.PollTail]]
"""A whole poll, from the target on: whose it is may have changed. NotHere, Reject."""


async def client_poll_late(
    resolver: Resolver,
    header: RequestHeader,
    frame: bytes,
    missing: NotHere,
    *,
    bytes_max: int | None = None,
) -> Sequence[Part]:
    """Go on with the poll of a client, whose connection serves nothing else meanwhile."""
    services, session = resolver.services, resolver.session

    def poll() -> tuple[Sequence[Part], ReadTarget, messages.PollTail]:
        if session.user_id is None:
            raise Reject(ErrorCode.UNAUTHENTICATED, "the session ended while the poll waited")
        read, tail = resolver.read_target(memoryview(frame))
        return messages.poll(services, read, tail, header, bytes_max=bytes_max), read, tail

    return await poll_late(Context(services, session, header), poll, missing)


async def poll_late(context: Context, poll: Poll, missing: NotHere) -> Sequence[Part]:
    """The reply to a poll that lacked something: that comes, or a refusal. It may be kept."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + WAIT_S_MAX
    try:
        while True:
            left_s = until_s - loop.time()
            await asyncio.wait((missing.ready,), timeout=max(left_s, 0.0))
            if missing.ready.cancelled() or not missing.ready.done():
                raise Reject(ErrorCode.TRANSIENT_NOT_ACCEPTED, missing.detail)
            try:
                parts, read, tail = poll()
                break
            except NotHere as again:
                missing = again
    except Reject as refusal:
        return (dispatch.refuse(context, refusal),)
    reply = [part.read() if isinstance(part, FileRange) else part for part in parts]
    durable = messages.commit_wait(read, tail)
    if durable is not None:
        await durable
    return reply

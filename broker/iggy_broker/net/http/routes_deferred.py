"""Polls over HTTP that wait for messages (Iggy protocol 0.12, deferred polls)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from iggy_broker.errors import Reject
from iggy_broker.net.http import shapes
from iggy_broker.net.http.call import Call
from iggy_broker.net.http.limits import POLL_BYTES_MAX
from iggy_broker.net.http.query import Kind, Parameter
from iggy_broker.net.http.replies import Reply
from iggy_broker.net.http.routes_messages import (
    MESSAGES,
    POLL_QUERY,
    poll_of,
    poll_place,
    read_now,
)
from iggy_broker.net.http.routing import Route, Success
from iggy_broker.net.p12_waiting import Ending
from iggy_broker.net.targets import ReadTarget
from iggy_broker.net.waiting import Wish, asker, until_there
from iggy_wire.errors import ErrorCode
from iggy_wire.requests_waiting import TIMEOUT_US_MAX, PollMessagesDeferred

_MICRO: Final = 1_000_000


async def poll_deferred(call: Call) -> Reply:
    """Messages of one partition, once there are enough of them or the time is up."""
    query, poll = call.query, poll_of(call)
    limits = (query[one] for one in ("wait_us", "min_count", "max_bytes", "request_timeout_us"))
    # Encoded and read again: the layout has the limits in it.
    request = PollMessagesDeferred.decode(PollMessagesDeferred(poll, *limits).encode())
    read = poll_place(call, poll)
    if request.wait_us:
        await _wait(call, request, read)
        call = await _asked_again(call)
        read = poll_place(call, poll)
    return await read_now(call, poll, read, request)


async def poll_deferred_committing(call: Call) -> Reply:
    """The same as a POST, which nobody on the way sends twice: for polls with auto-commit."""
    return await poll_deferred(call)


async def _wait(call: Call, request: PollMessagesDeferred, read: ReadTarget) -> None:
    commands, poll = call.app.commands, request.poll
    assert read.key is not None, "a consumer of its own"
    ask = asker(
        commands.services, commands.edge.links, read, Wish(poll.strategy, poll.count, read.key)
    )
    with call.app.waits.one(call.connection, call.asker.token) as over:
        wait_s = request.wait_us / _MICRO
        await until_there((ask,), request.min_count, wait_s=wait_s, over=over)
        if over.done() and over.result() is Ending.CANCELLED:
            raise Reject(ErrorCode.TRANSIENT_NOT_ACCEPTED, "its client is gone")


async def _asked_again(call: Call) -> Call:
    """The same call after its wait: the token may be good no more."""
    return replace(call, who=await call.app.auth.asker(call.authorization))


_PATH: Final = MESSAGES + "/deferred"
_POLLED: Final = Success(200, shapes.Polled)
_QUERY: Final = (
    *POLL_QUERY,
    Parameter("consumer_kind", ("consumer",), "Groups are read over TCP only.", "consumer"),
    Parameter("wait_us", Kind.U64, "How long to wait, up to 10 minutes.", 0),
    Parameter("min_count", Kind.U32, "How many messages to wait for.", 1),
    Parameter("max_bytes", Kind.U32, "How much to read; a larger batch comes alone.",
              POLL_BYTES_MAX),
    Parameter("request_timeout_us", Kind.U64, "When the client gives up: 1 s after the wait.",
              TIMEOUT_US_MAX),
)  # fmt: skip

ROUTES: Final = (
    Route("GET", _PATH, poll_deferred, "Wait for messages and poll them.", _POLLED, query=_QUERY,
          may_wait=True),
    Route("POST", _PATH, poll_deferred_committing,
          "Wait for messages, poll them, and store the offset.", _POLLED, query=_QUERY,
          may_wait=True),
)  # fmt: skip

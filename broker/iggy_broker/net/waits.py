"""The requests of one shard's clients that wait for messages: how many may, and what ends them.

A connection serves other requests meanwhile, and answers these when they are served, in any order:
P12 clients know their answers by their numbers. A connection with requests that wait does not move
to another shard.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from iggy_broker.errors import Deny
from iggy_broker.net import dispatch
from iggy_broker.net.context import Context
from iggy_broker.net.p12 import settled
from iggy_broker.net.p12_waiting import WAITING, Call, Ending, serve_waiting
from iggy_wire.codes import Command, Operation
from iggy_wire.errors import ErrorCode
from iggy_wire.header import PartitionContext, RequestHeader

if TYPE_CHECKING:
    from iggy_broker.net.connection import Connection
    from iggy_broker.net.edge import Edge
    from iggy_broker.net.outbox import Part

WAITS_PER_CONNECTION_MAX: Final = 64  # as many as official clients send at once
WAITS_MAX: Final = 8_192  # per shard, of about 10 KiB each


class _Waiting(NamedTuple):
    over: asyncio.Future[Ending]
    task: asyncio.Task[Sequence[Part]]


class Waits:
    """By connection, and by the number of the request."""

    __slots__ = ("_edge", "_waiting")

    def __init__(self, edge: Edge) -> None:
        """Nobody waits."""
        self._edge = edge
        self._waiting: dict[Connection, dict[int, _Waiting]] = {}

    def __contains__(self, connection: Connection) -> bool:
        """Whether a request of this connection waits."""
        return connection in self._waiting

    def take(self, connection: Connection, header: RequestHeader, frame: memoryview) -> bool:
        """Serve a request that may wait, beside its connection. False: it is another one."""
        code = header.code
        if header.operation != Operation.NON_REPLICATED or (
            code not in connection.session.dialect.requests
        ):
            return False
        if code == Command.CANCEL_DEFERRED:
            self.cancel(connection, header.request)
            return True
        if code not in WAITING:
            return False
        self._begin(connection, header, bytes(frame))
        return True

    def end(self, connection: Connection) -> None:
        """Let no request of this connection wait any more; if it is closed, serve none of them."""
        for over, task in self._waiting.get(connection, {}).values():
            if not connection.is_connected:
                task.cancel()
            elif not over.done():
                over.set_result(Ending.NOW)

    def cancel(self, connection: Connection, request: int) -> None:
        """Its client does not want it any more, if it waits."""
        waiting = self._waiting.get(connection, {}).get(request)
        if waiting is not None and not waiting.over.done():
            waiting.over.set_result(Ending.CANCELLED)

    # -- inside --------------------------------------------------------------------------------

    def _begin(self, connection: Connection, header: RequestHeader, frame: bytes) -> None:
        edge, counters = self._edge, self._edge.services.counters
        context = Context(edge.services, connection.session, header)
        waiting = self._waiting.get(connection, {})
        refusal = None
        if header.request in waiting:
            detail = f"request {header.request} is being served"
            refusal = Deny(ErrorCode.TRANSIENT_NOT_COMMITTED, detail)
        elif len(waiting) >= WAITS_PER_CONNECTION_MAX or counters.polls_waiting >= WAITS_MAX:
            detail = f"{len(waiting)} requests of this client wait, {counters.polls_waiting} of all"
            refusal = Deny(ErrorCode.DEFERRED_POLL_CAPACITY_EXCEEDED, detail)
        if refusal is not None:
            known = PartitionContext.of_request(frame)
            connection.answer(settled(dispatch.refuse(context, refusal), header, known))
            return
        over: asyncio.Future[Ending] = edge.loop.create_future()
        counters.polls_waiting += 1
        call = Call(edge, connection, header, frame, over, context)
        task = edge.loop.create_task(serve_waiting(call))
        self._waiting.setdefault(connection, {})[header.request] = _Waiting(over, task)
        task.add_done_callback(lambda task: self._served(call, task))

    def _served(self, call: Call, task: asyncio.Task[Sequence[Part]]) -> None:
        self._edge.services.counters.polls_waiting -= 1
        waiting = self._waiting[call.connection]
        del waiting[call.header.request]
        if not waiting:
            del self._waiting[call.connection]
        if not task.cancelled():
            call.connection.answer(task.result())  # a bug of ours reaches the loop

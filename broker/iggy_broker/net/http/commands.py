"""Runs a command of the binary protocol for somebody who asked over HTTP.

The same handlers, permissions and forwarding between shards as for a TCP client, so that both mean
the same. What runs here has no session: it is in no consumer group, and is listed nowhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from iggy_broker.errors import Reject
from iggy_broker.metadata import access
from iggy_broker.net import dispatch
from iggy_broker.net.context import Context
from iggy_broker.net.handlers.offsets import PARTITION_COMMANDS
from iggy_broker.net.requests import forwarded
from iggy_broker.net.session import Session
from iggy_wire.codes import Operation, is_result_framed
from iggy_wire.errors import ErrorCode
from iggy_wire.header import HEADER_BYTES, ReplyHeader, RequestHeader
from iggy_wire.primitives import Identifier
from iggy_wire.request_base import Request
from iggy_wire.results import split_result

if TYPE_CHECKING:
    from iggy_broker.net.edge import Edge
    from iggy_broker.net.http.auth import Asker
    from iggy_broker.net.targets import Target

CLIENT: Final = b"http".ljust(16, b"\0")  # in frames to other shards: nonzero, and nobody's


class Commands:
    """The commands of one shard."""

    def __init__(self, edge: Edge) -> None:
        """With the shard's parts."""
        self.edge = edge
        self.services = edge.services
        self._is_strict = edge.services.config.http.strict_compat

    async def run(self, asker: Asker, request: Request) -> bytes:
        """The body of the reply; empty where there is nothing. Reject as over TCP."""
        self.check_access(asker, request.command, request)
        context = self.context(asker, request)
        row = PARTITION_COMMANDS.get(request.command)
        if row is None:
            answer = await dispatch.COMMANDS[request.command].handler(context, request)
        else:
            target = row.resolve(self.services, request)
            if target is None:
                return b""
            if target.partition is None:
                operation = request.operation()
                return await self.forward(target, request.command, operation, request.encode())
            answer = await row.serve(context, target, request)
        self.services.counters.requests_total += 1
        return answer.body

    def context(self, asker: Asker, request: Request) -> Context:
        """The surroundings of one request."""
        session = Session(client_number=0, address="")
        session.bind(client=CLIENT, number=0, user_id=asker.user_id, user_since_us=asker.since_us)
        return Context(self.services, session, header_of(request.command, request.operation()))

    def check_access(self, asker: Asker, command: int, request: Request) -> None:
        """UNAUTHORIZED if the asker may not."""
        named = (getattr(request, name, None) for name in ("stream", "topic", "user"))
        target = access.Target(
            *(one.value if isinstance(one, Identifier) else None for one in named)
        )
        state = self.services.replica.state
        user = state.users.get(asker.user_id)
        if self._is_strict and user is not None and not user.active:
            # The original asks only at login whether a user is active.
            active = {**state.users, user.id: msgspec.structs.replace(user, active=True)}
            state = msgspec.structs.replace(state, users=active)
        access.authorize(state, asker.user_id, command, target)

    async def forward(
        self, target: Target, command: int, operation: Operation, body: bytes
    ) -> bytes:
        """Have the shard that owns the partition serve an encoded request: its reply's body."""
        header = header_of(command, operation, size_bytes=HEADER_BYTES + len(body))
        frame = await forwarded(self.edge, target, header.encode() + body)
        reply = ReplyHeader.decode(frame)
        if reply.status:
            raise Reject(ErrorCode(reply.status))
        answered = frame[HEADER_BYTES:]
        if not is_result_framed(reply.operation, len(answered)):
            return answered
        result, rest = split_result(answered)
        if result:
            raise Reject(ErrorCode(result))
        return bytes(rest)


def header_of(
    command: int, operation: Operation, *, size_bytes: int = HEADER_BYTES
) -> RequestHeader:
    """The header of a frame for another shard."""
    code = command if operation == Operation.NON_REPLICATED else 0
    return RequestHeader(operation, CLIENT, size_bytes, request=1, code=code)

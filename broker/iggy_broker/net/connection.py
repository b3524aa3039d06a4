"""One client connection: frames in, replies out, in order. The only holder of a client's transport.

Sends and polls are served right in the socket's callback; everything else runs as a coroutine while
the connection is blocked. A send whose answer must wait (for a sync, or for another shard) takes a
place in `_pending`, and further sends go on behind it; any other request waits until that is empty.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine, Sequence
from struct import Struct
from typing import Any, Final, cast

from iggy_broker.errors import Reject
from iggy_broker.net import dispatch
from iggy_broker.net.context import Context
from iggy_broker.net.edge import SILENT_STEPS_MAX, Edge
from iggy_broker.net.handlers import messages
from iggy_broker.net.handover import FOREIGN_BYTES, FOREIGN_RUN, PAUSE_S, hand_over
from iggy_broker.net.intake import SLOW_AFTER_S, Intake
from iggy_broker.net.late_polls import client_poll_late
from iggy_broker.net.outbox import Outbox, Part
from iggy_broker.net.p12_requests import take_up
from iggy_broker.net.requests import serve_request
from iggy_broker.net.resolver import Resolver
from iggy_broker.net.session import Session, Transport, deny
from iggy_broker.net.targets import Target
from iggy_broker.storage.older import NotHere
from iggy_wire.codes import Command, Operation
from iggy_wire.errors import ErrorCode
from iggy_wire.header import HEADER_BYTES, ZERO_16, RequestHeader, stamp_session

PENDING_MAX: Final = 256  # sends of one connection whose answer waits; beyond, it is not read
LOGIN_FRAME_BYTES_MAX: Final = 128 * 1024  # of a client that nobody knows yet
SLOW_BODY_BYTES_MAX: Final = 4 * 1024 * 1024  # of requests that are not sends

# Why it is not served: a coroutine runs, its socket is full, answers must come first, too many are
# outstanding, the link to the owner is full.
BUSY, CLOGGED, ORDER, FULL, LINK = 1, 2, 4, 8, 16

_SIZE: Final = Struct("<I")
_SIZE_AT_BYTES: Final = 48
# command | client, request checksum, request, operation, session, code
_HEADER: Final = Struct("<60xB67x16s16s8xQB7xQ4xI56x")
_REQUEST: Final = 5


class Reply:
    """The place of an answer that is not there yet."""

    __slots__ = ("frame",)

    def __init__(self) -> None:
        """Empty."""
        self.frame: bytes | memoryview | None = None


class Connection(Intake):
    """A client, from accept to close."""

    __slots__ = (
        "_edge",
        "_foreign_bytes",
        "_foreign_owner",
        "_foreign_run",
        "_half_bytes",
        "_out",
        "_pending",
        "_services",
        "_silent_steps",
        "_stays_until_s",
        "resolver",
        "session",
    )
    _header_bytes = HEADER_BYTES
    reached_by = Transport.TCP

    def __init__(self, edge: Edge, session: Session | None = None) -> None:
        """Not connected yet. `session` comes along from the shard that had the connection."""
        super().__init__(edge.loop, edge.landing)
        self._edge = edge
        self._services = edge.services
        self._out: Outbox | None = None
        self._pending: list[Reply] = []  # short, and an empty one is small: clients are many
        self._foreign_owner = -1  # the shard that owns the partitions of the last requests
        self._foreign_run = self._foreign_bytes = 0  # how many of them in a row, and their bytes
        self._silent_steps = 0  # of the heartbeat, since the last frame or part of one
        self._half_bytes = 0  # of half a frame, at the last step
        self._stays_until_s = 0.0 if session is None else edge.loop.time() + PAUSE_S
        self.session = session or edge.new_session(self.reached_by)
        self.resolver = Resolver(self._services, self.session)

    # -- asyncio -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport, unless there are too many connections."""
        # uvloop's transports have the methods of asyncio's, but not the class.
        transport = cast(asyncio.Transport, transport)
        self._transport = transport
        if not self._edge.opened(self):
            transport.abort()
            return
        if not self.session.address:
            peer = transport.get_extra_info("peername")
            self.session.address = f"{peer[0]}:{peer[1]}" if peer else ""
        self._out = self._outbox(transport)
        if not self._out.is_movable:
            self._stays_until_s = math.inf

    def _outbox(self, transport: asyncio.Transport) -> Outbox:
        return Outbox(transport, self._edge.unsent)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone: its session ends with it (Iggy protocol 0.11)."""
        self._blocked |= BUSY  # nothing is served any more
        self._transport = None
        if self._out is not None:
            self._out.close()
        self._pending.clear()
        self._release()
        self._edge.closed(self)

    def pause_writing(self) -> None:
        """The client does not read: serve it nothing more."""
        assert self._out is not None
        self._out.on_clogged()
        self._blocked |= CLOGGED

    def resume_writing(self) -> None:
        """The socket has room again."""
        assert self._out is not None
        self._out.on_drained()
        if not self._out.clogged:
            self._unblock(CLOGGED)
            self._move_if_foreign()

    def is_stalled(self) -> bool:
        """Whether half a frame, or a reply that the client does not take, has not moved lately."""
        is_stuck = self._out is not None and self._out.is_stalled()
        return super().is_stalled() or is_stuck

    def is_slow(self, now_s: float) -> bool:
        """Whether others need the memory of half a frame, or of frames that wait for a reader."""
        waits = self._stash is not None and self._blocked & CLOGGED
        return super().is_slow(now_s) or bool(waits and now_s - self._began_s > SLOW_AFTER_S)

    def close(self) -> None:
        """Close as soon as what was queued is out."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close now."""
        if self._transport is not None:
            self._transport.abort()

    def tell(self, frame: bytes) -> None:
        """Send a frame that nobody asked for, behind the answers that are due."""
        if self._transport is not None:
            self._answer(frame)

    def answer(self, reply: bytes | Sequence[Part]) -> None:
        """Send the reply to a request that was served by a coroutine, if the client is there."""
        if self._transport is not None and self._out is not None:
            self._out.send_parts((reply,) if isinstance(reply, bytes) else reply)

    def give_away(self) -> None:
        """Another shard has the session now: forget it, without ending it."""
        self._edge.release(self)

    def is_silent(self) -> bool:
        """Asked once a heartbeat step: whether nothing was heard for too many of them."""
        half_bytes = self._filled if self._partial is not None else 0
        if half_bytes != self._half_bytes or not self.idle:
            self._silent_steps, self._half_bytes = 0, half_bytes
        self._silent_steps += 1
        return self._silent_steps > SILENT_STEPS_MAX

    @property
    def queued_bytes(self) -> int:
        """Replies that the client has not taken yet."""
        return 0 if self._out is None else self._out.queued_bytes

    @property
    def is_connected(self) -> bool:
        """Whether the client is still there."""
        return self._transport is not None

    @property
    def idle(self) -> bool:
        """Whether no request is being served."""
        return not self._pending and not self._blocked & BUSY

    # -- frames --------------------------------------------------------------------------------

    def _take_buffer(
        self, length_bytes: int, instead_of: bytearray | None = None
    ) -> bytearray | None:
        buffer = super()._take_buffer(length_bytes, instead_of)
        if buffer is None:
            self._edge.close_slow()
        return buffer

    def _frame_bytes(self, view: memoryview, at: int) -> int:
        size: int = _SIZE.unpack_from(view, at + _SIZE_AT_BYTES)[0]
        known = self.session.user_id is not None
        if HEADER_BYTES <= size <= (self._edge.frame_bytes_max if known else LOGIN_FRAME_BYTES_MAX):
            return size
        # Iggy protocol 0.11: a length that cannot be is answered by closing; nothing behind it
        # can be understood.
        assert self._transport is not None
        self._edge.count_bad_length(self, size)
        self._transport.abort()
        return 0

    def _serve_frame(self, frame: memoryview) -> bool:
        self._silent_steps = 0
        command, client, checksum, request, operation, session, code = _HEADER.unpack_from(frame)
        known = self.session.is_plain and client != ZERO_16
        plain = known and command == _REQUEST and checksum == ZERO_16
        if plain and operation == Operation.SEND_MESSAGES and request and session:
            return self._send(frame, client, request)
        if self._pending:
            self._blocked |= ORDER  # everything but a send waits for the answers before it
            return False
        if plain and operation == Operation.NON_REPLICATED and code == Command.POLL_MESSAGES:
            return self._poll(frame)
        return self._serve_slowly(frame)

    # -- send ----------------------------------------------------------------------------------

    def _send(self, frame: memoryview, client: bytes, request: int) -> bool:
        if len(self._pending) >= PENDING_MAX:
            self._blocked |= FULL
            return False
        try:
            start = messages.batch_start(frame)
            target = self.resolver.send_target(frame, start)
            partition = target.partition
            if partition is None:
                return self._forward(target, frame)
            base_offset, count = messages.append(partition, frame, start)
        except Reject as refusal:
            self._answer_refusal(frame, refusal)
            return True
        self._foreign_owner = -1
        counters = self._services.counters
        counters.sends_total += 1
        counters.messages_received_total += count
        counters.bytes_received_total += len(frame) - start
        reply = messages.send_reply(target, base_offset, client, request)
        if partition.must_wait:
            self._answer_when_durable(partition.wait_durable(), reply)
        else:
            self._answer(reply)
        return True

    # -- poll ----------------------------------------------------------------------------------

    def _poll(self, frame: memoryview) -> bool:
        header = RequestHeader.decode(frame)
        try:
            read, tail = self.resolver.read_target(frame)
            if read.target is not None and read.target.partition is None:
                stamp_session(frame, self.session.number)  # the owner checks members, too
                return self._forward(read.target, frame)
            parts = messages.poll(self._services, read, tail, header)
            self._foreign_owner = -1
        except NotHere as missing:
            self._serve_later(client_poll_late(self.resolver, header, bytes(frame), missing))
            return True
        except Reject as refusal:
            self._answer_refusal(frame, refusal)
            return True
        durable = messages.commit_wait(read, tail)
        if durable is not None:
            self._answer_when_durable(durable, messages.whole(parts))
        elif self._out is not None:
            self._out.send_parts(parts)
        return True

    # -- the owner is another shard ------------------------------------------------------------

    def _forward(self, target: Target, frame: memoryview) -> bool:
        link = self._edge.links.to(target.owner)
        if link.full:
            self._blocked |= LINK
            link.when_free(self._link_free)
            return False
        reply = Reply()
        self._pending.append(reply)
        self._services.counters.forwarded_total += 1
        if target.owner != self._foreign_owner:
            self._foreign_owner = target.owner
            self._foreign_run = self._foreign_bytes = 0
        self._foreign_run += 1
        self._foreign_bytes += len(frame)

        def answered(frame: memoryview) -> None:
            # The frame is only lent; with nothing before it in line it goes out from where it is.
            if self._out is not None and self._pending and self._pending[0] is reply:
                self._pending.pop(0)
                self._out.send(frame)
                self._settle()
                self._foreign_bytes += len(frame)
                self._move_if_foreign()
            else:
                reply.frame = bytes(frame)

        link.forward(target, frame, answered)
        return True

    def _link_free(self) -> None:
        self._unblock(LINK)

    def _move_if_foreign(self) -> None:
        """Let the connection go to the shard that its requests are for, once all is answered."""
        is_foreign = self._foreign_owner >= 0 and (
            self._foreign_run >= FOREIGN_RUN or self._foreign_bytes >= FOREIGN_BYTES
        )
        if not is_foreign or self._pending or self._blocked:
            return
        now_s = self._loop.time()
        if self._edge.doors is None or now_s < self._stays_until_s:
            return
        self._stays_until_s = now_s + PAUSE_S
        owner, self._foreign_owner = self._foreign_owner, -1
        hand_over(self, self._edge.doors, owner)

    # -- everything else -----------------------------------------------------------------------

    def _serve_slowly(self, frame: memoryview) -> bool:
        header, body = RequestHeader.decode(frame), frame[HEADER_BYTES:]
        refused = self.session.refuse(header, body)
        if refused is not None:
            self._edge.count_refusal(self, refused)
            self._answer(refused)
        elif header.operation != Operation.SEND_MESSAGES and len(body) > SLOW_BODY_BYTES_MAX:
            self._services.counters.refused(ErrorCode.INVALID_SIZE_BYTES)
            self._answer(deny(header, ErrorCode.INVALID_SIZE_BYTES))
        elif self.session.dialect.is_p12:
            take_up(self._edge, self, header, frame, self._serve_later)
        elif header.operation == Operation.SEND_MESSAGES:
            return self._send(frame, header.client, header.request)
        elif header.operation == Operation.NON_REPLICATED and header.code == Command.POLL_MESSAGES:
            return self._poll(frame)
        else:
            self._serve_later(serve_request(self._edge, self, header, bytes(frame)))
        return True

    def _serve_later(self, work: Coroutine[Any, Any, bytes | Sequence[Part]]) -> None:
        self._blocked |= BUSY
        task = self._loop.create_task(work)
        self._edge.tasks.add(task)
        task.add_done_callback(self._served)

    def _served(self, task: asyncio.Task[bytes | Sequence[Part]]) -> None:
        self._edge.tasks.discard(task)
        self.answer(task.result())  # an exception is a bug of ours: it reaches the loop's handler
        if self._transport is not None:
            self._unblock(BUSY)

    # -- answers -------------------------------------------------------------------------------

    def _answer(self, frame: bytes) -> None:
        """Send a reply, or let it stand in line behind those that are not there yet."""
        if self._pending:
            reply = Reply()
            reply.frame = frame
            self._pending.append(reply)
        elif self._out is not None:
            self._out.send(frame)

    def _answer_refusal(self, frame: memoryview, refusal: Reject) -> None:
        context = Context(self._services, self.session, RequestHeader.decode(frame))
        self._answer(dispatch.refuse(context, refusal))

    def _answer_when_durable(self, durable: asyncio.Future[None], frame: bytes) -> None:
        reply = Reply()
        self._pending.append(reply)

        def synced(durable: asyncio.Future[None]) -> None:
            durable.result()  # a failed sync reaches the loop's handler, which stops the shard
            reply.frame = frame
            self._settle()

        durable.add_done_callback(synced)

    def _settle(self) -> None:
        """Send what is answered at the head of the line, and serve what waited for that."""
        pending = self._pending
        while pending and pending[0].frame is not None and self._out is not None:
            self._out.send(pending.pop(0).frame or b"")
        if self._blocked & FULL and len(pending) <= PENDING_MAX // 2:
            self._unblock(FULL)
        if self._blocked & ORDER and not pending:
            self._unblock(ORDER)

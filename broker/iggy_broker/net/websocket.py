"""WebSocket clients: the same frames, sessions and limits as over TCP, in binary messages.

One `WebSocket` lies between a socket and a `Connection`: to the socket it is the protocol, to the
connection the transport. It keeps nothing of a message but what the connection has no memory for;
then the socket is not read. A reply goes out as one message, its length in front, as it is: over
plain TCP straight to the descriptor, ranges of log files by `sendfile`. The first bytes tell a
client of servers up to 0.8; then its own layer lies between this one and the connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, cast

from iggy_broker.config_transports import WebSocketSettings
from iggy_broker.logs import event
from iggy_broker.net.connection import Connection
from iggy_broker.net.edge import Edge
from iggy_broker.net.layer import Above, Layer
from iggy_broker.net.outbox import Outbox, Part
from iggy_broker.net.session import Transport
from iggy_broker.net.v08.client import Replies, V08Client, V08Layer
from iggy_broker.net.websocket_frames import (
    CloseCode,
    Control,
    Event,
    Limits,
    Opcode,
    Reader,
    Violation,
    closing,
    head_of,
)
from iggy_broker.net.websocket_upgrade import END, REQUEST_BYTES_MAX, UpgradeError, answer
from iggy_broker.net.wrapped import WrappedOutbox, size_of
from iggy_wire.v08 import frames

logger = logging.getLogger(__name__)

JOINED_BYTES_MAX: Final = 4096  # a reply up to so long is copied behind its head: one write


class _Messages:
    """What an outbox does for WebSocket: one message for each reply."""

    __slots__ = ()

    @property
    def is_movable(self) -> bool:
        """No: another shard would not know where a message ends."""
        return False

    def send(self, data: bytes | memoryview) -> None:
        """Send one reply. `data` is only lent."""
        outbox = cast(Outbox, super())
        head = head_of(len(data))
        if len(data) <= JOINED_BYTES_MAX:
            outbox.send(b"".join((head, data)))
        else:
            outbox.send_parts([head, data])

    def send_parts(self, parts: Sequence[Part]) -> None:
        """Send one reply that is in pieces."""
        head = head_of(sum(map(size_of, parts)))
        cast(Outbox, super()).send_parts([head, *parts])

    def send_raw(self, data: bytes) -> None:
        """Send what is no reply: the handshake's answer, a control frame."""
        cast(Outbox, super()).send(data)


class PlainMessages(_Messages, Outbox):
    """Straight to the descriptor."""

    __slots__ = ()


class WrappedMessages(_Messages, WrappedOutbox):
    """Through TLS."""

    __slots__ = ()


class WebSocketClient(Connection):
    """A client that came by WebSocket."""

    __slots__ = ()
    reached_by = Transport.WEBSOCKET

    def _outbox(self, transport: asyncio.Transport) -> Outbox:
        is_plain = transport.get_extra_info("sslcontext") is None
        return (PlainMessages if is_plain else WrappedMessages)(transport, self._edge.unsent)

    def send_raw(self, data: bytes) -> None:
        """Send what is no reply, behind what was sent before."""
        if self._out is not None:
            assert isinstance(self._out, _Messages)
            self._out.send_raw(data)


class PlainV08Replies(Replies, PlainMessages):
    """To a client of servers up to 0.8: what its layer says, as messages."""

    __slots__ = ("layer",)


class WrappedV08Replies(Replies, WrappedMessages):
    """The same through TLS."""

    __slots__ = ("layer",)


class V08WebSocketClient(V08Client, WebSocketClient):
    """A client of servers up to 0.8 that came by WebSocket."""

    __slots__ = ()
    _outboxes = PlainV08Replies, WrappedV08Replies


class WebSocket(Layer):
    """The layer of one client, from accept to close."""

    __slots__ = ("_above", "_edge", "_first", "_held", "_reader", "_request", "_upper")
    _client: WebSocketClient

    def __init__(self, edge: Edge, limits: Limits) -> None:
        """Not connected yet."""
        super().__init__(WebSocketClient(edge))
        self._edge = edge
        self._above = Above(self)
        self._upper: WebSocketClient | V08Layer = self._client  # takes the payloads
        self._first: bytes | None = b""  # that do not tell yet which protocol it is; None: known
        self._reader = Reader(limits)
        self._request: bytearray | None = bytearray()  # of the upgrade; None: it is done
        self._held: memoryview | None = None  # payload that the connection had no memory for

    # -- asyncio, from the socket --------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client, of whom nothing is known."""
        self.below = cast(asyncio.Transport, transport)
        self._client.connection_made(self._above)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._let_go()
        self.below = None
        self._upper.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        """The landing buffer of the shard."""
        return self._edge.landing.view

    def buffer_updated(self, nbytes: int) -> None:
        """Pass on what came."""
        data = self._edge.landing.view[:nbytes]
        if self._request is not None:
            rest = self._upgrade(self._request, data)
            if rest is None:
                return
            data = memoryview(rest)
        self._take(self._reader.read(data))

    # -- inside --------------------------------------------------------------------------------

    def _upgrade(self, request: bytearray, data: memoryview) -> bytearray | None:
        """More of the request; what came behind it, or None if there is nothing to go on with."""
        request += data
        end = request.find(END, 0, REQUEST_BYTES_MAX)
        if end < 0 and len(request) < REQUEST_BYTES_MAX:
            return None
        try:
            if end < 0:
                raise UpgradeError("431 Request Header Fields Too Large", "too long")
            response = answer(bytes(request[: end + len(END)]))
        except UpgradeError as error:
            self._client.send_raw(error.response)
            self._end(str(error))
            return None
        self._client.send_raw(response)
        self._request = None
        return request[end + len(END) :]

    def _take(self, events: Sequence[Event]) -> None:
        """In the order in which they came. Payloads are parts of the landing buffer."""
        for one in events:
            if self.below is None or self.below.is_closing():
                return
            if isinstance(one, memoryview):
                self._pass(one)
            elif isinstance(one, Control):
                self._control(one)
            else:
                self._violated(one)

    def _pass(self, payload: memoryview) -> None:
        if self._first is not None:
            payload = memoryview(self._first + payload)
            if len(payload) < frames.FIRST_BYTES:
                self._first = bytes(payload)
                return
            self._first = None
            if frames.is_v08(payload):
                self._begin_v08()
        taken = 0 if self._held is not None else self._upper.feed(payload)
        if taken == len(payload):
            return
        if not self._edge.landing.pool.hold(len(payload) - taken):
            self._above.abort()
            return
        self._held = memoryview(bytes(self._held or b"") + bytes(payload[taken:]))

    def _begin_v08(self) -> None:
        """The connection so far is over, without a word."""
        self._client.connection_lost(None)
        self._upper = layer = V08Layer(self._edge, self._above, V08WebSocketClient)
        assert isinstance(layer.client, V08WebSocketClient)
        self._client = layer.client

    def go_on(self) -> None:
        """The connection has memory again."""
        held = self._held
        if self.below is None or self.below.is_closing():
            return
        if held is not None:
            self._let_go()
            self._pass(held)
        if self._held is None and not self.is_paused:
            self.below.resume_reading()

    def _let_go(self) -> None:
        if self._held is not None:
            self._edge.landing.pool.let_go(len(self._held))
            self._held = None

    def _control(self, frame: Control) -> None:
        if frame.opcode == Opcode.PING:
            self._client.send_raw(head_of(len(frame.payload), Opcode.PONG) + frame.payload)
        elif frame.opcode == Opcode.CLOSE:
            self._client.send_raw(head_of(len(frame.payload), Opcode.CLOSE) + frame.payload)
            self._end(None)

    def _violated(self, violation: Violation) -> None:
        self._client.send_raw(closing(violation.code, violation.why))
        self._end(violation.why)

    def _end(self, why: str | None) -> None:
        """Close as soon as what was sent is out; count and log it if it is the client's fault."""
        if why is not None:
            self._edge.services.counters.count("connections_closed_total", "websocket")
            told = event("connection_closed", client=self._client.session.client_number)
            logger.info("! no WebSocket, or a broken one: %s: closed", why, extra=told)
        if self.below is not None:
            self.below.close()

    def say_goodbye(self) -> None:
        """The broker ends the connection, in peace."""
        if self.below is None or self.below.is_closing():
            return
        if self._request is None:
            self._client.send_raw(closing(CloseCode.GOING_AWAY))
        self.below.close()


def limits_of(settings: WebSocketSettings, frame_bytes_max: int) -> Limits:
    """What clients may send. A message may always be as large as a frame of the protocol."""
    message_bytes = settings.max_message_size_bytes or frame_bytes_max
    frame_bytes = settings.max_frame_size_bytes or message_bytes
    return Limits(message_bytes, frame_bytes, settings.accept_unmasked_frames)

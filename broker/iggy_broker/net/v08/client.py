"""A client of the protocol up to 0.8: a layer between its transport and a `Connection`.

To what lies below, a socket or the layer of another transport, it is the protocol, to the
connection the transport. One request is served at a time; what comes meanwhile waits, a landing
buffer of it at most, and then nothing is read.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Generator, Sequence
from typing import ClassVar, Final, cast

from iggy_broker.net.connection import LOGIN_FRAME_BYTES_MAX, Connection
from iggy_broker.net.edge import Edge
from iggy_broker.net.layer import Above, Layer, acknowledge
from iggy_broker.net.outbox import Outbox, Part
from iggy_broker.net.v08.dialogue import Dialogue
from iggy_broker.net.wrapped import WrappedOutbox
from iggy_broker.storage.partition import FileRange
from iggy_wire.buffer import Buffer
from iggy_wire.codes import Command, FrameKind
from iggy_wire.header import EvictionReason, frame_kind
from iggy_wire.v08 import frames

PAYLOAD_BYTES_MAX: Final = 10 << 20
"""Of requests that are no sends (servers up to 0.8)."""

_CLIENT_ID_BYTES: Final = 16


class Replies:
    """What an outbox does here: replies of 0.11 go to the layer, which says what goes out."""

    __slots__ = ()
    layer: V08Layer

    @property
    def is_movable(self) -> bool:
        """No: another shard would take what comes for 0.11."""
        return False

    def send(self, data: bytes | memoryview) -> None:
        """Take one reply. `data` is only lent."""
        self.layer.answered(bytes(data))

    def send_parts(self, parts: Sequence[Part]) -> None:
        """Take one reply that is in pieces."""
        self.layer.answered(
            b"".join(part.read() if isinstance(part, FileRange) else part for part in parts)
        )

    def reply(self, data: bytes) -> None:
        """Send what the client understands."""
        cast(Outbox, super()).send(data)


class PlainReplies(Replies, Outbox):
    """Straight to the descriptor."""

    __slots__ = ("layer",)


class WrappedReplies(Replies, WrappedOutbox):
    """Through TLS."""

    __slots__ = ("layer",)


class V08Client(Connection):
    """The connection above the layer."""

    __slots__ = ("_layer",)
    _outboxes: ClassVar[tuple[type[Outbox], type[Outbox]]] = PlainReplies, WrappedReplies

    def __init__(self, edge: Edge, layer: V08Layer) -> None:
        """Not connected yet."""
        self._layer = layer
        super().__init__(edge)

    def _outbox(self, transport: asyncio.Transport) -> Outbox:
        plain, wrapped = self._outboxes
        is_plain = transport.get_extra_info("sslcontext") is None
        return self._answers((plain if is_plain else wrapped)(transport, self._edge.unsent))

    def _answers(self, outbox: Outbox) -> Outbox:
        """The same outbox, which knows the layer now."""
        assert isinstance(outbox, Replies)
        outbox.layer = self._layer
        return outbox

    def reply(self, data: bytes) -> None:
        """Send what the client understands, behind what was sent before."""
        if self._out is not None:
            assert isinstance(self._out, Replies)
            self._out.reply(data)


class V08Layer(Layer):
    """From the moment when the first bytes have told what the client speaks, to its close."""

    __slots__ = ("_above", "_dialogue", "_edge", "_held", "_steps")
    _client: V08Client

    def __init__(
        self,
        edge: Edge,
        transport: asyncio.Transport,
        client: Callable[[Edge, V08Layer], V08Client] = V08Client,
    ) -> None:
        """Take over a transport; who does calls `feed` with what came by it already.

        `client` makes the connection above.
        """
        super().__init__(client(edge, self))
        self._edge = edge
        self._above = Above(self)
        self._dialogue = Dialogue(secrets.token_bytes(_CLIENT_ID_BYTES))
        self._held = bytearray()  # of requests that are not whole, or not their turn
        self._steps: Generator[bytearray, Buffer, bytes] | None = None  # of the request in service
        self.below = transport
        self._client.connection_made(self._above)

    @property
    def client(self) -> V08Client:
        """The connection above."""
        return self._client

    # -- from below ----------------------------------------------------------------------------

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._edge.landing.pool.let_go(len(self._held))
        self._held.clear()
        self._steps = None
        self.below = None
        self._client.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        """The landing buffer of the shard."""
        return self._edge.landing.view

    def buffer_updated(self, nbytes: int) -> None:
        """Serve what came. Clients write a request's head and body apart, also without TLS."""
        self.feed(self._edge.landing.view[:nbytes])
        if self._held and self._steps is None and self.below is not None:
            acknowledge(self.below.get_extra_info("socket"))

    def feed(self, data: memoryview) -> int:
        """Take bytes from a layer below, as from a socket: all of them, or the client goes."""
        if self.is_open:
            if self._edge.landing.pool.hold(len(data)):
                self._held += data
                self._serve()
            else:
                self._above.abort()
        return len(data)

    # -- requests ------------------------------------------------------------------------------

    def _serve(self) -> None:
        """Begin with the next request, if it is whole; read on if none is in service."""
        while self._steps is None and len(self._held) >= frames.HEAD_BYTES and self.is_open:
            size_bytes = self.request_bytes(self._held)
            if not size_bytes:
                return
            if len(self._held) < size_bytes:
                break
            request = bytes(self._held[:size_bytes])
            del self._held[:size_bytes]
            self._edge.landing.pool.let_go(size_bytes)
            self._steps = self._dialogue.serve(request)
            self._advance(None)
        if self.is_open and not self.is_paused:
            assert self.below is not None
            (self.below.resume_reading if self._steps is None else self.below.pause_reading)()

    def request_bytes(self, head: Buffer) -> int:
        """Length of the request that starts so; 0 after closing a client that sends nonsense."""
        size_bytes = frames.request_bytes(head)
        if frames.HEAD_BYTES <= size_bytes <= self._bytes_max(head):
            return size_bytes
        self._edge.count_bad_length(self._client, size_bytes)
        self._above.abort()
        return 0

    def _bytes_max(self, head: Buffer) -> int:
        if self._client.session.user_id is None:
            return LOGIN_FRAME_BYTES_MAX
        if frames.request_code(head) == Command.SEND_MESSAGES:
            return self._edge.frame_bytes_max
        return PAYLOAD_BYTES_MAX

    def _advance(self, reply: bytes | None) -> None:
        """Go on with the request in service."""
        steps = self._steps
        assert steps is not None, "one is in service"
        try:
            frame = next(steps) if reply is None else steps.send(reply)
        except StopIteration as end:
            self._steps = None
            self._client.reply(end.value)
            return
        if reply is None:
            self._ask(frame)
        else:  # not from inside the connection, which is in the middle of the frame before
            self._edge.loop.call_soon(self._ask, frame)

    def _ask(self, frame: bytearray) -> None:
        if self.is_open:
            self._client.feed(memoryview(frame))

    def answered(self, reply: bytes) -> None:
        """The connection has a reply, or ends the session of a client that was silent."""
        is_evicted = frame_kind(reply) == FrameKind.EVICTION
        if self._steps is None or (is_evicted and reply[-1] == EvictionReason.STALE_CLIENT):
            self._dialogue.evicted()  # this protocol has no words for what nobody asked
            return
        self._advance(reply)
        if self._steps is None:
            self._edge.loop.call_soon(self._serve)

    def go_on(self) -> None:
        """Serve what came meanwhile."""
        if self.is_open:
            self._serve()

    def say_goodbye(self) -> None:
        """There are no words for it."""
        if self.below is not None:
            self.below.close()

"""QUIC clients: the same frames, sessions and limits as over TCP, a stream for each request.

The connection is the session. A client opens a bidirectional stream, writes one frame; the answer
goes back on that stream, and ends it. The library (`aioquic`) keeps what is not acknowledged; that
counts as memory of replies, like what other slow readers have not taken. Its own limits of what a
client may send grow without end, so ours are looked at with each datagram.

The kernel gives the datagrams of one client address to one shard; a client whose address changes
may come out at another, which does not know its connection: it has to connect anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.asyncio.server import QuicServer
from aioquic.quic import events
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection

from iggy_broker.config_transports import Quic
from iggy_broker.errors import CertificateError
from iggy_broker.logs import event
from iggy_broker.net.certificates import Pair
from iggy_broker.net.edge import Edge
from iggy_broker.net.quic_client import QuicClient, V08QuicClient, waiting_of
from iggy_broker.net.quic_inside import can_send, kept_bytes, limit_streams, reached_offsets
from iggy_broker.net.tls import ListenerTls
from iggy_broker.net.v08.client import V08Layer
from iggy_broker.net.wrapped import QUEUE_BYTES
from iggy_wire.codes import Command
from iggy_wire.v08 import frames

logger = logging.getLogger(__name__)

SPARE_STREAMS: Final = 16  # a client acknowledges an answer, which frees its stream, 25 ms late
FIRST_WINDOW_BYTES: Final = 256 * 1024  # of a stream; what comes in order makes it grow
NO_TIMEOUT_S: Final = 365 * 86_400.0  # in the place of none
NOWHERE: Final = -1  # in the place of a stream, for a refusal of what is not to be answered
PINGS_MAX: Final = 1  # of ours that wait for their echo

_Address = tuple[Any, ...]


class QuicLayer(QuicConnectionProtocol):
    """Between the datagrams of one client and its `Connection`."""

    def __init__(self, quic: QuicConnection, stream_handler: object, *, door: QuicDoor) -> None:
        """Made by the library, for a first datagram that could begin a connection."""
        super().__init__(quic)
        limit_streams(quic, door.settings.max_concurrent_bidi_streams + SPARE_STREAMS)
        self._door = door
        self._edge = door.edge
        self._client: QuicClient | V08QuicClient = QuicClient(self, door.edge)
        self._upper: QuicClient | V08Layer = self._client  # takes the frames
        self._is_new = True  # nothing tells yet which protocol it is
        self._above = _Above(self)
        self._arrived: list[events.QuicEvent] = []  # from the library, not looked at yet
        self._incoming: dict[int, bytearray | None] = {}  # half a frame by stream; None: served
        self._ready: deque[tuple[int, bytearray]] = deque()  # frames that wait for the client
        self._due: deque[int] = deque()  # streams whose requests are served, in that order
        self._aside: list[tuple[int, int]] = []  # requests that are answered in any order: streams
        self._replies: deque[list[int]] = deque()  # stream of a reply that was begun, bytes to come
        self._writing: set[int] = set()  # streams with bytes that are not acknowledged, perhaps
        self._noted_bytes = 0  # of these, as counted last
        self._queue_bytes = max(QUEUE_BYTES, door.settings.send_window_bytes)
        self._is_clogged = False
        self._is_over = False
        self._is_ending = False  # as soon as the client has everything
        self._flush_is_due = False
        self.peer: _Address | None = None
        self.is_paused = False
        self.pings = 0  # of ours that were not answered

    # -- from the library ----------------------------------------------------------------------

    def datagram_received(self, data: bytes | str, addr: _Address) -> None:
        """Let the library read it; `look` does the rest."""
        if self.peer is None:
            self.peer = addr
            self._client.connection_made(self._above)
        self._door.woken.append(self)
        super().datagram_received(data, addr)

    def quic_event_received(self, event: events.QuicEvent) -> None:
        """Keep it for `look`, out of the library's hands."""
        self._arrived.append(event)

    def transmit(self) -> None:
        """Send what is to be sent, and set the timer."""
        self._flush_is_due = False
        super().transmit()

    def _handle_timer(self) -> None:
        self._door.guarded(super()._handle_timer, self)
        self.look()

    def look(self) -> None:
        """Serve what the library found, and go on with what it has sent."""
        arrived, self._arrived = self._arrived, []
        for one in arrived:
            self._take(one)
        if self._is_over:
            return
        reached_bytes = reached_offsets(self._quic)
        if reached_bytes > self._client.receives_bytes_max:
            self._edge.count_bad_length(self._client, reached_bytes)
            self.end()
            return
        unsent_bytes = self._count()
        if self._is_clogged and unsent_bytes <= self._queue_bytes // 2:
            self._is_clogged = False
            self._client.resume_writing()
        if self._is_ending and not unsent_bytes:
            self.end()

    # -- requests ------------------------------------------------------------------------------

    def _take(self, one: events.QuicEvent) -> None:
        if isinstance(one, events.ConnectionTerminated):
            self._lost()
        elif self._is_over:
            return
        elif isinstance(one, events.StreamDataReceived):
            self._receive(one.stream_id, one.data)
            if one.end_stream:
                self._forget(one.stream_id)
        elif isinstance(one, events.StreamReset):
            self._forget(one.stream_id)
        elif isinstance(one, events.StopSendingReceived):
            self._unwanted(one.stream_id)
        elif isinstance(one, events.PingAcknowledged):
            self.pings = 0

    def _receive(self, stream: int, data: bytes) -> None:
        so_far = self._incoming.setdefault(stream, bytearray())
        if so_far is None:
            return  # a second frame on a stream is nobody's (Iggy protocol 0.11)
        if not self._edge.landing.pool.hold(len(data)):
            self.end()
            return
        so_far += data
        if self._is_new and len(so_far) >= frames.FIRST_BYTES:
            self._is_new = False
            if frames.is_v08(so_far):
                self._begin_v08()
        if self._is_new or len(so_far) < self._client.head_bytes:
            return
        size = self._client.frame_bytes(memoryview(so_far))
        if not size or len(so_far) < size:
            return
        self._edge.landing.pool.let_go(len(so_far) - size)
        self._incoming[stream] = None
        del so_far[size:]
        self._ready.append((stream, so_far))
        self.go_on()

    def _unwanted(self, stream: int) -> None:
        """The client reads no answer on this stream: the request need not wait for messages."""
        for request, waiting in self._aside:
            if waiting == stream:
                self._edge.waits.cancel(self._client, request)

    def _begin_v08(self) -> None:
        """The connection so far is over, without a word."""
        self._client.connection_lost(None)
        self._upper = layer = V08Layer(self._edge, self._above, partial(V08QuicClient, self))
        assert isinstance(layer.client, V08QuicClient)
        self._client = layer.client

    def _forget(self, stream: int) -> None:
        half = self._incoming.pop(stream, None)
        if half is not None:
            self._edge.landing.pool.let_go(len(half))

    def go_on(self) -> None:
        """Serve what is whole, as long as the connection takes it."""
        while self._ready and not self.is_paused and not self._is_over:
            stream, frame = self._ready.popleft()
            self._edge.landing.pool.let_go(len(frame))
            self._place(stream, frame)
            self._upper.feed(memoryview(frame))

    def _place(self, stream: int, frame: bytearray) -> None:
        """Note where the answer to a request goes."""
        knows = self._upper is self._client and self._client.session.dialect.is_p12
        code, request = waiting_of(frame) if knows else (0, 0)
        if code == Command.CANCEL_DEFERRED:  # which has none of its own
            if can_send(self._quic, stream):
                self._quic.send_stream_data(stream, b"", end_stream=True)
                self.flush()
        elif code:
            self._aside.append((request, stream))
        else:
            self._due.append(stream)

    # -- replies -------------------------------------------------------------------------------

    def begin_reply(self, size_bytes: int, request: int) -> None:
        """So many of the bytes that come next are one reply, to the request of this number."""
        aside = next((one for one in self._aside if one[0] == request), None)
        if aside is not None:
            self._aside.remove(aside)
            stream = aside[1]
        else:
            stream = self._due.popleft() if self._due else NOWHERE
        self._replies.append([stream, size_bytes])

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Bytes of the first reply that is not whole."""
        if self._is_over:
            return
        stream = self._replies[0][0]
        self._replies[0][1] -= len(data)
        is_last = not self._replies[0][1]
        if is_last:
            self._replies.popleft()
        if stream != NOWHERE and can_send(self._quic, stream):
            self._quic.send_stream_data(stream, bytes(data), end_stream=is_last)
            self._writing.add(stream)
        self.flush()
        if self._count() >= self._queue_bytes and not self._is_clogged:
            self._is_clogged = True
            self._client.pause_writing()

    def ping_soon(self) -> None:
        """Keep the connection alive."""
        self._quic.send_ping(0)
        self.flush()

    def flush(self) -> None:
        """Send datagrams in this turn of the loop, once."""
        if not self._flush_is_due:
            self._flush_is_due = True
            self._edge.loop.call_soon(self._flush)

    def _flush(self) -> None:
        if self._flush_is_due:
            self._door.guarded(self.transmit, self)

    def _count(self) -> int:
        """Bytes that the client has not acknowledged; they count as unread replies."""
        self._writing = {stream for stream in self._writing if kept_bytes(self._quic, stream)}
        now_bytes = sum(kept_bytes(self._quic, stream) for stream in self._writing)
        if now_bytes != self._noted_bytes:
            by_bytes, self._noted_bytes = now_bytes - self._noted_bytes, now_bytes
            self._client.count_unread(by_bytes)
        return now_bytes

    # -- the end -------------------------------------------------------------------------------

    @property
    def is_closing(self) -> bool:
        """Whether nothing more is served."""
        return self._is_over or self._is_ending

    def end_when_sent(self) -> None:
        """Close as soon as the client has what was sent."""
        self._is_ending = True
        if not self._count():
            self.end()

    def end(self) -> None:
        """Close now."""
        if not self._is_over:
            self._is_over = True
            self._quic.close()
            self.flush()
            self._edge.loop.call_soon(self._lost)

    def _lost(self) -> None:
        self._is_over = True
        if self not in self._door.layers:
            return
        self._door.layers.remove(self)
        for stream in list(self._incoming):
            self._forget(stream)
        for _, frame in self._ready:
            self._edge.landing.pool.let_go(len(frame))
        self._ready.clear()
        self._client.count_unread(-self._noted_bytes)
        self._noted_bytes = 0
        self._upper.connection_lost(None)


class _Above(asyncio.Transport):
    """What the connection takes for its transport."""

    def __init__(self, layer: QuicLayer) -> None:
        super().__init__()
        self._layer = layer

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._layer.peer if name == "peername" else default

    def is_closing(self) -> bool:
        return self._layer.is_closing

    def close(self) -> None:
        self._layer.end_when_sent()

    def abort(self) -> None:
        self._layer.end()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._layer.write(data)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        del high, low  # the send window is

    def pause_reading(self) -> None:
        self._layer.is_paused = True

    def resume_reading(self) -> None:
        self._layer.is_paused = False
        self._layer.flush()
        asyncio.get_running_loop().call_soon(self._layer.go_on)


class QuicDoor(QuicServer):
    """The clients of one shard."""

    def __init__(self, edge: Edge, settings: Quic, certificate: ListenerTls) -> None:
        """Serves with the certificate as it is now, and as it will be."""
        self.edge = edge
        self.settings = settings
        self.layers: set[QuicLayer] = set()
        self.woken: list[QuicLayer] = []
        configuration = QuicConfiguration(
            is_client=False,
            idle_timeout=settings.max_idle_timeout_us / 1_000_000 or NO_TIMEOUT_S,
            max_data=settings.receive_window_bytes,
            max_stream_data=min(settings.stream_receive_window_bytes, FIRST_WINDOW_BYTES),
            max_datagram_size=settings.initial_mtu_bytes,
        )
        super().__init__(configuration=configuration, create_protocol=self._new)
        self._use(certificate.pair)
        certificate.on_changed = self._use

    def datagram_received(self, data: bytes | str, addr: _Address) -> None:
        """Let the library read it; what it found is served outside of its hands."""
        self.guarded(partial(super().datagram_received, data, addr), None)
        woken, self.woken = self.woken, []
        for layer in woken:
            layer.look()

    def guarded(self, work: Callable[[], None], layer: QuicLayer | None) -> None:
        """Run the library's code: what it raises ends one connection, and not the broker."""
        try:
            work()
        except Exception:  # a parser of what anybody may send; it is logged whole
            told = event("quic_failed")
            logger.exception("! QUIC: a datagram that the library fails on", extra=told)
            for one in [layer] if layer is not None else self.woken:
                one.end()

    async def keep_alive(self) -> None:
        """Ping every client, for ever: what is between us forgets idle ones."""
        interval_s = self.settings.keep_alive_interval_us / 1_000_000
        while interval_s:
            await asyncio.sleep(interval_s)
            for layer in list(self.layers):
                if layer.pings < PINGS_MAX and not layer.is_closing:
                    layer.pings += 1
                    layer.ping_soon()

    def _new(self, quic: QuicConnection, stream_handler: object = None) -> QuicLayer:
        layer = QuicLayer(quic, stream_handler, door=self)
        self.layers.add(layer)
        return layer

    def _use(self, pair: Pair) -> None:
        loaded = QuicConfiguration(is_client=False)
        try:
            loaded.load_cert_chain(pair.cert, pair.key)
        except (OSError, ValueError, TypeError) as error:  # as its library says: no key, a new kind
            raise CertificateError(f"{pair.key}: of no use for QUIC: {error}") from None
        mine = self._configuration
        mine.certificate, mine.private_key = loaded.certificate, loaded.private_key
        mine.certificate_chain = loaded.certificate_chain

"""Sockets in memory: bounded buffers, bytes that travel for a while and arrive in odd pieces.

A `Socket` is one end of a connection and belongs to a process's loop. Its transport has what
asyncio's have, and `direct` writing as the broker's outbox wants it: `send` takes as much as there
is room for, or raises BlockingIOError.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from simulation.loop import Schedule, SimulatedLoop

if TYPE_CHECKING:
    from iggy_broker.net.peers import Link

from iggy_broker.surroundings import Closeable
from iggy_wire.kernel import xxh3_64

PIECE_BYTES_MAX = 64 * 1024


class Network:
    """Makes connections, and knows the listeners."""

    def __init__(self, schedule: Schedule, seed: int) -> None:
        self.schedule = schedule
        self.chance = random.Random(f"network-{seed}")
        self.listeners: dict[int, Listener] = {}  # by shard
        self.sockets: dict[Socket, None] = {}  # open ends
        self._count = 0

    def pair(
        self, one: SimulatedLoop | None, other: SimulatedLoop | None, *, name: str
    ) -> tuple[Socket, Socket]:
        """A connected pair. A loop that is not known yet is set later."""
        self._count += 1
        seed = self.chance.getrandbits(40)
        room = self.chance.choice((1500, 9000, 64 << 10, 256 << 10, 1 << 20))
        first = Socket(self, one, f"{name}{self._count}>", seed=seed, room=room)
        second = Socket(self, other, f"{name}{self._count}<", seed=seed + 1, room=room)
        first.peer, second.peer = second, first
        return first, second

    async def connect(
        self, loop: SimulatedLoop, protocol: asyncio.BaseProtocol, *, shard: int
    ) -> SimulatedTransport:
        """A client's connection to a shard's listener. ConnectionRefusedError if it is gone."""
        await asyncio.sleep(self.chance.uniform(20e-6, 500e-6))
        listener = self.listeners.get(shard)
        if listener is None or listener.loop.dead:
            raise ConnectionRefusedError("nobody listens")
        here, there = self.pair(loop, listener.loop, name=f"c{shard}-")
        transport = here.attach(protocol)
        listener.loop.call_soon(there.accept, listener.protocol)
        return transport

    def process_died(self, loop: SimulatedLoop) -> None:
        """The system closes what a dead process had open."""
        for socket in list(self.sockets):
            if socket.loop is loop:
                socket.reset()
        self.listeners = {
            shard: listener
            for shard, listener in self.listeners.items()
            if listener.loop is not loop
        }


class Listener:
    """One shard's place to connect to."""

    def __init__(self, network: Network, loop: SimulatedLoop, protocol: Callable[[], Any]) -> None:
        self.network = network
        self.loop = loop
        self.protocol = protocol

    def close(self) -> None:
        self.network.listeners = {
            shard: one for shard, one in self.network.listeners.items() if one is not self
        }


class Socket:
    """One end. `room` bytes fit on the way to the other end; more waits with the sender."""

    def __init__(
        self, network: Network, loop: SimulatedLoop | None, name: str, *, seed: int, room: int
    ) -> None:
        self.network = network
        self.loop = loop
        self.name = name
        self.peer: Socket = self
        self.transport: SimulatedTransport | None = None
        self.chance = random.Random(seed)
        self.room_bytes = room
        self.travelling: deque[tuple[float, bytes]] = deque()  # from the peer to us
        self.travelling_bytes = 0
        self.arrives_s = 0.0
        self.end_arrives = False  # after all that travels, the peer's end
        self.closed = False
        self._delivery: asyncio.Handle | None = None
        network.sockets[self] = None

    def attach(self, protocol: asyncio.BaseProtocol) -> SimulatedTransport:
        self.transport = SimulatedTransport(self, protocol)
        protocol.connection_made(self.transport)
        self.wake()
        return self.transport

    def accept(self, protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        if not self.closed:
            self.attach(protocol())

    # sending

    def take(self, data: bytes | bytearray | memoryview) -> int:
        """Put as much as there is room for on its way; how much that was."""
        peer = self.peer
        if self.closed or peer.closed:
            raise ConnectionResetError("the other end is gone")
        size = min(len(data), self.room_bytes - peer.travelling_bytes)
        if size <= 0:
            return 0
        if self.chance.random() < 0.05:
            size = self.chance.randint(1, size)
        peer.arrive(bytes(memoryview(data)[:size]))
        return size

    def arrive(self, data: bytes) -> None:
        schedule = self.network.schedule
        delay_s = self.chance.uniform(5e-6, 200e-6)
        if self.chance.random() < 0.01:
            delay_s = self.chance.uniform(1e-3, 80e-3)  # lost once and sent again
        self.arrives_s = max(self.arrives_s, schedule.now_s + delay_s)  # never overtaking
        self.travelling.append((self.arrives_s, data))
        self.travelling_bytes += len(data)
        self.wake()

    # receiving

    def wake(self) -> None:
        """See to it that what travels is delivered when it is there and wanted."""
        transport, loop = self.transport, self.loop
        wanted = transport is not None and not transport.paused and not self.closed
        if not wanted or self._delivery is not None or loop is None or loop.dead:
            return
        if self.travelling:
            self._delivery = loop.call_at(self.travelling[0][0], self._deliver)
        elif self.end_arrives:
            self._delivery = loop.call_at(self.arrives_s, self._deliver)

    def _deliver(self) -> None:
        self._delivery = None
        transport, schedule = self.transport, self.network.schedule
        if transport is None or transport.paused or self.closed:
            return
        if not self.travelling:
            if self.end_arrives:
                schedule.note(self.name, "end")
                transport.lost(None)
            return
        data = self._arrived()
        schedule.note(self.name, len(data), hash_of(data))
        transport.received(data)
        peer = self.peer
        waits = peer.transport is not None and peer.transport.get_write_buffer_size()
        if waits and peer.loop is not None and not peer.loop.dead:
            assert peer.transport is not None
            peer.loop.call_soon(peer.transport.room)
        self.wake()

    def _arrived(self) -> bytes:
        """What is there now; sometimes only a part, sometimes several pieces as one."""
        assert self.transport is not None
        limit = min(PIECE_BYTES_MAX, self.transport.landing_bytes())
        if self.chance.random() < 0.15:
            limit = self.chance.randint(1, limit)
        data = b""
        now_s = self.network.schedule.now_s
        while self.travelling and self.travelling[0][0] <= now_s and len(data) < limit:
            arrives_s, piece = self.travelling.popleft()
            left = limit - len(data)
            data += piece[:left]
            if len(piece) > left:
                self.travelling.appendleft((arrives_s, piece[left:]))
        self.travelling_bytes -= len(data)
        return data

    # ending

    def shut(self) -> None:
        """Our end closes; what is on its way to the peer still arrives."""
        if self.closed:
            return
        self.closed = True
        self.network.sockets.pop(self, None)
        self.travelling.clear()
        self.peer.end_arrives = True
        self.peer.arrives_s = max(self.peer.arrives_s, self.network.schedule.now_s + 20e-6)
        self.peer.wake()

    def reset(self) -> None:
        """Our end is gone at once; the peer loses some of what is on its way."""
        peer = self.peer
        while peer.travelling and self.chance.random() < 0.5:
            peer.travelling_bytes -= len(peer.travelling.pop()[1])
        self.shut()

    def cut(self) -> None:
        """The network breaks the connection: both ends learn it, each in its time."""
        for end in (self, self.peer):
            end.travelling.clear()
            end.travelling_bytes = 0
            end.end_arrives = True
            end.arrives_s = self.network.schedule.now_s + end.chance.uniform(0.0, 0.05)
            if end.transport is not None:
                end.transport.paused = False
            if end._delivery is not None:
                end._delivery.cancel()
                end._delivery = None
            end.wake()


class SimulatedTransport(asyncio.Transport):
    """A transport over a `Socket`, as asyncio and uvloop have it over a real one."""

    def __init__(self, socket: Socket, protocol: asyncio.BaseProtocol) -> None:
        super().__init__({"peername": ("192.0.2.1", 40000)})
        self.socket = socket
        self.paused = False
        self._protocol = protocol
        self._queued = bytearray()
        self._closing = False
        self._high = 64 * 1024
        self._told_full = False
        self._lost = False

    # direct writing, in place of a socket

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self if name == "direct" else super().get_extra_info(name, default)

    def send(self, data: bytes | bytearray | memoryview, flags: int = 0, /) -> int:
        taken = self.socket.take(data)
        if not taken and len(data):
            raise BlockingIOError
        return taken

    def fileno(self) -> int:
        return -1

    def detach(self) -> int:
        return -1

    # asyncio

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing or self._lost:
            return
        rest = memoryview(data)
        if not self._queued:
            try:
                rest = rest[self.socket.take(rest) :]
            except OSError as error:
                self._fail(error)
                return
        if len(rest):
            self._queued += rest
            if len(self._queued) > self._high and not self._told_full:
                self._told_full = True
                self._protocol_call("pause_writing")

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def room(self) -> None:
        """The other end has taken something."""
        if self._lost or not self._queued:
            return
        try:
            taken = self.socket.take(self._queued)
        except OSError as error:
            self._fail(error)
            return
        del self._queued[:taken]
        if not self._queued:
            if self._closing:
                self.lost(None)
            elif self._told_full:
                self._told_full = False
                self._protocol_call("resume_writing")

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 64 * 1024 if high is None else high

    def get_write_buffer_size(self) -> int:
        return len(self._queued)

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False
        self.socket.wake()

    def is_closing(self) -> bool:
        return self._closing or self._lost

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        self.paused = True
        if not self._queued:
            self._soon(None)

    def abort(self) -> None:
        self._closing = True
        self.paused = True
        self._queued.clear()
        self._soon(None)

    def _fail(self, error: Exception) -> None:
        self._closing = True
        self._queued.clear()
        self._soon(error)

    def _soon(self, error: Exception | None) -> None:
        assert self.socket.loop is not None
        self.socket.loop.call_soon(self.lost, error)

    # from the socket

    def landing_bytes(self) -> int:
        if isinstance(self._protocol, asyncio.BufferedProtocol):
            return len(self._protocol.get_buffer(-1))
        return PIECE_BYTES_MAX

    def received(self, data: bytes) -> None:
        """As uvloop: what a protocol raises is told to the loop, and ends the connection."""
        try:
            if isinstance(self._protocol, asyncio.BufferedProtocol):
                self._protocol.get_buffer(-1)[: len(data)] = data  # type: ignore[index]
                self._protocol.buffer_updated(len(data))
            else:
                cast(asyncio.Protocol, self._protocol).data_received(data)
        except Exception as error:  # noqa: BLE001 - the loop's handler judges it
            self._protocol_failed(error)

    def lost(self, error: Exception | None) -> None:
        if self._lost:
            return
        self._lost = self._closing = True
        self.socket.shut()
        self._protocol_call("connection_lost", error)

    def move(self) -> Socket:
        """Give the socket away: this transport ends, the connection does not."""
        old = self.socket
        new = Socket(
            old.network, None, old.name, seed=old.chance.getrandbits(40), room=old.room_bytes
        )
        new.peer, old.peer.peer = old.peer, new
        new.travelling, old.travelling = old.travelling, deque()
        new.travelling_bytes, old.travelling_bytes = old.travelling_bytes, 0
        new.arrives_s, new.end_arrives = old.arrives_s, old.end_arrives
        old.peer = old  # whatever happens to it now concerns nobody
        return new

    def _protocol_call(self, name: str, *args: Any) -> None:
        try:
            getattr(self._protocol, name)(*args)
        except Exception as error:  # noqa: BLE001 - the loop's handler judges it
            self._protocol_failed(error)

    def _protocol_failed(self, error: Exception) -> None:
        assert self.socket.loop is not None
        context = {"message": "protocol failed", "exception": error, "protocol": self._protocol}
        self.socket.loop.call_exception_handler(context)


async def link_up(link: Link, socket: Socket) -> None:
    """Give a link to another shard its end."""
    socket.attach(link)


def listen(network: Network, loop: SimulatedLoop, shard: int, protocol: Any) -> Closeable:
    """Accept clients from now on."""
    listener = network.listeners[shard] = Listener(network, loop, protocol)
    return listener


def hash_of(data: bytes) -> str:
    """A short word for bytes in a trace."""
    return f"{xxh3_64(data):016x}"

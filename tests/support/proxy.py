"""A bad network between clients and a broker: it splits, joins, delays and cuts, by a seed.

Each connection gets a temper for each direction from the dice: how bytes are cut into pieces, when
they stall, and after how many of them the connection ends, and how.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
from collections import Counter
from dataclasses import dataclass
from typing import Final

from own_thread import OwnThread

PIECE_BYTES_MAX: Final = 1 << 16
SINGLE_BYTES: Final = 3000  # sent one at a time, where that is the temper; more would take minutes
GATHER_S: Final = 0.005  # joined bytes wait for more so long
STALL_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Temper:
    """What one direction of one connection does to its bytes."""

    pieces: str  # "whole", "small", "single", "joined"
    stall: float  # how likely each piece waits first
    cut_after_bytes: int | None
    is_reset: bool  # the cut is a reset, not an orderly end


class Proxy(OwnThread):
    """Listens on a port of its own, in a thread of its own."""

    def __init__(self, port: int, seed: int) -> None:
        """Between clients and `port`."""
        super().__init__("proxy")
        self.seen: Counter[str] = Counter()  # connections, cuts, stalls, and pieces by temper
        self.port = 0
        self._target_port = port
        self.seed = seed
        self._dice = random.Random(seed)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    # -- the thread --------------------------------------------------------------------------------

    async def _serve(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setblocking(False)
        self.port = listener.getsockname()[1]
        self._ready.set()
        accepting = asyncio.ensure_future(self._accept(listener))
        await self._over.wait()
        accepting.cancel()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        listener.close()

    async def _accept(self, listener: socket.socket) -> None:
        going: set[asyncio.Task[None]] = set()
        while True:
            near, _ = await self._loop.sock_accept(listener)
            task = self._loop.create_task(self._connect(near, self._temper(), self._temper()))
            going.add(task)
            task.add_done_callback(going.discard)

    async def _connect(self, near: socket.socket, up: Temper, down: Temper) -> None:
        self.seen["connections"] += 1
        with near, socket.socket() as far:
            for sock in (near, far):
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with contextlib.suppress(OSError):
                await self._loop.sock_connect(far, ("127.0.0.1", self._target_port))
                async with asyncio.TaskGroup() as both:
                    ways = [
                        both.create_task(self._pump(near, far, up)),
                        both.create_task(self._pump(far, near, down)),
                    ]
                    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                    for way in ways:
                        way.cancel()

    async def _pump(self, source: socket.socket, sink: socket.socket, temper: Temper) -> None:
        """Pass bytes on until either end is over, or the connection is cut."""
        passed = 0
        while data := await self._received(source, temper):
            at = 0
            while at < len(data):
                length = self._piece_bytes(temper, passed)
                if temper.cut_after_bytes is not None:
                    length = min(length, temper.cut_after_bytes - passed)
                if length <= 0:
                    self._cut(source, sink, temper)
                    return
                if temper.stall and self._dice.random() < temper.stall:
                    self.seen["stalls"] += 1
                    await asyncio.sleep(self._dice.random() * STALL_S)
                piece = data[at : at + length]
                await self._loop.sock_sendall(sink, piece)
                await asyncio.sleep(0)  # the other end has its turn between two pieces
                self.seen[temper.pieces] += 1
                at += len(piece)
                passed += len(piece)

    async def _received(self, source: socket.socket, temper: Temper) -> bytes:
        try:
            data = await self._loop.sock_recv(source, PIECE_BYTES_MAX)
            if temper.pieces == "joined" and data:
                await asyncio.sleep(GATHER_S)
                with contextlib.suppress(BlockingIOError):
                    data += source.recv(PIECE_BYTES_MAX)
        except OSError:
            return b""
        return data

    def _piece_bytes(self, temper: Temper, passed: int) -> int:
        if temper.pieces == "small" or (temper.pieces == "single" and passed >= SINGLE_BYTES):
            return self._dice.randrange(1, 600)
        return 1 if temper.pieces == "single" else PIECE_BYTES_MAX

    def _cut(self, source: socket.socket, sink: socket.socket, temper: Temper) -> None:
        self.seen["cuts"] += 1
        if temper.is_reset:
            for sock in (source, sink):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def _temper(self) -> Temper:
        dice = self._dice
        pieces = dice.choice(("whole", "small", "single", "joined"))
        stall = dice.choice((0.0, 0.0, 0.001, 0.02))
        cut = dice.choice((None, int(10 ** dice.uniform(2, 5))))
        is_reset = dice.random() < 0.5
        return Temper(pieces, stall, cut, is_reset)

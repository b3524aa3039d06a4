"""A TCP connection between two programs that can be shut: cut off, or stalled without a word."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Literal

from own_thread import OwnThread

Mode = Literal["open", "stalled", "cut"]
PIECE_BYTES = 1 << 16


class Valve(OwnThread):
    """Listens on a port of its own, in a thread of its own."""

    def __init__(self, host: str, port: int) -> None:
        """Between clients and that address."""
        super().__init__("valve")
        self.port = 0
        self._target = (host, port)
        self._mode: Mode = "open"
        self._moved = asyncio.Condition()
        self._writers: set[asyncio.StreamWriter] = set()

    def turn(self, mode: Mode) -> None:
        """`stalled`: nothing passes, nothing is told. `cut`: all ends, and nobody is let in."""
        asyncio.run_coroutine_threadsafe(self._turn(mode), self._loop).result(10)

    # What follows runs in the thread.

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._joined, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._over.wait()
        server.close()
        await self._turn("cut")
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _turn(self, mode: Mode) -> None:
        self._mode = mode
        if mode == "cut":
            for writer in list(self._writers):
                writer.transport.abort()
        async with self._moved:
            self._moved.notify_all()

    async def _joined(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._mode == "cut":
            writer.transport.abort()
            return
        self._writers.add(writer)
        try:
            await self._is_open()
            far_reader, far_writer = await asyncio.open_connection(*self._target)
            self._writers.add(far_writer)
            await asyncio.gather(self._pass(reader, far_writer), self._pass(far_reader, writer))
            self._writers.discard(far_writer)
        except OSError:
            pass
        finally:
            self._writers.discard(writer)

    async def _is_open(self) -> None:
        async with self._moved:
            await self._moved.wait_for(lambda: self._mode != "stalled")

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(PIECE_BYTES):
                await self._is_open()
                writer.write(data)
                await writer.drain()
        writer.close()

"""A `V08Client` by WebSocket and by QUIC."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import AsyncExitStack

from broker_process import BrokerProcess
from iggy_wire.v08 import frames
from raw_frames import ANSWER_S
from raw_quic import RawQuic, raw_quic
from raw_websocket import BINARY, RawWebSocket
from v08_client import V08Client


class V08WebSocket(V08Client):
    """One connection by WebSocket."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        self.below = RawWebSocket(port, tls)
        self._message = b""

    def close(self) -> None:
        self.below.socket.close()

    def write(self, data: bytes) -> None:
        self.below.send(data)

    def answer(self) -> bytes:
        """Of a request that was sent. It is the one thing in its message."""
        try:
            return super().answer()
        finally:
            assert not self._message

    def _take(self, length: int) -> bytes:
        if length and not self._message:
            opcode, self._message = self.below.message()
            if opcode != BINARY:
                raise ConnectionError(f"closed with {self._message!r}")
        found, self._message = self._message[:length], self._message[length:]
        return found


class V08Quic(V08Client):
    """One connection by QUIC, with a stream for each request."""

    def __init__(self, port: int) -> None:
        self._runner = asyncio.Runner()
        self._parts = AsyncExitStack()
        self.below: RawQuic = self._runner.run(self._parts.enter_async_context(raw_quic(port)))
        self._came = b""

    def close(self) -> None:
        self._runner.run(self._parts.aclose())
        self._runner.close()

    def write(self, data: bytes) -> None:
        """One request; the answer is awaited."""
        self._came = self._runner.run(self._exchange(data))

    def many(self, requests: list[tuple[int, bytes]]) -> list[bytes]:
        """Answers to requests (code and payload) that are sent together, as they are."""

        async def run() -> list[bytes]:
            asked = [self._exchange(frames.encode_request(*request)) for request in requests]
            return await asyncio.gather(*asked)

        return self._runner.run(run())

    def is_closed(self) -> bool:
        """Whether the broker ends the connection."""
        return self._runner.run(self.below.is_closed())

    async def _exchange(self, data: bytes) -> bytes:
        reader, writer = await self.below.open()
        writer.write(data)
        writer.write_eof()
        return await asyncio.wait_for(reader.read(), ANSWER_S)

    def _take(self, length: int) -> bytes:
        if len(self._came) < length:
            raise ConnectionError("no answer")
        found, self._came = self._came[:length], self._came[length:]
        return found


def v08_client(broker: BrokerProcess, transport: str) -> V08Client:
    """Connected by `tcp`, `websocket` or `quic`."""
    if transport == "tcp":
        return V08Client(broker.address)
    kind = V08WebSocket if transport == "websocket" else V08Quic
    return kind(broker.ports[transport])

"""A client over QUIC that opens streams, and writes to them, as it is told to."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.quic.configuration import QuicConfiguration

from iggy_wire.header import HEADER_BYTES, EvictionHeader, ReplyHeader, frame_bytes, frame_kind
from raw_frames import ANSWER_S, Header


class RawQuic:
    """One connection."""

    def __init__(self, protocol: QuicConnectionProtocol) -> None:
        self.protocol = protocol

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A new stream."""
        return await self.protocol.create_stream()

    async def exchange(self, frame: bytes, *, piece: int = 1 << 20) -> tuple[Header, bytes]:
        """One frame on a stream of its own, written in pieces; its answer ends the stream."""
        reader, writer = await self.open()
        for at in range(0, len(frame), piece):
            writer.write(frame[at : at + piece])
            await asyncio.sleep(0)
        writer.write_eof()
        return await self.answer(reader)

    def send(self, data: bytes) -> None:
        """Bytes on a new stream, which is not looked at again."""
        quic = self.protocol._quic
        quic.send_stream_data(quic.get_next_available_stream_id(), data)
        self.protocol.transmit()

    async def answer(self, reader: asyncio.StreamReader) -> tuple[Header, bytes]:
        """All that comes on a stream: one frame. ConnectionError if there is none."""
        data = await asyncio.wait_for(reader.read(), ANSWER_S)
        if not data:
            raise ConnectionError("closed without an answer")
        assert frame_bytes(data) == len(data)
        is_eviction = frame_kind(data) == 13
        header = (EvictionHeader if is_eviction else ReplyHeader).decode(data)
        return header, data[HEADER_BYTES:]

    async def is_closed(self) -> bool:
        """Whether the server closes the connection."""
        try:
            await asyncio.wait_for(self.protocol.wait_closed(), ANSWER_S)
        except TimeoutError:
            return False
        return True


@asynccontextmanager
async def raw_quic(port: int, **settings: object) -> AsyncIterator[RawQuic]:
    """Connected, trusting anybody."""
    configuration = QuicConfiguration(is_client=True, verify_mode=ssl.CERT_NONE)
    for name, value in settings.items():
        setattr(configuration, name, value)
    async with connect("127.0.0.1", port, configuration=configuration) as protocol:
        yield RawQuic(protocol)

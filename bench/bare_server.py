"""The floor that the broker is measured against: a uvloop server that understands nothing.

It reads the same frames, writes their bytes to a file of the connection and answers with a reply of
the same size; a poll it answers from that warm file with sendfile. No verification, no stamping, no
topics, no sessions. What the broker costs above this is what its promises cost.

    python bench/bare_server.py PORT FOLDER PROCESSES
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path
from struct import Struct
from typing import cast

import uvloop

HEADER_BYTES = 256
REPLY_COMMAND = 8
SEND_OPERATION = 160
CONFIRMATION = Struct("<IIIIQ")  # count, stream, topic, partition, base offset
POLL_HEAD = Struct("<IQI")  # partition, current offset, count
POLL_OFFSET = Struct("<Q5x")  # the offset, count and flag that end the body of a poll
SIZE = Struct("<I")
FRAME_BYTES_MAX = 4 << 20


class BareConnection(asyncio.BufferedProtocol):
    """One connection: frames in, bytes to its file, replies out."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._buffer = bytearray(FRAME_BYTES_MAX)
        self._view = memoryview(self._buffer)
        self._filled = 0
        self._file = -1
        self._written = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the socket: replies are written to it directly."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop has a class of its own
        self._socket = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
        self._socket_fd = self._socket.fileno()

    def connection_lost(self, _error: Exception | None) -> None:
        """Nothing outlives a connection but its file."""
        self._socket.close()
        if self._file >= 0:
            os.close(self._file)

    def get_buffer(self, _hint: int) -> memoryview:
        """Straight into the place where the frame is put together."""
        return self._view[self._filled :]

    def buffer_updated(self, count: int) -> None:
        """Handle every whole frame that has arrived."""
        self._filled += count
        at = 0
        while self._filled - at >= HEADER_BYTES:
            size = SIZE.unpack_from(self._buffer, at + 48)[0]
            if self._filled - at < size:
                break
            self._frame(self._view[at : at + size])
            at += size
        rest = self._filled - at
        if at and rest:
            self._buffer[:rest] = self._buffer[at : self._filled]
        self._filled = rest

    def _frame(self, frame: memoryview) -> None:
        if frame[176] == SEND_OPERATION:
            self._open(frame)
            body_bytes = len(frame) - HEADER_BYTES
            head_bytes = SIZE.size + SIZE.unpack_from(frame, HEADER_BYTES)[0]
            os.write(self._file, frame[HEADER_BYTES + head_bytes :])
            self._written += body_bytes - head_bytes
            self._reply(CONFIRMATION.pack(1, 0, 0, 0, 0))
        else:
            self._poll(frame)

    def _open(self, frame: memoryview) -> None:
        if self._file < 0:
            # Frames name their topic in the header's user field: a name for the file.
            name = str(SIZE.unpack_from(frame, 192)[0])
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
            self._file = os.open(self._folder / name, flags, 0o644)

    def _poll(self, frame: memoryview) -> None:
        """One request's worth of the file, at the place that the asked offset stands for."""
        self._open(frame)
        offset = POLL_OFFSET.unpack_from(frame, len(frame) - POLL_OFFSET.size)[0]
        count = SIZE.unpack_from(frame, len(frame) - 5)[0]
        batch_bytes = SIZE.unpack_from(frame, 56)[0]  # in the release field, from the bench alone
        head = self._header(POLL_HEAD.size + batch_bytes) + POLL_HEAD.pack(0, offset, count)
        self._socket.send(head, socket.MSG_MORE)
        position = offset // count * batch_bytes
        left = batch_bytes
        while left:
            try:
                sent = os.sendfile(self._socket_fd, self._file, position, left)
            except BlockingIOError:
                break
            assert sent, "the file is shorter than what is asked for"
            position, left = position + sent, left - sent
        if left:
            self._transport.write(os.pread(self._file, left, position))

    def _header(self, body_bytes: int) -> bytes:
        header = bytearray(HEADER_BYTES)
        SIZE.pack_into(header, 48, HEADER_BYTES + body_bytes)
        header[60] = REPLY_COMMAND
        return bytes(header)

    def _reply(self, body: bytes) -> None:
        os.write(self._socket_fd, self._header(len(body)) + body)


async def _serve(port: int, folder: Path) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: BareConnection(folder), "127.0.0.1", port, reuse_port=True, backlog=4096
    )
    stopped = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    async with server:
        await stopped.wait()


def main() -> None:
    """Fork the processes, serve in each, and stop them all on SIGTERM."""
    port, folder, processes = int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    children: list[int] = []
    for _ in range(processes - 1):
        child = os.fork()
        if child == 0:
            children.clear()
            break
        children.append(child)
    try:
        uvloop.run(_serve(port, folder))
    finally:
        for child in children:
            os.kill(child, signal.SIGTERM)
            os.waitpid(child, 0)


if __name__ == "__main__":
    main()

"""Replies on their way out: in order and whole, however slow the reader, however mixed."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from iggy_broker.net.outbox import Outbox
from iggy_broker.net.unsent import Unsent
from iggy_broker.storage.disk import RealDisk
from iggy_broker.storage.older import Steady
from iggy_broker.storage.partition import FileRange

LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [
    uvloop.new_event_loop,
    asyncio.new_event_loop,
]


class Writing(asyncio.Protocol):
    """The protocol around an outbox."""

    def __init__(self) -> None:
        self.out: Outbox | None = None
        self.lost = asyncio.Event()

    def connection_made(self, transport: Any) -> None:
        self.unsent = Unsent()
        self.out = Outbox(transport, self.unsent)

    def pause_writing(self) -> None:
        assert self.out is not None
        self.out.on_clogged()

    def resume_writing(self) -> None:
        assert self.out is not None
        self.out.on_drained()

    def connection_lost(self, exc: Exception | None) -> None:
        assert self.out is not None
        self.out.close()
        self.lost.set()


@pytest.fixture(params=LOOPS, ids=["uvloop", "asyncio"], name="run")
def make_run(request: pytest.FixtureRequest) -> Callable[[Awaitable[None]], None]:
    def run(work: Awaitable[None]) -> None:
        loop = request.param()
        try:
            loop.run_until_complete(work)
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    return run


async def connected() -> tuple[Writing, socket.socket]:
    """An outbox on a TCP connection with small buffers, and the reading end."""
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        reader = socket.create_connection(listener.getsockname())
        writer, _ = listener.accept()
    writer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 256 * 1024)
    writer.setblocking(False)
    reader.setblocking(False)
    protocol = Writing()
    await loop.connect_accepted_socket(lambda: protocol, writer)
    return protocol, reader


async def read(reader: socket.socket, length: int) -> bytes:
    loop = asyncio.get_running_loop()
    data = bytearray()
    async with asyncio.timeout(20):
        while len(data) < length:
            part = await loop.sock_recv(reader, 200_000)
            assert part, "closed early"
            data += part
    return bytes(data)


def file_range(folder: Path, size_bytes: int) -> tuple[FileRange, bytes]:
    data = os.urandom(size_bytes + 100)
    (folder / "log").write_bytes(data)
    return FileRange(RealDisk().open(str(folder / "log")), 50, size_bytes), data[
        50 : 50 + size_bytes
    ]


def test_what_does_not_fit_the_socket_arrives_whole_and_in_order(
    run: Callable[[Awaitable[None]], None], tmp_path: Path
) -> None:
    async def work() -> None:
        protocol, reader = await connected()
        out = protocol.out
        assert out is not None
        part, stored = file_range(tmp_path, 2_000_000)
        large = os.urandom(1_500_000)
        sent = b""
        for number in range(3):
            small = b"small %d" % number
            out.send(small)
            out.send_parts([b"head", large, part, b"tail"])
            sent += small + b"head" + large + stored + b"tail"

        assert out.clogged and out.queued_bytes > 0
        assert await read(reader, len(sent)) == sent
        assert out.queued_bytes == 0 and not out.clogged
        await closed(protocol, reader)

    run(work())


def test_a_file_that_is_deleted_under_a_slow_reader_still_arrives(
    run: Callable[[Awaitable[None]], None], tmp_path: Path
) -> None:
    async def work() -> None:
        protocol, reader = await connected()
        assert protocol.out is not None
        part, stored = file_range(tmp_path, 8_000_000)
        protocol.out.send_parts([part])
        part.file.close()
        (tmp_path / "log").unlink()

        assert await read(reader, len(stored)) == stored
        await closed(protocol, reader)

    run(work())


def test_lent_memory_may_change_after_the_call(
    run: Callable[[Awaitable[None]], None],
) -> None:
    async def work() -> None:
        protocol, reader = await connected()
        assert protocol.out is not None
        data = bytearray(os.urandom(4_000_000))
        expected = bytes(data)
        protocol.out.send(memoryview(data))
        data[:] = bytes(len(data))

        assert await read(reader, len(expected)) == expected
        await closed(protocol, reader)

    run(work())


def test_parts_of_a_large_block_are_counted_as_what_they_keep_in_memory(
    run: Callable[[Awaitable[None]], None],
) -> None:
    async def work() -> None:
        protocol, reader = await connected()
        assert protocol.out is not None
        block = os.urandom(24_000_000)
        whole = memoryview(block)
        protocol.out.send_parts([whole])
        before = protocol.unsent.bytes
        assert before == len(block), "the rest of it keeps all of it"
        protocol.out.send_parts([whole[:1000]])
        assert protocol.unsent.bytes == before + 1000, "a copy"
        protocol.out.send_parts([whole[1000:]])
        assert protocol.unsent.bytes == 2 * before + 1000

        wanted = block + block
        assert await read(reader, len(wanted)) == wanted
        assert protocol.unsent.bytes == 0
        await closed(protocol, reader)

    run(work())


def test_memory_that_is_steady_is_not_copied(run: Callable[[Awaitable[None]], None]) -> None:
    async def work() -> None:
        protocol, reader = await connected()
        assert protocol.out is not None
        block = Steady(os.urandom(24_000_000))
        protocol.out.send_parts([memoryview(block).toreadonly()])
        with pytest.raises(BufferError):
            block.pop()

        assert await read(reader, len(block)) == block
        await closed(protocol, reader)
        block.pop()

    run(work())


def test_a_reader_that_goes_away_leaves_nothing_behind(
    run: Callable[[Awaitable[None]], None], tmp_path: Path
) -> None:
    async def work() -> None:
        protocol, reader = await connected()
        out = protocol.out
        assert out is not None
        part, _ = file_range(tmp_path, 8_000_000)
        out.send_parts([b"head", part])
        reader.close()
        async with asyncio.timeout(10):
            while not protocol.lost.is_set():
                out.send(b"more")
                await asyncio.sleep(0)
        part.file.close()

        assert out.queued_bytes == 0
        assert str(tmp_path / "log") not in open_files()

    run(work())


def test_a_reader_that_takes_nothing_is_told_from_a_slow_one(
    run: Callable[[Awaitable[None]], None],
) -> None:
    async def work() -> None:
        protocol, reader = await connected()
        out = protocol.out
        assert out is not None
        assert not out.is_stalled()
        data = bytes(8_000_000)
        out.send(data)
        assert out.clogged
        assert not out.is_stalled(), "it has only begun"
        assert out.is_stalled()

        taken = await read(reader, 4_000_000)
        assert out.queued_bytes > 0
        assert not out.is_stalled(), "it is slow"
        assert out.is_stalled()

        assert taken + await read(reader, len(data) - len(taken)) == data
        assert not out.is_stalled()
        assert not out.is_stalled()
        await closed(protocol, reader)

    run(work())


def test_a_disk_that_cannot_read_on_ends_the_connection_and_nothing_else(
    run: Callable[[Awaitable[None]], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        protocol, reader = await connected()
        out = protocol.out
        assert out is not None
        part, _ = file_range(tmp_path, 8_000_000)

        def fails(*args: object) -> bytes:
            raise OSError(errno.EIO, "input/output error")

        monkeypatch.setattr(os, "pread", fails)
        out.send_parts([part])
        monkeypatch.undo()

        async with asyncio.timeout(10):
            await protocol.lost.wait()
        assert out.queued_bytes == 0
        reader.close()

    run(work())


def open_files() -> set[str]:
    found = set()
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the folder's own is gone already
            found.add(os.readlink(f"/proc/self/fd/{descriptor}"))
    return found


async def closed(protocol: Writing, reader: socket.socket) -> None:
    reader.close()
    async with asyncio.timeout(10):
        while not protocol.lost.is_set():
            assert protocol.out is not None
            protocol.out.send(b"x")
            await asyncio.sleep(0)

"""Replies that nobody takes: of a capped sum, and the largest holder pays."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from iggy_broker.net.outbox import Outbox
from iggy_broker.net.unsent import Unsent
from iggy_broker.storage.disk import RealDisk
from iggy_broker.storage.partition import FileRange


class FullTransport(asyncio.Transport):
    """Its socket takes nothing, or fails."""

    def __init__(self) -> None:
        super().__init__({"direct": self})
        self.failure: OSError = BlockingIOError()
        self.is_over = False
        self.written = 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high == 0

    def send(self, data: bytes, flags: int = 0) -> int:
        raise self.failure

    def fileno(self) -> int:
        return 0

    def detach(self) -> int:
        return 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += len(data)
        self.out.on_clogged()

    def abort(self) -> None:
        self.is_over = True

    def is_closing(self) -> bool:
        return self.is_over

    def outbox(self, unsent: Unsent) -> Outbox:
        self.out = Outbox(self, unsent)
        return self.out


def test_the_client_with_most_is_closed_when_all_hold_too_much() -> None:
    unsent = Unsent(bytes_max=100_000)
    transports = [FullTransport() for _ in range(3)]
    small, large, new = (transport.outbox(unsent) for transport in transports)

    small.send(bytes(20_000))
    large.send(bytes(40_000))
    large.send(bytes(30_000))
    assert unsent.bytes == 90_000
    new.send(bytes(30_000))

    assert [one.is_over for one in transports] == [False, True, False]
    assert unsent.bytes == 50_000
    large.send(bytes(90_000))
    assert unsent.bytes == 50_000, "who is closed gets nothing more"
    small.close()
    new.close()
    assert unsent.bytes == 0


def test_one_that_holds_too_much_alone_is_closed() -> None:
    closed: list[str] = []
    unsent = Unsent(bytes_max=1000, on_closed=lambda: closed.append("unread"))
    transport = FullTransport()

    transport.outbox(unsent).send(bytes(2000))

    assert transport.is_over
    assert unsent.bytes == 0
    assert closed == ["unread"]


def test_a_socket_that_fails_while_it_drains_ends_its_connection() -> None:
    unsent = Unsent()
    transport = FullTransport()
    out = transport.outbox(unsent)
    out.send(bytes(100_000))

    transport.failure = ConnectionResetError()
    out.on_drained()

    assert transport.is_over
    assert out.queued_bytes == unsent.bytes == 0


@pytest.fixture(name="log")
def make_log(tmp_path: Path) -> FileRange:
    (tmp_path / "log").write_bytes(bytes(200_000))
    return FileRange(RealDisk().open(str(tmp_path / "log")), 0, 200_000)


def test_slow_readers_of_one_file_share_a_descriptor(log: FileRange) -> None:
    unsent = Unsent()
    outs = [FullTransport().outbox(unsent) for _ in range(10)]
    assert log.file.fileno() >= 0
    before = len(os.listdir("/proc/self/fd"))

    for out in outs:
        out.on_clogged()
        out.send_parts([log])
    assert len(os.listdir("/proc/self/fd")) == before + 1
    assert unsent.bytes == 0, "files cost no memory"
    for out in outs:
        out.close()

    assert len(os.listdir("/proc/self/fd")) == before
    log.file.close()

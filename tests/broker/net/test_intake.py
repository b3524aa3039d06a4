"""Frames out of chunks: any cut of the same bytes gives the same frames, blocked or not."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iggy_broker.net.buffers import BufferPool
from iggy_broker.net.intake import FIRST_BYTES, SLOW_AFTER_S, Intake, Landing

HEADER_BYTES = 4  # of the frames here: their length, header included
BLOCKED = 1


class FakeTransport(asyncio.Transport):
    """Counts whether it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.reading = True
        self.resumed = asyncio.Event()
        self.aborted = False

    def is_closing(self) -> bool:
        return self.aborted

    def pause_reading(self) -> None:
        assert self.reading, "paused twice"
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading, "resumed twice"
        self.reading = True
        self.resumed.set()

    def abort(self) -> None:
        self.aborted = True


class Frames(Intake):
    """Keeps the frames it is served; may block after each."""

    _header_bytes = HEADER_BYTES

    def __init__(
        self, loop: asyncio.AbstractEventLoop, landing: Landing, *, block: bool = False
    ) -> None:
        super().__init__(loop, landing)
        self.transport = self._transport = FakeTransport()
        self.frames: list[bytes] = []
        self.block = block

    def _frame_bytes(self, view: memoryview, at: int) -> int:
        size: int = struct.unpack_from("<I", view, at)[0]
        if size < HEADER_BYTES:
            self.transport.abort()
            return 0
        return size

    def _serve_frame(self, frame: memoryview) -> bool:
        self.frames.append(bytes(frame))
        if self.block:
            self._blocked |= BLOCKED
        return True

    def receive(self, data: bytes) -> int:
        """What one read would bring; how much of `data` it took."""
        buffer = self.get_buffer(-1)
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        self.buffer_updated(count)
        return count

    def receive_all(self, data: bytes) -> None:
        while data and self.transport.reading:
            data = data[self.receive(data) :]
        assert not data, "not everything was read"

    def unblock(self) -> None:
        self._unblock(BLOCKED)


@pytest.fixture(name="loop")
def make_loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def frame(body: bytes) -> bytes:
    return struct.pack("<I", HEADER_BYTES + len(body)) + body


BODIES = st.lists(st.binary(max_size=40), max_size=20)


@given(bodies=BODIES, cuts=st.lists(st.integers(1, 60), min_size=1))
def test_any_cut_of_a_stream_gives_the_same_frames(bodies: list[bytes], cuts: list[int]) -> None:
    loop = asyncio.new_event_loop()
    intake = Frames(loop, Landing())
    data = b"".join(frame(body) for body in bodies)

    at = number = 0
    while at < len(data):
        end = at + cuts[number % len(cuts)]
        intake.receive_all(data[at:end])
        at, number = end, number + 1
    loop.close()

    assert intake.frames == [frame(body) for body in bodies]
    assert intake._landing.pool.in_use_bytes == 0


@given(bodies=BODIES, cuts=st.lists(st.integers(1, 60), min_size=1))
def test_blocked_after_every_frame_it_serves_all_in_order(
    bodies: list[bytes], cuts: list[int]
) -> None:
    loop = asyncio.new_event_loop()
    intake = Frames(loop, Landing(), block=True)
    data = b"".join(frame(body) for body in bodies)

    at = number = 0
    while at < len(data):
        if intake.transport.reading:
            end = at + cuts[number % len(cuts)]
            intake.receive_all(data[at:end])
            at, number = end, number + 1
        else:
            intake.unblock()
    for _ in bodies:
        intake.unblock()
    loop.close()

    assert intake.frames == [frame(body) for body in bodies]


def test_a_frame_longer_than_the_landing_buffer_is_received_in_place(
    loop: asyncio.AbstractEventLoop,
) -> None:
    intake = Frames(loop, Landing())
    long = frame(bytes(range(256)) * 8192)

    intake.receive_all(long + frame(b"next"))

    assert intake.frames == [long, frame(b"next")]


def test_a_blocked_socket_is_read_once_more_and_then_not(loop: asyncio.AbstractEventLoop) -> None:
    intake = Frames(loop, Landing(), block=True)

    intake.receive_all(frame(b"one"))
    assert intake.transport.reading  # lock-step clients cost no pause
    intake.receive_all(frame(b"two"))
    assert not intake.transport.reading
    intake.block = False
    intake.unblock()

    assert intake.frames == [frame(b"one"), frame(b"two")]
    assert intake.transport.reading


def test_without_memory_for_half_a_frame_the_socket_waits(loop: asyncio.AbstractEventLoop) -> None:
    pool = BufferPool(in_use_bytes_max=5000)
    taken = pool.take(4096)
    assert taken is not None
    intake = Frames(loop, Landing(pool))

    intake.receive(frame(bytes(100))[:50])
    assert not intake.transport.reading
    pool.give(taken)
    loop.run_until_complete(asyncio.wait_for(intake.transport.resumed.wait(), 10))
    intake.receive_all(frame(bytes(100))[50:])

    assert intake.frames == [frame(bytes(100))]


def test_a_length_that_cannot_be_ends_the_connection(loop: asyncio.AbstractEventLoop) -> None:
    intake = Frames(loop, Landing())

    intake.receive(frame(b"good") + struct.pack("<I", 3) + b"rest")

    assert intake.frames == [frame(b"good")]
    assert intake.transport.aborted


def test_half_a_frame_that_does_not_grow_is_noticed(loop: asyncio.AbstractEventLoop) -> None:
    intake = Frames(loop, Landing())
    assert not intake.is_stalled()

    intake.receive(frame(bytes(100))[:50])
    assert not intake.is_stalled()
    intake.receive(frame(bytes(100))[50:60])
    assert not intake.is_stalled()
    assert intake.is_stalled()
    intake.receive(frame(bytes(100))[60:])

    assert not intake.is_stalled()


def test_a_long_frame_gets_memory_as_it_comes(loop: asyncio.AbstractEventLoop) -> None:
    pool = BufferPool()
    intake = Frames(loop, Landing(pool))
    whole = frame(bytes(30 << 20))

    intake.receive(whole[:100])
    assert pool.in_use_bytes <= FIRST_BYTES
    intake.receive_all(whole[100:])
    assert intake.frames == [whole]

    assert pool.in_use_bytes == 0


def test_a_frame_that_cannot_grow_waits_for_memory(loop: asyncio.AbstractEventLoop) -> None:
    pool = BufferPool(in_use_bytes_max=4 << 20)
    intake = Frames(loop, Landing(pool))
    whole = frame(bytes(2 << 20))

    intake.receive(whole[:100])
    assert pool.hold(2 << 20)
    at = 100
    while intake.transport.reading:
        at += intake.receive(whole[at:])
    pool.let_go(2 << 20)
    loop.run_until_complete(asyncio.wait_for(intake.transport.resumed.wait(), 10))
    intake.receive_all(whole[at:])

    assert intake.frames == [whole]
    assert pool.in_use_bytes == 0


def test_who_sends_on_while_nothing_fits_is_closed(loop: asyncio.AbstractEventLoop) -> None:
    intake = Frames(loop, Landing(BufferPool(in_use_bytes_max=1000)), block=True)

    intake.receive(frame(b"served") + frame(bytes(2000)))

    assert intake.transport.aborted


def test_half_a_frame_that_comes_too_slowly_is_noticed(loop: asyncio.AbstractEventLoop) -> None:
    intake = Frames(loop, Landing())
    intake.receive(frame(bytes(100))[:50])
    now_s = loop.time()

    assert not intake.is_slow(now_s + SLOW_AFTER_S / 2)
    assert intake.is_slow(now_s + SLOW_AFTER_S * 2)
    intake.receive_all(frame(bytes(100))[50:])

    assert not intake.is_slow(now_s + SLOW_AFTER_S * 2)

"""Frames come out whole and in order, however the bytes arrive; memory follows what arrived."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iggy_wire.errors import ErrorCode, WireError
from iggy_wire.framing import GRANT_BYTES, BufferPool, FrameReader
from iggy_wire.header import HEADER_BYTES, RequestHeader

FRAME_BYTES_MAX = 8 << 20


def frame(body: bytes) -> bytes:
    return RequestHeader(2, b"c" * 16, HEADER_BYTES + len(body)).encode() + body


def received(
    reader: FrameReader, stream: bytes, chunks: list[int], landing_bytes: int
) -> list[bytes]:
    """Receive `stream` as a socket would hand it out, in chunks of at most these sizes."""
    landing = memoryview(bytearray(landing_bytes))
    frames: list[bytes] = []
    at, turn = 0, 0
    while at < len(stream):
        buffer = reader.receive_buffer(landing)
        count = min(len(buffer), chunks[turn % len(chunks)], len(stream) - at)
        buffer[:count] = stream[at : at + count]
        reader.received(count)
        at, turn = at + count, turn + 1
        while (one := reader.next_frame()) is not None:
            frames.append(bytes(one))
    return frames


BODIES = st.lists(st.binary(max_size=2000), min_size=1, max_size=6)
CHUNKS = st.lists(st.integers(1, 3000), min_size=1, max_size=8)


@settings(deadline=None)
@given(bodies=BODIES, chunks=CHUNKS, landing_bytes=st.integers(1, 4096))
def test_any_chunking_gives_the_same_frames(
    bodies: list[bytes], chunks: list[int], landing_bytes: int
) -> None:
    frames = [frame(body) for body in bodies]
    reader = FrameReader(FRAME_BYTES_MAX)

    assert received(reader, b"".join(frames), chunks, landing_bytes) == frames
    assert reader.pending_bytes == 0


@settings(deadline=None)
@given(bodies=BODIES, chunks=CHUNKS)
def test_feeding_gives_the_same_frames(bodies: list[bytes], chunks: list[int]) -> None:
    frames = [frame(body) for body in bodies]
    stream = b"".join(frames)
    reader = FrameReader(FRAME_BYTES_MAX)
    got: list[bytes] = []

    at, turn = 0, 0
    while at < len(stream):
        size = chunks[turn % len(chunks)]
        got.extend(bytes(one) for one in reader.feed(stream[at : at + size]))
        at, turn = at + size, turn + 1

    assert got == frames


@settings(deadline=None)
@given(stream=st.binary(max_size=2000), chunks=CHUNKS)
def test_arbitrary_bytes_raise_nothing_but_wire_errors(stream: bytes, chunks: list[int]) -> None:
    reader = FrameReader(4096)

    try:
        frames = received(reader, stream, chunks, 512)
    except WireError as error:
        assert error.code == ErrorCode.INVALID_SIZE_BYTES
    else:
        assert sum(map(len, frames)) + reader.pending_bytes == len(stream)


@pytest.mark.parametrize("size", [0, 1, 255, FRAME_BYTES_MAX + 1, (1 << 32) - 1])
def test_a_size_out_of_bounds_is_refused(size: int) -> None:
    header = RequestHeader(2, b"c" * 16, size).encode()

    with pytest.raises(WireError, match="frame size: 256 to"):
        list(FrameReader(FRAME_BYTES_MAX).feed(header))


def test_the_largest_frame_is_accepted() -> None:
    largest = frame(bytes(FRAME_BYTES_MAX - HEADER_BYTES))
    reader = FrameReader(FRAME_BYTES_MAX)

    assert received(reader, largest, [100_000], 1 << 16) == [largest]


def test_memory_grows_with_what_arrives_not_with_what_is_announced() -> None:
    reader = FrameReader(64 << 20)
    announced = RequestHeader(2, b"c" * 16, 64 << 20).encode()

    assert list(reader.feed(announced)) == []

    landing = memoryview(bytearray(16))
    assert len(reader.receive_buffer(landing)) <= GRANT_BYTES


def test_whole_frames_are_views_into_what_was_received() -> None:
    landing = memoryview(bytearray(4096))
    reader = FrameReader(FRAME_BYTES_MAX)
    stream = frame(b"one") + frame(b"two")

    buffer = reader.receive_buffer(landing)
    buffer[: len(stream)] = stream
    reader.received(len(stream))
    first = reader.next_frame()

    assert buffer is landing
    assert first is not None
    assert first.obj is landing.obj


def test_held_frames_survive_the_next_use_of_the_landing_buffer() -> None:
    landing = memoryview(bytearray(4096))
    reader = FrameReader(FRAME_BYTES_MAX)
    frames = [frame(b"one"), frame(b"two"), frame(b"three")]
    stream = b"".join(frames)[:-2]
    reader.receive_buffer(landing)[: len(stream)] = stream
    reader.received(len(stream))

    first = reader.next_frame()
    assert first is not None
    kept = reader.keep(first)
    reader.hold()
    landing[:] = b"x" * len(landing)

    assert bytes(kept) == frames[0]
    assert bytes(reader.next_frame() or b"") == frames[1]
    assert reader.next_frame() is None
    assert [bytes(one) for one in reader.feed(frames[2][-2:])] == [frames[2]]


def test_memory_of_large_frames_is_used_again_but_not_while_kept() -> None:
    pool = BufferPool()
    reader = FrameReader(FRAME_BYTES_MAX, pool)
    large = frame(bytes(200_000))
    owners = []
    kept = None
    for turn in range(4):
        for half in (large[:1000], large[1000:]):
            for one in reader.feed(half):
                owners.append(id(one.obj))
                kept = reader.keep(one) if turn == 1 else kept

    assert owners[0] == owners[1]
    assert owners[2] != owners[1]
    assert kept is not None
    assert bytes(kept) == large


def test_a_large_frame_is_received_in_the_memory_of_the_one_before_it() -> None:
    reader = FrameReader(64 << 20)
    large = frame(bytes(3 * GRANT_BYTES))
    list(reader.feed(large[:1000]))
    at, lengths = 1000, []
    landing = memoryview(bytearray(16))
    for _ in range(2):
        while at < len(large):
            buffer = reader.receive_buffer(landing)
            lengths.append(len(buffer))
            buffer[:] = large[at : at + len(buffer)]
            reader.received(len(buffer))
            at += len(buffer)
            found = reader.next_frame()
        assert found is not None
        assert bytes(found) == large
        list(reader.feed(large[:1000]))
        at = 1000

    assert lengths[0] < GRANT_BYTES, "the first: memory grows with what arrives"
    assert lengths[-1] == len(large) - 1000, "the second: it is there"


def test_a_pool_keeps_no_more_than_its_limit() -> None:
    pool = BufferPool(bytes_max=100_000)
    first, second = pool.take(80_000), pool.take(80_000)

    pool.give(first)
    pool.give(second)

    assert pool.take(80_000) is first
    assert pool.take(80_000) is not second


def test_closing_gives_half_a_frame_back() -> None:
    pool = BufferPool()
    reader = FrameReader(FRAME_BYTES_MAX, pool)
    list(reader.feed(frame(bytes(100_000))[:5000]))

    reader.close()

    assert reader.pending_bytes == 0
    assert len(pool.take(100_000)) == 100_256

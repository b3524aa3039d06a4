"""Cutting a stream of bytes into frames, with bounded memory and as few copies as can be.

Bytes arrive in a landing buffer that many connections may share. Whole frames are handed out as
views into it; only a frame that has not arrived completely gets memory of its own, and the rest of
it is then received right there. That memory grows with what has really arrived, never with what a
header merely announces; memory that an earlier frame left behind is there already.
"""

from collections.abc import Iterator
from typing import Final

from iggy_wire.buffer import Buffer
from iggy_wire.errors import ErrorCode, WireError
from iggy_wire.header import HEADER_BYTES, frame_bytes

# Memory that one announced frame gets at once; beyond it grows by doubling as bytes arrive.
GRANT_BYTES: Final = 2 << 20
POOL_BYTES_MAX: Final = 16 << 20

_POOLED_BYTES_MIN: Final = 64 << 10  # smaller ones cost less to make than to look for


class BufferPool:
    """Memory for half frames, reused over all connections of one process; at most `bytes_max`."""

    def __init__(self, bytes_max: int = POOL_BYTES_MAX) -> None:
        """An empty pool. `bytes_max`: what it keeps for reuse, not what it hands out."""
        self._bytes_max = bytes_max
        self._bytes = 0
        self._free: list[bytearray] = []

    def take(self, length: int, *, better: int = 0) -> bytearray:
        """A buffer of `length` bytes to twice as many; of `better` bytes if one is at hand."""
        for least in (better, length):
            for index, buffer in enumerate(self._free):
                if least <= len(buffer) <= 2 * least:
                    self._bytes -= len(buffer)
                    return self._free.pop(index)
        return bytearray(length)

    def give(self, buffer: bytearray) -> None:
        """Keep `buffer` for the next one who asks, if there is room."""
        if _POOLED_BYTES_MIN <= len(buffer) <= self._bytes_max - self._bytes:
            self._bytes += len(buffer)
            self._free.append(buffer)


class FrameReader:
    """Frames of one connection.

    Receive into `receive_buffer(landing)`, say `received(count)`, then take `next_frame()` until
    there is none. Or `feed(data)` with bytes from elsewhere. A frame is valid until the next call
    of `receive_buffer`, `received` or `feed`; `keep` makes it last. A frame whose size is out of
    bounds raises `WireError` (`INVALID_SIZE_BYTES`): close the connection, nothing can follow.
    """

    __slots__ = ("_end", "_frame_bytes_max", "_have", "_landed", "_pool", "_private", "_spent",
                 "_start", "_want")  # fmt: skip

    def __init__(self, frame_bytes_max: int, pool: BufferPool | None = None) -> None:
        """`frame_bytes_max`: largest frame accepted, header included."""
        self._frame_bytes_max = frame_bytes_max
        self._pool = BufferPool() if pool is None else pool
        self._landed: memoryview | None = None  # what arrived, unread from _start to _end
        self._start = 0
        self._end = 0
        self._private: bytearray | None = None  # a half frame: _have of _want bytes
        self._have = 0
        self._want = HEADER_BYTES
        self._spent: bytearray | None = None  # memory of the frame handed out last

    @property
    def pending_bytes(self) -> int:
        """Bytes received that no frame was made of yet."""
        return self._have + self._end - self._start

    def receive_buffer(self, landing: memoryview) -> memoryview:
        """Where the next bytes go: `landing`, or straight behind a half frame."""
        assert self._start == self._end, "take every frame before receiving more"
        self._settle()
        if self._private is None:
            self._landed, self._start, self._end = landing, 0, 0
            return landing
        self._make_room()
        return memoryview(self._private)[self._have : min(self._want, len(self._private))]

    def received(self, length: int) -> None:
        """`length` bytes have been put where `receive_buffer` said."""
        if self._private is None:
            self._end = length
        else:
            self._have += length

    def feed(self, data: Buffer) -> Iterator[memoryview]:
        """The frames that `data` completes; half a frame at its end is kept."""
        assert self._start == self._end, "take every frame before feeding more"
        self._settle()
        self._landed, self._start, self._end = memoryview(data), 0, len(data)
        while (frame := self.next_frame()) is not None:
            yield frame

    def next_frame(self) -> memoryview | None:
        """The next whole frame. None: more bytes are needed; what there is has been moved aside."""
        if self._private is not None:
            return self._next_private(self._private)
        landed, start, end = self._landed, self._start, self._end
        if landed is None or start == end:
            return None
        if end - start >= HEADER_BYTES:
            length = self._checked(frame_bytes(landed, start))
            if end - start >= length:
                self._start = start + length
                return landed[start : start + length]
            self._want = length
        self._move_aside()
        return None

    def hold(self) -> None:
        """Copy what is unread out of the landing buffer: it is about to be used by others."""
        if self._landed is not None and self._start < self._end:
            self._landed = memoryview(bytearray(self._landed[self._start : self._end]))
            self._start, self._end = 0, len(self._landed)

    def keep(self, frame: memoryview) -> memoryview:
        """`frame`, just handed out, in memory that nobody else writes to."""
        if self._spent is not None and frame.obj is self._spent:
            self._spent = None
            return frame
        return memoryview(bytearray(frame))

    def close(self) -> None:
        """Give all memory back. Frames handed out are no longer valid."""
        self._settle()
        if self._private is not None:
            self._pool.give(self._private)
        self._private = self._landed = None
        self._have = self._start = self._end = 0

    def _settle(self) -> None:
        """The frame handed out last is done with: its memory may be used again."""
        if self._spent is not None:
            self._pool.give(self._spent)
            self._spent = None

    def _next_private(self, private: bytearray) -> memoryview | None:
        """Finish the half frame from what has landed, as far as that goes."""
        self._fill()
        if self._have == self._want == HEADER_BYTES:
            self._want = self._checked(frame_bytes(private))
            self._fill()
        if self._have < self._want or self._private is None:
            return None
        private, length = self._private, self._want
        self._private, self._spent = None, private
        self._have, self._want = 0, HEADER_BYTES
        return memoryview(private)[:length]

    def _move_aside(self) -> None:
        """Start a half frame from the rest of what has landed; `_want` says how long it gets."""
        assert self._landed is not None
        wanted = max(HEADER_BYTES, min(self._want, GRANT_BYTES))
        self._private = self._pool.take(wanted, better=self._want)
        self._fill()

    def _fill(self) -> None:
        """Move bytes from what has landed to the half frame, until one of them has no more."""
        while self._start < self._end and self._have < self._want:
            self._make_room()
            assert self._private is not None
            assert self._landed is not None
            room = min(self._want, len(self._private)) - self._have
            count = min(room, self._end - self._start)
            self._private[self._have : self._have + count] = self._landed[
                self._start : self._start + count
            ]
            self._have += count
            self._start += count

    def _make_room(self) -> None:
        """Grow the memory of the half frame if it is full: no faster than bytes arrive."""
        private = self._private
        if private is None or self._have < len(private):
            return
        wanted = min(self._want, max(GRANT_BYTES, 2 * len(private)))
        grown = self._pool.take(wanted, better=self._want)
        grown[: self._have] = private
        self._pool.give(private)
        self._private = grown

    def _checked(self, length: int) -> int:
        if not HEADER_BYTES <= length <= self._frame_bytes_max:
            detail = f"frame size: {HEADER_BYTES} to {self._frame_bytes_max} bytes, is {length}"
            raise WireError(ErrorCode.INVALID_SIZE_BYTES, detail)
        return length

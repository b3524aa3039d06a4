"""Bytes from a socket into whole frames, with one landing buffer for all sockets of the process.

A subclass says how long a frame is and serves it. While it is blocked nothing is served: what has
arrived waits in `_stash` (at most one landing buffer) and the socket is not read, so the sender
feels the back-pressure. Only a socket with half a frame owns memory, from a pool with a cap, and
no more than some times what it has sent: who announces much and sends little gets little.
"""

from __future__ import annotations

import asyncio
from typing import Final

from iggy_broker.net.buffers import LANDING_BYTES, BufferPool

POOL_RETRY_S: Final = 0.05  # a connection that got no buffer asks again after this
FIRST_BYTES: Final = 64 * 1024  # for half a frame, if it is to be so long
GROWTH: Final = 16  # then so many times what has arrived: few copies, and little for a dribble
SLOW_AFTER_S: Final = 5.0  # when memory is short, half a frame that is older must have come
SLOW_BYTES_S: Final = 512 * 1024  # at least so fast


class Landing:
    """What all sockets of one process receive into, and the pool for half frames."""

    __slots__ = ("pool", "view")

    def __init__(self, pool: BufferPool | None = None) -> None:
        """One landing buffer of `LANDING_BYTES`."""
        self.view = memoryview(bytearray(LANDING_BYTES))
        self.pool = pool or BufferPool()


class Intake(asyncio.BufferedProtocol):
    """A protocol that cuts frames. Subclasses set `_header_bytes` and two methods."""

    __slots__ = (
        "_began_s",
        "_blocked",
        "_filled",
        "_landing",
        "_loop",
        "_partial",
        "_partial_view",
        "_paused",
        "_seen",
        "_size",
        "_stash",
        "_transport",
    )
    _header_bytes: int

    def __init__(self, loop: asyncio.AbstractEventLoop, landing: Landing) -> None:
        """Not connected yet."""
        self._loop = loop
        self._landing = landing
        self._transport: asyncio.Transport | None = None
        self._blocked = 0  # reasons not to serve, as bits; the subclass names them
        self._paused = False  # reading is paused
        self._partial: bytearray | None = None  # from the pool
        self._partial_view: memoryview | None = None  # of it what is to be filled first
        self._size = 0  # of the frame (or its header): the view's length in the end
        self._filled = 0
        self._began_s = 0.0  # when half a frame arrived
        self._seen = (0.0, 0)  # what `is_stalled` saw last
        self._stash: bytearray | None = None  # arrived, but blocked

    # -- asyncio -------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go: behind half a frame, or into the landing buffer."""
        if self._partial_view is not None:
            return self._partial_view[self._filled :]
        return self._landing.view

    def buffer_updated(self, nbytes: int) -> None:
        """Serve what is whole, keep what is not. `get_buffer` was called right before."""
        view = self._partial_view
        if view is None:
            self._arrived(self._landing.view[:nbytes])
            return
        self._filled += nbytes
        if self._filled == self._size:
            self._partial_complete(view)
        elif self._filled == len(view):
            self._grow()

    def feed(self, data: memoryview) -> int:
        """Take bytes from a layer in between, as from the socket; how many were taken.

        Fewer than all: half a frame has no memory to go on; reading was paused then, and the rest
        is to come again when it is resumed. `data` is only lent.
        """
        at = 0
        while at < len(data) and self._transport is not None and not self._transport.is_closing():
            view = self._partial_view
            if view is None:
                self._arrived(data[at:])
                break
            step = min(len(view) - self._filled, len(data) - at)
            if not step:
                return at
            view[self._filled : self._filled + step] = data[at : at + step]
            at += step
            self.buffer_updated(step)
        return len(data)

    # -- inside --------------------------------------------------------------------------------

    def _arrived(self, view: memoryview) -> None:
        """Serve the whole frames in `view`, then keep the rest. `view` is only lent."""
        at = 0
        length = len(view)
        header_bytes = self._header_bytes
        while not self._blocked and length - at >= header_bytes:
            size = self._frame_bytes(view, at)
            if not size:
                return  # closed
            if length - at < size or not self._serve_frame(view[at : at + size]):
                break
            at += size
        if at < length:
            self._keep(view[at:])

    def _keep(self, rest: memoryview) -> None:
        if self._blocked:
            self._put_by(rest)
            return
        length = len(rest)
        size = self._header_bytes
        if length >= size:
            size = self._frame_bytes(rest, 0)
        first = min(size, max(FIRST_BYTES, GROWTH * length))
        buffer = self._take_buffer(first)
        if buffer is None:
            # The pool is at its cap: this half frame waits here, unread bytes wait in the socket,
            # and the sender waits for its window.
            self._put_by(rest)
            self._loop.call_later(POOL_RETRY_S, self._resume)
            return
        self._partial = buffer
        self._partial_view = memoryview(buffer)[:first]
        self._partial_view[:length] = rest
        self._size = size
        self._filled = length
        self._began_s = self._loop.time()

    def _grow(self) -> None:
        """More memory for half a frame that fills what it has; without, the socket waits."""
        before, view = self._partial, self._partial_view
        if before is None or view is None or self._filled != len(view):
            return  # closed meanwhile
        length = min(self._size, GROWTH * self._filled)
        buffer = self._take_buffer(length, before)
        if buffer is None:
            self._pause()
            self._loop.call_later(POOL_RETRY_S, self._grow)
            return
        self._partial = buffer
        self._partial_view = memoryview(buffer)[:length]
        self._partial_view[: self._filled] = view
        self._landing.pool.give(before)
        self._resume()

    def _partial_complete(self, view: memoryview) -> None:
        """`view` is a whole frame, or a whole header of a longer frame."""
        buffer = self._partial
        assert buffer is not None, "a partial view has its buffer"
        self._partial = self._partial_view = None
        try:
            self._arrived(view)
        finally:
            self._landing.pool.give(buffer)

    def _put_by(self, rest: memoryview) -> None:
        """Keep what cannot be served now, and read no more; end who sends when nothing fits."""
        if not self._landing.pool.hold(len(rest)):
            assert self._transport is not None
            self._transport.abort()
            return
        if self._stash is None:
            self._began_s = self._loop.time()
            self._stash = bytearray(rest)
        else:
            self._stash += rest
        self._pause()

    def _drop_stash(self) -> bytearray | None:
        stash, self._stash = self._stash, None
        if stash is not None:
            self._landing.pool.let_go(len(stash))
        return stash

    def _pause(self) -> None:
        if not self._paused and self._transport is not None and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()

    def _unblock(self, reason: int) -> None:
        """Take one reason away; serve on when it was the last."""
        self._blocked &= ~reason
        if not self._blocked and (self._stash is not None or self._paused):
            self._resume()

    def _resume(self) -> None:
        """Serve the stash, then read on, unless blocked meanwhile."""
        transport = self._transport
        if self._blocked or self._is_full or transport is None or transport.is_closing():
            return
        stash = self._drop_stash()
        if stash is not None:
            self._arrived(memoryview(stash))
        if (
            self._paused
            and not self._blocked
            and self._stash is None
            and not self._is_full
            and not transport.is_closing()
        ):
            self._paused = False
            transport.resume_reading()

    def is_stalled(self) -> bool:
        """Whether half a frame is here that has not grown since this was asked last."""
        before, self._seen = self._seen, (self._began_s, self._filled)
        return self._partial is not None and before == self._seen

    def is_slow(self, now_s: float) -> bool:
        """Whether half a frame comes so slowly that others should have its memory."""
        waited_s = now_s - self._began_s
        is_late = waited_s > SLOW_AFTER_S and self._filled < waited_s * SLOW_BYTES_S
        return self._partial is not None and is_late

    def stop_reading(self) -> asyncio.Transport | None:
        """At a frame border: read no more, the transport is given away. None if this is none."""
        transport = self._transport
        at_border = self._partial is None and self._stash is None and not self._blocked
        if not at_border or self._paused or transport is None or transport.is_closing():
            return None
        self._pause()
        return transport

    def go_on_reading(self) -> None:
        """The transport stays after all."""
        self._resume()

    def _release(self) -> None:
        """Give all memory back; the socket is gone."""
        if self._partial is not None:
            self._landing.pool.give(self._partial)
        self._partial = self._partial_view = None
        self._drop_stash()

    @property
    def _is_full(self) -> bool:
        """Whether half a frame has no memory to go on."""
        return self._partial_view is not None and self._filled == len(self._partial_view)

    def _take_buffer(
        self, length_bytes: int, instead_of: bytearray | None = None
    ) -> bytearray | None:
        return self._landing.pool.take(length_bytes, instead_of=instead_of)

    # -- for the subclass ----------------------------------------------------------------------

    def _frame_bytes(self, view: memoryview, at: int) -> int:
        """Length of the frame that starts at `at`; 0 after closing a socket that sends nonsense."""
        raise NotImplementedError

    def _serve_frame(self, frame: memoryview) -> bool:
        """Serve one whole frame, which is only lent. False: not now, and `_blocked` says why."""
        raise NotImplementedError

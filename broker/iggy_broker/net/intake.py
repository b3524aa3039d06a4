"""Bytes from a socket into whole frames, with one landing buffer for all sockets of the process.

A subclass says how long a frame is and serves it. While it is blocked nothing is served: what has
arrived waits in `_stash` (at most one landing buffer) and the socket is not read, so the sender
feels the back-pressure. Only a socket with half a frame owns memory, from a pool with a cap.
"""

from __future__ import annotations

import asyncio
from typing import Final

from iggy_broker.net.buffers import LANDING_BYTES, BufferPool

POOL_RETRY_S: Final = 0.05  # a connection that got no buffer asks again after this


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
        self._partial_view: memoryview | None = None  # of exactly the frame's (or header's) length
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
        if self._filled == len(view):
            self._partial_complete(view)

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
            self._stash = bytearray(rest) if self._stash is None else self._stash + rest
            self._pause()
            return
        length = len(rest)
        size = self._header_bytes
        if length >= size:
            size = self._frame_bytes(rest, 0)
        buffer = self._take_buffer(size)
        if buffer is None:
            self._wait_for_buffer(rest)
            return
        self._partial = buffer
        self._partial_view = memoryview(buffer)[:size]
        self._partial_view[:length] = rest
        self._filled = length
        self._began_s = self._loop.time()

    def _partial_complete(self, view: memoryview) -> None:
        """`view` is a whole frame, or a whole header of a longer frame."""
        buffer = self._partial
        assert buffer is not None, "a partial view has its buffer"
        self._partial = self._partial_view = None
        try:
            self._arrived(view)
        finally:
            self._landing.pool.give(buffer)

    def _wait_for_buffer(self, rest: memoryview) -> None:
        # The pool is at its cap: this half frame (at most a landing buffer) waits here, unread
        # bytes wait in the socket, and the sender waits for its window.
        self._stash = bytearray(rest)
        self._pause()
        self._loop.call_later(POOL_RETRY_S, self._resume)

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
        if self._blocked or transport is None or transport.is_closing():
            return
        stash, self._stash = self._stash, None
        if stash is not None:
            self._arrived(memoryview(stash))
        if (
            self._paused
            and not self._blocked
            and self._stash is None
            and not transport.is_closing()
        ):
            self._paused = False
            transport.resume_reading()

    def is_stalled(self) -> bool:
        """Whether half a frame is here that has not grown since this was asked last."""
        before, self._seen = self._seen, (self._began_s, self._filled)
        return self._partial is not None and before == self._seen

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
        self._partial = self._partial_view = self._stash = None

    def _take_buffer(self, length_bytes: int) -> bytearray | None:
        return self._landing.pool.take(length_bytes)

    # -- for the subclass ----------------------------------------------------------------------

    def _frame_bytes(self, view: memoryview, at: int) -> int:
        """Length of the frame that starts at `at`; 0 after closing a socket that sends nonsense."""
        raise NotImplementedError

    def _serve_frame(self, frame: memoryview) -> bool:
        """Serve one whole frame, which is only lent. False: not now, and `_blocked` says why."""
        raise NotImplementedError

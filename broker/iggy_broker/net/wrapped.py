"""The writing half of a connection whose bytes must go through its transport, as those of TLS.

What is not memory (ranges of log files) is read a piece at a time, and nothing is given to the
transport while it is clogged: so a slow reader costs some pieces of memory, not a whole reply.
"""

from __future__ import annotations

import asyncio
import os
from typing import Final

from iggy_broker.net.outbox import Direct, Outbox, Part
from iggy_broker.storage.partition import FileRange

PIECE_BYTES: Final = 64 * 1024  # given to the transport at once
QUEUE_BYTES: Final = 64 * 1024  # queued in the transport: then it is clogged; what TLS adds is more


class WrappedOutbox(Outbox):
    """As an `Outbox`, without a descriptor to write to."""

    __slots__ = ()
    _queue_bytes = QUEUE_BYTES

    @property
    def is_movable(self) -> bool:
        """No: the state of TLS cannot be moved to another process."""
        return False

    def _direct(self, transport: asyncio.Transport) -> Direct:
        del transport
        return _Through(self)

    def _sendfile(self, descriptor: int, position: int, left: int) -> int:
        while left and not self.clogged:
            piece = os.pread(descriptor, min(left, PIECE_BYTES), position)
            if not piece:
                raise OSError("the log file ends before the range that was to be sent")
            self._transport.write(piece)
            position += len(piece)
            left -= len(piece)
        return left

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Give the transport pieces of `data` until it is clogged; how many bytes it took."""
        view, at = memoryview(data), 0
        while at < len(view) and not self.clogged:
            # A copy: the transport may keep it, and `data` is only lent.
            self._transport.write(bytes(view[at : at + PIECE_BYTES]))
            at += PIECE_BYTES
        return min(at, len(view))


class _Through:
    """In the place of a socket."""

    __slots__ = ("_outbox",)

    def __init__(self, outbox: WrappedOutbox) -> None:
        self._outbox = outbox

    def send(self, data: bytes | bytearray | memoryview, flags: int = 0, /) -> int:
        del flags
        return self._outbox.write(data)

    def fileno(self) -> int:
        return -1

    def detach(self) -> int:
        return -1


def size_of(part: Part) -> int:
    """Bytes of a piece of a reply."""
    return part.size_bytes if isinstance(part, FileRange) else len(part)

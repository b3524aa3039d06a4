"""Standard output that tells how much of it has really gone out.

What is committed for a group is what the system has taken, not what lies in a buffer of ours.
"""

import os
import select
import sys
from collections.abc import Sequence
from typing import Final

from iggykube.signals import Requests, drain

PIECE_BYTES_MAX: Final = 4096
"""POSIX (PIPE_BUF on Linux): a pipe that select calls writable takes so much without waiting."""


class Outlet:
    """Writes lines, and stops between two pieces when the user asks to."""

    def __init__(self, requests: Requests) -> None:
        """Standard output, or nothing where that was closed before we began."""
        self._requests = requests
        self.problem: OSError | None = None
        """Why no more can be written. A BrokenPipeError means that the reader has enough."""
        if sys.stdout is None:
            self._descriptor, self.problem = -1, BrokenPipeError()
        else:
            self._descriptor = sys.stdout.fileno()

    @property
    def is_open(self) -> bool:
        """Whether writing makes sense."""
        return self.problem is None and not self._requests.stop()

    def write(self, lines: Sequence[bytes]) -> int:
        """How many of the lines went out whole, in order."""
        left = memoryview(b"".join(lines))
        written = 0
        while left and self.is_open:
            piece = self._write(left[:PIECE_BYTES_MAX])
            written += piece
            left = left[piece:]
        count = 0
        for line in lines:
            written -= len(line)
            if written < 0:
                break
            count += 1
        return count

    def _write(self, piece: memoryview) -> int:
        try:
            watched = (self._requests.descriptor,)
            ready = select.select(watched, (self._descriptor,), ())
            if ready[0]:
                drain(self._requests)
            return os.write(self._descriptor, piece) if ready[1] else 0
        except OSError as error:
            self.problem = error
        return 0

    def pause(self, seconds: float) -> None:
        """Wait, unless the user asks to stop or the reader goes away."""
        poller = select.poll()
        poller.register(self._requests.descriptor, select.POLLIN)
        poller.register(self._descriptor, 0)  # of this one only the end is told
        for descriptor, _ in poller.poll(seconds * 1000):
            if descriptor == self._descriptor:
                self.problem = BrokenPipeError()
            else:
                drain(self._requests)

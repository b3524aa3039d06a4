"""Ctrl-C and SIGTERM as a count, so that nothing is interrupted half-way."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_READ_BYTES: Final = 512


class Requests:
    """How often the user asked to stop: once means stop in order, twice means at once."""

    def __init__(self) -> None:
        """Nobody has asked yet."""
        self.count = 0
        self.descriptor = -1
        """For select: readable when a signal came. Only inside of `stop_requests`."""

    def stop(self) -> bool:
        """Asked to stop."""
        return self.count > 0

    def kill(self) -> bool:
        """Asked again."""
        return self.count > 1


@contextmanager
def stop_requests(*, breaks: bool = False) -> Iterator[Requests]:
    """Count the signals that come while the block runs.

    `breaks`: the second one raises KeyboardInterrupt, for those who wait in places that nobody asks
    them in.
    """
    requests = Requests()

    def count(number: int, frame: FrameType | None) -> None:
        requests.count += 1
        if breaks and requests.kill():
            raise KeyboardInterrupt

    reading, writing = os.pipe()
    requests.descriptor = reading
    for descriptor in (reading, writing):
        os.set_blocking(descriptor, False)
    before = [signal.signal(number, count) for number in _SIGNALS]
    woken_before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        yield requests
    finally:
        signal.set_wakeup_fd(woken_before)
        for number, handler in zip(_SIGNALS, before, strict=True):
            signal.signal(number, handler)
        os.close(reading)
        os.close(writing)


def drain(requests: Requests) -> None:
    """Take back what made the descriptor readable: other signals than ours do so, too."""
    with suppress(BlockingIOError):
        os.read(requests.descriptor, _READ_BYTES)

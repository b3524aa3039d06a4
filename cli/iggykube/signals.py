"""Ctrl-C and SIGTERM as a count, so that nothing is interrupted half-way."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Requests:
    """How often the user asked to stop: once means stop in order, twice means at once."""

    def __init__(self) -> None:
        """Nobody has asked yet."""
        self.count = 0

    def stop(self) -> bool:
        """Asked to stop."""
        return self.count > 0

    def kill(self) -> bool:
        """Asked again."""
        return self.count > 1


@contextmanager
def stop_requests() -> Iterator[Requests]:
    """Count the signals that come while the block runs."""
    requests = Requests()

    def count(number: int, frame: FrameType | None) -> None:
        requests.count += 1

    before = [signal.signal(number, count) for number in _SIGNALS]
    try:
        yield requests
    finally:
        for number, handler in zip(_SIGNALS, before, strict=True):
            signal.signal(number, handler)

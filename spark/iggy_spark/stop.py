"""A wish that the job end, by a signal or by who runs it."""

from __future__ import annotations

import signal


class Stop:
    """Whether somebody asked the job to end."""

    def __init__(self, *, signals: bool) -> None:
        """`signals`: SIGTERM and SIGINT ask, once `install` was called."""
        self._signals = signals
        self.asked = False

    def install(self) -> None:
        """Listen for signals. PySpark installs a handler of its own: call this again after."""
        if self._signals:
            signal.signal(signal.SIGTERM, lambda number, frame: self.ask())
            signal.signal(signal.SIGINT, lambda number, frame: self.ask())

    def ask(self) -> None:
        """End the job after the running batch."""
        # A plain flag: a signal handler that takes a lock can wait for the code it interrupted.
        self.asked = True

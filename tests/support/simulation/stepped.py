"""A function that stops wherever it is told to, and goes on when it is its turn.

It has a thread, but never runs beside anybody: whoever calls `go_on` waits until it stops again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class EndedError(BaseException):
    """Its process is gone. Not an Exception: nobody may handle it."""


class Stepped:
    """Nothing runs until the first `go_on`."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.done = False
        self.result: Any = None
        self.error: BaseException | None = None
        self._function = function
        self._ending = False
        self._inside = threading.Semaphore(0)
        self._outside = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def go_on(self) -> bool:
        """Up to the next `pause`, or to the end; whether it is done."""
        if self._thread.ident is None:
            self._thread.start()
        else:
            self._inside.release()
        self._outside.acquire()
        return self.done

    def pause(self) -> None:
        """Called by the function: wait for the next `go_on`."""
        if not self._ending:
            self._outside.release()
            self._inside.acquire()
        if self._ending:
            raise EndedError

    def end(self) -> None:
        """It does nothing more."""
        self._ending = True
        if self._thread.ident is not None and not self.done:
            self.go_on()
        self.done = True

    def _run(self) -> None:
        try:
            self.result = self._function()
        except BaseException as error:  # noqa: BLE001 - told to who waits
            self.error = error
        self.done = True
        self._outside.release()

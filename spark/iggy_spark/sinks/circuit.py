"""A circuit breaker: a service in trouble is left alone, but for one request at a time.

closed   requests pass; `FAILURES_MAX` failures of one task in a row open it
open     nothing is sent, for a pause
probing  one request passes; if it is answered the circuit is closed, else another pause begins

A request that is not sent is one to send again: `Retry` waits and asks anew, as long as it does for
a service that does not answer. So an outage loses nothing, and no message is taken for a bad one.

What all tasks of a sink share is a file, in the folder of `absence`:

<folder>/.circuit   it is open; changed when the pause began; locked while somebody probes

A lock goes with its process, so a task that is killed keeps nobody out. Where tasks see no such
folder each has a circuit of its own.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol, TypeVar

from iggy_spark.errors import SinkError
from iggy_spark.retry import Policy, TransientError
from iggy_spark.sinks.web import Unreachable

T = TypeVar("T")

FAILURES_MAX: Final = 5  # in a row, of one task
LOOK_S: Final = 1.0  # while somebody else probes
PAUSES_MIN: Final = 10  # in the time for which a service is asked again
FILE: Final = ".circuit"  # no word of `absence`: each task has its own there


def pause_s(policy: Policy) -> float:
    """How long nothing is sent: the longest pause between two calls, where there is time for it."""
    return min(policy.max_s, policy.timeout_s / PAUSES_MIN)


class State(Protocol):
    """What tasks share. It may fail to be kept: then the circuit looks closed."""

    def opened_s(self) -> float | None:
        """When the last pause began, since 1970; None: the circuit is closed."""

    def open(self, at_s: float) -> None:
        """A pause begins."""

    def close(self) -> None:
        """The service answers."""

    def claim(self) -> bool:
        """Be the one who probes; False: somebody else is."""

    def release(self) -> None:
        """Probe no more. Nothing, for who does not."""


class Own:
    """Of one task alone."""

    def __init__(self) -> None:
        """Closed."""
        self._opened_s: float | None = None

    def opened_s(self) -> float | None:
        """See `State`."""
        return self._opened_s

    def open(self, at_s: float) -> None:
        """See `State`."""
        self._opened_s = at_s

    def close(self) -> None:
        """See `State`."""
        self._opened_s = None

    def claim(self) -> bool:
        """Nobody else is there."""
        return True

    def release(self) -> None:
        """See `claim`."""


class Shared:
    """Of all tasks that see a folder."""

    def __init__(self, folder: Path) -> None:
        """Touches nothing yet."""
        self._path = folder / FILE
        self._lock: int | None = None

    def opened_s(self) -> float | None:
        """See `State`."""
        with suppress(OSError):
            return self._path.stat().st_mtime
        return None

    def open(self, at_s: float) -> None:
        """See `State`."""
        with suppress(OSError):
            self._path.touch()
            os.utime(self._path, (at_s, at_s))

    def close(self) -> None:
        """See `State`."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    def claim(self) -> bool:
        """See `State`."""
        try:
            self._lock = os.open(self._path, os.O_RDWR)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Another may have closed the circuit, and a third one opened it.
            is_ours = os.path.samestat(os.fstat(self._lock), self._path.stat())
        except (BlockingIOError, FileNotFoundError):
            is_ours = False
        except OSError:
            return True  # a folder without locks: rather several probes than none
        if not is_ours:
            self.release()
        return is_ours

    def release(self) -> None:
        """See `State`."""
        if self._lock is not None:
            os.close(self._lock)
        self._lock = None


class Circuit:
    """One task's view of it."""

    def __init__(
        self,
        state: State,
        *,
        pause_s: float,
        failures_max: int = FAILURES_MAX,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`clock` gives seconds since 1970, for all tasks the same."""
        self._state, self._pause_s, self._clock = state, pause_s, clock
        self._failures_max = failures_max
        self._failures = 0
        self._trouble = "it has failed again and again"

    def call(self, send: Callable[[], T]) -> T:
        """What `send` gives, a request to the service.

        Raises:
            TransientError: of cause `held`, and nothing was sent; else as `send`.
        """
        is_probe = self._enter()
        try:
            try:
                answer = send()
            except Unreachable as error:
                self._failed(is_probe, error)
                raise
            except (TransientError, SinkError):
                self._answered(is_probe)
                raise
            self._answered(is_probe)
            return answer
        finally:
            self._state.release()

    def _enter(self) -> bool:
        """Whether the request that may pass is a probe."""
        opened_s = self._state.opened_s()
        if opened_s is None:
            return False
        left_s = opened_s + self._pause_s - self._clock()
        if left_s > 0:
            raise self._held(left_s)
        if not self._state.claim():
            raise self._held(min(LOOK_S, self._pause_s))
        if self._state.opened_s() != opened_s:  # somebody has probed meanwhile
            self._state.release()
            return self._enter()
        return True

    def _failed(self, is_probe: bool, error: Unreachable) -> None:
        self._failures += 1
        self._trouble = str(error)
        if is_probe or self._failures >= self._failures_max:
            # A service that has said how long it wants to be left alone is heard by all.
            more_s = max(0.0, (error.after_s or 0.0) - self._pause_s)
            self._state.open(self._clock() + more_s)
            self._failures = 0

    def _answered(self, is_probe: bool) -> None:
        self._failures = 0
        if is_probe:
            self._state.close()

    def _held(self, left_s: float) -> TransientError:
        told = f"{self._trouble}: one request at a time is let through until one is answered"
        return TransientError(told, after_s=left_s, cause="held")

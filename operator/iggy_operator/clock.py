"""The operator's only source of time. Handed in everywhere, so that tests can own it."""

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for what people read, and a monotonic clock for intervals."""

    def now_s(self) -> float:
        """Wall clock, seconds since 1970-01-01 UTC. It may jump."""
        ...

    def monotonic_s(self) -> float:
        """Seconds that never go back; only differences mean anything."""
        ...


class SystemClock:
    """The machine's clocks."""

    __slots__ = ()

    def now_s(self) -> float:
        """Wall clock, seconds since 1970-01-01 UTC."""
        return time.time()

    def monotonic_s(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

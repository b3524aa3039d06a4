"""The broker's only source of time. Handed in everywhere, so that tests can own it."""

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time in microseconds since 1970 and a monotonic clock for intervals."""

    def now_us(self) -> int:
        """Wall clock, microseconds since 1970-01-01 UTC. Callers clamp: it may jump."""
        ...

    def monotonic_us(self) -> int:
        """Microseconds that never go back; only differences mean anything."""
        ...


class SystemClock:
    """The machine's clocks."""

    __slots__ = ()

    def now_us(self) -> int:
        """Wall clock, microseconds since 1970-01-01 UTC."""
        return time.time_ns() // 1000

    def monotonic_us(self) -> int:
        """Microseconds that never go back."""
        return time.monotonic_ns() // 1000

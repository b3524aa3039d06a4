"""The operator's only source of time. Handed in everywhere, so that tests can own it."""

import time
from datetime import UTC, datetime
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


def time_text(seconds: float) -> str:
    """Whole seconds since 1970 as Kubernetes writes times: `2026-05-01T12:00:00Z`."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def time_of(text: str) -> float:
    """Seconds since 1970 of such a text. Raises ValueError for anything else."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} names no time zone: write 2026-05-01T12:00:00Z")
    return moment.timestamp()

"""Every event that the broker logs, and what it means: the words that alerts and searches rely on.

A line may be provoked by whoever can reach a port, or by one client again and again: such events
are `limited`, see `logs.Limiter`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Event:
    """One kind of log line."""

    meaning: str
    limited: bool = False


EVENTS: Final[dict[str, Event]] = {}

"""Which segments of a partition may go, by age and by size, and by what clock. Removes none.

Whole sealed segments go, the oldest first; the active one never does. The size limit is that of a
topic: while all its segments together are larger, the oldest sealed one of any partition goes.
Where a stored offset has not passed a segment it stays, and so do all behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from iggy_broker.clock import Clock

REMOVED_PER_PASS_MAX: Final = 16
"""Segments of one partition that one pass removes; the next one follows at once."""
JUMP_US_MIN: Final = 10_000_000
"""What a wall clock may gain on the monotonic one between two looks."""
BELIEVED_AFTER_US: Final = 3_600_000_000
"""A wall clock that jumped ahead and stays there is believed after an hour."""


class Sealed(Protocol):
    """What is decided by."""

    @property
    def next_offset(self) -> int:
        """Offset behind its last message."""

    @property
    def last_timestamp_us(self) -> int:
        """When the broker took its last message; wall clock."""


class PatientClock:
    """Wall time for what cannot be undone.

    A clock that is set ahead by mistake, for a moment, must not make all messages old. So a jump
    ahead counts only when it has lasted; a step back counts at once. How long nothing ran before a
    start nobody knows but that clock, so there, too, it is a jump from the last time that is known.
    """

    __slots__ = ("_clock", "_jumped_us", "_monotonic_us", "_wall_us")

    def __init__(self, clock: Clock, *, known_us: int = 0) -> None:
        """From now on. `known_us`: the last wall time that is known from before; 0: none is."""
        self._clock = clock
        self._wall_us, self._monotonic_us = known_us or clock.now_us(), clock.monotonic_us()
        self._jumped_us: int | None = None  # monotonic, when the wall clock was seen ahead

    def now_us(self) -> int:
        """Microseconds since 1970-01-01 UTC. Ask at least once a minute: jumps are seen then."""
        wall_us, monotonic_us = self._clock.now_us(), self._clock.monotonic_us()
        expected_us = self._wall_us + monotonic_us - self._monotonic_us
        if wall_us - expected_us > JUMP_US_MIN:
            if self._jumped_us is None:
                self._jumped_us = monotonic_us
            if monotonic_us - self._jumped_us < BELIEVED_AFTER_US:
                return expected_us
        self._jumped_us = None
        self._wall_us, self._monotonic_us = wall_us, monotonic_us
        return wall_us


class Ages:
    """How old the segments of one partition are, also those whose time has not come yet.

    A clock that was wrong has stamped them in the future. They count from when that was first seen.
    """

    __slots__ = ("_seen_us",)

    def __init__(self) -> None:
        """Nothing has been seen."""
        self._seen_us: dict[int, int] = {}  # by its last timestamp, which no two have

    def expired(self, sealed: Sequence[Sealed], now_us: int, expiry_us: int) -> int:
        """How many of the sealed segments, oldest first, are older than the expiry."""
        self._look(sealed, now_us)
        count = 0
        for segment in sealed:
            stamped_us = segment.last_timestamp_us
            # What was counted before its time came counts.
            if self._seen_us.get(stamped_us, stamped_us) + expiry_us > now_us:
                break
            count += 1
        return count

    def _look(self, sealed: Sequence[Sealed], now_us: int) -> None:
        """Note those of the future; forget those that are gone."""
        for segment in reversed(sealed):
            if segment.last_timestamp_us <= now_us:
                break
            self._seen_us.setdefault(segment.last_timestamp_us, now_us)
        if self._seen_us:
            there = {segment.last_timestamp_us for segment in sealed}
            self._seen_us = {at: seen for at, seen in self._seen_us.items() if at in there}


def passed(sealed: Sequence[Sealed], lowest_stored: int | None) -> int:
    """How many of the sealed segments, oldest first, every stored offset has passed."""
    if lowest_stored is None:
        return len(sealed)
    count = 0
    for segment in sealed:
        if segment.next_offset - 1 > lowest_stored:
            break
        count += 1
    return count

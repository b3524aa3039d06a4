"""Who reads an archive on and on: so much is worth fetching before it is asked for."""

from __future__ import annotations

from typing import Final

from iggy_broker.archive.block_cache import LifeKey

PLACES_MAX: Final = 1024
"""Where somebody was given something, of one shard: the oldest are forgotten, and begin anew."""
LIVES_MAX: Final = 256
"""Of one shard, that were read on lately."""
ACTIVE_S: Final = 5.0
"""Who was read on so lately shares what may be fetched ahead."""


class Readers:
    """Of one shard. Who asks where somebody's messages ended goes on: it may be several who do.

    Times are seconds of one clock.
    """

    __slots__ = ("_ahead_bytes_max", "_lives", "_places", "_share_bytes_min")

    def __init__(self, ahead_bytes_max: int, share_bytes_min: int) -> None:
        """All together may have so much ahead, and those of one partition so much in any case."""
        self._ahead_bytes_max = ahead_bytes_max
        self._share_bytes_min = share_bytes_min
        # What was read in a row up to there; those that came last behind.
        self._places: dict[tuple[LifeKey, int], int] = {}
        # When somebody read on there last, in that order.
        self._lives: dict[LifeKey, float] = {}

    def ahead_bytes(self, life: LifeKey, offset: int, *, now_s: float) -> int:
        """What to have ahead of who asks there: nothing at first, then twice what it has read."""
        in_a_row = self._places.get((life, offset), 0)
        return min(2 * in_a_row, self._share_bytes(life, now_s)) if in_a_row else 0

    def went_on(
        self, life: LifeKey, offsets: tuple[int, int], size_bytes: int, *, now_s: float
    ) -> None:
        """Somebody got what is between two offsets."""
        asked, reached = offsets
        before = self._places.get((life, asked), 0)
        known = self._places.pop((life, reached), 0)
        self._places[life, reached] = max(before + size_bytes, known)
        if before:  # who has looked once takes nothing away from those who read on
            self._lives.pop(life, None)
            self._lives[life] = now_s
        if len(self._places) > PLACES_MAX:
            del self._places[next(iter(self._places))]
        if len(self._lives) > LIVES_MAX:
            del self._lives[next(iter(self._lives))]

    def _share_bytes(self, life: LifeKey, now_s: float) -> int:
        active = 1
        for other, read_s in reversed(self._lives.items()):
            if other == life:
                continue
            if now_s - read_s > ACTIVE_S or active * self._share_bytes_min > self._ahead_bytes_max:
                break
            active += 1
        return max(self._ahead_bytes_max // active, self._share_bytes_min)

"""What may be removed because it is in the archive, and what is asked for so that it can be.

Between those who remove segments (for age, size or a request) and the archiver, who knows nothing
of their reasons. Kept by life: what is emptied or made anew begins at nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

EVERYTHING: Final = (1 << 64) - 1


class Place(Protocol):
    """Which life of which partition is meant."""

    @property
    def folder(self) -> str:
        """Where it is."""

    @property
    def incarnation(self) -> int:
        """Which partition of that name."""

    @property
    def purges(self) -> int:
        """How often it was emptied."""


class Gate:
    """Of one shard. Used from its loop only."""

    __slots__ = ("_asked", "_ends", "is_shut", "is_stuck")

    def __init__(self, *, is_shut: bool = False) -> None:
        """`is_shut`: only what is in the archive may go."""
        self.is_shut = is_shut
        self.is_stuck = False  # the archive does not work now: no use to ask again soon
        self._ends: dict[tuple[str, int, int], int] = {}
        self._asked: dict[tuple[str, int, int], int] = {}

    def end(self, place: Place) -> int:
        """Segments that end at or before this offset may go."""
        return self._ends.get(_life(place), 0) if self.is_shut else EVERYTHING

    def open_to(self, place: Place, offset: int) -> None:
        """All before this offset is in the archive."""
        self._ends[_life(place)] = offset

    def ask(self, place: Place, offset: int) -> None:
        """Somebody would remove all segments that end at or before this offset."""
        life = _life(place)
        self._asked[life] = max(offset, self._asked.get(life, 0))

    def asked(self, place: Place) -> int:
        """Up to which offset somebody would remove segments; 0: none."""
        return self._asked.get(_life(place), 0)

    def keep(self, places: Iterable[Place]) -> None:
        """Forget all others."""
        lives = {_life(place) for place in places}
        for known in (self._ends, self._asked):
            for life in known.keys() - lives:
                del known[life]


def _life(place: Place) -> tuple[str, int, int]:
    return place.folder, place.incarnation, place.purges

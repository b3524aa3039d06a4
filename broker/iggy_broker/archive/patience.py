"""When what failed is tried again: soon, then less and less often, each partition for itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

AGAIN_S_MIN: Final = 1.0
AGAIN_S_MAX: Final = 60.0
"""An archive that was away for hours is used again within so long."""
IN_A_ROW_MAX: Final = 3
"""Failures of so many partitions one after the other: the others would fare no better now."""
TOLD_EVERY_S: Final = 60.0
TOLD_MAX: Final = 1000
"""Troubles that are remembered, so that nobody is told of one again too soon."""


@dataclass(slots=True)
class Patience:
    """Of one shard, by packed names of partitions. Times are seconds of a clock that only rises."""

    _waits: dict[int, tuple[float, float]] = field(default_factory=dict)  # until when, how long
    _told: dict[str, float] = field(default_factory=dict)
    _in_a_row: int = 0

    @property
    def is_failing(self) -> bool:
        """Whether anything that was tried last did not work."""
        return bool(self._waits)

    @property
    def is_exhausted(self) -> bool:
        """Whether to leave it for now."""
        return self._in_a_row >= IN_A_ROW_MAX

    def rest(self) -> None:
        """A new pass."""
        self._in_a_row = 0

    def may(self, packed: int, now_s: float) -> bool:
        """Whether it is time to try."""
        return packed not in self._waits or now_s >= self._waits[packed][0]

    def failed(self, packed: int, now_s: float) -> None:
        """It did not work."""
        _, before_s = self._waits.get(packed, (0.0, 0.0))
        pause_s = min(max(2 * before_s, AGAIN_S_MIN), AGAIN_S_MAX)
        self._waits[packed] = (now_s + pause_s, pause_s)
        self._in_a_row += 1

    def good(self, packed: int) -> bool:
        """It worked; whether it had not before."""
        self._in_a_row = 0
        return self._waits.pop(packed, None) is not None

    def keep(self, partitions: set[int]) -> None:
        """Forget all others."""
        for packed in self._waits.keys() - partitions:
            del self._waits[packed]

    def may_tell(self, trouble: str, now_s: float) -> bool:
        """Whether to log it: once a minute."""
        if now_s - self._told.get(trouble, -TOLD_EVERY_S) < TOLD_EVERY_S:
            return False
        if len(self._told) >= TOLD_MAX:
            self._told.clear()
        self._told[trouble] = now_s
        return True

"""Events for people: how often one may be told."""

from typing import Final

PAUSE_S: Final = 600.0
"""One event for each object and reason in that time."""
REMEMBERED_MAX: Final = 10_000
"""Beyond that the oldest are forgotten: they may then be told early."""


class EventLimiter:
    """Remembers what was told. Times are those of one monotonic clock, handed in."""

    def __init__(self) -> None:
        """Nothing was told yet."""
        self._told: dict[tuple[str, str], float] = {}

    def may_tell(self, uid: str, reason: str, now_s: float) -> bool:
        """Whether to tell now; then it counts as told."""
        before = self._told.get((uid, reason))
        if before is not None and now_s - before < PAUSE_S:
            return False
        self._told.pop((uid, reason), None)  # to the end of the order
        self._told[uid, reason] = now_s
        if len(self._told) > REMEMBERED_MAX:
            del self._told[next(iter(self._told))]
        return True

"""Which bytes of a segment this process knows to be right: written here, or checked here once."""

from bisect import bisect_right

INTERVALS_MAX = 64  # remembered per segment; beyond it the shortest is forgotten and checked again


class Verified:
    """Everything from `trusted_from` on, plus stretches that were checked."""

    __slots__ = ("_ends", "_starts", "trusted_from")

    def __init__(self, trusted_from: int) -> None:
        """`trusted_from`: byte position where this process began to write or to verify."""
        self.trusted_from = trusted_from
        self._starts: list[int] = []
        self._ends: list[int] = []

    def covers(self, start: int, stop: int) -> bool:
        """Whether all bytes from `start` up to `stop` are known to be right."""
        stop = min(stop, self.trusted_from)
        if start >= stop:
            return True
        at = bisect_right(self._starts, start) - 1
        return at >= 0 and self._ends[at] >= stop

    def add(self, start: int, stop: int) -> None:
        """These bytes were checked. Neighbours and overlaps become one stretch."""
        starts, ends = self._starts, self._ends
        first = last = bisect_right(starts, start)
        if first and ends[first - 1] >= start:
            first -= 1
            start = starts[first]
        while last < len(starts) and starts[last] <= stop:
            last += 1
        stop = max([stop, *ends[first:last]])
        starts[first:last] = [start]
        ends[first:last] = [stop]
        if len(starts) > INTERVALS_MAX:
            shortest = min(range(len(starts)), key=lambda at: ends[at] - starts[at])
            del starts[shortest], ends[shortest]

"""Memory that blocks are read into, used again when nobody reads it any more.

New memory costs its first writer as much as the check of what is in it: the system clears it.
"""

from __future__ import annotations

import threading
from typing import Final

from iggy_broker.storage.older import Steady

SPARE_MAX: Final = 4
"""Pieces that are kept for the next blocks."""
ROUND_BYTES: Final = 64 << 10
"""Pieces are multiples of this, and may be an eighth larger, so that one fits other blocks, too."""


class Memory:
    """Of one shard, for several threads."""

    def __init__(self) -> None:
        """There is none yet."""
        self._lock = threading.Lock()
        self._spare: list[Steady] = []

    def take(self, size_bytes: int) -> memoryview:
        """So many bytes, of any content."""
        rounded = max(-(-size_bytes // ROUND_BYTES), 1) * ROUND_BYTES
        with self._lock:
            for number, spare in enumerate(self._spare):
                if rounded <= len(spare) <= rounded + rounded // 8 and _is_free(spare):
                    return memoryview(self._spare.pop(number))[:size_bytes]
        return memoryview(Steady(rounded))[:size_bytes]

    def give(self, data: memoryview) -> None:
        """What `take` gave, or a part of it; views of it may be in use.

        It is taken again when the last view is gone.
        """
        whole = data.obj
        if isinstance(whole, Steady):
            with self._lock:
                self._spare.append(whole)
                del self._spare[:-SPARE_MAX]


def _is_free(whole: Steady) -> bool:
    """Whether no view of it is left: only then its length may change."""
    try:
        whole.append(whole.pop())
    except BufferError:
        return False
    return True

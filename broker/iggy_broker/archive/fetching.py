"""Reads of the archive that run now: a few at once, each thing once, however many wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Sequence
from typing import Any, Final, TypeVar

from iggy_broker.archive.lanes import EndingLane
from iggy_broker.archive.store import ArchiveStore

READS_AT_ONCE: Final = 4
"""Of one shard: so many threads."""
FETCHES_MAX: Final = 64
"""That run or wait for a lane, of one shard."""

T = TypeVar("T")


class Fetches:
    """Of one shard."""

    def __init__(self, lanes: Sequence[EndingLane]) -> None:
        """`lanes` do the blocking work."""
        self._lanes = lanes
        self._free = list(lanes)
        self._turns = asyncio.Semaphore(len(lanes))
        self._running: dict[Hashable, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        """How many run or wait."""
        return len(self._running)

    @property
    def is_full(self) -> bool:
        """Whether there are so many that no more may begin."""
        return len(self._running) >= FETCHES_MAX

    @property
    def is_idle(self) -> bool:
        """Whether one more would not wait."""
        return len(self._running) < len(self._lanes)

    def get(self, key: Hashable) -> asyncio.Task[None] | None:
        """What fetches this now. Cancel it not: others wait for it, too."""
        return self._running.get(key)

    def begin(
        self, key: Hashable, fetch: Callable[[], Coroutine[Any, Any, None]]
    ) -> asyncio.Task[None]:
        """Fetch it, unless that runs already."""
        running = self._running.get(key)
        if running is not None:
            return running
        task = asyncio.get_running_loop().create_task(fetch())
        self._running[key] = task
        task.add_done_callback(lambda task: self._running.pop(key))
        return task

    async def run(self, work: Callable[[ArchiveStore], T]) -> T:
        """Do blocking work as soon as a lane is free."""
        async with self._turns:
            lane = self._free.pop()
            try:
                return await lane.run(lambda store, disk: work(store))
            finally:
                self._free.append(lane)

    def close(self) -> None:
        """Nobody waits any more."""
        for task in list(self._running.values()):
            task.cancel()
        for lane in self._lanes:
            lane.close()

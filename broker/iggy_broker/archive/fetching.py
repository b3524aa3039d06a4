"""Reads of the archive that run now: a few at once, each thing once, however many wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, TypeVar

from iggy_broker.archive.lanes import EndingLane
from iggy_broker.archive.store import ArchiveStore

READS_AT_ONCE: Final = 5
"""Of one shard: so many threads. One is kept for what somebody waits for."""
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
        self._count = 0

    def __len__(self) -> int:
        """How many run or wait."""
        return self._count

    @property
    def is_full(self) -> bool:
        """Whether there are so many that no more may begin."""
        return self._count >= FETCHES_MAX

    @property
    def is_idle(self) -> bool:
        """Whether one more that nobody asked for would make nobody wait."""
        return self._count < len(self._lanes) - 1

    def get(self, key: Hashable) -> asyncio.Task[None] | None:
        """What fetches this now. Cancel it not: others wait for it, too."""
        return self._running.get(key)

    def begin(
        self, keys: Sequence[Hashable], fetch: Callable[[], Coroutine[Any, Any, None]]
    ) -> asyncio.Task[None]:
        """Fetch things together, none of which is being fetched already."""
        task = asyncio.get_running_loop().create_task(fetch())
        self._count += 1
        self._running.update(dict.fromkeys(keys, task))
        task.add_done_callback(partial(self._done, keys))
        return task

    @asynccontextmanager
    async def lane(self) -> AsyncIterator[EndingLane]:
        """For blocking work, as soon as one is free."""
        async with self._turns:
            lane = self._free.pop()
            try:
                yield lane
            finally:
                self._free.append(lane)

    async def run(self, work: Callable[[ArchiveStore], T]) -> T:
        """Do blocking work as soon as a lane is free."""
        async with self.lane() as lane:
            return await lane.run(lambda store, disk: work(store))

    def _done(self, keys: Sequence[Hashable], task: asyncio.Task[None]) -> None:
        self._count -= 1
        for key in keys:
            del self._running[key]

    def close(self) -> None:
        """Nobody waits any more."""
        for task in set(self._running.values()):
            task.cancel()
        for lane in self._lanes:
            lane.close()

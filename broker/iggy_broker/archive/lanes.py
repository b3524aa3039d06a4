"""The threads that copy, each with a disk of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, Protocol, TypeVar

from iggy_broker.archive.archiver import Archiver, Lane
from iggy_broker.archive.places import open_store
from iggy_broker.archive.store import ArchiveStore
from iggy_broker.config_sections import Config
from iggy_broker.metadata.model import State
from iggy_broker.metrics import Counters
from iggy_broker.storage.disk import Disk
from iggy_broker.storage.partition import Partition, StorageParts

T = TypeVar("T")

TAILS_AT_ONCE: Final = 8
"""Partitions of a shard whose newest messages are copied at the same time, each by a thread."""


class ThreadLane:
    """One thread. See `archiver.Lane`."""

    def __init__(self, name: str, open_store: Callable[[], ArchiveStore], disk: Disk) -> None:
        """The store is opened in the thread, at first use: its library may take a while."""
        self._threads = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._open_store = open_store
        self._store: ArchiveStore | None = None
        self._disk = disk

    async def run(self, work: Callable[[ArchiveStore, Disk], T]) -> T:
        """Do it in the thread; what it returns or raises."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._do, work)

    def close(self) -> None:
        """What runs now is not waited for: half a copy is none."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _do(self, work: Callable[[ArchiveStore, Disk], T]) -> T:
        if self._store is None:
            self._store = self._open_store()
        return work(self._store, self._disk)


class EndingLane(Lane, Protocol):
    """A lane that ends with its shard."""

    def close(self) -> None:
        """Take no more work."""


MakeLane = Callable[[str, Callable[[], ArchiveStore]], EndingLane]
"""A lane by its name, and by what opens its store."""


def once(opened: Callable[[], ArchiveStore]) -> Callable[[], ArchiveStore]:
    """One store for several lanes, opened by the first that needs it."""
    lock = threading.Lock()
    stores: list[ArchiveStore] = []

    def shared() -> ArchiveStore:
        with lock:
            if not stores:
                stores.append(opened())
            return stores[0]

    return shared


def archiver_with_lanes(
    config: Config,
    make_lane: MakeLane,
    *,
    state: Callable[[], State],
    partitions: Mapping[int, Partition],
    parts: StorageParts,
    counters: Counters,
) -> tuple[Archiver, Callable[[], None]]:
    """The archiver of a shard, to be run, and what ends its lanes."""
    opened = once(partial(open_store, config.data_maintenance.archiver, config.system.path))
    sealed = make_lane("archive", opened)
    tails = [make_lane(f"archive-tails-{number}", opened) for number in range(TAILS_AT_ONCE)]
    archiver = Archiver(
        config,
        state=state,
        partitions=partitions,
        parts=parts,
        lanes=(sealed, tails),
        counters=counters,
    )

    def close() -> None:
        for lane in (sealed, *tails):
            lane.close()

    return archiver, close

"""What is done to stored data in the background, as the settings want it, for one shard."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from iggy_broker.archive.fetching import READS_AT_ONCE, Fetches
from iggy_broker.archive.lanes import MakeLane, archiver_with_lanes, once
from iggy_broker.archive.library import Library
from iggy_broker.archive.places import open_store
from iggy_broker.archive.reading import ArchiveReads
from iggy_broker.cleaner import Cleaner
from iggy_broker.config import Config
from iggy_broker.config_data import ALL_INDEXES
from iggy_broker.metadata.model import State
from iggy_broker.metrics import Counters
from iggy_broker.scrubber import Scrubber
from iggy_broker.storage.gate import Gate
from iggy_broker.storage.index_cache import INDEX_CACHE_BYTES_MAX, IndexCache
from iggy_broker.storage.partition import Partition, StorageParts


def indexes_of(config: Config) -> IndexCache:
    """For the indexes of one shard's sealed segments, as much as its settings say."""
    keeps = config.system.segment.cache_indexes == ALL_INDEXES
    return IndexCache(INDEX_CACHE_BYTES_MAX if keeps else 0)


def gate_of(config: Config) -> Gate:
    """Whether only what is in the archive may be removed."""
    archiver = config.data_maintenance.archiver
    return Gate(is_shut=archiver.enabled and archiver.archive_expired)


def with_older(
    config: Config, parts: StorageParts, archive_lane: MakeLane, counters: Counters
) -> tuple[StorageParts, Callable[[], None]]:
    """The same parts with who gives messages that logs have no more; and what ends that."""
    settings = config.data_maintenance.archiver
    if not (settings.enabled and settings.read.enabled):
        return parts, lambda: None
    opened = once(partial(open_store, settings, config.system.path))
    lanes = [archive_lane(f"archive-read-{number}", opened) for number in range(READS_AT_ONCE)]
    library = Library(
        Fetches(lanes),
        keys=parts.keys,
        cache_bytes=settings.read.cache_bytes,
        clock=parts.clock,
        counters=counters,
    )
    return replace(parts, older=ArchiveReads(library, counters)), library.close


class Maintenance:
    """Of the partitions of one shard."""

    def __init__(
        self,
        config: Config,
        *,
        state: Callable[[], State],
        partitions: Mapping[int, Partition],
        parts: StorageParts,
        counters: Counters,
    ) -> None:
        """Nothing runs yet."""
        self._config = config
        self._state = state
        self._partitions = partitions
        self._parts = parts
        self._counters = counters
        self.close: Callable[[], None] = lambda: None
        """Ends lanes; after what `works` gave."""

    def works(
        self, *, is_first: bool, archive_lane: MakeLane
    ) -> Iterator[Coroutine[Any, Any, None]]:
        """What runs until it is cancelled. `is_first`: of the first shard."""
        settings, counters = self._config.data_maintenance, self._counters
        if settings.messages.cleaner_enabled:
            cleaner = Cleaner(
                self._config,
                state=self._state,
                partitions=self._partitions,
                parts=self._parts,
                counters=counters,
            )
            yield cleaner.run()
        if settings.scrub.enabled:
            yield Scrubber(
                settings.scrub, partitions=self._partitions, parts=self._parts, counters=counters
            ).run()
        if settings.archiver.enabled:
            archiver, self.close = archiver_with_lanes(
                self._config,
                archive_lane,
                state=self._state,
                partitions=self._partitions,
                parts=self._parts,
                counters=counters,
            )
            yield archiver.run(is_first=is_first)

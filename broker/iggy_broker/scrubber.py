"""The background check of stored data: each shard reads its own partitions, slowly, for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from iggy_broker.config_maintenance import Scrub
from iggy_broker.metrics import Counters
from iggy_broker.storage.checking import SegmentCheck, fence, note_of, publish_damage
from iggy_broker.storage.partition import Partition, StorageParts
from iggy_broker.storage.segment import Segment
from iggy_broker.storage.syncer import Lane

FIRST_AFTER_S: Final = 60.0
"""Before the first pass: clients have the disk for themselves after a start."""
PAUSE_S_MIN: Final = 1.0
"""Between two passes, however long one took."""
STEP_BYTES_MIN: Final = 64 * 1024
"""So much counts for the rate at least: opening a small file is work, too."""


class Scrubber:
    """Of one shard."""

    def __init__(
        self,
        settings: Scrub,
        *,
        partitions: Mapping[int, Partition],
        parts: StorageParts,
        counters: Counters,
    ) -> None:
        """`partitions` are those of the shard, by packed name."""
        self._settings = settings
        self._partitions = partitions
        self._parts = parts
        self._counters = counters
        self._told: set[tuple[str, int]] = set()  # segments that could not be read or fenced

    async def run(self) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        interval_s = self._settings.interval_us / 1_000_000
        await asyncio.sleep(min(interval_s, FIRST_AFTER_S))
        while True:
            began_s = loop.time()
            await self.scrub()
            took_s = loop.time() - began_s
            await asyncio.sleep(max(interval_s - took_s, PAUSE_S_MIN))

    async def scrub(self) -> None:
        """One pass over all segments."""
        names = list(self._partitions)
        # Not with the same one each time: else one that restarts often never comes to the last.
        start = self._parts.clock.now_us() % len(names) if names else 0
        damaged = 0
        for packed in names[start:] + names[:start]:
            partition = self._partitions.get(packed)
            if partition is not None and not partition.fenced:
                damaged += await self._look_at(partition)
            await asyncio.sleep(0)  # many may be empty
        self._counters.scrub_passes_total += 1
        self._counters.damaged_segments = damaged

    async def _look_at(self, partition: Partition) -> int:
        """Check each segment of it; how many are damaged."""
        for segment in list(partition.log.segments):
            if _is_there(partition, segment):
                await self._check(partition, segment)
        return 0 if partition.fenced else publish_damage(partition, self._parts.table)

    async def _check(self, partition: Partition, segment: Segment) -> None:
        check = SegmentCheck(segment)
        known = segment.damage
        try:
            while not check.is_over and _is_there(partition, segment):
                await self._step(check)
        except OSError as error:
            if _is_there(partition, segment):
                self._tell_once(segment, note_of(partition, segment, check.unreadable(error)))
            return
        if not _is_there(partition, segment) or segment.damage is not known:
            return  # gone, or a read was faster
        if (found := check.damage()) is not None:
            self._tell_once(segment, fence(partition, segment, found))

    async def _step(self, check: SegmentCheck) -> None:
        """Check some bytes in a thread, then wait as long as they may take at the set rate."""
        size_bytes = await self._in_thread(check)
        self._counters.scrub_bytes_total += size_bytes
        await asyncio.sleep(max(size_bytes, STEP_BYTES_MIN) / self._settings.rate_bytes)

    async def _in_thread(self, check: SegmentCheck) -> int:
        syncer = self._parts.syncer
        if syncer is None:
            return check.step()
        taken = 0
        file = check.segment.file
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def work() -> None:
            nonlocal taken
            taken = check.step()

        def done(error: OSError | None) -> None:
            file.release()  # here, since whoever waits may be cancelled before the thread is done
            if future.done():
                return
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

        file.hold()
        syncer.submit(Lane.BACKGROUND, work, done)
        await future
        return taken

    def _tell_once(self, segment: Segment, note: str) -> None:
        """Once for each segment and broker: the next passes will find the same."""
        if (segment.path, segment.first_offset) not in self._told:
            self._told.add((segment.path, segment.first_offset))
            self._parts.warn(note)


def _is_there(partition: Partition, segment: Segment) -> bool:
    """Whether it was not removed, purged or deleted meanwhile."""
    return not partition.fenced and segment in partition.log.segments

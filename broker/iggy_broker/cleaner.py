"""The removal of old messages: each shard looks after its own partitions, now and then.

What of a topic is too much depends on all its partitions, of which other shards own some. They tell
each other through the partition table how old the next segment is that may go; the shard with the
oldest removes it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from iggy_broker.config_sections import Config
from iggy_broker.config_values import UNLIMITED
from iggy_broker.logs import Note, event
from iggy_broker.metadata.model import State, Topic
from iggy_broker.metadata.options import node_settings, settings_of_topic
from iggy_broker.metadata.placement import pack
from iggy_broker.metrics import Counters
from iggy_broker.storage.partition import Partition, StorageParts
from iggy_broker.storage.retention import (
    REMOVED_PER_PASS_MAX,
    Ages,
    PatientClock,
    passed,
)

AGAIN_S: Final = 0.1
"""Pause before the next pass while this shard has more to remove."""
OTHERS_S: Final = 1.0
"""The same while another shard has the segment that goes next."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Pass:
    """What one pass has done and left, by the packed names of partitions."""

    pause_s: float | None = None  # before the next one, if it should not wait for its turn
    removed: Counter[int] = field(default_factory=Counter)  # segments
    removed_bytes: Counter[int] = field(default_factory=Counter)
    waiting: Counter[int] = field(default_factory=Counter)  # segments that a stored offset holds

    def again(self, pause_s: float) -> None:
        """There is more to do, after this pause."""
        self.pause_s = pause_s if self.pause_s is None else min(self.pause_s, pause_s)


class Cleaner:
    """Of one shard."""

    def __init__(
        self,
        config: Config,
        *,
        state: Callable[[], State],
        partitions: Mapping[int, Partition],
        parts: StorageParts,
        counters: Counters,
    ) -> None:
        """`partitions` are those of the shard, by packed name. They are open, as far as they can
        be: their last message tells what time it was.
        """
        self._config = config
        self._node = node_settings(config)
        self._state = state
        self._partitions = partitions
        self._table = parts.table
        stamps_us = (one.log.last_timestamp_us for one in partitions.values() if not one.fenced)
        self._clock = PatientClock(parts.clock, known_us=max(stamps_us, default=0))
        self._counters = counters
        self._warn = parts.warn
        self._gate = parts.gate
        self._ages: dict[int, Ages] = {}  # by packed name
        self._told: set[int] = set()  # partitions of whose waiting segments somebody was told
        self._pass = Pass()

    async def run(self) -> None:
        """Until cancelled."""
        interval_s = self._config.data_maintenance.messages.interval_us / 1_000_000
        pause_s = interval_s
        while True:
            await asyncio.sleep(pause_s)
            again_s = await self.clean()
            pause_s = interval_s if again_s is None else min(again_s, interval_s)

    async def clean(self) -> float | None:
        """One pass. The pause in seconds before the next one, if there is more to remove."""
        state, now_us = self._state(), self._clock.now_us()
        self._pass = done = Pass()
        for stream in state.streams_by_id():
            for topic in stream.topics_by_id():
                if own := dict(self._own(stream.id, topic)):
                    self._clean_topic(topic, own, now_us)
                    await asyncio.sleep(0)  # others are served between two topics
        self._tell(done)
        self._ages = {name: self._ages[name] for name in self._ages.keys() & self._partitions}
        return done.pause_s

    def _own(self, stream_id: int, topic: Topic) -> Iterator[tuple[int, Partition]]:
        """Those of a topic that are open and served here, by packed name."""
        for one in topic.partitions:
            packed = pack(stream_id, topic.id, one.id)
            partition = self._partitions.get(packed)
            if partition is not None and not partition.fenced:
                yield packed, partition

    def _clean_topic(self, topic: Topic, own: Mapping[int, Partition], now_us: int) -> None:
        settings = settings_of_topic(topic, self._node)
        system = self._config.system
        for packed, partition in own.items():
            if system.segment.max_age_us != UNLIMITED:
                partition.seal_older(now_us - system.segment.max_age_us)
            if settings.message_expiry_us != UNLIMITED:
                self._by_age(packed, partition, settings.message_expiry_us, now_us)
        if settings.max_topic_size_bytes != UNLIMITED and system.topic.delete_oldest_segments:
            self._by_size(topic, own, settings.max_topic_size_bytes)

    def _by_age(self, packed: int, partition: Partition, expiry_us: int, now_us: int) -> None:
        sealed = partition.log.segments[:-1]
        if not sealed:
            return
        due = self._ages.setdefault(packed, Ages()).expired(sealed, now_us, expiry_us)
        free = min(due, self._free(partition))
        self._pass.waiting[packed] = due - free
        goes = self._archived(partition, free)
        if self._remove(packed, partition, goes) < goes:
            self._pass.again(AGAIN_S)
        elif goes < free:
            self._wait_for_archive()

    def _by_size(self, topic: Topic, own: Mapping[int, Partition], size_bytes_max: int) -> None:
        """While the topic is too large: remove its oldest segment, if that is ours."""
        mine = {partition.place.slot: (packed, partition) for packed, partition in own.items()}
        for _, partition in mine.values():
            self._publish_oldest(partition)
        slots = [one.slot for one in topic.partitions]
        table = self._table
        while table.totals(slots).size_bytes > size_bytes_max:
            ages = {slot: age for slot in slots if (age := table.oldest_us(slot))}
            if not ages:
                for packed, partition in own.items():
                    held = len(partition.log.segments) - 1 - self._free(partition)
                    self._pass.waiting[packed] = max(self._pass.waiting[packed], held)
                return
            oldest = min(ages, key=ages.__getitem__)
            if oldest not in mine:
                self._pass.again(OTHERS_S)
                return
            packed, partition = mine[oldest]
            too_much = table.totals(slots).size_bytes - size_bytes_max
            if not self._archived(partition, self._oldest_of(partition, too_much)):
                self._wait_for_archive()
                return
            if not self._remove(packed, partition, 1):
                self._pass.again(AGAIN_S)
                return
            self._publish_oldest(partition)

    def _publish_oldest(self, partition: Partition) -> None:
        """Tell all shards how old our next segment is that may go for the topic's size."""
        segments = partition.log.segments
        # A partition keeps its newest data: the last sealed segment, as long as nothing follows.
        is_spare = len(segments) > (1 if segments and segments[-1].size_bytes else 2)
        may_go = is_spare and self._free(partition) > 0
        oldest_us = max(segments[0].last_timestamp_us, 1) if may_go else 0
        self._table.set_oldest_us(partition.place.slot, oldest_us)

    def _free(self, partition: Partition) -> int:
        """Sealed segments, the oldest first, that no stored offset holds."""
        sealed = partition.log.segments[:-1]
        if not sealed or not self._config.data_maintenance.messages.consumer_barrier:
            return len(sealed)
        return passed(sealed, partition.offsets.lowest())

    def _oldest_of(self, partition: Partition, size_bytes: int) -> int:
        """How many of its oldest segments that may go make so many bytes, as far as a pass goes."""
        count, left_bytes = 0, size_bytes
        for segment in partition.log.segments[: min(self._free(partition), REMOVED_PER_PASS_MAX)]:
            count += 1
            left_bytes -= segment.size_bytes
            if left_bytes <= 0:
                break
        return count

    def _archived(self, partition: Partition, count: int) -> int:
        """Of its `count` oldest segments, those that the archive lets go; all are asked for."""
        named = partition.log.segments[:count]
        end = self._gate.end(partition.place)
        there = sum(segment.next_offset <= end for segment in named)
        if there < len(named):
            self._gate.ask(partition.place, named[-1].next_offset)
        return there

    def _wait_for_archive(self) -> None:
        """Look again when copies may be there; while the archive does not work, in time."""
        if not self._gate.is_stuck:
            self._pass.again(OTHERS_S)

    def _remove(self, packed: int, partition: Partition, count: int) -> int:
        """Remove up to so many, as far as the pass still may; how many."""
        count = min(count, REMOVED_PER_PASS_MAX - self._pass.removed[packed])
        if count:
            self._pass.removed[packed] += count
            self._pass.removed_bytes[packed] += partition.drop_oldest(count)
        return count

    def _tell(self, done: Pass) -> None:
        """Count and log what a pass has done."""
        counters = self._counters
        counters.retention_segments_total += done.removed.total()
        counters.retention_bytes_total += done.removed_bytes.total()
        counters.retention_waiting_segments = done.waiting.total()
        for packed, count in done.removed.items():
            if count and (partition := self._partitions.get(packed)) is not None:
                folder, first_offset = partition.place.folder, partition.log.first_offset
                told = event("retention_removed", folder=folder, first_offset=first_offset)
                logger.info("= %s: %d old segments removed", folder, count, extra=told)
        waiting = {packed for packed, count in done.waiting.items() if count}
        for packed in waiting - self._told:
            if (partition := self._partitions.get(packed)) is not None:
                folder = partition.place.folder
                why = f"{folder}: segments are due to go and stay, as a consumer has not read them"
                self._warn(Note("retention_waits", why, folder=folder))
        self._told = waiting

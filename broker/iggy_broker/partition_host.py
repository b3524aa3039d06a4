"""The partitions that one shard owns: opened at start and with each change, closed at the end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from iggy_broker.config_deduplication import ENTRIES_MAX, MessageDeduplication, TopicWindow
from iggy_broker.config_sections import System
from iggy_broker.errors import Reject
from iggy_broker.logs import Note
from iggy_broker.metadata.assignment import Handover
from iggy_broker.metadata.memberships import GroupPlace
from iggy_broker.metadata.model import Placed, State
from iggy_broker.metadata.options import TopicSettings, save_messages, settings_of_topic
from iggy_broker.metadata.placement import pack, shard_of
from iggy_broker.storage.checking import check_now, publish_damage
from iggy_broker.storage.closing import close_all
from iggy_broker.storage.consumer_offsets import remove_other_groups
from iggy_broker.storage.cutting import DecisionKind
from iggy_broker.storage.deduplication import WindowOptions
from iggy_broker.storage.layout import partition_folder
from iggy_broker.storage.partition import (
    ConsumerKey,
    Partition,
    PartitionOptions,
    PartitionPlace,
    StorageParts,
)
from iggy_wire.primitives import ConsumerKind


@dataclass(slots=True)
class Recovery:
    """What opening the partitions at start found, for metrics and the log."""

    partitions: int = 0
    messages: int = 0
    cut_bytes: int = 0
    damaged_segments: int = 0  # that the check of all data has found
    decisions: Counter[DecisionKind] = field(default_factory=Counter)

    def add(self, partition: Partition) -> None:
        """One more is open."""
        self.partitions += 1
        self.messages += partition.figures.messages_count
        for decision in partition.recovery:
            self.cut_bytes += decision.cut_bytes
            self.decisions[decision.kind] += 1


class OwnedPartitions:
    """What `metadata.replica` tells of partitions, done for those of one shard."""

    def __init__(
        self,
        root: str,
        *,
        shard_id: int,
        shards_count: int,
        node: TopicSettings,
        parts: StorageParts,
        system: System | None = None,
    ) -> None:
        """`root` is the data directory. Nothing is open yet."""
        self.open: dict[int, Partition] = {}  # by packed name
        self._root = root
        self._shard_id = shard_id
        self._shards_count = shards_count
        self._node = node
        self._parts = parts
        self._system = system or System()
        self.on_released: Callable[[GroupPlace, Handover], None] = lambda place, handover: None
        self.recovery = Recovery()
        self._starting = True  # a folder that is missing then is worth a word

    async def open_all(self, state: State) -> None:
        """At start: recover every partition of this shard."""
        await self.open_partitions(state, list(state.placed()))
        self._starting = False

    async def open_partitions(self, state: State, placed: Sequence[Placed]) -> None:
        """Make or recover those of this shard."""
        for place, packed in self._mine(placed):
            partition = self._open(state, place, is_new=not self._starting)
            self.open[packed] = partition
            if self._starting:
                self._check(partition)
                self.recovery.add(partition)
            for decision in partition.recovery:
                self._parts.warn(decision.note)
            self._tell_waiting(partition)
            await asyncio.sleep(0)  # others are served between two recoveries

    async def purge_partitions(self, state: State, placed: Sequence[Placed]) -> None:
        """Empty those of this shard. A crash in between is made good when they are opened."""
        del state
        for place, packed in self._mine(placed):
            self.open[packed].purge(place.partition.purges)
            self._tell_waiting(self.open[packed])
            await asyncio.sleep(0)

    async def remove_partitions(self, state: State, placed: Sequence[Placed]) -> None:
        """Delete those of this shard."""
        for _, packed in self._mine(placed):
            partition = self.open.pop(packed, None)
            if partition is not None:
                partition.delete()

    def regroup(self, state: State, places: Sequence[GroupPlace]) -> None:
        """Forget what former owners were handed; tell which hand-overs need not wait."""
        topics: dict[tuple[int, int], set[int]] = {}
        for place in places:
            topics.setdefault((place.stream_id, place.topic_id), set()).add(place.group_id)
        for topic, changed in topics.items():
            self._forget_reads(state, topic, changed)
        for place in places:
            for waiting in state.memberships.of_group(place).handovers:
                packed = pack(place.stream_id, place.topic_id, waiting.partition_id)
                partition = self.open.get(packed)
                if partition is not None and not partition.reads.is_busy(place.group_id):
                    self.on_released(place, waiting)

    async def dissolve_group(self, state: State, place: GroupPlace) -> None:
        """Forget the offsets of a deleted group. What the disk refuses is removed at a start."""
        key = ConsumerKey(ConsumerKind.GROUP, place.group_id)
        for partition in self._of_topic(state, place.stream_id, place.topic_id):
            partition.reads.owned_by(place.group_id, None)
            try:
                if partition.waits:  # nothing is loaded that knows of the file
                    groups = state.streams[place.stream_id].topics[place.topic_id].groups
                    remove_other_groups(self._parts.disk, partition.place.folder, groups)
                else:
                    partition.offsets.delete_if_stored(key)
            except (Reject, OSError) as refusal:
                self._parts.warn(Note("group_offset_kept", str(refusal)))
            await asyncio.sleep(0)

    def look_after(self) -> None:
        """Remove segments that waited for their last reader; open what waited for the disk."""
        for partition in list(self.open.values()):
            if partition.trimming.waits:
                partition.trim()
            if partition.waits:
                partition.open_again()

    def close(self, threads: Callable[[int], Executor]) -> None:
        """A clean stop: sync and mark each, so that the next start reads no log."""
        close_all(self.open.values(), self._parts.disk, threads)
        self.open.clear()

    def _forget_reads(self, state: State, topic: tuple[int, int], changed: set[int]) -> None:
        # A session may be in thousands of groups, but few of them have read from a partition.
        owners: dict[int, dict[int, int]] = {}
        for partition in self._of_topic(state, *topic):
            for group_id in changed.intersection(partition.reads.groups):
                if group_id not in owners:
                    place = GroupPlace(*topic, group_id)
                    owners[group_id] = state.memberships.of_group(place).owners()
                owner = owners[group_id].get(partition.partition_id)
                partition.reads.owned_by(group_id, owner)

    def _check(self, partition: Partition) -> None:
        if self._system.segment.validate_checksum and not partition.fenced:
            for note in check_now(partition):
                self._parts.warn(note)
            self.recovery.damaged_segments += publish_damage(partition, self._parts.table)

    def _tell_waiting(self, partition: Partition) -> None:
        if partition.waits:
            folder, why = partition.place.folder, partition.fenced
            self._parts.warn(Note("partition_waits", f"{folder}: {why}", folder=folder))

    def _of_topic(self, state: State, stream_id: int, topic_id: int) -> Iterator[Partition]:
        """Those of the topic that are open here."""
        for one in state.streams[stream_id].topics[topic_id].partitions:
            partition = self.open.get(pack(stream_id, topic_id, one.id))
            if partition is not None:
                yield partition

    def _mine(self, placed: Iterable[Placed]) -> list[tuple[Placed, int]]:
        named = (
            (place, pack(place.stream_id, place.topic_id, place.partition.id)) for place in placed
        )
        return [
            (place, packed)
            for place, packed in named
            if shard_of(packed, self._shards_count) == self._shard_id
        ]

    def _open(self, state: State, place: Placed, *, is_new: bool) -> Partition:
        where = self._place_of(place, is_new=is_new)
        if self._starting:
            groups = state.streams[place.stream_id].topics[place.topic_id].groups
            for path in remove_other_groups(self._parts.disk, where.folder, groups):
                why = f"{path}: of a deleted group, removed"
                self._parts.warn(Note("group_offset_removed", why))
        return Partition.open(where, self._options_of(state, place), self._parts)

    def _place_of(self, place: Placed, *, is_new: bool) -> PartitionPlace:
        partition = place.partition
        return PartitionPlace(
            folder=partition_folder(self._root, place.stream_id, place.topic_id, partition.id),
            partition_id=partition.id,
            slot=partition.slot,
            incarnation=partition.incarnation,
            purges=partition.purges,
            is_new=is_new,
        )

    def _options_of(self, state: State, place: Placed) -> PartitionOptions:
        stream = state.streams[place.stream_id]
        topic = stream.topics[place.topic_id]
        settings = settings_of_topic(topic, self._node)
        return PartitionOptions(
            segment_bytes=settings.segment_size_bytes,
            persisted=settings.persisted,
            offsets_persisted=settings.offsets_persisted,
            sync_messages=settings.sync_messages,
            sync_bytes=settings.sync_bytes,
            save_messages=save_messages(topic, settings),
            validate_checksum=self._system.partition.validate_checksum,
            window=window_of(self._system.message_deduplication, stream.name, topic.name),
        )


def window_of(settings: MessageDeduplication, stream: str, topic: str) -> WindowOptions | None:
    """How long messages of a topic are known; None: they are not. By the names of its first use."""
    if not settings.enabled:
        return None
    name = f"{stream}/{topic}"
    for one in (*settings.windows, TopicWindow(settings.topics)):
        if any(fnmatchcase(name, pattern) for pattern in one.patterns):
            entries = settings.max_entries if one.max_entries is None else one.max_entries
            age_us = settings.expiry_us if one.expiry_us is None else one.expiry_us
            return WindowOptions(entries or ENTRIES_MAX, age_us or None)
    return None

"""What the archive has of a partition, and what of its log is copied next. Decides only."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from iggy_broker.archive.copying import Tail
from iggy_broker.archive.plan import Extent, next_sealed, synced_extent
from iggy_broker.storage.partition import Partition
from iggy_broker.storage.partition_log import PartitionLog
from iggy_broker.storage.segment import Segment
from iggy_wire.archive import Life


@dataclass(slots=True)
class Copies:
    """What the archive has of one life of a partition."""

    life: Life
    folder: str = ""
    """In the archive; empty: nobody has looked yet."""
    owner_id: str = ""
    """As whom copies are made."""
    generation: int = 0
    """The same."""
    begin: int = 0
    """Up to here earlier owners had it."""
    archived: dict[int, int] = field(default_factory=dict)
    """Where sealed segments end that have a copy, by first offset."""
    tails: dict[int, Tail] = field(default_factory=dict)
    """Pieces of segments without a copy, by first offset."""
    in_tail_lane: int | None = None
    """First offset of the segment that is there now."""
    in_sealed_lane: int | None = None
    """The same of the other lane."""
    vanished: set[int] = field(default_factory=set)
    """First offsets of segments whose files are gone, or cut, although the log has them."""
    has_offsets: bool = False
    """Whether stored offsets are there."""
    offsets_changes: int = -1
    """Up to which change of them."""
    looking: asyncio.Lock = field(default_factory=asyncio.Lock)

    def due(self, log: PartitionLog, wanted: int) -> Extent | None:
        """The sealed segment that is copied next, if it ends at or before an offset."""
        sealed = log.segments[:-1]
        there = {segment.first_offset for segment in log.segments}
        for first in self.archived.keys() - there:
            del self.archived[first]
        self.vanished &= there
        busy = {
            segment.first_offset
            for segment in sealed
            if (tail := self.tails.get(segment.first_offset)) is not None
            and tail.extent.size_bytes < segment.size_bytes
        }
        if self.in_tail_lane is not None:
            busy.add(self.in_tail_lane)
        left = [segment for segment in sealed if segment.first_offset not in self.vanished]
        end = min(wanted, log.synced_next_offset)
        segment = next_sealed(left, self.archived, end=end, busy=busy)
        if segment is None:
            return None
        if segment.index_is_loaded:
            segment.index.write()  # what a full disk did not take
        return whole(segment)

    def tail_due(self, log: PartitionLog, done: Collection[int]) -> Extent | None:
        """A segment of which something new is on the disk for good, the oldest first.

        Of sealed ones those that have pieces already: the others are copied whole. `done`: first
        offsets of those that had their turn.
        """
        for extent in self._growing(log):
            first = extent.first_offset
            known = self.tails.get(first)
            is_free = first != self.in_sealed_lane and first not in self.archived
            if not is_free or first in self.vanished or first in done:
                continue
            if extent.size_bytes > (known.extent.size_bytes if known else 0):
                return extent
        return None

    def _growing(self, log: PartitionLog) -> Iterator[Extent]:
        for segment in log.segments[:-1]:
            is_synced = segment.next_offset <= log.synced_next_offset
            if is_synced and segment.first_offset in self.tails:
                yield whole(segment)
        if log.segments and (extent := active_extent(log)) is not None:
            yield extent

    def is_whole(self, log: PartitionLog) -> bool:
        """Whether of all sealed segments everything is in the archive, be it in pieces."""
        return all(
            segment.first_offset in self.archived
            or segment.first_offset in self.vanished
            or (
                (tail := self.tails.get(segment.first_offset)) is not None
                and tail.extent.size_bytes >= segment.size_bytes
            )
            for segment in log.segments[:-1]
        )

    def pending(self, log: PartitionLog, wanted: int) -> int:
        """Sealed segments without a copy that end at or before an offset."""
        return sum(
            segment.next_offset <= wanted and segment.first_offset not in self.archived
            for segment in log.segments[:-1]
        )


def life_of(partition: Partition) -> Life:
    """Which one it is now."""
    return Life(partition.place.incarnation, partition.place.purges)


def whole(segment: Segment) -> Extent:
    """All of a sealed segment."""
    return Extent(
        segment.first_offset, segment.next_offset, segment.size_bytes, segment.last_timestamp_us
    )


def active_extent(log: PartitionLog) -> Extent | None:
    """What of the segment that is written is on the disk for good."""
    return synced_extent(
        log.segments[-1],
        unsynced_bytes=log.unsynced_bytes,
        synced_next_offset=log.synced_next_offset,
    )

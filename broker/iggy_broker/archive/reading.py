"""Older messages, from the archive: what a poll below the local log gets. See `storage.older`.

A poll asks in the shard's loop and never waits there: what is in memory is given at once, anything
else is fetched in a thread, and the poll asks again when it is there. What may be served is looked
up anew each time, by the life of the partition: nothing of a purged or deleted one is given.
"""

from __future__ import annotations

from typing import Final

from iggy_broker.archive.block_cache import LifeKey, key_of
from iggy_broker.archive.blocks import Block, Table
from iggy_broker.archive.library import Library
from iggy_broker.errors import Reject
from iggy_broker.metrics import Counters
from iggy_broker.storage.older import Asked, NotHere, OlderFound
from iggy_broker.storage.segment import Part, size_of
from iggy_wire.archive_listing import Segment

AHEAD_BLOCKS: Final = 2
"""Fetched before they are asked for, when a reader is past the middle of a block."""
ENOUGH_BYTES: Final = 1 << 20
"""A poll that has so much does not wait for more."""
POLL_BYTES_MAX: Final = 16 << 20
"""About the most that a poll of older messages brings."""


class ArchiveReads:
    """Of one shard, from its loop only. See `Older`."""

    def __init__(self, library: Library, counters: Counters) -> None:
        """Nothing is read yet."""
        self._library = library
        self._counters = counters
        # What a poll needs must be there together, whoever else reads.
        self._poll_bytes_max = max(min(POLL_BYTES_MAX, library.cache_bytes // 4), 1)

    def offset_at_time(self, asked: Asked, timestamp_us: int) -> int | None:
        """See `Older`."""
        life = key_of(asked.place)
        shelf = self._library.shelf(life, asked.end)
        segment = shelf.listing.at_time(timestamp_us)
        if segment is None and shelf.end != asked.end:
            raise self._library.look_again(life, asked.end)
        while segment is not None and segment.start_offset < asked.end:
            offset = self._in_segment(life, segment, timestamp_us)
            if offset < segment.next_offset or not segment.left_out:
                return offset if offset < asked.end else None
            # It is cut, and what is behind does not count.
            segment = shelf.listing.at_offset(segment.next_offset)
        return None

    def _in_segment(self, life: LifeKey, segment: Segment, timestamp_us: int) -> int:
        """Offset of its first message stamped then or later; the end of its log without one."""
        table = self._library.table(life, segment)
        number = table.number_at(timestamp_us)
        while True:
            block = self._library.block(life, segment, table, number)
            offset = block.offset_at_time(timestamp_us)
            if offset < block.next_offset or number + 1 == len(table):
                return max(offset, segment.start_offset)
            number += 1

    def read(self, asked: Asked, offset: int) -> OlderFound | None:
        """See `Older`."""
        life = key_of(asked.place)
        shelf = self._library.shelf(life, asked.end)
        segment = shelf.listing.at_offset(offset)
        is_gap = segment is None or offset < segment.start_offset
        if is_gap and shelf.end != asked.end:
            raise self._library.look_again(life, asked.end)
        if segment is None:
            return None
        begin = at = max(offset, segment.start_offset)
        stop = min(begin + asked.count, asked.end)
        bytes_max = min(asked.bytes_max, self._poll_bytes_max)
        parts: list[Part] = []
        size_bytes = 0
        try:
            while at < stop and size_bytes < bytes_max:
                segment = shelf.listing.at_offset(at)
                if segment is None or at < segment.start_offset:
                    break  # a gap: the next poll goes on behind it
                at, more = self._from_block(life, segment, (at, stop), bytes_max - size_bytes)
                size_bytes += sum(map(size_of, more))
                parts += more
        except Reject as refusal:
            is_enough = size_bytes >= ENOUGH_BYTES and not asked.is_whole
            if not parts or (isinstance(refusal, NotHere) and not is_enough):
                raise
        if not parts:
            return None
        self._counters.archive_reads_total += 1
        return OlderFound(begin, at, size_bytes, parts)

    def _from_block(
        self, life: LifeKey, segment: Segment, wanted: tuple[int, int], bytes_max: int
    ) -> tuple[int, list[Part]]:
        """What one block has of offsets from `wanted` on, and where that ends."""
        offset, stop = wanted
        table = self._library.table(life, segment)
        number, block = self._block_with(life, segment, table, offset)
        stop = min(stop, block.next_offset, segment.next_offset)
        reached, parts = block.select(offset, stop, bytes_max)
        if block.is_far(reached):
            self._library.look_ahead(life, segment, number, AHEAD_BLOCKS)
        return reached, parts

    def _block_with(
        self, life: LifeKey, segment: Segment, table: Table, offset: int
    ) -> tuple[int, Block]:
        """The block that has an offset, and its number."""
        while True:
            number = table.number_of(offset)
            block = self._library.block(life, segment, table, number)
            if offset < block.next_offset:
                return number, block
            if table.number_of(offset) == number:
                raise self._library.tell_damaged(life, segment, block)

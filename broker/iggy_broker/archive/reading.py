"""Older messages, from the archive: what a poll below the local log gets. See `storage.older`.

A poll asks in the shard's loop and never waits there: what is in memory is given at once, anything
else is fetched in a thread, and the poll asks again when it is there. What may be served is looked
up anew each time, by the life of the partition: nothing of a purged or deleted one is given.
"""

from __future__ import annotations

from typing import Final

from iggy_broker.archive import blocks
from iggy_broker.archive.block_cache import LifeKey, key_of
from iggy_broker.archive.blocks import Block
from iggy_broker.archive.library import Library
from iggy_broker.archive.readers import Readers
from iggy_broker.archive.shelves import Shelf
from iggy_broker.errors import Reject
from iggy_broker.metrics import Counters
from iggy_broker.storage.older import Asked, NotHere, OlderFound
from iggy_broker.storage.segment import Part, size_of
from iggy_wire.archive_listing import Segment

ENOUGH_BYTES: Final = 1 << 20
"""A poll that has so much does not wait for more."""


class ArchiveReads:
    """Of one shard, from its loop only. See `Older`."""

    def __init__(self, library: Library, counters: Counters) -> None:
        """Nothing is read yet."""
        self._library = library
        self._counters = counters
        self._readers = Readers(library.ahead_bytes_max, blocks.READ_BYTES)

    def offset_at_time(self, asked: Asked, timestamp_us: int) -> int | None:
        """See `Older`."""
        life = key_of(asked.place)
        shelf = self._library.shelf(life, asked.end)
        segment = shelf.listing.at_time(timestamp_us)
        if segment is None and shelf.end != asked.end:
            raise self._library.look_again(life, asked.end)
        self._library.check_gap(life, segment, asked.end)
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
        if is_gap:
            self._library.check_gap(life, segment, asked.end)
        if segment is None:
            return None
        begin = max(offset, segment.start_offset)
        stop = min(begin + asked.count, asked.end)
        bytes_max = min(asked.bytes_max, self._library.poll_bytes_max)
        reached, parts, refusal = self._gather(life, shelf, (begin, stop), bytes_max)
        size_bytes = sum(map(size_of, parts))
        is_late = isinstance(refusal, NotHere)
        if refusal is None or is_late:
            self._look_ahead(life, asked, offset, reached)
        is_enough = size_bytes >= ENOUGH_BYTES and not asked.is_whole
        if refusal is not None and (not parts or (is_late and not is_enough)):
            raise refusal
        if not parts:
            return None
        self._readers.went_on(life, (offset, reached), size_bytes, now_s=self._library.now_s())
        self._counters.archive_reads_total += 1
        return OlderFound(begin, reached, size_bytes, parts)

    def _gather(
        self, life: LifeKey, shelf: Shelf, wanted: tuple[int, int], bytes_max: int
    ) -> tuple[int, list[Part], Reject | None]:
        """What there is of offsets from `wanted`: up to which, and what kept it from more."""
        at, stop = wanted
        parts: list[Part] = []
        size_bytes = 0
        try:
            while at < stop and size_bytes < bytes_max:
                segment = shelf.listing.at_offset(at)
                if segment is None or at < segment.start_offset:
                    break  # a gap: the next poll goes on behind it
                block = self._block_with(life, segment, at)
                end = min(stop, block.next_offset, segment.next_offset)
                at, more = block.select(at, end, bytes_max - size_bytes)
                size_bytes += sum(map(size_of, more))
                parts += more
        except Reject as refusal:
            return at, parts, refusal
        return at, parts, None

    def _look_ahead(self, life: LifeKey, asked: Asked, offset: int, reached: int) -> None:
        """Who asks at `offset` goes on at `reached`: what follows is fetched, if it goes on."""
        ahead_bytes = self._readers.ahead_bytes(life, offset, now_s=self._library.now_s())
        if ahead_bytes:
            self._library.look_ahead(life, reached, end=asked.end, size_bytes=ahead_bytes)

    def _block_with(self, life: LifeKey, segment: Segment, offset: int) -> Block:
        """The block that has an offset."""
        table = self._library.table(life, segment)
        while True:
            number = table.number_of(offset)
            block = self._library.block(life, segment, table, number)
            if offset < block.next_offset:
                return block
            if table.number_of(offset) == number:
                raise self._library.tell_damaged(life, segment, block)

"""Blocks of an archived log: whole batches, read and verified at once. Reading is for threads.

Where blocks of a segment begin is known from its index. Without one it is learnt on the way: each
block that was read tells where the next one begins.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from struct import Struct
from typing import Final, NamedTuple

from iggy_broker.archive.memory import Memory
from iggy_broker.archive.store import ArchiveStore, digest
from iggy_broker.storage.scan import BATCH_BYTES_MAX
from iggy_broker.storage.segment import Part
from iggy_broker.storage.sparse_index import ENTRY_BYTES, INDEX_EVERY_BYTES
from iggy_wire import kernel, sealing
from iggy_wire.archive_listing import Segment
from iggy_wire.errors import ErrorCode
from iggy_wire.sealing import Keyring, UnreadableBatchError

READ_BYTES: Final = 4 << 20
"""A block is about so large; a larger batch is a block of its own."""

_LENGTH: Final = Struct("<Q")
_LENGTH_AT: Final = 32  # of the batch in its header
_OFFSET_AT: Final = 8  # of its first message in its header


class Start(NamedTuple):
    """Where a block begins."""

    offset: int
    timestamp_us: int
    """Of its first batch; or a time before it and behind all earlier ones."""
    position: int
    """Byte of the log."""


class Table:
    """Where blocks of one segment begin, in order; the first one is known at least."""

    __slots__ = ("_offsets", "_size_bytes", "_starts", "_times_us")

    def __init__(self, starts: list[Start], size_bytes: int) -> None:
        """`size_bytes` of the log."""
        self._starts = starts
        self._offsets = [start.offset for start in starts]
        self._times_us = [start.timestamp_us for start in starts]
        self._size_bytes = size_bytes

    def __len__(self) -> int:
        """Blocks that are known."""
        return len(self._starts)

    def number_of(self, offset: int) -> int:
        """Of the block that has this offset, as far as is known."""
        return max(bisect_right(self._offsets, offset) - 1, 0)

    def number_at(self, timestamp_us: int) -> int:
        """Of the block with the first batch that is not older, or of the one before it."""
        return max(bisect_left(self._times_us, timestamp_us) - 1, 0)

    def start(self, number: int) -> Start:
        """Where a block begins."""
        return self._starts[number]

    def stop(self, number: int) -> int:
        """Byte at which it ends at the latest."""
        following = number + 1
        return self._starts[following].position if following < len(self) else self._size_bytes

    def learn(self, number: int, block: Block) -> None:
        """A block was read: does one begin behind it that nobody knew of?"""
        end = self.start(number).position + len(block.data)
        if block.damage or end >= self.stop(number):
            return
        start = Start(block.next_offset, block.last_timestamp_us + 1, end)
        self._starts.insert(number + 1, start)
        self._offsets.insert(number + 1, start.offset)
        self._times_us.insert(number + 1, start.timestamp_us)


@dataclass(frozen=True, slots=True)
class Block:
    """Whole batches, verified."""

    data: memoryview
    next_offset: int
    last_timestamp_us: int
    damage: str
    """What is wrong with the bytes behind it; empty: nothing."""
    damage_code: ErrorCode
    _offsets: list[int]
    _positions: list[int]

    @property
    def memory_bytes(self) -> int:
        """What it takes, which may be a little more than its bytes."""
        whole = self.data.obj
        return len(whole) if isinstance(whole, bytearray) else len(self.data)

    def select(self, offset: int, end_offset: int, bytes_max: int) -> tuple[int, list[Part]]:
        """Where they end, and messages with offset <= their offset < end_offset.

        All of them lie in the block. Stops early at about `bytes_max`.
        """
        first = bisect_right(self._offsets, offset) - 1
        start = self._positions[first]
        last = bisect_left(self._offsets, end_offset)
        stop = self._positions[last] if last < len(self._positions) else len(self.data)
        if stop - start > bytes_max:
            last = max(bisect_right(self._positions, start + bytes_max) - 1, first + 1)
            if last < len(self._positions):
                stop = self._positions[last]
                end_offset = min(end_offset, self._offsets[last])
        region = memoryview(self.data)[start:stop]
        chosen = kernel.select(region, offset, end_offset - offset)
        parts: list[Part] = [chosen.head] if chosen.head else []
        if chosen.start < chosen.end:
            parts.append(region[chosen.start : chosen.end])
        if chosen.tail:
            parts.append(chosen.tail)
        return chosen.last_offset + 1, parts

    def offset_at_time(self, timestamp_us: int) -> int:
        """Of the first batch stamped then or later; `next_offset` if there is none."""
        at = kernel.locate_time(self.data, timestamp_us)
        if at >= len(self.data):
            return self.next_offset
        return int.from_bytes(self.data[at + _OFFSET_AT : at + _OFFSET_AT + 8], "little")


def load_table(store: ArchiveStore, segment: Segment) -> Table:
    """Where the blocks of a segment begin, as far as its index is there and right. ArchiveError."""
    starts = [Start(segment.first_offset, segment.first_timestamp_us, 0)]
    if segment.index_bytes >= ENTRY_BYTES:
        data = b""
        with suppress(FileNotFoundError):
            data = store.read(segment.index_key, segment.index_bytes, 0)
        if data and digest(lambda size, at: data[at : at + size], len(data)) == segment.index_xxh3:
            starts = _grid(data, segment) or starts
    return Table(starts, segment.size_bytes)


def _grid(index: bytes, segment: Segment) -> list[Start]:
    """Of the entries those that are about a block apart; none if they do not fit the segment."""
    fields = array("Q")
    fields.frombytes(index[: len(index) // ENTRY_BYTES * ENTRY_BYTES])
    offsets, times_us, positions = fields[0::3], fields[1::3], fields[2::3]
    if (offsets[0], positions[0]) != (segment.first_offset, 0):
        return []
    starts = []
    entry, count = 0, len(positions)
    while entry < count:
        starts.append(Start(offsets[entry], times_us[entry], positions[entry]))
        behind = bisect_right(positions, positions[entry] + READ_BYTES, entry + 1)
        # A block is not larger than it should be, if its first batch is not.
        entry = behind if behind == count else max(behind - 1, entry + 1)
    return starts


def wanted_bytes(start: Start, stop: int) -> int:
    """What is read of a block at first; `stop`: where it ends at the latest."""
    left = stop - start.position
    return left if left <= 2 * READ_BYTES else READ_BYTES


class BlockReader:
    """Reads blocks into memory that is used again. For several threads."""

    def __init__(self, keys: Keyring, memory: Memory) -> None:
        """`keys` open what is encrypted."""
        self._keys = keys
        self._memory = memory

    def read(
        self, store: ArchiveStore, segment: Segment, places: Sequence[tuple[Start, int]]
    ) -> list[Block]:
        """Whole batches from each place on, at most up to its byte, where one ends.

        The places follow each other without a gap, and are read at once. A block that is wrong is
        read once more; what is wrong then is its `damage`. ArchiveError. FileNotFoundError: the
        object is gone.
        """
        sizes = [wanted_bytes(start, stop) for start, stop in places]
        regions = self._fetch(store, segment, places[0][0].position, sizes)
        blocks = []
        for (start, stop), region in zip(places, regions, strict=True):
            block = self._block(store, segment, start, stop, region)
            if block.damage:
                self._memory.give(block.data)
                size = wanted_bytes(start, stop)
                (region,) = self._fetch(store, segment, start.position, [size])
                block = self._block(store, segment, start, stop, region)
            blocks.append(self._opened(block))
        return blocks

    def _fetch(
        self, store: ArchiveStore, segment: Segment, position: int, sizes: Sequence[int]
    ) -> list[memoryview]:
        """Bytes from a place on; fewer only where the archive has fewer."""
        regions = [self._memory.take(size) for size in sizes]
        filled = 0
        for span in segment.spans(position, sum(sizes)):
            pieces = _between(regions, filled, filled + span.size_bytes)
            found = store.read_into(span.key, pieces, span.position)
            filled += found
            if found < span.size_bytes:
                break
        return _cut(regions, filled)

    def _block(
        self, store: ArchiveStore, segment: Segment, start: Start, stop: int, region: memoryview
    ) -> Block:
        left, wanted = stop - start.position, wanted_bytes(start, stop)
        found = _scan(region, start)
        if (
            found.reason == kernel.INCOMPLETE_TAIL
            and not found.end
            and len(region) == wanted < left
        ):
            (length,) = _LENGTH.unpack_from(region, _LENGTH_AT)
            if wanted < length <= min(left, BATCH_BYTES_MAX):
                wanted = length
                self._memory.give(region)
                (region,) = self._fetch(store, segment, start.position, [wanted])
                found = _scan(region, start)
        is_cut = found.reason == kernel.INCOMPLETE_TAIL and wanted < left and found.end
        damage = ""
        if len(region) < wanted:
            damage = f"the archived log ends at byte {start.position + len(region)}"
        elif found.reason != kernel.CLEAN_END and not is_cut:
            damage = f"checksum or layout is wrong at byte {start.position + found.end}"
        return Block(
            region[: found.end].toreadonly(),
            found.next_offset,
            found.last_timestamp_us or start.timestamp_us,
            damage,
            ErrorCode.CANNOT_READ_MESSAGE,
            [entry[0] for entry in found.entries],
            [entry[2] for entry in found.entries],
        )

    def _opened(self, block: Block) -> Block:
        """The same without encryption; it ends where that cannot be done."""
        sealed = block.data
        if not sealing.key_id_of(sealed[: sealing.PREFIX_BYTES]):  # all in a segment, or none
            return block
        try:
            block = replace(block, data=self._keys.open(sealed))
        except UnreadableBatchError as error:
            end = kernel.locate(sealed, error.offset)
            count = bisect_left(block._positions, end)
            block = replace(
                block,
                data=self._keys.open(sealed[:end]),
                next_offset=error.offset,
                damage=error.detail,
                damage_code=error.code,
                _offsets=block._offsets[:count],
                _positions=block._positions[:count],
            )
        self._memory.give(sealed)
        return block


def _scan(region: memoryview, start: Start) -> kernel.Scan:
    return sealing.scan(region, start.offset, frames=True, index_bytes=INDEX_EVERY_BYTES)


def _between(regions: Sequence[memoryview], start: int, stop: int) -> list[memoryview]:
    """Pieces of regions that follow each other, by bytes counted over all of them."""
    pieces, at = [], 0
    for region in regions:
        piece = region[max(start - at, 0) : max(stop - at, 0)]
        if piece:
            pieces.append(piece)
        at += len(region)
    return pieces


def _cut(regions: Sequence[memoryview], filled: int) -> list[memoryview]:
    """Of each what is filled, of so many bytes in all of them."""
    at, cut = 0, []
    for region in regions:
        cut.append(region[: max(filled - at, 0)])
        at += len(region)
    return cut

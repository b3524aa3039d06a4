"""Blocks of an archived log: whole batches, read and verified at once. Reading is for threads.

Where blocks of a segment begin is known from its index. Without one it is learnt on the way: each
block that was read tells where the next one begins.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from contextlib import suppress
from dataclasses import dataclass, replace
from struct import Struct
from typing import Final, NamedTuple

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

    data: bytes | memoryview
    next_offset: int
    last_timestamp_us: int
    damage: str
    """What is wrong with the bytes behind it; empty: nothing."""
    damage_code: ErrorCode
    _offsets: list[int]
    _positions: list[int]

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

    def is_far(self, offset: int) -> bool:
        """Whether it lies behind the middle."""
        first = self._offsets[0] if self._offsets else self.next_offset
        return 2 * (offset - first) >= self.next_offset - first

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
        entry = bisect_left(positions, positions[entry] + READ_BYTES, entry + 1)
    return starts


def read_block(
    store: ArchiveStore, segment: Segment, start: Start, stop: int, keys: Keyring
) -> Block:
    """Read whole batches from a place on, at most up to byte `stop`, where one ends.

    A block that is wrong is read once more; what is wrong then is its `damage`. ArchiveError.
    FileNotFoundError: the object is gone.
    """
    block = _read(store, segment, start, stop)
    if block.damage:
        block = _read(store, segment, start, stop)
    return _opened(block, keys)


def _read(store: ArchiveStore, segment: Segment, start: Start, stop: int) -> Block:
    left = stop - start.position
    wanted = left if left <= 2 * READ_BYTES else READ_BYTES
    region = _bytes(store, segment, start.position, wanted)
    found = _scan(region, start)
    if found.reason == kernel.INCOMPLETE_TAIL and not found.end and len(region) == wanted < left:
        (length,) = _LENGTH.unpack_from(region, _LENGTH_AT)
        if wanted < length <= min(left, BATCH_BYTES_MAX):
            wanted = length
            region = _bytes(store, segment, start.position, wanted)
            found = _scan(region, start)
    is_cut = found.reason == kernel.INCOMPLETE_TAIL and len(region) == wanted < left and found.end
    damage = ""
    if found.reason != kernel.CLEAN_END and not is_cut:
        at = start.position + found.end
        damage = f"checksum or layout is wrong at byte {at}"
        if len(region) < wanted:
            damage = f"the archived log ends at byte {start.position + len(region)}"
    return Block(
        region if found.end == len(region) else region[: found.end],
        found.next_offset,
        found.last_timestamp_us or start.timestamp_us,
        damage,
        ErrorCode.CANNOT_READ_MESSAGE,
        [entry[0] for entry in found.entries],
        [entry[2] for entry in found.entries],
    )


def _opened(block: Block, keys: Keyring) -> Block:
    """The same without encryption; it ends where that cannot be done."""
    if not sealing.key_id_of(block.data[: sealing.PREFIX_BYTES]):  # all in a segment, or none
        return block
    try:
        return replace(block, data=keys.open(block.data))
    except UnreadableBatchError as error:
        end = kernel.locate(block.data, error.offset)
        count = bisect_left(block._positions, end)
        return replace(
            block,
            data=keys.open(block.data[:end]),
            next_offset=error.offset,
            damage=error.detail,
            damage_code=error.code,
            _offsets=block._offsets[:count],
            _positions=block._positions[:count],
        )


def _scan(region: bytes, start: Start) -> kernel.Scan:
    return sealing.scan(region, start.offset, frames=True, index_bytes=INDEX_EVERY_BYTES)


def _bytes(store: ArchiveStore, segment: Segment, position: int, size_bytes: int) -> bytes:
    """Fewer only where the archive has fewer."""
    spans = segment.spans(position, size_bytes)
    found = [store.read(span.key, span.size_bytes, span.position) for span in spans]
    return found[0] if len(found) == 1 else b"".join(found)

"""A range of offsets of an archived partition → columns, by the decoder that reads polls, too."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from iggy_spark import archive_keys
from iggy_spark.archive_store import Gone
from iggy_spark.archived import Archive
from iggy_spark.errors import ArchiveUnreadable
from iggy_spark.salvage import Hole
from iggy_wire import kernel, sealing
from iggy_wire.archive_listing import Segment
from iggy_wire.batch import BatchHeader
from iggy_wire.errors import ErrorCode
from iggy_wire.kernel import BATCH_HEADER_BYTES, CLEAN_END, INCOMPLETE_TAIL, Columns, Scan
from iggy_wire.kernel_types import INVALID_RESERVED_FIELD
from iggy_wire.sealing import UnreadableBatchError

LOOK_BYTES: Final = 64 << 10  # read at a time for one message
INDEX_BYTES: Final = 1 << 20  # between entries of a segment that has no index

Lose = Callable[[int, int], None]
"""Told of what is not there, by first and exclusive end."""

_log = logging.getLogger(__name__)


class Held(Protocol):
    """What the archive has of a partition."""

    def at_offset(self, offset: int, *, again: bool = False) -> Segment | None:
        """As `Listing.at_offset`. `again`: as it is now, not as it was just seen."""


class Damaged(ArchiveUnreadable):
    """A batch is not as it was stored. All before it was read."""

    def __init__(self, told: str, position: int) -> None:
        """`position`: its first byte in the segment's log."""
        super().__init__(told)
        self.position = position


@dataclass(frozen=True, slots=True)
class SegmentReader:
    """Reads segments of an archive. `verify`: the checksum of each message, beside its batch's."""

    archive: Archive
    block_bytes: int = LOOK_BYTES
    """Read at a time, first."""
    verify: bool = False
    skips: bool = False
    """Whether a damaged batch is what is not there, and no error."""

    def fetch(
        self, held: Held, first: int, end: int, *, lose: Lose | None = None
    ) -> Iterator[Columns]:
        """The messages from `first` on, below `end`, in order. Without `lose`, up to the first that
        is not there.

        Raises:
            ArchiveUnreadable: bytes are damaged, or not given.
        """
        for item in self._pieces(held, first, end):
            if isinstance(item, Columns):
                yield item
            elif lose is None:
                return
            else:
                lose(*item)

    def _pieces(self, held: Held, first: int, end: int) -> Iterator[Columns | Hole]:
        """All of the range, in order: what is there, and what is not.

        Another process has planned the range, and may have seen more than this one had by then:
        what is not there is looked for again, once, since a second look is behind the plan.
        """
        at, is_fresh, is_sure = first, False, False
        while at < end:
            segment = held.at_offset(at, again=is_fresh)
            is_sure = is_sure or is_fresh
            start = end if segment is None else min(end, segment.start_offset)
            if start > at and not is_sure:
                is_fresh = True
                continue
            if start > at:
                yield Hole(at, start)
                at = start
            if segment is None or at >= end:
                return
            try:
                for item in self._around_damage(segment, at, end):
                    at, is_fresh = item.end if isinstance(item, Hole) else _last(item) + 1, False
                    yield item
            except Gone as error:  # pieces of a segment that was sealed meanwhile
                if is_fresh:
                    told = f"{self.archive}: {error} was listed, and is not there"
                    raise ArchiveUnreadable(told) from None
                is_fresh = True

    def _around_damage(self, segment: Segment, first: int, end: int) -> Iterator[Columns | Hole]:
        """`read`, and on behind damage where that is no error."""
        at, end, position = first, min(end, segment.next_offset), 0
        while at < end:
            try:
                for columns in self.read(segment, at, end, position):
                    at = _last(columns) + 1
                    yield columns
            except Damaged as error:
                if not self.skips:
                    raise
                _log.warning("%s", error)
                behind, position = self._behind(segment, error.position)
                if at < behind:
                    yield Hole(at, min(behind, end))
                    at = behind

    def read(self, segment: Segment, first: int, end: int, position: int = 0) -> Iterator[Columns]:
        """The same of the segment that has `first`, up to its own end at most. `position`: a byte
        of its log where a batch begins, and that `first` does not lie before.

        Raises:
            Gone: an object is not there any more.
            Damaged: a batch is not as it was stored.
            ArchiveUnreadable: bytes are not given.
        """
        end = min(end, segment.next_offset)
        index = self.archive.index(segment)
        stop = index.behind(end, segment.size_bytes)
        position = max(position, index.before(first))
        region, expected, reason = b"", -1, INCOMPLETE_TAIL
        for block in _ahead(self.archive.blocks(segment, position, stop, self.block_bytes)):
            region = region + block if region else block
            found, is_encrypted = self._scan(region, expected)
            is_late = expected < 0 and found.end and found.entries[0][0] > first
            if is_late:
                raise ArchiveUnreadable(self._told(segment, position, first, CLEAN_END))
            if found.end:
                with memoryview(region)[: found.end] as whole:
                    clear = self._opened(whole) if is_encrypted else whole
                    columns = kernel.columns(clear, max(first, expected), end)
                rows = [(offset, us, position + byte) for offset, us, byte in found.entries]
                self.archive.learn(segment, rows)
                region, expected = region[found.end :], found.next_offset
                position += found.end
                if columns.count:
                    yield columns
            if expected >= end:
                return
            if found.reason not in (CLEAN_END, INCOMPLETE_TAIL):
                reason = found.reason
                break
        raise Damaged(self._told(segment, position, max(first, expected), reason), position)

    def _scan(self, region: bytes, expected: int) -> tuple[Scan, bool]:
        """Walk whole batches; are there encrypted ones among them?"""
        found = kernel.scan(region, expected, frames=self.verify, index_bytes=INDEX_BYTES)
        if found.reason != INVALID_RESERVED_FIELD:
            return found, False
        return sealing.scan(region, expected, frames=self.verify, index_bytes=INDEX_BYTES), True

    def _opened(self, region: memoryview) -> memoryview:
        keys = archive_keys.keyring(self.archive.keys_path)
        try:
            return keys.open(region)
        except UnreadableBatchError as error:
            way = archive_keys.missing(self.archive.keys_path)
            way = "restore that object" if error.is_given else way
            raise ArchiveUnreadable(f"{self.archive}: {error.detail}: {way}") from error

    def _behind(self, segment: Segment, position: int) -> tuple[int, int]:
        """Where to go on when the batch at a byte is damaged: first offset of a batch behind it,
        and its first byte.
        """
        index = self.archive.index(segment)
        lowest = index.offset_before(position)
        for offset, at in (*self._next(segment, position), *index.entry_behind(position)):
            if lowest < offset < segment.next_offset:
                return offset, at
        return segment.next_offset, segment.size_bytes

    def _next(self, segment: Segment, position: int) -> Iterator[tuple[int, int]]:
        """The batch that follows, if the damaged one and it say something that fits."""
        at, offset = position, 0
        for _ in range(2):
            header = self._header(segment, at)
            if header is None:
                return
            offset, found, at = header.base_offset, at, at + header.length
        yield offset, found

    def _header(self, segment: Segment, position: int) -> BatchHeader | None:
        """Of the batch at a byte; None: there is none of such a length."""
        left = segment.size_bytes - position
        if left < BATCH_HEADER_BYTES:
            return None
        stop = position + BATCH_HEADER_BYTES
        try:
            data = b"".join(self.archive.blocks(segment, position, stop, BATCH_HEADER_BYTES))
        except Gone as error:
            raise ArchiveUnreadable(f"{self.archive}: {error} is not there any more") from None
        header = BatchHeader.decode(data)
        return header if BATCH_HEADER_BYTES < header.length <= left else None

    def _told(self, segment: Segment, position: int, offset: int, reason: int) -> str:
        at = min(position, segment.size_bytes - 1)
        (span,) = segment.spans(at, 1)
        is_short = reason in (CLEAN_END, INCOMPLETE_TAIL)
        what = "offsets are missing" if is_short else ErrorCode(reason).name
        offsets = f"{segment.first_offset}\u2013{segment.next_offset - 1}"
        return (
            f"{self.archive}: {span.key} is damaged at byte {span.position} ({what}), at offset "
            f"{offset} of {offsets}: restore that object"
        )

    def offset_at_time(self, segment: Segment, timestamp_us: int) -> int | None:
        """Offset of the first message that was taken at or after a time; None: none was.

        Raises:
            Gone, ArchiveUnreadable: as `read`.
        """
        index = self.archive.index(segment)
        first = max(index.before_time(timestamp_us), segment.start_offset)
        for columns in self.read(segment, first, segment.next_offset):
            times = np.frombuffer(columns.timestamps_us, np.int64)
            row = int(np.searchsorted(times, timestamp_us, "left"))
            if row < columns.count:
                return int(np.frombuffer(columns.offsets, np.int64)[row])
        return None

    def taken_us(self, segment: Segment, offset: int) -> int | None:
        """When the broker took a message, microseconds since 1970.

        Raises:
            Gone, ArchiveUnreadable: as `read`.
        """
        found = next(self.read(segment, offset, offset + 1), None)
        return None if found is None else int.from_bytes(found.timestamps_us[:8], "little")


def _last(columns: Columns) -> int:
    return int.from_bytes(columns.offsets[-8:], "little")


def _ahead(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The same; the next one is read while the current one is used."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, blocks, None)
        while (block := coming.result()) is not None:
            coming = pool.submit(next, blocks, None)
            yield block

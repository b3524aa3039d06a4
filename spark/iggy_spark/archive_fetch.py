"""A range of offsets of an archived partition → columns, by the decoder that reads polls, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from iggy_spark import archive_keys
from iggy_spark.archive_store import Gone
from iggy_spark.archived import Archive
from iggy_spark.errors import ArchiveUnreadable
from iggy_wire import kernel, sealing
from iggy_wire.archive_listing import Segment
from iggy_wire.errors import ErrorCode
from iggy_wire.kernel import CLEAN_END, INCOMPLETE_TAIL, Columns, Scan
from iggy_wire.kernel_types import INVALID_RESERVED_FIELD
from iggy_wire.sealing import UnreadableBatchError

LOOK_BYTES: Final = 64 << 10  # read at a time for one message
INDEX_BYTES: Final = 1 << 20  # between entries of a segment that has no index

Lose = Callable[[int, int], None]
"""Told of what is not there, by first and exclusive end."""


class Held(Protocol):
    """What the archive has of a partition."""

    def at_offset(self, offset: int, *, again: bool = False) -> Segment | None:
        """As `Listing.at_offset`. `again`: as it is now, not as it was just seen."""


@dataclass(frozen=True, slots=True)
class SegmentReader:
    """Reads segments of an archive. `verify`: the checksum of each message, beside its batch's."""

    archive: Archive
    block_bytes: int = LOOK_BYTES
    """Read at a time, first."""
    verify: bool = False

    def fetch(
        self, held: Held, first: int, end: int, *, lose: Lose | None = None
    ) -> Iterator[Columns]:
        """The messages from `first` on, below `end`, in order. Without `lose`, up to the first that
        is not there.

        Raises:
            ArchiveUnreadable: bytes are damaged, or not given.
        """
        at, is_fresh = first, False
        while at < end:
            segment = held.at_offset(at, again=is_fresh)
            start = end if segment is None else min(end, segment.start_offset)
            if start > at:
                if lose is None:
                    return
                lose(at, start)
                at = start
            if segment is None or at >= end:
                return
            try:
                for columns in self.read(segment, at, end):
                    at, is_fresh = _last(columns) + 1, False
                    yield columns
            except Gone as error:  # pieces of a segment that was sealed meanwhile
                if is_fresh:
                    told = f"{self.archive}: {error} was listed, and is not there"
                    raise ArchiveUnreadable(told) from None
                is_fresh = True

    def read(self, segment: Segment, first: int, end: int) -> Iterator[Columns]:
        """The same of the segment that has `first`, up to its own end at most.

        Raises:
            Gone: an object is not there any more.
            ArchiveUnreadable: bytes are damaged, or not given.
        """
        end = min(end, segment.next_offset)
        index = self.archive.index(segment)
        position, stop = index.before(first), index.behind(end, segment.size_bytes)
        region, expected = b"", -1
        for block in _ahead(self.archive.blocks(segment, position, stop, self.block_bytes)):
            region = region + block if region else block
            found, is_encrypted = self._scan(region, expected)
            is_late = expected < 0 and found.end and found.entries[0][0] > first
            if found.reason not in (CLEAN_END, INCOMPLETE_TAIL) or is_late:
                raise self._damaged(segment, position + found.end, found.reason)
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
        raise self._damaged(segment, position, INCOMPLETE_TAIL)

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

    def _damaged(self, segment: Segment, position: int, reason: int) -> ArchiveUnreadable:
        at = min(position, segment.size_bytes - 1)
        (span,) = segment.spans(at, 1)
        is_short = reason in (CLEAN_END, INCOMPLETE_TAIL)
        return ArchiveUnreadable(
            f"{self.archive}: {span.key} is damaged at byte {span.position} "
            f"({'offsets are missing' if is_short else ErrorCode(reason).name}), in the segment of "
            f"offsets {segment.first_offset}\u2013{segment.next_offset - 1}: restore that object"
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

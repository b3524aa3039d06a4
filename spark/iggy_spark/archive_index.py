"""Where batches begin in an archived segment, so that a part of it can be read."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from iggy_spark.archive_store import Gone
from iggy_wire import kernel
from iggy_wire.archive_listing import Segment
from iggy_wire.batch import BatchHeader
from iggy_wire.kernel import BATCH_HEADER_BYTES

FIELDS: Final = 3  # offset of a batch's first message, its time in microseconds, its first byte
ENTRY_BYTES: Final = 8 * FIELDS

Numbers = npt.NDArray[np.uint64]

_log = logging.getLogger(__name__)


class Read(Protocol):
    """Bytes of an object."""

    def __call__(self, key: str, first: int, size: int) -> bytes:
        """Exactly so many from byte `first` on."""


@dataclass(frozen=True, slots=True)
class Index:
    """Some batches of a segment, the first always; rising in all fields."""

    offsets: Numbers
    timestamps_us: Numbers
    positions: Numbers

    def before(self, offset: int) -> int:
        """Byte of the log where to begin for a message."""
        return self._position(int(np.searchsorted(self.offsets, offset, "right")) - 1)

    def behind(self, offset: int, size_bytes: int) -> int:
        """Byte of the log, of `size_bytes`, behind all messages below an offset."""
        number = int(np.searchsorted(self.offsets, offset, "left"))
        return int(self.positions[number]) if number < len(self.positions) else size_bytes

    def before_time(self, timestamp_us: int) -> int:
        """An offset with no message from that time on before it."""
        number = int(np.searchsorted(self.timestamps_us, timestamp_us, "left")) - 1
        return int(self.offsets[max(0, number)])

    def at_position(self, position: int) -> int | None:
        """Offset of the first batch here at or behind a byte; None: there is none."""
        number = int(np.searchsorted(self.positions, position, "left"))
        return int(self.offsets[number]) if number < len(self.offsets) else None

    def offset_before(self, position: int) -> int:
        """Offset of the last batch here at or before a byte."""
        return int(self.offsets[int(np.searchsorted(self.positions, position, "right")) - 1])

    def entry_behind(self, position: int) -> Sequence[tuple[int, int]]:
        """Offset and byte of the first batch here behind a byte; empty: there is none."""
        number = int(np.searchsorted(self.positions, position, "right"))
        found = slice(number, number + 1)
        return list(zip(self.offsets[found].tolist(), self.positions[found].tolist(), strict=True))

    def with_more(self, rows: Sequence[tuple[int, int, int]]) -> Index:
        """The same and other batches of the segment, in their order."""
        more = np.array(rows, dtype=np.uint64).reshape(-1, FIELDS)
        columns = (self.offsets, self.timestamps_us, self.positions)
        merged = [np.concatenate([a, b]) for a, b in zip(columns, more.T, strict=True)]
        _, kept = np.unique(merged[0], return_index=True)
        return Index(*(column[kept] for column in merged))

    def _position(self, number: int) -> int:
        return int(self.positions[max(0, number)])


def read(segment: Segment, read: Read) -> Index:
    """Of a sealed segment its index, as the broker has written it: entries of three little-endian
    64-bit numbers. Of one that is not sealed the first batch of each piece.

    Raises:
        Gone: a piece is not there any more.
    """
    if segment.pieces is not None:
        rows = [_first_batch(segment, piece.position, read) for piece in segment.pieces[1:]]
        found = _of_rows(segment, rows)
        return found if _fits(segment, found) else _of_rows(segment, [])
    if segment.index_bytes:
        try:
            data = read(segment.index_key, 0, segment.index_bytes)
            found = _decoded(data)
            if f"{kernel.xxh3_64(data):016x}" == segment.index_xxh3 and _fits(segment, found):
                return found
        except Gone:
            pass
        _log.warning("%s is damaged: its segment is read from the start", segment.index_key)
    return _of_rows(segment, [])


def _decoded(data: bytes) -> Index:
    rows = np.frombuffer(data[: len(data) // ENTRY_BYTES * ENTRY_BYTES], "<u8")
    return Index(rows[0::FIELDS], rows[1::FIELDS], rows[2::FIELDS])


def _first_batch(segment: Segment, position: int, read: Read) -> tuple[int, int, int]:
    (span,) = segment.spans(position, BATCH_HEADER_BYTES)
    header = BatchHeader.decode(read(span.key, span.position, span.size_bytes))
    return header.base_offset, header.base_timestamp_us, position


def _of_rows(segment: Segment, rows: list[tuple[int, int, int]]) -> Index:
    first = (segment.first_offset, segment.first_timestamp_us, 0)
    return Index(*np.array([first, *rows], dtype=np.uint64).T)


def _fits(segment: Segment, index: Index) -> bool:
    """Whether the entries can be the segment's."""
    offsets, positions = index.offsets, index.positions
    if not len(offsets) or offsets[0] != segment.first_offset or positions[0] != 0:
        return False
    is_within = offsets[-1] < segment.log_next_offset and positions[-1] < segment.size_bytes
    return bool(is_within and all((c[1:] > c[:-1]).all() for c in (offsets, positions)))

"""The sparse index of one segment: where to start looking. Derived data, never trusted blindly.

File format (as Apache Iggy 0.9 writes it): entries of 24 bytes, little-endian u64 each: absolute
offset of a batch's first message, the batch's base timestamp in microseconds, the batch's byte
position in the log. One entry per `INDEX_EVERY_BYTES` of log, and one for each batch of at least
that size; so what lies between two entries is either one batch or less than twice that size.
"""

import itertools
import sys
from array import array
from bisect import bisect_left, bisect_right
from struct import Struct

from iggy_broker.storage.disk import File
from iggy_wire import kernel

ENTRY_BYTES = 24
INDEX_EVERY_BYTES = 16 * 1024
ENTRIES_MAX = 1 << 20  # of one segment; its file is not read further

_ENTRY = Struct("<QQQ")

assert sys.byteorder == "little", "array('Q') is read and written as little-endian"


class SparseIndex:
    """Entries of one segment, rising in all three fields. Positions are bytes from its start."""

    __slots__ = ("_file", "_written", "next_position", "offsets", "positions", "timestamps_us")

    def __init__(self, file: File) -> None:
        """Empty; `file` is written from its beginning."""
        self.offsets = array("Q")
        self.timestamps_us = array("Q")
        self.positions = array("Q")
        self._file = file
        self._written = 0  # entries that the file has
        self.next_position = 0  # the next batch at or behind it gets an entry

    @classmethod
    def parse(cls, file: File, data: bytes) -> "SparseIndex":
        """The entries of `data`, which `file` holds. Nothing is judged: see `is_plausible`."""
        index = cls(file)
        fields = array("Q")
        fields.frombytes(data[: len(data) // ENTRY_BYTES * ENTRY_BYTES])
        index.offsets, index.timestamps_us, index.positions = (
            fields[0::3],
            fields[1::3],
            fields[2::3],
        )
        index._written = len(index.offsets)
        if index.positions:
            index.next_position = index.positions[-1] + INDEX_EVERY_BYTES
        return index

    def __len__(self) -> int:
        """Number of entries."""
        return len(self.offsets)

    @property
    def size_bytes(self) -> int:
        """Memory the entries take."""
        return len(self.offsets) * ENTRY_BYTES

    def appended(self, offset: int, timestamp_us: int, position: int) -> None:
        """A batch at or behind `next_position`, or a big one, was written at `position`.

        Call after the data: an entry never points past it. A full disk leaves the entry in memory;
        it is written with a later one or rebuilt.
        """
        self.add(offset, timestamp_us, position)
        self.write()

    def add(self, offset: int, timestamp_us: int, position: int) -> None:
        """Take an entry into memory only."""
        self.offsets.append(offset)
        self.timestamps_us.append(timestamp_us)
        self.positions.append(position)
        self.next_position = position + INDEX_EVERY_BYTES

    def write(self) -> bool:
        """Bring the file up to date. False: the disk refused, the index in memory stays right."""
        if self._written == len(self.offsets):
            return True
        try:
            self._file.write(self._encode(self._written), self._written * ENTRY_BYTES)
        except OSError:
            return False
        self._written = len(self.offsets)
        return True

    def rewrite(self) -> bool:
        """Replace the whole file (after a rebuild). False: the disk refused."""
        self._written = 0
        return self.settle()

    def settle(self) -> bool:
        """Drop what the file has beyond the entries, then write the missing ones."""
        try:
            self._file.truncate(self._written * ENTRY_BYTES)
        except OSError:
            return False
        return self.write()

    def floor(self, offset: int) -> int:
        """Number of the last entry at or below `offset`; -1 if there is none."""
        return bisect_right(self.offsets, offset) - 1

    def floor_time(self, timestamp_us: int) -> int:
        """Number of the last entry below `timestamp_us`; -1 if there is none."""
        return bisect_left(self.timestamps_us, timestamp_us) - 1

    def floor_position(self, position: int) -> int:
        """Number of the last entry at or below byte `position`; -1 if there is none."""
        return bisect_right(self.positions, position) - 1

    def checksum(self) -> int:
        """XXH3 over the encoded entries."""
        return kernel.xxh3_64(self._encode(0))

    def is_plausible(self, *, first_offset: int, next_offset: int, size_bytes: int) -> bool:
        """Whether the entries can belong to such a segment: start, order, bounds."""
        if size_bytes == 0:
            return not self.offsets
        if not self.offsets or self.offsets[0] != first_offset or self.positions[0] != 0:
            return False
        if self.offsets[-1] >= next_offset or self.positions[-1] >= size_bytes:
            return False
        return all(map(_rises, (self.offsets, self.timestamps_us, self.positions)))

    def cut(self, size_bytes: int) -> None:
        """Forget entries at or behind byte `size_bytes` of the log, in memory only."""
        keep = self.floor_position(size_bytes - 1) + 1 if size_bytes else 0
        for column in (self.offsets, self.timestamps_us, self.positions):
            del column[keep:]
        self._written = min(self._written, keep)
        self.next_position = self.positions[-1] + INDEX_EVERY_BYTES if keep else 0

    def sync(self) -> None:
        """Make the file survive a power cut."""
        self._file.sync()

    def _encode(self, first: int) -> bytes:
        if len(self.offsets) - first == 1:
            return _ENTRY.pack(
                self.offsets[first], self.timestamps_us[first], self.positions[first]
            )
        fields = array("Q", bytes(ENTRY_BYTES * (len(self.offsets) - first)))
        fields[0::3] = self.offsets[first:]
        fields[1::3] = self.timestamps_us[first:]
        fields[2::3] = self.positions[first:]
        return fields.tobytes()


def _rises(column: "array[int]") -> bool:
    return all(earlier < later for earlier, later in itertools.pairwise(column))

"""One segment: a data file and its index. Knows bytes and offsets, never topics or clients."""

import contextlib
from typing import NamedTuple

from iggy_broker.storage.disk import Disk, File
from iggy_broker.storage.layout import index_path, log_path
from iggy_broker.storage.refusals import not_appended
from iggy_broker.storage.scan import HEADER, scan_log
from iggy_broker.storage.sparse_index import ENTRIES_MAX, ENTRY_BYTES, SparseIndex
from iggy_broker.storage.verified import Verified
from iggy_wire import kernel
from iggy_wire.sealing import NO_KEYS, PREFIX_BYTES, Keyring, key_id_of, with_offsets

SENDFILE_BYTES_MIN = 64 * 1024  # shorter stretches of a poll are read, longer ones left in the file


class FileRange(NamedTuple):
    """Stored bytes that go out unchanged. Use it before the next turn of the loop.

    `os.sendfile(socket, part.file.fileno(), part.position, part.size_bytes)`, or `part.read()`.
    `file.fileno()` is -1 on a disk that is none (tests): then read.
    """

    file: File
    position: int
    size_bytes: int

    def read(self) -> bytes:
        """The bytes themselves."""
        return self.file.read(self.size_bytes, self.position)


Part = bytes | memoryview | FileRange


def size_of(part: Part) -> int:
    """Bytes of it."""
    return part.size_bytes if isinstance(part, FileRange) else len(part)


class Stretch(NamedTuple):
    """Messages found in one segment, from the wanted offset up to, not including, `end_offset`."""

    end_offset: int
    size_bytes: int
    parts: list[Part]


class DamagedError(Exception):
    """Stored bytes are not what was admitted.

    Messages below `end_offset` are still good; the batch at byte `position` is not.
    """

    def __init__(self, segment: "Segment", end_offset: int, position: int, why: str) -> None:
        """`why`: what is wrong, for the log."""
        super().__init__(
            f"{segment.path}: {why}; messages from offset {end_offset} on are not served"
        )
        self.end_offset = end_offset
        self.position = position


class Segment:
    """A log file from `first_offset` on. `next_offset`, sizes and times are its writer's to set."""

    __slots__ = (
        "_damage",
        "_disk",
        "_index",
        "_key_id",
        "_rebuilt",
        "file",
        "first_offset",
        "folder",
        "index_checksum",
        "index_file",
        "last_timestamp_us",
        "next_offset",
        "size_bytes",
        "verified",
    )

    def __init__(self, disk: Disk, folder: str, first_offset: int) -> None:
        """An empty segment. Touches no file."""
        self._disk = disk
        self.folder = folder
        self.first_offset = first_offset
        self.next_offset = first_offset
        self.size_bytes = 0
        self.last_timestamp_us = 0
        self.index_checksum: int | None = None  # of the index file, if a clean stop noted it
        self.verified: Verified | None = None  # None: all bytes are known to be right
        self.file: File = disk.open(log_path(folder, first_offset))
        self.index_file: File = disk.open(index_path(folder, first_offset))
        self._index: SparseIndex | None = None
        self._rebuilt = False
        self._key_id: str | None = None  # None: nobody has looked
        self._damage: DamagedError | None = None  # where stored bytes were found to be wrong last

    @property
    def path(self) -> str:
        """Of the data file."""
        return self.file.path

    @property
    def key_id(self) -> str:
        """Of the key that all its batches are encrypted with; empty: none is. OSError."""
        if self._key_id is None:
            if not self.size_bytes:
                return ""
            self._key_id = key_id_of(self.file.read(PREFIX_BYTES, 0))
        return self._key_id

    @property
    def index_bytes(self) -> int:
        """Memory that the entries take; 0 if they are not loaded."""
        return self._index.size_bytes if self._index is not None else 0

    @property
    def index_is_loaded(self) -> bool:
        """Whether the entries are in memory."""
        return self._index is not None

    @property
    def index(self) -> SparseIndex:
        """The entries; read and judged at first use, made anew from the log when in doubt."""
        if self._index is None:
            self._index = self._load_index()
        return self._index

    @index.setter
    def index(self, index: SparseIndex) -> None:
        self._index = index

    def takes(self, key_id: str) -> bool:
        """Whether batches with this key, or with none if empty, may be appended. Reject."""
        try:
            return not self.size_bytes or self.key_id == key_id
        except OSError as error:
            raise not_appended(self.path, error) from error

    def index_to_grow(self) -> SparseIndex:
        """The entries before an append. Reject if the disk cannot read now: nothing was written."""
        try:
            return self.index
        except OSError as error:
            raise not_appended(self.index_file.path, error) from error

    def create(self) -> None:
        """Make both files, empty. OSError if the disk refuses; then there is neither."""
        try:
            self.file = self._disk.open(self.path, create=True)
            self.file.truncate(0)
            self.index_file = self._disk.open(self.index_file.path, create=True)
            self.index_file.truncate(0)
        except OSError:
            self.close()
            with contextlib.suppress(OSError):
                self._disk.remove(self.path)
            raise
        self._index = SparseIndex(self.index_file)

    def read_index_file(self) -> bytes:
        """What the index file holds; a missing one is made, if the disk has room."""
        try:
            return self.index_file.read(ENTRIES_MAX * ENTRY_BYTES, 0)
        except FileNotFoundError:
            with contextlib.suppress(OSError):
                self.index_file = self._disk.open(self.index_file.path, create=True)
            return b""

    def forget_index(self) -> None:
        """Drop the entries from memory; they are read again when needed."""
        if self._index is not None and self._index.write():
            self.index_checksum = self._index.checksum()
            self._index = None

    def rebuild_index(self) -> SparseIndex:
        """Make the index from the log; damaged batches and all behind them get no entry."""
        found = scan_log(self.file, 0, self.size_bytes, self.first_offset)
        index = SparseIndex(self.index_file)
        for offset, timestamp_us, position in found.entries:
            index.add(offset, timestamp_us, position)
        index.rewrite()
        self.index_checksum = None
        self._index = index
        self._rebuilt = True
        return index

    @property
    def damage(self) -> DamagedError | None:
        """Where stored bytes were found to be wrong last; nothing from there on is served."""
        return self._damage

    def fence(self, end_offset: int, position: int, why: str) -> DamagedError:
        """Serve nothing from the batch at byte `position`, `end_offset`, on: it is damaged."""
        self.index.cut(position)
        self.index.settle()
        self.index_checksum = None
        self._damage = DamagedError(self, end_offset, position, why)
        return self._damage

    def close(self) -> None:
        """Give the descriptors back."""
        self.file.close()
        self.index_file.close()

    def read(
        self, offset: int, end_offset: int, bytes_max: int, keys: Keyring = NO_KEYS
    ) -> Stretch:
        """Messages with offset <= their offset < end_offset, as parts that are whole batches.

        `offset` lies in the segment, `end_offset` not beyond it. Stops early at `bytes_max`, which
        one batch, or one index chunk of less than 32 KiB, may exceed. DamagedError when the bytes
        are not right, UnreadableBatchError when `keys` do not open them.
        """
        try:
            return self._read(offset, end_offset, bytes_max, keys)
        except _DoubtError as doubt:
            if self._rebuilt:  # the index is as the log says, so the log itself is damaged
                raise DamagedError(self, offset, self.size_bytes, str(doubt)) from doubt
        self.rebuild_index()
        try:
            return self._read(offset, end_offset, bytes_max, keys)
        except _DoubtError as doubt:
            raise DamagedError(self, offset, self.size_bytes, str(doubt)) from doubt

    def offset_at_time(self, timestamp_us: int) -> int:
        """Offset of the first batch with a timestamp of at least this; `next_offset` if none."""
        if timestamp_us > self.last_timestamp_us:
            return self.next_offset
        try:
            return self._offset_at_time(timestamp_us)
        except _DoubtError:
            self.rebuild_index()
        try:
            return self._offset_at_time(timestamp_us)
        except _DoubtError as doubt:
            raise DamagedError(self, self.first_offset, 0, str(doubt)) from doubt

    def _offset_at_time(self, timestamp_us: int) -> int:
        index = self.index
        entry = index.floor_time(timestamp_us)
        if entry < 0:
            return self.first_offset
        start, stop = self._chunk(index, entry)
        self._check_entry(index, entry)
        region = self._bytes(start, stop)
        try:
            at = kernel.locate_time(region, timestamp_us)
        except kernel.BrokenBatchError as error:
            raise _DoubtError(str(error)) from error
        if at < len(region):
            return int.from_bytes(region[at + 8 : at + 16], "little")
        if entry + 1 == len(index):
            return self.next_offset
        self._check_entry(index, entry + 1)
        return index.offsets[entry + 1]

    def _read(self, offset: int, end_offset: int, bytes_max: int, keys: Keyring) -> Stretch:
        index = self.index
        first = index.floor(offset)
        if first < 0:
            raise _DoubtError(f"no index entry for offset {offset}")
        start = index.positions[first]
        damage = self._damage
        if damage is not None and start <= damage.position:
            if damage.end_offset <= offset:
                raise damage  # behind the bad batch in the same chunk: nobody can find the border
            end_offset = min(end_offset, damage.end_offset)
        last = index.floor(end_offset - 1)
        if self._chunk(index, last)[1] - start > bytes_max:
            last = max(index.floor_position(start + bytes_max) - 1, first)
            if last + 1 < len(index):
                end_offset = min(end_offset, index.offsets[last + 1])
        stop = self._chunk(index, last)[1]
        self._verify(start, stop, offset, index.offsets[first])
        if self._key_id != "" and self.key_id:
            parts = self._select(start, stop, offset, end_offset, keys)
        elif stop - start < SENDFILE_BYTES_MIN or (
            first == last and offset != index.offsets[first]
        ):
            parts = self._select(start, stop, offset, end_offset)
        else:
            parts = self._split(index, (first, last), offset, end_offset)
        return Stretch(end_offset, sum(map(size_of, parts)), parts)

    def _split(
        self, index: SparseIndex, chunks: tuple[int, int], offset: int, end_offset: int
    ) -> list[Part]:
        """A long stretch: cut the first and last chunk in memory, leave the middle in the file."""
        first, last = chunks
        start, stop = index.positions[first], self._chunk(index, last)[1]
        head: list[Part] = []
        tail: list[Part] = []
        if offset != index.offsets[first]:
            start = self._chunk(index, first)[1]
            head = self._select(index.positions[first], start, offset, index.offsets[first + 1])
        if end_offset < (index.offsets[last + 1] if last + 1 < len(index) else self.next_offset):
            tail = self._select(index.positions[last], stop, index.offsets[last], end_offset)
            stop = index.positions[last]
        if start == stop:
            return head + tail
        self._check_border(index, start)
        self._check_border(index, stop)
        if stop - start < SENDFILE_BYTES_MIN:
            return [*head, self._bytes(start, stop), *tail]
        return [*head, FileRange(self.file, start, stop - start), *tail]

    def _check_border(self, index: SparseIndex, position: int) -> None:
        """Bytes that go out unread begin and end where batches do, whatever an old index says."""
        entry = index.floor_position(position)
        if index.positions[entry] == position:  # else the end, or a damage that a scan found
            self._check_entry(index, entry)

    def _check_entry(self, index: SparseIndex, entry: int) -> None:
        """Is there a batch as the entry has it? Entries that this process made are right."""
        if self.verified is None:
            return
        offset, position = index.offsets[entry], index.positions[entry]
        found = HEADER.unpack(self._bytes(position, position + HEADER.size))
        if found[1:3] != (offset, index.timestamps_us[entry]):
            raise _DoubtError(f"the batch with offset {offset} is not at byte {position}")

    def _select(
        self, start: int, stop: int, offset: int, end_offset: int, keys: Keyring | None = None
    ) -> list[Part]:
        region: bytes | memoryview = self._bytes(start, stop)
        try:
            if keys is not None:
                region = keys.open(with_offsets(region, offset, end_offset))
            chosen = kernel.select(region, offset, end_offset - offset)
        except kernel.BrokenBatchError as error:
            raise _DoubtError(str(error)) from error
        if chosen.count != end_offset - offset or chosen.last_offset != end_offset - 1:
            raise _DoubtError(
                f"offsets {offset} to {end_offset} are not at bytes {start} to {stop}"
            )
        parts: list[Part] = [chosen.head] if chosen.head else []
        if chosen.start < chosen.end:
            parts.append(region[chosen.start : chosen.end])
        if chosen.tail:
            parts.append(chosen.tail)
        return parts

    def _verify(self, start: int, stop: int, offset: int, start_offset: int) -> None:
        """Check bytes that an earlier process wrote, once, before anyone is served from them."""
        if self.verified is None or self.verified.covers(start, stop):
            return
        found = scan_log(self.file, start, stop, start_offset)
        if found.end > start:
            self.verified.add(start, found.end)
        if found.end == stop:
            return
        if not self._rebuilt:  # made anew, the index cannot be what is wrong
            raise _DoubtError(f"a batch ends at byte {found.end}, none at byte {stop}")
        why = f"checksum or layout is wrong at byte {found.end}"
        self._damage = DamagedError(self, found.next_offset, found.end, why)
        raise self._damage

    def _bytes(self, start: int, stop: int) -> bytes:
        region = self.file.read(stop - start, start)
        if len(region) != stop - start:
            raise _DoubtError(f"the file ends at byte {start + len(region)}, {stop} were expected")
        return region

    def _chunk(self, index: SparseIndex, entry: int) -> tuple[int, int]:
        """Bytes from one entry up to the next, or up to a batch that was found damaged."""
        positions = index.positions
        start = positions[entry]
        stop = positions[entry + 1] if entry + 1 < len(positions) else self.size_bytes
        if self._damage is not None and start <= self._damage.position < stop:
            stop = self._damage.position
        return start, stop

    def _load_index(self) -> SparseIndex:
        data = self.read_index_file()
        index = SparseIndex.parse(self.index_file, data)
        if self.index_checksum is not None:
            good = kernel.xxh3_64(data) == self.index_checksum
        else:
            good = len(data) % ENTRY_BYTES == 0 and index.is_plausible(
                first_offset=self.first_offset,
                next_offset=self.next_offset,
                size_bytes=self.size_bytes,
            )
        return index if good else self.rebuild_index()


class _DoubtError(Exception):
    """The index does not fit the log."""

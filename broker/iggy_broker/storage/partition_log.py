"""The segments of one partition: append, roll, read a range, locate by time, drop the head.

Invariants, in the order in which a crash would test them:
1. Bytes are in the page cache before `append` returns, and the end moves after them: a killed
   process loses nothing and gives no offset twice.
2. Data before index: an index entry never points past the data.
3. A refused write is cut back to the last whole batch before anyone could see it.
4. `synced` is written after the sync it speaks of; the `clean` marker goes before the first append.
5. Heads are removed oldest first, each made durable before the next: no hole can appear.
"""

import contextlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter

from iggy_broker.errors import Reject
from iggy_broker.logs import Note
from iggy_broker.storage import layout
from iggy_broker.storage.disk import Bytes, Disk, File, StorageFailed, may_pass
from iggy_broker.storage.index_cache import IndexCache
from iggy_broker.storage.recovery import clean_marker, synced_record, write_synced
from iggy_broker.storage.refusals import not_opened, refusal, unreadable
from iggy_broker.storage.segment import DamagedError, Part, Segment, Stretch
from iggy_broker.storage.sparse_index import INDEX_EVERY_BYTES, SparseIndex
from iggy_broker.storage.syncer import Mark, SyncWork, sync_here
from iggy_wire.sealing import NO_KEYS, Keyring, UnreadableBatchError

CHECKPOINT_EVERY_BYTES = 32 * 1024 * 1024  # synced bytes after which the `synced` file is renewed

_OVERSHOOT_BYTES = 32 * 1024  # what a segment's read may take beyond the wanted bytes


@dataclass(frozen=True, slots=True)
class LogOptions:
    """How a log behaves."""

    segment_bytes: int
    parents: tuple[str, ...] = ()  # folders above, synced once when the log is new
    keys: Keyring = NO_KEYS  # of batches that are encrypted


class PartitionLog:
    """The segments of one folder. Single-threaded; only `SyncWork.run` happens elsewhere."""

    __slots__ = (
        "_active", "_attention", "_checkpoint_size_bytes", "_cut_is_due", "_dirty", "_disk",
        "_firsts", "_folders_dirty", "_index", "_index_dirty", "_indexes", "_marker_there",
        "_options", "_taken", "_told", "_written_bytes", "epoch", "folder", "last_timestamp_us",
        "next_offset", "segments", "size_bytes", "synced_next_offset", "synced_written_bytes",
        "warn",
    )  # fmt: skip

    def __init__(
        self,
        folder: str,
        segments: list[Segment],
        options: LogOptions,
        *,
        disk: Disk,
        indexes: IndexCache,
        warn: Callable[[str], None],
    ) -> None:
        """A log over recovered segments, or over none. Everything in them counts as synced."""
        self.folder = folder
        self.segments = segments
        self.warn = warn
        self._disk = disk
        self._indexes = indexes
        self._options = options
        self.epoch = 0  # counts purges and deletion: what belongs to an earlier one is ignored
        self._marker_there = disk.exists(f"{folder}/{layout.CLEAN_FILE}")
        self._folders_dirty: list[str] = [] if segments else [folder, *options.parents]
        self._told: dict[int, int] = {}
        self._take_over(segments)

    def _take_over(self, segments: list[Segment]) -> None:
        self.segments = segments
        self._firsts = [segment.first_offset for segment in segments]
        self._active: Segment | None = segments[-1] if segments else None
        self._index: SparseIndex | None = None
        self.next_offset = segments[-1].next_offset if segments else 0
        self.last_timestamp_us = 0
        for segment in segments:  # an empty last one has no time of its own
            segment.last_timestamp_us = max(segment.last_timestamp_us, self.last_timestamp_us)
            self.last_timestamp_us = segment.last_timestamp_us
        self.size_bytes = sum(segment.size_bytes for segment in segments)
        self.synced_next_offset = self.next_offset
        self._written_bytes = 0
        self.synced_written_bytes = 0
        self._checkpoint_size_bytes = 0
        self._dirty: list[Segment] = []
        self._index_dirty: list[Segment] = []
        self._taken: tuple[list[Segment], list[str]] = ([], [])  # by the sync that runs now
        self._attention = True  # something must be done before the next append
        self._cut_is_due = False  # bytes of a refused write are still behind the end

    @property
    def first_offset(self) -> int:
        """Oldest offset that is stored; `next_offset` if none is."""
        return self._firsts[0] if self._firsts else self.next_offset

    @property
    def unsynced_messages(self) -> int:
        """Messages that a power cut may take."""
        return self.next_offset - self.synced_next_offset

    @property
    def unsynced_bytes(self) -> int:
        """Bytes that a power cut may take."""
        return self._written_bytes - self.synced_written_bytes

    def append(self, batch: Bytes, count: int, timestamp_us: int) -> None:
        """Write one stamped batch of `count` messages at the end. Reject: nothing was stored."""
        if self._attention:
            self._prepare()
        segment, index = self._active, self._index
        assert segment is not None and index is not None, "made by _prepare"
        position = segment.size_bytes
        try:
            segment.file.write(batch, position)
        except OSError as error:
            raise self._cut_back(segment, error) from error
        length = len(batch)
        if position >= index.next_position or length >= INDEX_EVERY_BYTES:
            index.appended(self.next_offset, timestamp_us, position)
        segment.size_bytes = position + length
        self.size_bytes += length
        self._written_bytes += length
        segment.next_offset = self.next_offset = self.next_offset + count
        segment.last_timestamp_us = self.last_timestamp_us = timestamp_us
        if segment.size_bytes >= self._options.segment_bytes:
            self._roll_if_possible()

    def seal_older(self, before_us: int) -> bool:
        """Begin a new segment if the active one's first message was taken before then.

        Whether one was begun: not if the disk refuses, the next append says so.
        """
        active = self._active
        if active is None or not active.size_bytes:
            return False
        try:
            begun_us = active.index.timestamps_us[:1]  # none if the first batch is damaged
            if not begun_us or begun_us[0] < before_us:
                if self._attention:
                    self._prepare()
                if active is self._active:
                    self._roll()
        except (Reject, OSError):
            self._attention = True
        return active is not self._active

    def read(self, offset: int, end_offset: int, bytes_max: int) -> tuple[int, int, list[Part]]:
        """(end, bytes, parts) of messages from `offset` to at most `end_offset`, in whole batches.

        `first_offset` <= offset < end_offset <= `next_offset`. Damaged bytes end it early, maybe at
        once. Reject when the disk cannot read, or no key opens the first of them.
        """
        parts: list[Part] = []
        size_bytes = 0
        number = bisect_right(self._firsts, offset) - 1
        while offset < end_offset and size_bytes < bytes_max:
            segment = self.segments[number]
            stop = min(end_offset, segment.next_offset)
            if offset < stop:
                try:
                    stretch = self._read(segment, offset, stop, bytes_max - size_bytes)
                except Reject:
                    if parts:
                        break  # who asks for what follows is told
                    raise
                beyond = size_bytes + stretch.size_bytes > bytes_max + _OVERSHOOT_BYTES
                if parts and beyond:
                    break
                parts += stretch.parts
                size_bytes += stretch.size_bytes
                offset = stretch.end_offset
            if offset < segment.next_offset:
                break  # enough bytes, or damage
            number += 1
        return offset, size_bytes, parts

    def offset_at_time(self, timestamp_us: int) -> int:
        """Offset of the first batch stamped at or after this time; `next_offset` if none."""
        number = bisect_left(self.segments, timestamp_us, key=_last_timestamp_us)
        if number == len(self.segments):
            return self.next_offset
        segment = self.segments[number]
        try:
            return segment.offset_at_time(timestamp_us)
        except DamagedError as damage:
            self._tell(segment, damage)
            return segment.next_offset
        except OSError as error:
            raise unreadable(segment.path, error) from error

    def fence(self, segment: Segment, end_offset: int, position: int, why: str) -> None:
        """Serve nothing of a segment from the damaged batch at byte `position` on."""
        damage = segment.fence(end_offset, position, why)
        self._told[segment.first_offset] = damage.end_offset  # a poll need not tell it again
        if segment is self._active:
            self._attention = True

    def drop_head(self, count: int) -> list[Segment]:
        """Take up to `count` sealed segments off the front. The caller removes their files."""
        count = min(count, len(self.segments) - 1)
        if count <= 0:
            return []
        if self._marker_there:  # it names what goes now, so that a stop must leave another one
            with contextlib.suppress(OSError):
                self._disk.remove(f"{self.folder}/{layout.CLEAN_FILE}")
            self._marker_there = False
        dropped = self.segments[:count]
        del self.segments[:count], self._firsts[:count]
        for segment in dropped:
            self.size_bytes -= segment.size_bytes
            self._indexes.forget(segment)
            segment.close()
        self._dirty = [segment for segment in self._dirty if segment not in dropped]
        self._index_dirty = [segment for segment in self._index_dirty if segment not in dropped]
        return dropped

    def start_anew(self) -> None:
        """Forget everything (purge): the next message gets offset 0. The caller removes files."""
        self.abandon()
        self.epoch += 1
        self._marker_there = False
        self._told = {}
        self._take_over([])

    def discard(self) -> None:
        """Forget everything and sync nothing any more (delete)."""
        self.start_anew()
        self._folders_dirty = []

    def begin_sync(self, *, checkpoint: bool) -> SyncWork | None:
        """What is unsynced now. Holds the files until `end_sync`."""
        if not self._dirty and not self._folders_dirty:
            return None
        due = self._written_bytes - self._checkpoint_size_bytes >= CHECKPOINT_EVERY_BYTES
        record = None
        files: list[File] = []
        if self._active is not None and (checkpoint or due or len(self._dirty) > 1):
            # Entries first: a position in `synced` promises that the index before it is whole.
            indexed = [segment for segment in self._index_dirty if len(segment.index)]  # has a file
            files += [segment.index_file for segment in indexed if segment.index.write()]
            record = synced_record(self._active)
            self._index_dirty = []
            self._checkpoint_size_bytes = self._written_bytes
        files += [segment.file for segment in self._dirty]
        for file in files:
            file.hold()
        folders = tuple(self._folders_dirty)
        self._taken = (self._dirty, self._folders_dirty)
        self._dirty, self._folders_dirty = [], []
        self._attention = True  # the next append is not covered: its segment is dirty again
        mark = Mark(self.epoch, self.next_offset, self._written_bytes, record)
        return SyncWork(tuple(files), folders, mark)

    def end_sync(self, work: SyncWork, *, good: bool) -> bool:
        """A sync ended. Only a good one of this life of the log moves the durable end.

        False: the bytes it was about were purged or deleted meanwhile, its result means nothing.
        """
        for file in work.files:
            file.release()
        mark = work.mark
        assert isinstance(mark, Mark), "made by begin_sync"
        if mark.epoch != self.epoch:
            return False
        self._taken = ([], [])
        if not good:
            return True
        self.synced_next_offset = mark.next_offset
        self.synced_written_bytes = mark.size_bytes
        if mark.record is not None:
            write_synced(self._disk, self.folder, mark.record)
        return True

    def close(self) -> None:
        """Clean stop: sync, leave the marker, give descriptors back."""
        # A sync in a thread may not be through, and the marker must not be there before its bytes.
        self._dirty = self._taken[0] + self._dirty
        self._folders_dirty = self._taken[1] + self._folders_dirty
        sync_here(self, self._disk)
        if not self._marker_there and self.segments:
            try:
                marker = clean_marker(self.segments).encode()
                self._disk.write_file(f"{self.folder}/{layout.CLEAN_FILE}", marker, sync=False)
            except OSError as error:
                why = f"{self.folder}: no clean-stop marker, the next start reads more: {error}"
                self.warn(Note("marker_not_written", why))
        self.abandon()

    def abandon(self) -> None:
        """Give descriptors back and nothing else, as a crash does."""
        for segment in self.segments:
            self._indexes.forget(segment)
            segment.close()

    def _prepare(self) -> None:
        """Before the first append and after a failed roll. Reject if the disk refuses."""
        try:
            if self._marker_there:
                self._disk.remove(f"{self.folder}/{layout.CLEAN_FILE}")
                self._marker_there = False
            if self._cut_is_due and self._active is not None:
                self._active.file.truncate(self._active.size_bytes)
                self._cut_is_due = False
            active, options = self._active, self._options
            is_full = active is not None and active.size_bytes >= options.segment_bytes
            if active is None or is_full or not active.takes(options.keys.key_id):
                self._roll()
        except OSError as error:
            raise self._refused(self.folder, error) from error
        assert self._active is not None, "made by _roll"
        self._index = self._active.index_to_grow()
        self._mark_dirty(self._active)
        self._attention = False

    def _roll_if_possible(self) -> None:
        """The active segment is full. No room for a new one? Then the next append says so."""
        try:
            self._roll()
        except OSError:
            self._attention = True

    def _roll(self) -> None:
        segment = Segment(self._disk, self.folder, self.next_offset)
        segment.last_timestamp_us = self.last_timestamp_us
        segment.create()
        if self._active is not None:
            self._indexes.touch(self._active)
        self.segments.append(segment)
        self._firsts.append(segment.first_offset)
        self._active, self._index = segment, segment.index
        if self.folder not in self._folders_dirty:
            self._folders_dirty.append(self.folder)
        self._mark_dirty(segment)

    def _mark_dirty(self, segment: Segment) -> None:
        if segment not in self._dirty:
            self._dirty.append(segment)
        if segment not in self._index_dirty:
            self._index_dirty.append(segment)

    def _cut_back(self, segment: Segment, error: OSError) -> Exception:
        """Remove what a failed write left, so that the file ends with a whole batch again."""
        try:
            segment.file.truncate(segment.size_bytes)
        except OSError as second:
            if not may_pass(second):
                why = f"{error}; and it cannot be cut back: {second}"
                return StorageFailed(f"{segment.path}: {why}")
            self._cut_is_due = self._attention = True  # read-only: before the next append, then
        return self._refused(segment.path, error)

    def _refused(self, path: str, error: OSError) -> Exception:
        """What the caller gets. The log hears of it once, until something was written again."""
        refused = refusal(path, error)
        kind = -(error.errno or 0)  # segments have theirs at 0 and above
        if isinstance(refused, Reject) and self._told.get(kind) != self.next_offset:
            self._told[kind] = self.next_offset
            self.warn(Note("sends_refused", f"sends are refused: {refused.detail}"))
        return refused

    def _read(self, segment: Segment, offset: int, end_offset: int, bytes_max: int) -> Stretch:
        if segment is not self._active:
            self._indexes.touch(segment)
        try:
            try:
                return segment.read(offset, end_offset, bytes_max, self._options.keys)
            except DamagedError as damage:
                self._tell(segment, damage)
                if segment is self._active:
                    self._attention = True  # its index may be a new one
                if damage.end_offset <= offset:
                    return Stretch(offset, 0, [])
                stop = min(end_offset, damage.end_offset)
                return segment.read(offset, stop, bytes_max, self._options.keys)
        except DamagedError:
            return Stretch(offset, 0, [])
        except OSError as error:
            raise unreadable(segment.path, error) from error
        except UnreadableBatchError as error:
            refused = not_opened(segment.path, error)
            fields = {"offset": error.offset, "key_id": error.key_id}
            self.warn(Note("not_decrypted", refused.detail, folder=self.folder, **fields))
            raise refused from error

    def _tell(self, segment: Segment, damage: DamagedError) -> None:
        if self._told.get(segment.first_offset) != damage.end_offset:
            self._told[segment.first_offset] = damage.end_offset
            self.warn(Note("damage_found", str(damage), offset=damage.end_offset))


_last_timestamp_us = attrgetter("last_timestamp_us")

"""Metadata on disk: a snapshot, and a journal of the changes since. One writer, shard 0.

    metadata/snapshot.bin    magic, version, state, checksum; replaced whole
    metadata/journal.wal     magic, version, then records
    metadata/journal.cut     the torn tail that the last recovery cut off, if it had to

A record is `length u32, marker u32, checksum u64, entries` (little-endian): the entries of one
group of changes, MessagePack; the checksum is XXH3-64 over length and entries. The next record is
written only after this one is on the disk, so after a crash at most the last one is torn. A
damaged record with a sound one behind it is therefore rot and not a crash, and nothing is guessed:
the broker does not start.

The snapshot is written first and names the last change in it; a crash before the journal is
restarted leaves old records behind, which are skipped by their numbers.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import struct
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from iggy_broker.errors import Reject
from iggy_broker.logs import Note
from iggy_broker.metadata.apply import apply
from iggy_broker.metadata.changes import Entry, decode_entries, encode_entries
from iggy_broker.metadata.model import State
from iggy_broker.metadata.snapshot import (
    FILE_HEAD,
    FOLDER,
    REMEDY,
    SNAPSHOT_FILE,
    VERSION,
    MetadataDamaged,
    MetadataNewer,
    check_head,
    encode_snapshot,
    read_snapshot,
)
from iggy_broker.storage.disk import Disk, File, StorageFailed, is_full, may_pass
from iggy_broker.storage.explain import remedy
from iggy_wire.kernel import xxh3_64

T = TypeVar("T")

JOURNAL_FILE: Final = "journal.wal"
CUT_FILE: Final = "journal.cut"

JOURNAL_BYTES_MAX: Final = 16 << 20  # beyond: a snapshot is due
JOURNAL_BYTES_HARD_MAX: Final = 64 << 20  # snapshots keep failing: changes are refused

_JOURNAL_MAGIC: Final = b"IGKJRNL\0"
_RECORD_HEAD: Final = struct.Struct("<IIQ")  # length, marker, checksum
_MARKER: Final = 0x4B474952  # "RIGK"
_MARKER_BYTES: Final = _MARKER.to_bytes(4, "little")


class JournalFull(Exception):
    """No room for another record; nothing was written. The change may be tried again."""


@dataclass(frozen=True, slots=True)
class JournalFigures:
    """How full the journal is, for metrics."""

    size_bytes: int = 0
    entries: int = 0  # changes since the last snapshot
    oldest_us: int = 0  # when the first of them was made
    waiting: int = 0  # changes that are not in it yet


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was on disk."""

    state: State
    journal: Journal
    notes: tuple[str, ...]  # what recovery had to decide, for the log


class Journal:
    """The open journal. For one task: the writer awaits one `append` after the other."""

    def __init__(
        self,
        folder: str,
        *,
        disk: Disk,
        found: JournalFigures,
        entries_max: int,
        warn: Callable[[str], None],
    ) -> None:
        """An existing journal file, as `load` found it."""
        self._disk = disk
        self._snapshot_path = f"{folder}/{SNAPSHOT_FILE}"
        self._path = f"{folder}/{JOURNAL_FILE}"
        self._file: File = disk.open(self._path)
        self._size_bytes = found.size_bytes
        self._entries_count = found.entries
        self._entries_max = entries_max
        self._oldest_us = found.oldest_us
        self._snapshot_at = entries_max
        self._cut_is_due = False  # bytes of a refused record are still behind the end
        self._warn = warn
        self._thread: ThreadPoolExecutor | None = None

    async def append(self, state: State, entries: Sequence[Entry]) -> None:
        """Make `entries` durable, off the loop; `state` is the state after them.

        JournalFull: nothing was written. StorageFailed: the disk broke a promise, stop the shard.
        """
        self._write(entries)
        self._file.hold()
        try:
            await self._in_thread(self._sync)
        finally:
            self._file.release()
        if self._snapshot_is_due() and await self._in_thread(self._fold, state):
            self._start_anew()

    def append_now(self, state: State, entries: Sequence[Entry]) -> None:
        """The same, blocking: for the start, before there is a loop."""
        self._write(entries)
        self._sync()
        if self._snapshot_is_due() and self._fold(state):
            self._start_anew()

    def figures(self, *, waiting: int) -> JournalFigures:
        """How full it is; `waiting` changes are not in it yet."""
        return JournalFigures(self._size_bytes, self._entries_count, self._oldest_us, waiting)

    def close(self) -> None:
        """Give the descriptor and the thread back; a later use takes them again."""
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None
        self._file.close()

    async def _in_thread(self, work: Callable[..., T], *arguments: State) -> T:
        if self._thread is None:  # not before the fork: threads do not survive it
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="journal")
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    def _write(self, entries: Sequence[Entry]) -> None:
        record = _record(entries)
        if self._size_bytes + len(record) > JOURNAL_BYTES_HARD_MAX:
            raise JournalFull(f"{self._path} has {self._size_bytes} bytes and cannot be folded")
        if self._cut_is_due:
            self._cut_back()
        try:
            self._file.write(record, self._size_bytes)
        except OSError as error:
            # Part of it may be there. A later, shorter record must not have its rest behind it.
            self._cut_is_due = True
            self._cut_back()
            raise self._full(error) from error
        if not self._entries_count:
            self._oldest_us = entries[0].at_us
        self._size_bytes += len(record)
        self._entries_count += len(entries)

    def _full(self, error: OSError) -> JournalFull:
        return JournalFull(f"{self._path}: {error.strerror}: {remedy(error)}")

    def _cut_back(self) -> None:
        try:
            self._file.truncate(self._size_bytes)
        except OSError as error:
            if may_pass(error):  # a read-only disk: the next record tries again first
                raise self._full(error) from error
            raise StorageFailed(f"{self._path}: cannot cut a failed write: {error}") from error
        self._cut_is_due = False

    def _sync(self) -> None:
        try:
            self._file.sync()
        except OSError as error:
            # The kernel may have dropped the pages: what is on the disk is unknown now.
            raise StorageFailed(f"{self._path}: sync failed: {error}") from error

    def _snapshot_is_due(self) -> bool:
        return self._entries_count >= self._snapshot_at or self._size_bytes > JOURNAL_BYTES_MAX

    def _fold(self, state: State) -> bool:
        """Write a snapshot, then an empty journal over the old one; False if there is no room.

        In this order: see the crash at the top. Runs in a thread, so it opens and closes nothing.
        """
        try:
            self._disk.write_file(self._snapshot_path, encode_snapshot(state), sync=True)
            self._disk.write_file(self._path, JOURNAL_HEAD, sync=True)
        except OSError as error:
            # Whichever it was, the old journal is there, and what a snapshot has is skipped.
            why = f"{self._snapshot_path}: no snapshot now ({error}); the journal goes on"
            self._warn(Note("snapshot_postponed", why))
            self._snapshot_at = self._entries_count + self._entries_max
            return False
        return True

    def _start_anew(self) -> None:
        self._file.close()
        self._file = self._disk.open(self._path)
        self._size_bytes = len(JOURNAL_HEAD)
        self._entries_count = 0
        self._snapshot_at = self._entries_max


def load(
    folder: str, *, disk: Disk, entries_max: int, warn: Callable[[str], None] = lambda text: None
) -> Recovered:
    """Read the metadata below `folder` (the data directory), or start with none.

    `entries_max`: changes kept in the journal before they are folded into a snapshot. Raises
    MetadataDamaged, or OSError when the files cannot be read or written.
    """
    folder = _make_folder(disk, folder)
    state = read_snapshot(disk, f"{folder}/{SNAPSHOT_FILE}")
    path = f"{folder}/{JOURNAL_FILE}"
    data = _read_journal(disk, path)
    state, last, end, entries_count = _replay(state, data, path)
    notes = _cut_tail(disk, folder, data=data, end=end) if end < len(data) else ()
    file = disk.open(path)
    file.write(JOURNAL_HEAD, 0)  # of an older format: no older broker may read what we add to it
    # Replayed from the page cache, perhaps, and from here on we build on it. Should the sync of
    # the last record have failed, its pages count as written: only writing them again helps.
    file.write(data[last:end], last)
    file.sync()
    file.close()
    journal = Journal(
        folder,
        disk=disk,
        found=JournalFigures(end, entries_count, _oldest_us(data)),
        entries_max=entries_max,
        warn=warn,
    )
    return Recovered(state, journal, notes)


def peek(root: str, *, disk: Disk) -> State:
    """The same without changing anything. MetadataDamaged, OSError."""
    folder = f"{root}/{FOLDER}"
    path = f"{folder}/{JOURNAL_FILE}"
    state = read_snapshot(disk, f"{folder}/{SNAPSHOT_FILE}")
    data = disk.read_file(path, bytes_max=2 * JOURNAL_BYTES_HARD_MAX)
    check_head(data, _JOURNAL_MAGIC, path)
    return _replay(state, data, path)[0]


def start_anew(root: str, state: State, *, disk: Disk) -> None:
    """Replace the metadata below `root` by `state`. In the order of a fold: see at the top."""
    folder = _make_folder(disk, root)
    disk.write_file(f"{folder}/{SNAPSHOT_FILE}", encode_snapshot(state), sync=True)
    disk.write_file(f"{folder}/{JOURNAL_FILE}", JOURNAL_HEAD, sync=True)


def _make_folder(disk: Disk, root: str) -> str:
    """The folder of the metadata, on the disk with its entries before we build on them.

    At every start: the life before may have been killed between a rename (of a snapshot, of a new
    journal) or a new folder and its sync. We see those; a power cut would still undo them.
    """
    folder = f"{root}/{FOLDER}"
    disk.make_folders(folder)
    disk.sync_folder(folder)
    disk.sync_folder(root)
    with contextlib.suppress(PermissionError):  # not ours to read, so not made by us either
        disk.sync_folder(os.path.dirname(root))
    return folder


JOURNAL_HEAD: Final = FILE_HEAD.pack(_JOURNAL_MAGIC, VERSION, 0)


def _read_journal(disk: Disk, path: str) -> bytes:
    data = disk.read_file(path, bytes_max=2 * JOURNAL_BYTES_HARD_MAX) if disk.exists(path) else b""
    if data == JOURNAL_HEAD[: len(data)] and len(data) < len(JOURNAL_HEAD):
        # Missing, or torn while it was made: nothing was ever journaled in it.
        disk.write_file(path, JOURNAL_HEAD, sync=True)
        return JOURNAL_HEAD
    check_head(data, _JOURNAL_MAGIC, path)
    return data


def _replay(state: State, data: bytes, path: str) -> tuple[State, int, int, int]:
    """State after the sound records, start and end of the last, and how many entries they have."""
    last = at = FILE_HEAD.size
    entries_count = 0
    while (found := _read_record(data, at)) is not None:
        last = at
        entries, at = found
        entries_count += len(entries)
        for entry in entries:
            if entry.op <= state.op:
                continue  # already in the snapshot
            if entry.op != state.op + 1:
                detail = f"change {state.op + 1} is missing before {entry.op}"
                raise MetadataDamaged(f"{path}: {detail}; {REMEDY}")
            state = _reapply(state, entry, path)
    if _sound_record_behind(data, at):
        detail = f"record at byte {at} is damaged and others follow"
        raise MetadataDamaged(f"{path}: {detail}; {REMEDY}")
    return state, last, at, entries_count


def _reapply(state: State, entry: Entry, path: str) -> State:
    try:
        return apply(state, entry).state
    except Reject as error:  # it was accepted once: what is before it is not what was there then
        detail = f"change {entry.op} no longer applies ({error})"
        raise MetadataDamaged(f"{path}: {detail}; {REMEDY}") from error


def _read_record(data: bytes, at: int) -> tuple[list[Entry], int] | None:
    """The entries of the record at `at` and where it ends; None if no whole one is there."""
    if at + _RECORD_HEAD.size > len(data):
        return None
    length, marker, checksum = _RECORD_HEAD.unpack_from(data, at)
    start = at + _RECORD_HEAD.size
    end = start + length
    if marker != _MARKER or end > len(data):
        return None
    body = data[start:end]
    if _checksum(body) != checksum:
        return None
    try:
        return decode_entries(body), end
    except (
        msgspec.MsgspecError
    ) as error:  # sound bytes that we cannot read: written by a newer broker
        raise MetadataNewer(
            f"journal record at byte {at}: {error}; start a newer broker"
        ) from error


def _oldest_us(data: bytes) -> int:
    """When the first change in a sound journal was made; 0 if there is none."""
    found = _read_record(data, FILE_HEAD.size)
    return found[0][0].at_us if found and found[0] else 0


def _sound_record_behind(data: bytes, at: int) -> bool:
    found = data.find(_MARKER_BYTES, at + 1)
    while found >= 0:
        start = found - 4
        if start > at and _read_record(data, start) is not None:
            return True
        found = data.find(_MARKER_BYTES, found + 1)
    return False


def _cut_tail(disk: Disk, folder: str, *, data: bytes, end: int) -> tuple[str, ...]:
    """Keep the torn tail aside, then cut it off. A full disk keeps nothing, but a broken raises."""
    kept = f"kept in {CUT_FILE}"
    try:
        disk.write_file(f"{folder}/{CUT_FILE}", data[end:], sync=True)
    except OSError as error:
        if not is_full(error):
            raise
        kept = f"kept nowhere ({error})"
    file = disk.open(f"{folder}/{JOURNAL_FILE}")
    file.truncate(end)
    file.sync()
    file.close()
    detail = f"cut a torn tail of {len(data) - end} bytes at byte {end}, {kept}"
    return (Note("journal_cut", f"{folder}/{JOURNAL_FILE}: {detail}"),)


def _record(entries: Sequence[Entry]) -> bytes:
    body = encode_entries(list(entries))
    return _RECORD_HEAD.pack(len(body), _MARKER, _checksum(body)) + body


def _checksum(body: bytes) -> int:
    return xxh3_64(len(body).to_bytes(4, "little") + body)

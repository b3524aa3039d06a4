"""Stored offsets of one partition: one small file per consumer or group.

`offsets/consumers/{id}` and `offsets/groups/{id}`: u64 offset, u64 XXH3-64 of those 8 bytes,
little-endian; 8 bytes without checksum are accepted (Apache Iggy wrote both). A file is written in
place by one 16-byte write: it lies in one sector, so a crash leaves the old or the new value. Read
when first asked for. Odd files are warned about and left alone. What the disk cannot read now is
not taken for absent: whoever asks for it is refused, and it is read again with the next question.
"""

import contextlib
from collections.abc import Callable, Container
from struct import Struct
from typing import NamedTuple

from iggy_broker.errors import Reject
from iggy_broker.logs import Note
from iggy_broker.storage import layout
from iggy_broker.storage.disk import Disk, File
from iggy_wire import kernel
from iggy_wire.errors import ErrorCode

CONSUMER_OFFSETS_MAX = (
    65_536  # per partition, both kinds together; storing one more is refused (3024)
)

_RECORD = Struct("<QQ")
_OFFSET = Struct("<Q")
_ID_END = 1 << 32  # consumer and group numbers are 32 bits
OFFSET_FOLDERS = {1: layout.CONSUMERS_FOLDER, 2: layout.GROUPS_FOLDER}


class ConsumerKey(NamedTuple):
    """Whose offset: kind 1 = consumer, 2 = group, as on the wire."""

    kind: int
    id: int


class ConsumerOffsets:
    """Offsets by consumer. Every change is in the page cache when the call returns."""

    __slots__ = (
        "_changes",
        "_dirty",
        "_disk",
        "_files",
        "_folder",
        "_folders_dirty",
        "_offsets",
        "_uncertain",
        "_unlisted",
        "_unread",
        "_warn",
    )

    def __init__(self, disk: Disk, partition_folder: str, warn: Callable[[str], None]) -> None:
        """Reads nothing yet."""
        self._disk = disk
        self._folder = f"{partition_folder}/{layout.OFFSETS_FOLDER}"
        self._warn = warn
        self._offsets: dict[ConsumerKey, int] = {}
        self._changes = 0
        self._files: dict[ConsumerKey, File] = {}
        self._dirty: dict[ConsumerKey, None] = {}
        self._folders_dirty: set[str] = set()
        # Kinds whose folders and names an earlier process made, and perhaps did not sync.
        self._uncertain: set[int] = set(OFFSET_FOLDERS)
        self._unread: dict[ConsumerKey, int] = {}  # the disk refused; the data ended there then
        self._unlisted: dict[int, int] = {}  # kinds whose folder the disk refused, likewise

    @classmethod
    def load(
        cls, disk: Disk, partition_folder: str, next_offset: int, warn: Callable[[str], None]
    ) -> "ConsumerOffsets":
        """Read all files. Offsets at or beyond `next_offset` are drawn back to the last message."""
        loaded = cls(disk, partition_folder, warn)
        for kind in OFFSET_FOLDERS:
            loaded._load_kind(kind, next_offset)
        return loaded

    def __len__(self) -> int:
        """How many are stored."""
        return len(self._offsets) + len(self._unread)

    @property
    def changes(self) -> int:
        """Another number whenever something was stored or deleted."""
        return self._changes

    def all(self) -> dict[ConsumerKey, int] | None:
        """All as they are now; None while the disk cannot read some of them."""
        return None if self._unlisted or self._unread else dict(self._offsets)

    def get(self, key: ConsumerKey) -> int | None:
        """The stored offset, if any. Reject 3020 if the disk cannot read it."""
        if self._unlisted:
            self._list_again(key.kind)
        if self._unread:
            self._read_again(key)
        return self._offsets.get(key)

    def lowest(self) -> int | None:
        """The smallest stored offset of all consumers and groups: what retention must not pass.

        -1, below all messages, while one of them cannot be read.
        """
        for kind in list(self._unlisted):
            with contextlib.suppress(Reject):
                self._list_again(kind)
        for key in list(self._unread):
            with contextlib.suppress(Reject):
                self._read_again(key)
        if self._unlisted or self._unread:
            return -1
        return min(self._offsets.values(), default=None)

    def advance(self, key: ConsumerKey, offset: int) -> None:
        """Set an offset forward, never back. As `store`."""
        stored = self.get(key)
        if stored is None or stored < offset:
            self.store(key, offset)

    def store(self, key: ConsumerKey, offset: int) -> None:
        """Set an offset; the caller has checked it against the end. Reject 3024 when full."""
        file = self._files.get(key)
        is_new = file is None
        try:
            if file is None:
                file = self._create(key)
            if key.kind in self._uncertain:
                self._uncertain.remove(key.kind)
                self._note_folders(key.kind)
            file.write(_encode(offset), 0)
        except OSError as error:
            if is_new:
                self._give_up(key)
            code = ErrorCode.CANNOT_OPEN_CONSUMER_OFFSETS_FILE
            raise Reject(code, f"{self._path(key)}: {error}") from error
        self._offsets[key] = offset
        self._changes += 1
        self._dirty[key] = None
        self._unread.pop(key, None)

    def delete(self, key: ConsumerKey) -> None:
        """Forget an offset. Reject 3021 if there is none."""
        if self._unlisted:
            self._list_again(key.kind)
        if key not in self._offsets and key not in self._unread:
            raise Reject(ErrorCode.CONSUMER_OFFSET_NOT_FOUND, f"no offset is stored for {key}")
        self._remove(key)

    def delete_if_stored(self, key: ConsumerKey) -> None:
        """Forget an offset of a deleted group, also if the disk keeps its file: then Reject."""
        if key in self._offsets or self._may_have(key):
            try:
                self._remove(key)
            finally:
                self._forget(key)

    def close(self) -> None:
        """Give descriptors back."""
        for file in self._files.values():
            file.close()

    def take_unsynced(self) -> tuple[list[File], list[str]]:
        """Files and folders that a sync must cover; from now on they count as taken."""
        files = [self._files[key] for key in self._dirty if key in self._files]
        folders = sorted(self._folders_dirty)
        self._dirty.clear()
        self._folders_dirty.clear()
        return files, folders

    @property
    def unsynced(self) -> bool:
        """Whether anything changed since `take_unsynced`."""
        return bool(self._dirty or self._folders_dirty)

    def _create(self, key: ConsumerKey) -> File:
        if len(self) >= CONSUMER_OFFSETS_MAX:
            detail = f"a partition keeps at most {CONSUMER_OFFSETS_MAX}: delete offsets not needed"
            raise Reject(ErrorCode.TOO_MANY_CONSUMER_OFFSETS, detail)
        folder = self._kind_folder(key.kind)
        if not self._disk.exists(folder):
            self._disk.make_folders(folder)
            self._note_folders(key.kind)
        file = self._disk.open(self._path(key), create=True)
        if file.size() > _RECORD.size:
            file.truncate(0)  # a foreign file of that name was warned about; its rest would stay
        self._files[key] = file
        self._folders_dirty.add(folder)
        return file

    def _give_up(self, key: ConsumerKey) -> None:
        """A new file could not be filled: none is better than an empty one."""
        file = self._files.pop(key, None)
        if file is not None:
            file.close()
        if not self._may_have(key):
            with contextlib.suppress(OSError):
                self._disk.remove(self._path(key))

    def _remove(self, key: ConsumerKey) -> None:
        try:
            self._disk.remove(self._path(key))
        except OSError as error:
            code = ErrorCode.CANNOT_DELETE_CONSUMER_OFFSET_FILE
            raise Reject(code, f"{self._path(key)}: {error}") from error
        self._forget(key)
        self._folders_dirty.add(self._kind_folder(key.kind))

    def _forget(self, key: ConsumerKey) -> None:
        self._changes += 1
        self._offsets.pop(key, None)
        self._unread.pop(key, None)
        self._dirty.pop(key, None)
        file = self._files.pop(key, None)
        if file is not None:
            file.close()

    def _may_have(self, key: ConsumerKey) -> bool:
        """Whether a file may be there that the disk could not read, or not even find, so far."""
        return key in self._unread or key.kind in self._unlisted

    def _load_kind(self, kind: int, next_offset: int) -> None:
        folder = self._kind_folder(kind)
        try:
            names = self._disk.list_folder(folder)
        except OSError as error:
            why = f"{folder}: cannot be listed, whoever asks for an offset is refused: {error}"
            self._warn(Note("offset_file_unreadable", why))
            self._unlisted[kind] = next_offset
            return
        for name in names:
            path = f"{folder}/{name}"
            if not _is_id(name) or self._disk.is_folder(path):
                self._warn(Note("offset_file_foreign", f"{path}: not an offset file, left alone"))
                continue
            if len(self) >= CONSUMER_OFFSETS_MAX:
                why = f"{path}: more than {CONSUMER_OFFSETS_MAX} offsets, ignored"
                self._warn(Note("offset_file_ignored", why))
                continue
            key = ConsumerKey(kind, int(name))
            if key not in self._offsets:  # else it was stored before the disk could list
                self._load_file(key, path, next_offset)

    def _load_file(self, key: ConsumerKey, path: str, next_offset: int) -> None:
        try:
            offset = decode_offset(self._disk.read_file(path, bytes_max=_RECORD.size + 1))
        except OSError as error:
            why = f"{path}: cannot be read, whoever asks for it is refused: {error}"
            self._warn(Note("offset_file_unreadable", why))
            self._unread[key] = next_offset
            return
        if offset is None:
            why = f"{path}: wrong length or checksum, no offset is stored"
            self._warn(Note("offset_file_damaged", why))
            return
        file = self._disk.open(path)
        if offset >= next_offset:
            why = f"offset {offset} is ahead of the data, which ends at {next_offset}"
            self._warn(Note("offset_drawn_back", f"{path}: {why}", offset=offset, end=next_offset))
            if not self._draw_back(file, key, next_offset):
                return  # an empty partition has no offset to draw it back to
            offset = next_offset - 1
        self._offsets[key] = offset
        self._files[key] = file

    def _list_again(self, kind: int) -> None:
        next_offset = self._unlisted.pop(kind, None)
        if next_offset is not None:
            self._load_kind(kind, next_offset)
        if kind in self._unlisted:
            code = ErrorCode.CANNOT_READ_CONSUMER_OFFSETS
            raise Reject(code, f"{self._kind_folder(kind)}: cannot be listed; try again")

    def _read_again(self, key: ConsumerKey) -> None:
        next_offset = self._unread.pop(key, None)
        if next_offset is not None:
            self._load_file(key, self._path(key), next_offset)
        if key in self._unread:
            code = ErrorCode.CANNOT_READ_CONSUMER_OFFSETS
            raise Reject(code, f"{self._path(key)}: cannot be read; try again, or store another")

    def _draw_back(self, file: File, key: ConsumerKey, next_offset: int) -> bool:
        """Write the lower value at once: once the data has grown again, nobody could tell.

        Whether an offset is left. A disk that refuses is warned about; the next start tries again.
        """
        try:
            if next_offset == 0:
                self._disk.remove(file.path)
                self._folders_dirty.add(self._kind_folder(key.kind))
            else:
                file.write(_encode(next_offset - 1), 0)
                self._dirty[key] = None
                self._note_folders(key.kind)
        except OSError as error:
            why = f"{file.path}: the lower offset cannot be written: {error}"
            self._warn(Note("offset_not_written", why))
        return next_offset > 0

    def _note_folders(self, kind: int) -> None:
        """A sync must cover the names that lead to files of this kind."""
        parent = self._folder.rpartition("/")[0]
        self._folders_dirty.update((self._kind_folder(kind), self._folder, parent))

    def _kind_folder(self, kind: int) -> str:
        return f"{self._folder}/{OFFSET_FOLDERS[kind]}"

    def _path(self, key: ConsumerKey) -> str:
        return f"{self._kind_folder(key.kind)}/{key.id}"


def remove_other_groups(disk: Disk, partition_folder: str, known: Container[int]) -> list[str]:
    """At start, before `load`: remove the files of groups that are not `known`; their paths.

    Such a group was deleted shortly before a crash.
    """
    folder = f"{partition_folder}/{layout.OFFSETS_FOLDER}/{layout.GROUPS_FOLDER}"
    strange = [
        f"{folder}/{name}"
        for name in disk.list_folder(folder)
        if _is_id(name) and int(name) not in known
    ]
    for path in strange:
        disk.remove(path)
    return strange


def _is_id(name: str) -> bool:
    return name.isascii() and name.isdecimal() and str(int(name)) == name and int(name) < _ID_END


def _encode(offset: int) -> bytes:
    return _RECORD.pack(offset, kernel.xxh3_64(_OFFSET.pack(offset)))


def decode_offset(data: bytes) -> int | None:
    """The offset in a file's bytes; None if they are damaged."""
    if len(data) == _OFFSET.size:
        (offset,) = _OFFSET.unpack(data)
        return int(offset)
    if len(data) != _RECORD.size:
        return None
    offset, checksum = _RECORD.unpack(data)
    return int(offset) if kernel.xxh3_64(data[: _OFFSET.size]) == checksum else None

"""The disk seam: the only module of the broker's data plane that opens files.

Writes reach the page cache before they return, so a killed process loses nothing; only `sync`
makes bytes survive a power cut, and only `sync_folder` makes creates, renames and removals survive
one. Everything above takes a `Disk`, so tests run the same code on a disk that crashes.
"""

import contextlib
import errno
import os
import shutil
from typing import Protocol

Bytes = bytes | bytearray | memoryview

_MAKE_TRIES_MAX = 100  # another shard removes empty folders, each once
OPEN_FILES_MAX = 4096  # descriptors one shard keeps open; beyond it the least used are closed


# The volume's or the user's limit, a volume that was made read-only, no descriptor left.
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_PASSING = _FULL | {errno.EROFS, errno.EMFILE, errno.ENFILE}


class StorageFailed(Exception):
    """The disk broke a promise (failed sync, failed cut). Never retried: the shard must stop."""


def may_pass(error: OSError) -> bool:
    """Whether the disk only has no room now: whoever asked is refused, and all else goes on."""
    return error.errno in _PASSING


def is_full(error: OSError) -> bool:
    """Whether there is no room, so that nothing can be kept aside, however long one waits."""
    return error.errno in _FULL


class File(Protocol):
    """One file. All positions and sizes are bytes. For one thread, except `sync` while held."""

    @property
    def path(self) -> str:
        """Where the file is."""
        ...

    def fileno(self) -> int:
        """A descriptor for sendfile, valid until the caller next gives up control; -1 if none."""
        ...

    def size(self) -> int:
        """Length in bytes."""
        ...

    def write(self, data: Bytes, position: int) -> None:
        """Write all of `data` at `position`. OSError: an unknown part of it may be written."""
        ...

    def read(self, size_bytes: int, position: int) -> bytes:
        """At most `size_bytes` from `position`; shorter only at the end of the file."""
        ...

    def sync(self) -> None:
        """Make everything written so far survive a power cut. After an OSError nothing is known."""
        ...

    def truncate(self, size_bytes: int) -> None:
        """Cut or extend with zeros."""
        ...

    def hold(self) -> None:
        """Keep the descriptor open (a thread is about to `sync`) until `release`."""
        ...

    def release(self) -> None:
        """End one `hold`."""
        ...

    def close(self) -> None:
        """Give the descriptor back, once nobody holds it. A later use opens the file again."""
        ...


class Disk(Protocol):
    """Files and folders as the broker needs them. Paths are plain strings."""

    def open(self, path: str, *, create: bool = False) -> File:
        """A file. `create` makes it now if missing; without it nothing happens until first use."""
        ...

    def exists(self, path: str) -> bool:
        """Whether a file or folder is there."""
        ...

    def size(self, path: str) -> int:
        """Length of a file in bytes. FileNotFoundError if missing."""
        ...

    def list_folder(self, path: str) -> list[str]:
        """Sorted names of the files and folders in a folder; empty if it is missing."""
        ...

    def is_folder(self, path: str) -> bool:
        """Whether the path is a folder."""
        ...

    def make_folders(self, path: str) -> None:
        """Create a folder and its parents; fine if they exist."""
        ...

    def read_file(self, path: str, *, bytes_max: int) -> bytes:
        """The first `bytes_max` bytes of a small file. FileNotFoundError if missing."""
        ...

    def write_file(self, path: str, data: bytes, *, sync: bool) -> None:
        """Replace a small file at once and whole (temporary name, then rename); `sync` as well.

        OSError: the old file is still there. StorageFailed: nobody knows which one is.
        """
        ...

    def rename(self, source: str, target: str) -> None:
        """Move a file or folder within one file system."""
        ...

    def remove(self, path: str) -> None:
        """Delete a file; fine if missing."""
        ...

    def remove_tree(self, path: str) -> None:
        """Delete a folder with all in it; fine if missing."""
        ...

    def remove_empty(self, path: str) -> bool:
        """Delete a folder if nothing is in it. Whether it is gone; False also if it was missing."""
        ...

    def sync_folder(self, path: str) -> None:
        """Make creates, renames and removals in this folder survive a power cut."""
        ...


class RealFile:
    """A file of the operating system, opened when first needed."""

    __slots__ = ("_close_wanted", "_disk", "_fd", "_held", "path", "used")

    def __init__(self, disk: "RealDisk", path: str) -> None:
        """Nothing is opened yet."""
        self.path = path
        self.used = False  # second chance for the descriptor clock in RealDisk
        self._disk = disk
        self._fd = -1
        self._held = 0
        self._close_wanted = False

    @property
    def held(self) -> bool:
        """Whether a thread relies on the descriptor."""
        return self._held > 0

    def fileno(self) -> int:
        """The descriptor; opens the file if it is closed."""
        self.used = True
        if self._fd < 0:
            self._open(os.O_RDWR)
        return self._fd

    def create(self) -> None:
        """Open now, making the file if it is missing."""
        if self._fd < 0:
            self._open(os.O_RDWR | os.O_CREAT)

    def _open(self, flags: int) -> None:
        self._disk.make_room()
        self._fd = os.open(self.path, flags | os.O_CLOEXEC, 0o640)
        self._disk.opened(self)

    def size(self) -> int:
        """Length in bytes."""
        return os.fstat(self.fileno()).st_size

    def write(self, data: Bytes, position: int) -> None:
        """Write all of `data`; short writes go on where they stopped."""
        fd = self.fileno()
        written = os.pwrite(fd, data, position)
        if written == len(data):
            return
        rest = memoryview(data).cast("B")
        while written < len(rest):
            written += os.pwrite(fd, rest[written:], position + written)

    def read(self, size_bytes: int, position: int) -> bytes:
        """At most `size_bytes` from `position`; shorter only at the end of the file."""
        fd = self.fileno()
        data = os.pread(fd, size_bytes, position)
        if len(data) == size_bytes or not data:
            return data
        parts = [data]
        taken = len(data)
        while taken < size_bytes and data:
            data = os.pread(fd, size_bytes - taken, position + taken)
            parts.append(data)
            taken += len(data)
        return b"".join(parts)

    def sync(self) -> None:
        """One fdatasync."""
        os.fdatasync(self.fileno())

    def truncate(self, size_bytes: int) -> None:
        """Cut or extend with zeros."""
        os.ftruncate(self.fileno(), size_bytes)

    def hold(self) -> None:
        """Open and keep open until `release`."""
        self.fileno()
        self._held += 1

    def release(self) -> None:
        """End one `hold`."""
        self._held -= 1
        if self._close_wanted and not self._held:
            self.close()

    def close(self) -> None:
        """Close the descriptor if it is open; while it is held, at the end of the last `hold`."""
        self._close_wanted = self._held > 0
        if self._fd >= 0 and not self._held:
            fd, self._fd = self._fd, -1
            self._disk.closed(self)
            os.close(fd)


class RealDisk:
    """The operating system's files, with a bound on open descriptors.

    When the bound is reached the first file in turn that was not used since it was last looked at
    is closed (the clock rule). Closing a file with unsynced bytes is safe: Linux keeps a write-back
    error on the file until somebody has been told, also across close and open.
    """

    __slots__ = ("_open", "_open_files_max")

    def __init__(self, *, open_files_max: int = OPEN_FILES_MAX) -> None:
        """`open_files_max`: descriptors kept open by `open`."""
        self._open: dict[RealFile, None] = {}  # in the order in which the clock comes by
        self._open_files_max = open_files_max

    @property
    def open_files(self) -> int:
        """How many descriptors are open now."""
        return len(self._open)

    def opened(self, file: RealFile) -> None:
        """A file took a descriptor."""
        self._open[file] = None

    def closed(self, file: RealFile) -> None:
        """A file gave its descriptor back."""
        del self._open[file]

    def make_room(self) -> None:
        """Close a file that was not used lately if the bound is reached."""
        turns = 2 * len(self._open)
        while len(self._open) >= self._open_files_max and turns > 0:
            turns -= 1
            file = next(iter(self._open))
            if file.used or file.held:
                file.used = False
                self._open[file] = self._open.pop(file)
            else:
                file.close()

    def open(self, path: str, *, create: bool = False) -> RealFile:
        """A file; made now if `create` and missing."""
        file = RealFile(self, path)
        if create:
            file.create()
        return file

    def exists(self, path: str) -> bool:
        """Whether a file or folder is there."""
        return os.path.lexists(path)

    def size(self, path: str) -> int:
        """Length of a file in bytes."""
        return os.stat(path).st_size

    def list_folder(self, path: str) -> list[str]:
        """Sorted names; empty if the folder is missing."""
        try:
            return sorted(os.listdir(path))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def is_folder(self, path: str) -> bool:
        """Whether the path is a folder."""
        return os.path.isdir(path)

    def make_folders(self, path: str) -> None:
        """Create a folder and its parents, however often a parent is removed just now."""
        for _ in range(_MAKE_TRIES_MAX):
            try:
                os.makedirs(path, mode=0o750, exist_ok=True)
            except FileNotFoundError:
                continue
            return
        raise FileNotFoundError(errno.ENOENT, "its parents do not stay", path)

    def read_file(self, path: str, *, bytes_max: int) -> bytes:
        """The first `bytes_max` bytes of a small file."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size_bytes = min(os.fstat(fd).st_size, bytes_max)  # asking for more would allocate it
            return os.pread(fd, size_bytes, 0)
        finally:
            os.close(fd)

    def write_file(self, path: str, data: bytes, *, sync: bool) -> None:
        """Replace a small file whole: a reader sees the old or the new one, never a part."""
        temporary = f"{path}.tmp"
        self.remove(temporary)  # a leftover's bytes must not come back under the new name
        try:
            self._write_new(temporary, data, sync=sync)
            os.rename(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):  # on a full disk its bytes would be missed
                self.remove(temporary)
            raise
        if sync:
            try:
                self.sync_folder(os.path.dirname(path))
            except OSError as error:
                raise StorageFailed(f"{path}: its new name cannot be synced: {error}") from error

    def _write_new(self, path: str, data: bytes, *, sync: bool) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
        try:
            rest = memoryview(data)
            while rest:  # a nearly full disk takes a part, and refuses the rest
                rest = rest[os.write(fd, rest) :]
            if sync:
                os.fdatasync(fd)
        finally:
            os.close(fd)

    def rename(self, source: str, target: str) -> None:
        """Move a file or folder within one file system."""
        os.rename(source, target)

    def remove(self, path: str) -> None:
        """Delete a file; fine if missing."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def remove_tree(self, path: str) -> None:
        """Delete a folder with all in it; fine if missing."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)

    def remove_empty(self, path: str) -> bool:
        """Delete a folder if nothing is in it."""
        try:
            os.rmdir(path)
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return False
            raise
        return True

    def sync_folder(self, path: str) -> None:
        """Make the folder's entries survive a power cut."""
        fd = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

"""An archive in a folder, on another volume than the data. A copy appears whole or not at all."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from iggy_broker.archive.store import BLOCK_BYTES, ArchiveError, ReadAt, Stored

UNFINISHED: Final = ".unfinished"
"""Ending of a copy that is being made."""


class FolderStore:
    """See `store.ArchiveStore`."""

    def __init__(self, root: Path) -> None:
        """Touches nothing yet."""
        self._root = root
        self._making = threading.Lock()
        """Whoever finds a folder there finds it durable."""

    def check(self) -> None:
        """Make the folder, see whether it can be written, remove what an earlier run has left."""
        with self._trouble("is not to be had: make it, or let the broker's user write there"):
            self._root.mkdir(parents=True, exist_ok=True)
            for left in self._root.rglob(f"*{UNFINISHED}"):
                left.unlink(missing_ok=True)
            probe = self._root / f"probe{UNFINISHED}"
            probe.write_bytes(b"probe")
            probe.unlink()

    def put(self, key: str, read: ReadAt, size_bytes: int) -> None:
        """Copy to another name, sync, rename, sync the folder."""
        path = self._root / key
        unfinished = path.with_name(path.name + UNFINISHED)
        with self._trouble(f"does not take {key}: is it full, or read-only?"):
            with self._making:
                self._make_folder(path.parent)
            try:
                with unfinished.open("wb") as file:
                    _copy(read, size_bytes, file.fileno())
                    os.fsync(file.fileno())
                unfinished.rename(path)
            except BaseException:
                with suppress(OSError):
                    unfinished.unlink(missing_ok=True)
                raise
            _sync_folder(path.parent)

    def read(self, key: str, size_bytes: int, position: int) -> bytes:
        """Read a stretch."""
        with self._trouble(f"does not give {key}"), (self._root / key).open("rb") as file:
            return os.pread(file.fileno(), size_bytes, position)

    def read_into(self, key: str, memory: Sequence[memoryview], position: int) -> int:
        """Read a stretch into memory."""
        with self._trouble(f"does not give {key}"):
            file = os.open(self._root / key, os.O_RDONLY | os.O_CLOEXEC)
            try:
                return os.preadv(file, memory, position)
            finally:
                os.close(file)

    def size(self, key: str) -> int | None:
        """Length of a file."""
        with self._trouble(f"does not tell of {key}"):
            try:
                return (self._root / key).stat().st_size
            except FileNotFoundError:
                return None

    def entries(self, prefix: str, *, after: str = "") -> Iterator[Stored]:
        """Files below the folder whose paths begin so."""
        with self._trouble("cannot be listed"):
            keys = _files(str(self._root), prefix.rpartition("/")[0])
            found = sorted(key for key in keys if key.startswith(prefix) and key > after)
        for key in found:
            size_bytes = self.size(key)
            if size_bytes is not None and not key.endswith(UNFINISHED):
                yield Stored(key, size_bytes)

    def folders(self, prefix: str) -> Iterator[str]:
        """Folders whose paths begin so."""
        parent, _, start = prefix.rpartition("/")
        with self._trouble("cannot be listed"):
            try:
                paths = sorted((self._root / parent).iterdir())
            except (FileNotFoundError, NotADirectoryError):
                return
            names = [path.name for path in paths if path.is_dir()]
        yield from (name.removeprefix(start) for name in names if name.startswith(start))

    def delete(self, key: str) -> None:
        """Remove a file."""
        with self._trouble(f"does not remove {key}"):
            (self._root / key).unlink(missing_ok=True)

    def _make_folder(self, folder: Path) -> None:
        """With its parents, each of which is durable. Not the archive itself: it was there."""
        missing = []
        if not self._root.exists():
            raise ArchiveError(f"the archive {self._root} is gone: is it mounted?")
        while not folder.exists():
            missing.append(folder)
            folder = folder.parent
        for made in reversed(missing):
            made.mkdir(exist_ok=True)
            _sync_folder(made.parent)

    @contextmanager
    def _trouble(self, what: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            raise ArchiveError(f"the archive {self._root} {what}: {error}") from error


def _files(root: str, start: str) -> Iterator[str]:
    """Paths below `root` of all files in `start`, which is below it."""
    for parent, _, names in os.walk(os.path.join(root, start)):
        folder = os.path.relpath(parent, root)
        yield from names if folder == "." else (f"{folder}/{name}" for name in names)


def _copy(read: ReadAt, size_bytes: int, target: int) -> None:
    position = 0
    while position < size_bytes:
        block = read(min(BLOCK_BYTES, size_bytes - position), position)
        if not block:
            raise EOFError(f"{position} of {size_bytes} bytes are there")
        view = memoryview(block)
        while view:
            view = view[os.write(target, view) :]
        position += len(block)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""Where the files of a source lie: what is there, and the bytes of one. Reads, and changes nothing.

A file is known by its name, its time and what tells its versions apart. One whose version is gone
or another by now is never read: `DataLoss` says so, and names it.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from iggy_spark import s3
from iggy_spark.errors import DataLoss, SinkError
from iggy_spark.retry import TransientError
from iggy_spark.s3 import Bucket, Connection

# What writers of files use for what is not finished, and what readers of folders skip.
HIDDEN: Final = ("_", ".")

SECOND_US: Final = 1_000_000


class File(NamedTuple):
    """One version of a file; a JSON list of these fields, too."""

    time_us: int  # of its last change, in microseconds since 1970
    key: str  # its name below the path, with / between folders
    size: int  # bytes, as they are stored
    tag: str  # other content, other tag


class Page(NamedTuple):
    """Some of the files that are there, and the time there, in microseconds since 1970, or less
    than a second later.
    """

    now_us: int
    files: list[File]


def gone(file: File) -> DataLoss:
    """The error for a file that is not there as it was; the words are for whoever decides."""
    return DataLoss(
        f"files.path: {file.key} was to be read, and is gone or changed since: put it back as it "
        "was, with its time; or accept the loss and begin with an empty checkpoint, which sends "
        "again what is there, with the same ids"
    )


class Place(Protocol):
    """Where files lie. Its calls raise `TransientError` where another try may help, and
    `SinkError` where none does.
    """

    def pages(self) -> Iterator[Page]:
        """All files that hold something and whose name hides them from nobody, in no order."""

    def read(self, file: File, first: int, size: int) -> bytes:
        """Bytes of a file as it was listed; `size` is within the file.

        Raises:
            DataLoss: it is not there as it was.
        """


def of(path: str, connection: Connection) -> Place:
    """The place that a path names."""
    return BucketFiles(path, connection) if s3.is_address(path) else FolderFiles(Path(path))


def is_shown(key: str) -> bool:
    """Whether neither a file nor a folder around it is one that readers skip."""
    return not any(part.startswith(HIDDEN) for part in key.split("/"))


class FolderFiles:
    """Files below a folder, at any depth."""

    def __init__(self, root: Path) -> None:
        """Touches nothing yet."""
        self._root = root

    def pages(self) -> Iterator[Page]:
        """A page for each folder. Links to folders are not followed."""
        try:
            for folder, below, names in os.walk(self._root, onerror=self._unreadable):
                below[:] = [name for name in below if is_shown(name)]
                now_us = time.time_ns() // 1000
                found = (self._look(Path(folder, name)) for name in names if is_shown(name))
                yield Page(now_us, [file for file in found if file is not None])
        except OSError as error:
            raise self._failed(error) from error

    def _unreadable(self, error: OSError) -> None:
        # A folder below that has just gone is nobody's trouble.
        if not isinstance(error, FileNotFoundError) or not self._root.exists():
            raise error

    def _look(self, path: Path) -> File | None:
        try:
            found = path.stat()
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(found.st_mode) or found.st_size == 0:
            return None
        key = path.relative_to(self._root).as_posix()
        try:
            key.encode()
        except UnicodeEncodeError as error:
            raise SinkError(f"files.path: the name {key!r} is no UTF-8: rename it") from error
        return _file(key, found)

    def read(self, file: File, first: int, size: int) -> bytes:
        """Looks at the file before and after: somebody may be writing to it."""
        try:
            with (self._root / file.key).open("rb") as opened:
                number = opened.fileno()
                is_same = _file(file.key, os.fstat(number)) == file
                found = os.pread(number, size, first) if is_same else b""
                if _file(file.key, os.fstat(number)) == file and len(found) == size:
                    return found
        except FileNotFoundError as error:
            raise gone(file) from error
        except OSError as error:
            raise self._failed(error) from error
        raise gone(file)

    def _failed(self, error: OSError) -> SinkError:
        return SinkError(f"files.path: {self._root} cannot be read: {error}")


def _file(key: str, found: os.stat_result) -> File:
    time_us = found.st_mtime_ns // 1000
    return File(time_us, key, found.st_size, f"{found.st_mtime_ns}")


class BucketFiles:
    """Objects below an address."""

    def __init__(self, address: str, connection: Connection) -> None:
        """Touches nothing yet. Raises ValueError as `s3.parse_address`."""
        self._address = address
        self._bucket = Bucket(address, connection)

    def pages(self) -> Iterator[Page]:
        """A page for each answer of the store."""
        try:
            for now_us, listed in self._bucket.list_objects():
                yield Page(
                    now_us + SECOND_US - 1,  # HTTP tells whole seconds
                    [
                        File(item.time_us, item.key, item.size, item.etag)
                        for item in listed
                        if item.size > 0 and is_shown(item.key)
                    ],
                )
        except s3.StoreError as error:
            raise self._failed(error) from error

    def read(self, file: File, first: int, size: int) -> bytes:
        """The store itself compares the version."""
        try:
            return self._bucket.read(file.key, etag=file.tag, first=first, size=size)
        except s3.Changed as error:
            raise gone(file) from error
        except s3.StoreError as error:
            raise self._failed(error) from error

    def _failed(self, error: s3.StoreError) -> Exception:
        if isinstance(error, s3.StoreAway):
            return TransientError(str(error), cause="unreachable")
        return SinkError(f"files.path: {self._address} cannot be read: {error}")

"""The objects of an archive in a folder or a bucket: listed and read, never changed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Protocol, TypeVar

from iggy_spark.archive_options import ArchiveOptions
from iggy_spark.errors import ArchiveUnreadable, OptionError

T = TypeVar("T")

PAUSE_S: Final = 1.0  # between attempts at a store that does not answer
UNFINISHED: Final = ".unfinished"  # ending of a copy that is being made


class Gone(Exception):
    """An object that was listed is not there any more: look again."""


class Objects(Protocol):
    """What both kinds can do."""

    def keys(self, prefix: str) -> list[str]:
        """All that begin so, in any order."""

    def read(self, key: str, first: int, size: int) -> bytes | None:
        """At most `size` bytes from byte `first` on, fewer at the end; None: no such object."""

    def __str__(self) -> str:
        """For a message."""


class FolderObjects:
    """Files below a folder."""

    def __init__(self, root: str) -> None:
        """Touches nothing yet."""
        self._root = Path(root)

    def __str__(self) -> str:
        """For a message."""
        return f"archive {self._root}"

    def keys(self, prefix: str) -> list[str]:
        """See `Objects`. Raises ArchiveUnreadable."""
        above, _, begin = prefix.rpartition("/")
        try:
            if not self._root.is_dir():
                raise OptionError(f"archivePath: {self._root} is no folder: is it mounted here?")
            found = self._files(above, begin)
            return [path.relative_to(self._root).as_posix() for path in found]
        except OSError as error:
            raise ArchiveUnreadable(f"{self} cannot be read: {error}") from error

    def _files(self, above: str, begin: str) -> Iterator[Path]:
        try:
            entries = list(os.scandir(self._root / above))
        except FileNotFoundError:
            return
        for entry in entries:
            if not entry.name.startswith(begin):
                continue
            if entry.is_file():
                yield Path(entry.path)
                continue
            for folder, _, names in os.walk(entry.path):
                yield from (Path(folder, name) for name in names if not name.endswith(UNFINISHED))

    def read(self, key: str, first: int, size: int) -> bytes | None:
        """See `Objects`. Raises ArchiveUnreadable."""
        try:
            with (self._root / key).open("rb") as file:
                return os.pread(file.fileno(), size, first)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ArchiveUnreadable(f"{self}: {key} cannot be read: {error}") from error


class BucketObjects:
    """Objects below an address."""

    def __init__(self, options: ArchiveOptions, retry_timeout_ms: int) -> None:
        """Connects to nothing yet. Raises OptionError: no address."""
        from iggy_spark import s3  # takes long to import

        self._s3 = s3
        self._address = options.path
        self._retry_timeout_ms = retry_timeout_ms
        connection = s3.Connection(
            options.endpoint, options.region, options.path_style, options.credentials_path
        )
        try:
            self._bucket = s3.Bucket(options.path, connection)
        except ValueError as error:
            raise OptionError(f"archivePath: {error}") from error

    def __str__(self) -> str:
        """For a message."""
        return f"archive {self._address}"

    def keys(self, prefix: str) -> list[str]:
        """See `Objects`. Raises ArchiveUnreadable."""
        return self._asked(lambda: list(self._bucket.list_keys(prefix)))

    def read(self, key: str, first: int, size: int) -> bytes | None:
        """See `Objects`. Raises ArchiveUnreadable."""
        return self._asked(lambda: self._bucket.get(key, first=first, size=size))

    def _asked(self, work: Callable[[], T]) -> T:
        deadline = time.monotonic() + self._retry_timeout_ms / 1000
        while True:
            try:
                return work()
            except self._s3.StoreAway as error:
                if time.monotonic() + PAUSE_S > deadline:
                    raise ArchiveUnreadable(f"archive {error}") from error
            except self._s3.StoreError as error:
                raise ArchiveUnreadable(_refusal(str(error))) from error
            time.sleep(PAUSE_S)


def _refusal(told: str) -> str:
    if told.startswith("credentialsPath"):
        return f"archive.{told}"
    if "credentials" in told.lower():
        return (
            f"archive {told}: set archive.credentialsPath to a folder with the files accessKeyId "
            "and secretAccessKey, or the variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    return f"archive {told}"


def open_objects(options: ArchiveOptions, retry_timeout_ms: int) -> Objects:
    """Those of the archive that the options name. Raises OptionError: no place."""
    if options.path.startswith("/"):
        return FolderObjects(options.path)
    return BucketObjects(options, retry_timeout_ms)

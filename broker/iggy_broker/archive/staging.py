"""A bucket whose uploads lie in a folder first: what is sent, and sent again, is not the log."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from iggy_broker.archive.bucket import BucketPlace, BucketStore
from iggy_broker.archive.store import BLOCK_BYTES, ArchiveError, ReadAt

STAGED: Final = ".staged"
"""Ending of a file that is being sent."""


class StagedBucket(BucketStore):
    """See `store.ArchiveStore`."""

    def __init__(self, place: BucketPlace, folder: Path) -> None:
        """Touches nothing yet. `folder` is on this machine."""
        super().__init__(place)
        self._folder = folder

    def check(self) -> None:
        """Also make the folder, and remove what an earlier run has left in it."""
        with self._staging("is not to be had: make it, or let the broker's user write there"):
            self._folder.mkdir(parents=True, exist_ok=True)
            for left in self._folder.glob(f"*{STAGED}"):
                left.unlink(missing_ok=True)
        super().check()

    def put(self, key: str, read: ReadAt, size_bytes: int) -> None:
        """Copy into the folder, send that, and remove it in every case."""
        with self._staging("takes no copy: is it full, or read-only?"):
            self._folder.mkdir(parents=True, exist_ok=True)
            file = tempfile.NamedTemporaryFile(dir=self._folder, suffix=STAGED)  # noqa: SIM115
        with file:
            position = 0
            while position < size_bytes:
                block = read(min(BLOCK_BYTES, size_bytes - position), position)
                if not block:
                    break  # it is shorter than it was said to be: the upload will tell
                with self._staging("takes no copy: is it full, or read-only?"):
                    file.write(block)
                position += len(block)
            with self._staging("takes no copy: is it full, or read-only?"):
                file.flush()
            descriptor = file.fileno()
            super().put(key, lambda size, at: os.pread(descriptor, size, at), size_bytes)

    @contextmanager
    def _staging(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            detail = f"tmp_upload_dir {self._folder} {what} ({error.strerror or error})"
            raise ArchiveError(detail) from error

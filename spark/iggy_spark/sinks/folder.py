"""Files below a folder of a file system: they wait in `_iggy/temporary` and appear by renames.

<root>/_iggy/temporary/<attempt>/   files of one range, written and synced
<root>/_iggy/journal/<attempt>.json the note: which file goes where
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from iggy_spark.errors import SinkError
from iggy_spark.state import sync_folder, write_durably

WORK: Final = "_iggy"


class FolderPlace:
    """See `files.Place`."""

    def __init__(self, root: Path) -> None:
        """Touches nothing yet."""
        self._root = root
        self._temporary = root / WORK / "temporary"
        self._journal = root / WORK / "journal"

    def check(self) -> None:
        """Make the folders and write a file to them."""
        for folder in (self._temporary, self._journal):
            folder.mkdir(parents=True, exist_ok=True)
        probe = self._temporary / uuid.uuid4().hex
        write_durably(probe, b"")
        probe.unlink()

    def settle(self, incarnation: str) -> None:
        """Finish interrupted renames, drop temporary files."""
        for entry in sorted(self._journal.iterdir()):
            if entry.suffix == ".json":  # others are entries that were never finished
                self._rename_all(self._temporary / entry.stem, json.loads(entry.read_bytes()))
            entry.unlink()
        shutil.rmtree(self._temporary)
        self._temporary.mkdir()

    def files(self) -> Iterator[str]:
        """Paths of all files below the root."""
        for folder, below, names in os.walk(self._root):
            if folder == str(self._root):
                below[:] = [name for name in below if name != WORK]
            at = folder.removeprefix(str(self._root)).lstrip("/")
            yield from (f"{at}/{name}" if at else name for name in names)

    def newest(self, beginning: str) -> bytes | None:
        """The content of the last of some files, by name."""
        folder, _, start = beginning.rpartition("/")
        names = [path.name for path in (self._root / folder).glob(f"{start}*")]
        return (self._root / folder / max(names)).read_bytes() if names else None

    def put(self, place: str, data: bytes) -> None:
        """Written elsewhere, then renamed."""
        temporary = self._temporary / uuid.uuid4().hex
        write_durably(temporary, data)
        self._rename_all(self._temporary, {temporary.name: place})

    @contextmanager
    def attempt(self) -> Iterator[Path]:
        """A folder on the same file system."""
        folder = self._temporary / uuid.uuid4().hex
        folder.mkdir()
        try:
            yield folder
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def publish(self, attempt: Path, files: Mapping[str, str], confirm: Callable[[], None]) -> None:
        """Rename the files. Who may not write any more is kept out by a lock before it begins."""
        confirm()
        if len(files) <= 1:  # needs no journal: one rename is atomic by itself
            self._rename_all(attempt, files)
        else:
            sync_folder(attempt)
            sync_folder(self._temporary)
            unfinished = self._journal / f"{attempt.name}.unfinished"
            entry = unfinished.with_suffix(".json")
            write_durably(unfinished, json.dumps(files).encode())
            unfinished.rename(entry)
            sync_folder(self._journal)
            self._rename_all(attempt, files)
            entry.unlink()
        attempt.rmdir()

    def leave(self, attempt: Path) -> None:
        """What is still there may be promised by a note: the next start decides."""

    def _rename_all(self, attempt: Path, renames: Mapping[str, str]) -> None:
        """Move files to their places; those that are there already were moved before a crash."""
        folders = set()
        for temporary, target in renames.items():
            path = self._root / target
            folders.add(path.parent)
            path.parent.mkdir(parents=True, exist_ok=True)
            if (attempt / temporary).exists():
                os.replace(attempt / temporary, path)
            elif not path.exists():
                raise SinkError(
                    f"files.path: {path} should have come from {attempt / temporary}, and neither "
                    f"exists: restore one of them, or remove {self._journal / attempt.name}.json "
                    "if its messages may be missing"
                )
        # A folder's name is durable once its parent is synced, up to the root.
        for folder in {up for name in folders for up in (name, *name.parents)}:
            if folder.is_relative_to(self._root):
                sync_folder(folder)

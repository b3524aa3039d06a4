"""Parquet files, exactly once: one file per range of offsets, or one in each partition folder.

What makes it exactly once:
- A file's name is its range (`file_names`), and appears by a rename, whole and durable.
- A range that spans several folders is first written completely to temporary files, then a small
  journal entry lists the renames, then they happen, then the entry goes. After a crash `prepare`
  carries out what an entry lists: a range is in the target with all its files or with none.
- `prepare` reads from the names what is there already, so that a deleted checkpoint makes no
  duplicates. The data itself stays the only record: there is no list that grows.

Everything of ours that is not data lies in `_iggy` and `_rejected`; readers skip such names.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from iggy_spark import schema
from iggy_spark.errors import SinkError
from iggy_spark.offsets import OffsetRange
from iggy_spark.sinks import file_names
from iggy_spark.sinks.base import Portion, Spans, Written, merge
from iggy_spark.sinks.parquet import RangeWriter, TemporaryFile
from iggy_spark.state import sync_folder, write_durably

WORK = "_iggy"
REJECTED = "_rejected"


@dataclass(frozen=True, slots=True)
class FilesSettings:
    """Where and how: an absolute folder, the table's columns, and which of them name folders."""

    path: str
    fields: tuple[schema.Field, ...]
    partition_by: tuple[str, ...]


class FilesSink:
    """Writes ranges as Parquet files below one folder of a file system."""

    def __init__(self, settings: FilesSettings) -> None:
        """Touches nothing yet."""
        self._settings = settings
        self._root = Path(settings.path)
        self._temporary = self._root / WORK / "temporary"
        self._journal = self._root / WORK / "journal"

    def check(self) -> None:
        """Make the folders and write a file to them.

        Raises:
            SinkError: not possible.
        """
        try:
            for folder in (self._temporary, self._journal):
                folder.mkdir(parents=True, exist_ok=True)
            probe = self._temporary / uuid.uuid4().hex
            write_durably(probe, b"")
            probe.unlink()
        except OSError as error:
            raise SinkError(f"files.path: {self._root} cannot be written: {error}") from error

    def prepare(self, incarnation: str) -> Mapping[int, Spans]:
        """Finish interrupted renames, drop temporary files, and see what is there."""
        try:
            for entry in sorted(self._journal.iterdir()):
                if entry.suffix == ".json":  # others are entries that were never finished
                    self._rename_all(self._temporary / entry.stem, json.loads(entry.read_bytes()))
                entry.unlink()
            shutil.rmtree(self._temporary)
            self._temporary.mkdir()
            return self._covered(incarnation)
        except (OSError, ValueError) as error:
            raise SinkError(f"files.path: {self._root} cannot be put in order: {error}") from error

    def _covered(self, incarnation: str) -> Mapping[int, Spans]:
        spans: dict[int, list[tuple[int, int]]] = {}
        for folder, below, names in os.walk(self._root):
            if folder == str(self._root):
                below[:] = [name for name in below if name != WORK]
            for name in names:
                found = file_names.parse(name)
                if found is not None and found.incarnation == incarnation:
                    spans.setdefault(found.partition, []).append((found.first, found.end))
        return {partition: merge(found) for partition, found in sorted(spans.items())}

    def write_task(self, wanted: OffsetRange, portions: Iterable[Portion]) -> Written:
        """Write the range to temporary files, then make them appear.

        Raises:
            SinkError: the disk says no; nothing has appeared.
        """
        attempt = self._temporary / uuid.uuid4().hex
        try:
            attempt.mkdir()
            try:
                files = self._write(attempt, portions)
            except BaseException:
                shutil.rmtree(attempt, ignore_errors=True)
                raise
            # From here on the temporary files stay until they are in place, whatever happens: the
            # journal may already promise them.
            name = str(file_names.of_range(wanted))
            self._publish(attempt, {file.path.name: f"{file.folder}/{name}" for file in files})
        except OSError as error:
            raise SinkError(f"files.path: {self._root} cannot be written: {error}") from error
        return Written(
            wanted.partition,
            wanted.first,
            wanted.end,
            rows=sum(file.rows for file in files if file.folder != REJECTED),
            rejected=sum(file.rows for file in files if file.folder == REJECTED),
            size_bytes=sum(file.size_bytes for file in files),
        )

    def _write(self, attempt: Path, portions: Iterable[Portion]) -> list[TemporaryFile]:
        with RangeWriter(attempt, self._settings.fields, self._settings.partition_by) as writer:
            for portion in portions:
                writer.write(portion.rows)
                writer.reject(portion.rejected, folder=REJECTED)
            return writer.finish()

    def _publish(self, attempt: Path, renames: Mapping[str, str]) -> None:
        """Give the files of an attempt (name there → path below the root) their places."""
        if len(renames) <= 1:  # needs no journal: one rename is atomic by itself
            self._rename_all(attempt, renames)
        else:
            sync_folder(attempt)
            sync_folder(self._temporary)
            unfinished = self._journal / f"{attempt.name}.unfinished"
            entry = unfinished.with_suffix(".json")
            write_durably(unfinished, json.dumps(renames).encode())
            unfinished.rename(entry)
            sync_folder(self._journal)
            self._rename_all(attempt, renames)
            entry.unlink()
        attempt.rmdir()

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

    def commit(self, results: Sequence[Written]) -> None:
        """Nothing: the files are in place when their tasks are done."""

    def close(self) -> None:
        """Nothing is open between batches."""

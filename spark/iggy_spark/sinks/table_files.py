"""Rows of one range -> local Parquet files, one or more for each partition of a table.

Memory is bounded: rows wait until there are many, then the partition that has most writes a row
group. So is the number of open files: a partition that was closed may get another file.
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from iggy_spark.errors import SinkError
from iggy_spark.offsets import OffsetRange
from iggy_spark.sinks import file_names
from iggy_spark.sinks.file_formats import COMPRESSION
from iggy_spark.sinks.range_files import BUFFERED_BYTES_MAX

OPEN_FILES_MAX = 64
FILES_MAX = 4096  # of one range; more means that the table's partitions are too fine

Key = tuple[Any, ...]  # one value for each partition field


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A finished file: where it is, its partition, what is in it."""

    path: Path
    key: Key
    footer: pq.FileMetaData

    @property
    def size_bytes(self) -> int:
        """Of the whole file."""
        return self.path.stat().st_size


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column that decides on the partition, and what becomes of each of its values."""

    values: pa.Array
    transform: Callable[[Any], Any] = lambda value: value


def split(
    rows: pa.RecordBatch, columns: Sequence[KeyColumn]
) -> Iterator[tuple[Key, pa.RecordBatch]]:
    """The rows by partition. Values are looked at once each, not once a row."""
    codes = np.zeros(rows.num_rows, dtype=np.int64)
    keys: list[Key] = [()]
    for column in columns:
        encoded = column.values.dictionary_encode(null_encoding="encode")
        numbers: dict[Any, int] = {}
        made = [
            numbers.setdefault(column.transform(value), len(numbers))
            for value in encoded.dictionary.to_pylist()
        ]
        of_row = np.array(made, dtype=np.int64)[encoded.indices.to_numpy()]
        # Numbered anew after each column: their product could be beyond 64 bits.
        used, codes = np.unique(codes * len(numbers) + of_row, return_inverse=True)
        values = list(numbers)
        keys = [(*keys[code // len(values)], values[code % len(values)]) for code in used.tolist()]
    if len(keys) == 1:
        yield keys[0], rows
        return
    for code, key in enumerate(keys):
        yield key, rows.take(pa.array(np.flatnonzero(codes == code)))


def file_name(wanted: OffsetRange, number: int) -> str:
    """The name of a data file: its range, so that a person knows what a file that no snapshot has
    was for, and a part that is its alone, so that no file is ever replaced by another.
    """
    return f"{file_names.of_range(wanted)}-{number}-{uuid.uuid4().hex}{file_names.PARQUET}"


class PartitionWriter:
    """Collects rows by partition. Within `writing`."""

    def __init__(self, folder: Path, form: pa.Schema, **options: Any) -> None:
        """`folder` is empty and goes with the files; `options` are those of `pq.ParquetWriter`."""
        self._folder, self._form = folder, form
        self._options = {"compression": COMPRESSION, **options}
        self._waiting: dict[Key, list[pa.RecordBatch]] = {}
        self._bytes: dict[Key, int] = {}
        self._open: dict[Key, tuple[Path, pq.ParquetWriter, list[pq.FileMetaData]]] = {}
        self._finished: list[LocalFile] = []
        self._count = 0

    def add(self, key: Key, rows: pa.RecordBatch) -> None:
        """Rows of one partition, with the columns of the form.

        Raises:
            SinkError: too many partitions.
        """
        self._waiting.setdefault(key, []).append(rows)
        self._bytes[key] = self._bytes.get(key, 0) + rows.nbytes
        while sum(self._bytes.values()) > BUFFERED_BYTES_MAX:
            self._flush(max(self._bytes, key=self._bytes.__getitem__))

    def finish(self) -> list[LocalFile]:
        """All files, whole."""
        for key in list(self._waiting):
            self._flush(key)
        for key in list(self._open):
            self._finish(key)
        return self._finished

    def _flush(self, key: Key) -> None:
        batches = self._waiting.pop(key)
        del self._bytes[key]
        if key not in self._open:
            if len(self._open) >= OPEN_FILES_MAX:
                self._finish(next(iter(self._open)))
            self._begin(key)
        self._open[key][1].write_table(pa.Table.from_batches(batches, self._form))

    def _begin(self, key: Key) -> None:
        if self._count >= FILES_MAX:
            raise SinkError(
                f"partitionBy: {FILES_MAX} files are not enough for one range of messages: "
                "partition the table by a coarser column"
            )
        path = self._folder / f"{self._count}.parquet"
        self._count += 1
        footers: list[pq.FileMetaData] = []
        writer = pq.ParquetWriter(path, self._form, metadata_collector=footers, **self._options)
        self._open[key] = (path, writer, footers)

    def _finish(self, key: Key) -> None:
        path, writer, footers = self._open.pop(key)
        writer.close()
        self._finished.append(LocalFile(path, key, footers[0]))

    def abandon(self) -> None:
        """Close what is open."""
        for _, writer, _ in self._open.values():
            writer.close()
        self._open.clear()


@contextmanager
def writing(form: pa.Schema, **options: Any) -> Iterator[PartitionWriter]:
    """A writer over a temporary folder, which goes with all files when the block ends."""
    folder = Path(tempfile.mkdtemp(prefix="iggy-sink-"))
    writer = PartitionWriter(folder, form, **options)
    try:
        yield writer
    finally:
        writer.abandon()
        shutil.rmtree(folder, ignore_errors=True)

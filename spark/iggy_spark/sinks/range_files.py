"""Record batches of one range → temporary files, one per partition folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iggy_spark import schema
from iggy_spark.errors import OptionError, SinkError
from iggy_spark.payload import Payload
from iggy_spark.sinks import file_formats, file_names
from iggy_spark.sinks.rows import REJECTED_SCHEMA, table_fields

FOLDERS_MAX = 512  # of one range; more means that partitionBy is too fine
BUFFERED_BYTES_MAX = 64 << 20  # of one range; then the largest file gets a row group
DATE_COLUMN = "iggy_date"  # may be named in partitionBy: the day of iggy_timestamp, UTC

_FOLDER_TYPES = ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "STRING", "DATE")


@dataclass(frozen=True, slots=True)
class TemporaryFile:
    """A finished file: where it is, the folder below the root where it belongs, what it holds."""

    path: Path
    folder: str
    rows: int
    size_bytes: int


def check_partition_by(fields: Sequence[schema.Field], partition_by: Sequence[str]) -> None:
    """Refuse columns that cannot name folders.

    Raises:
        OptionError: the message names the column.
    """
    types = {item.name: item.type for item in fields}
    if len(set(partition_by)) != len(partition_by):
        raise OptionError("files.partitionBy: a column is named twice")
    for column in partition_by:
        if column == DATE_COLUMN and column not in types:
            continue
        if column not in types:
            known = ", ".join((*types, DATE_COLUMN))
            raise OptionError(f"files.partitionBy: {column!r} is no column, choose from {known}")
        kind = types[column]
        if not isinstance(kind, schema.Scalar) or kind.ddl not in _FOLDER_TYPES:
            raise OptionError(
                f"files.partitionBy: {column!r} is {schema.to_ddl(kind)}; possible are "
                f"{', '.join(_FOLDER_TYPES)}, and {DATE_COLUMN} for the day in UTC"
            )
    if not set(types) - set(partition_by):
        raise OptionError("files.partitionBy: names every column, none is left for the file")


class RangeWriter:
    """Collects batches by folder; `finish` makes the files durable."""

    def __init__(
        self,
        attempt: Path,
        payload: Payload,
        partition_by: Sequence[str],
        *,
        file_format: str = "Parquet",
    ) -> None:
        """`attempt` is an empty folder of this attempt alone."""
        self._attempt = attempt
        self._payload, self._format = payload, file_format
        fields = table_fields(payload)
        self._partition_by = tuple(partition_by)
        # A column that names the folder is not stored again, as Hive, Spark and Arrow expect it.
        self._schema = file_formats.file_schema(file_format, fields, partition_by)
        self._files: dict[str, _File] = {}

    def __enter__(self) -> Self:
        """Nothing to do."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close what an error left open."""
        for file in self._files.values():
            file.abandon()

    def write(self, rows: pa.RecordBatch) -> None:
        """Add rows, each to its folder."""
        if rows.num_rows:
            for folder, part in self._split(rows):
                self._file(folder, self._format, self._schema).add(part.select(self._schema.names))
            self._limit_memory()

    def reject(self, rows: pa.RecordBatch, *, folder: str) -> None:
        """Add rejected rows to the file of their own folder."""
        if rows.num_rows:
            self._file(folder, "Parquet", REJECTED_SCHEMA).add(rows)
            self._limit_memory()

    def finish(self) -> list[TemporaryFile]:
        """Close and sync all files."""
        return [file.finish() for file in self._files.values()]

    def _file(self, folder: str, file_format: str, form: pa.Schema) -> _File:
        if folder not in self._files:
            if len(self._files) >= FOLDERS_MAX:
                raise SinkError(
                    f"files.partitionBy: {FOLDERS_MAX} folders are not enough for one range of "
                    "messages: partition by a coarser column"
                )
            path = self._attempt / f"{len(self._files)}{file_formats.SUFFIXES[file_format]}"
            writer = file_formats.open_file(file_format, path, form, self._payload)
            self._files[folder] = _File(path, folder, form, writer)
        return self._files[folder]

    def _limit_memory(self) -> None:
        while sum(file.buffered_bytes for file in self._files.values()) > BUFFERED_BYTES_MAX:
            max(self._files.values(), key=lambda file: file.buffered_bytes).flush()

    def _split(self, rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        if not self._partition_by:
            yield ".", rows
            return
        codes = np.zeros(rows.num_rows, dtype=np.int64)
        values: list[list[str | None]] = []
        for column in self._partition_by:
            encoded = _key(rows, column).dictionary_encode(null_encoding="encode")
            values.append([_text(value) for value in encoded.dictionary.to_pylist()])
            codes = codes * len(values[-1]) + encoded.indices.to_numpy()
        for code in np.unique(codes).tolist():
            at = np.flatnonzero(codes == code)
            part = rows if len(at) == rows.num_rows else rows.take(pa.array(at))
            yield self._folder(code, values), part

    def _folder(self, code: int, values: Sequence[Sequence[str | None]]) -> str:
        names = []
        for column, texts in zip(reversed(self._partition_by), reversed(values), strict=True):
            code, position = divmod(code, len(texts))
            try:
                names.append(file_names.folder(column, texts[position]))
            except ValueError as error:
                raise SinkError(f"files.partitionBy: {column}: {error}") from error
        return "/".join(reversed(names))


def _key(rows: pa.RecordBatch, column: str) -> pa.Array:
    if column in rows.schema.names:
        return rows.column(column)
    return pc.cast(rows.column("iggy_timestamp"), pa.date32())  # UTC, whatever the machine's zone


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)


class _File:
    """One temporary file and the rows that wait for its next row group."""

    def __init__(
        self, path: Path, folder: str, form: pa.Schema, writer: file_formats.RowsFile
    ) -> None:
        self._path, self._folder, self._schema, self._writer = path, folder, form, writer
        self._buffered: list[pa.RecordBatch] = []
        self._rows = 0
        self.buffered_bytes = 0

    def add(self, rows: pa.RecordBatch) -> None:
        self._buffered.append(rows)
        self._rows += rows.num_rows
        self.buffered_bytes += rows.nbytes

    def flush(self) -> None:
        if self._buffered:
            self._writer.write(pa.Table.from_batches(self._buffered, self._schema))
        self._buffered, self.buffered_bytes = [], 0

    def finish(self) -> TemporaryFile:
        self.flush()
        self._writer.close()
        descriptor = os.open(self._path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            size_bytes = os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
        return TemporaryFile(self._path, self._folder, self._rows, size_bytes)

    def abandon(self) -> None:
        self._writer.close()

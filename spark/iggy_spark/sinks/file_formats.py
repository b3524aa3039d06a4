"""What the files of a sink look like inside: one writer for each format.

Files of a range are whole before they appear, so none is ever appended to or read back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.csv
import pyarrow.orc
import pyarrow.parquet

from iggy_spark import schema
from iggy_spark.errors import OptionError
from iggy_spark.payload import Payload
from iggy_spark.pylists import values_of
from iggy_spark.sinks.documents import Documents

SUFFIXES: Final = {
    "Parquet": ".parquet",
    "Orc": ".orc",
    "Json": ".json",
    "Csv": ".csv",
    "Text": ".txt",
}
COMPRESSION: Final = "zstd"  # of the formats that compress inside
_TEXT_COLUMNS: Final = ("value", "document")  # what payload Text, and Json without schema, become


class RowsFile(Protocol):
    """A file that rows go to."""

    def write(self, rows: pa.Table) -> None:
        """Add rows."""

    def close(self) -> None:
        """Finish the file; again: nothing."""


def check_format(name: str, fields: Sequence[schema.Field], partition_by: Sequence[str]) -> None:
    """Refuse columns that a format cannot hold.

    Raises:
        OptionError: the message names the column and the way out.
    """
    kept = [item for item in fields if item.name not in partition_by]
    if name == "Text" and not any(item.name in _TEXT_COLUMNS for item in kept):
        raise OptionError(
            "files.format: Text has a line a message and no columns: set payload.format: Text, or "
            "Json without a schema"
        )
    if name == "Csv":
        for item in kept:
            if not isinstance(item.type, schema.Scalar) or item.type.ddl == "BINARY":
                raise OptionError(
                    f"files.format: Csv cannot hold {item.name!r}, which is "
                    f"{schema.to_ddl(item.type)}: use Json or Parquet"
                )


def file_schema(
    name: str, fields: Sequence[schema.Field], partition_by: Sequence[str]
) -> pa.Schema:
    """The columns that files have. One that names a folder is not stored again, as Hive, Spark and
    Arrow expect it.
    """
    kept = [item for item in fields if item.name not in partition_by]
    if name == "Text":
        kept = [item for item in kept if item.name in _TEXT_COLUMNS]
    return pa.schema([schema.arrow_field(item) for item in kept])


def open_file(name: str, path: Path, form: pa.Schema, payload: Payload) -> RowsFile:
    """A new file of a format, for rows of messages with that payload."""
    return _Json(path, payload) if name == "Json" else _OPEN[name](path, form)


class _Parquet:
    def __init__(self, path: Path, form: pa.Schema) -> None:
        self._writer = pyarrow.parquet.ParquetWriter(path, form, compression=COMPRESSION)

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows)

    def close(self) -> None:
        if self._writer.is_open:
            self._writer.close()


class _Orc:
    def __init__(self, path: Path, form: pa.Schema) -> None:
        self._writer: pyarrow.orc.ORCWriter | None = pyarrow.orc.ORCWriter(
            str(path), compression=COMPRESSION
        )

    def write(self, rows: pa.Table) -> None:
        assert self._writer is not None
        self._writer.write(rows)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class _Csv:
    """With a line of names; text is quoted, null is nothing between two commas."""

    def __init__(self, path: Path, form: pa.Schema) -> None:
        self._writer = pyarrow.csv.CSVWriter(str(path), form)

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows)

    def close(self) -> None:
        self._writer.close()


class _Json:
    """A document a line."""

    def __init__(self, path: Path, payload: Payload) -> None:
        self._file = path.open("wb")
        self._documents = Documents(payload)

    def write(self, rows: pa.Table) -> None:
        for part in rows.to_batches():
            self._file.write(self._documents.lines(part))

    def close(self) -> None:
        self._file.close()


class _Text:
    def __init__(self, path: Path, form: pa.Schema) -> None:
        self._file = path.open("wb")

    def write(self, rows: pa.Table) -> None:
        lines = values_of(rows.column(0).combine_chunks())
        self._file.write("".join(f"{line}\n" for line in lines).encode())

    def close(self) -> None:
        self._file.close()


_OPEN: Final[dict[str, Callable[[Path, Any], RowsFile]]] = {
    "Parquet": _Parquet,
    "Orc": _Orc,
    "Csv": _Csv,
    "Text": _Text,
}

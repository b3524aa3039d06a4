"""Rows of one range -> Parquet data files of an Iceberg table, and their entries for the commit.

A task writes files and sends their entries to the driver as JSON; the driver need not open a file.
Files have the table's field ids, so that columns are found whatever they are called later.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    schema_to_pyarrow,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField
from pyiceberg.schema import Schema, sanitize_column_names
from pyiceberg.table import Table
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import DayTransform
from pyiceberg.typedef import Record

from iggy_spark.sinks.table_files import Key, KeyColumn, LocalFile, PartitionWriter, split, writing

PATH_BYTES_MAX = 200  # of the folders that say the partition; longer ones are left out

# Of `DataFile`: what is an object with numbers as names, and what of it holds bytes.
_COUNTS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
_BOUNDS = ("lower_bounds", "upper_bounds")


class TableWriter:
    """Writes rows to the files of a table, for one range."""

    def __init__(self, table: Table, names: Iterable[str]) -> None:
        """`names` are the columns that messages have."""
        self._table = table
        self._schema = table.metadata.schema()
        chosen = set(names)
        kept = [item for item in self._schema.fields if item.name in chosen]
        self._columns = [item.name for item in kept]
        # Names that Avro does not take are spelled otherwise in files, as other writers do it.
        self._in_files: Schema = sanitize_column_names(Schema(*kept))
        self.form: pa.Schema = schema_to_pyarrow(self._in_files)

    def open(self) -> Any:
        """A context manager with the files' writer."""
        # Iceberg's specification, "Parquet": small decimals are integers.
        return writing(self.form, store_decimal_as_integer=True)

    def add(self, files: PartitionWriter, rows: pa.RecordBatch) -> None:
        """Rows as messages have them."""
        keys = [self._key_column(part, rows) for part in self._table.metadata.spec().fields]
        for key, part in split(rows, keys):
            arrays = [
                part.column(name).cast(item.type)
                for name, item in zip(self._columns, self.form, strict=True)
            ]
            files.add(key, pa.RecordBatch.from_arrays(arrays, schema=self.form))

    def _key_column(self, part: PartitionField, rows: pa.RecordBatch) -> KeyColumn:
        path = self._schema.find_column_name(part.source_id)
        assert path is not None, "a partition's column is in the schema"
        source = self._schema.find_field(part.source_id).field_type
        values = _plain(_column(rows, path), is_day=isinstance(part.transform, DayTransform))
        if values.type == pa.date32():
            return KeyColumn(values.cast(pa.int32()))  # the day is the result
        transform: Callable[[Any], Any] = part.transform.transform(source)
        return KeyColumn(values, transform)

    def upload(self, file: LocalFile, name: str) -> dict[str, Any]:
        """Write a file to the table's place and return its entry. Raises OSError."""
        path = self._place(file.key, name)
        output = self._table.io.new_output(path)
        with file.path.open("rb") as source, output.create(overwrite=True) as target:
            while data := source.read(8 << 20):
                target.write(data)
        found: dict[str, Any] = data_file_statistics_from_parquet_metadata(
            file.footer,
            compute_statistics_plan(self._in_files, self._table.metadata.properties),
            parquet_path_to_id_mapping(self._in_files),
        ).to_serialized_dict()
        return {
            "path": path,
            "size": file.size_bytes,
            "of": mark_of(self._table.metadata),
            "spec": self._table.metadata.default_spec_id,
            "partition": [to_json(value) for value in file.key],
            **{key: _numbered(found[key]) for key in _COUNTS + _BOUNDS},
            "record_count": found["record_count"],
            "split_offsets": found["split_offsets"],
        }

    def _place(self, key: Key, name: str) -> str:
        metadata = self._table.metadata
        provider = load_location_provider(metadata.location, metadata.properties)
        folder = metadata.spec().partition_to_path(Record(*key), self._schema) if key else ""
        if folder and len(folder.encode()) <= PATH_BYTES_MAX:
            name = f"{folder}/{name}"
        return provider.new_data_location(name)


def mark_of(metadata: TableMetadata) -> str:
    """What files belong to: a table, and how it is parted."""
    return f"{metadata.table_uuid}/{metadata.default_spec_id}"


def _plain(values: pa.Array, *, is_day: bool) -> pa.Array:
    """Times as Iceberg counts them: days or microseconds since 1970; a timestamp's day at once."""
    if pa.types.is_timestamp(values.type):
        return values.cast(pa.date32()) if is_day else values.cast(pa.int64())
    if pa.types.is_date32(values.type):
        return values if is_day else values.cast(pa.int32())
    return values


def _column(rows: pa.RecordBatch, path: str) -> pa.Array:
    """A column, or a part of one such as a.b; nulls if messages have no such field."""
    if path in rows.schema.names:
        return rows.column(path)
    first, _, rest = path.partition(".")
    if first not in rows.schema.names or not rest:
        return pa.nulls(rows.num_rows)
    inner = pa.RecordBatch.from_struct_array(pa.array(rows.column(first)))
    return _column(inner, rest)


def _numbered(values: Mapping[int, Any]) -> dict[str, Any]:
    return {str(number): to_json(value) for number, value in values.items()}


def data_file(entry: Mapping[str, Any]) -> DataFile:
    """What the driver commits, from the entry that a task has sent."""
    numbered: dict[str, Any] = {
        key: {int(number): from_json(value) for number, value in entry[key].items()}
        for key in _COUNTS + _BOUNDS
    }
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=entry["path"],
        file_format=FileFormat.PARQUET,
        partition=Record(*[from_json(value) for value in entry["partition"]]),
        record_count=entry["record_count"],
        file_size_in_bytes=entry["size"],
        split_offsets=entry["split_offsets"],
        sort_order_id=None,  # not sorted, whatever the table asks for
        spec_id=entry["spec"],
        equality_ids=None,
        key_metadata=None,
        **numbered,
    )


def to_json(value: Any) -> Any:
    """A partition's value, a count or a bound."""
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    return value


def from_json(value: Any) -> Any:
    """Read what `to_json` made."""
    if not isinstance(value, Mapping):
        return value
    if "bytes" in value:
        return base64.b64decode(value["bytes"])
    return Decimal(value["decimal"])


def entries_of(parts: Iterable[Any]) -> Iterator[Mapping[str, Any]]:
    """All entries of some parts."""
    for part in parts:
        yield from part.files

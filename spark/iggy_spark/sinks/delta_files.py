"""Rows of one range -> Parquet files of a Delta table, and their entries for the commit.

Files lie flat in the table's folder: the log says which partition each one is of, so that no value
has to fit into a name.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.transaction import AddAction

from iggy_spark.sinks.range_files import DATE_COLUMN
from iggy_spark.sinks.table_files import KeyColumn, LocalFile, PartitionWriter, split

STATISTICS_MAX: Final = 32  # columns, the first ones: as other writers do it
TEXT_MAX: Final = 32  # characters of a text that is a bound; with longer ones there is none

TIMESTAMP_COLUMN: Final = "iggy_timestamp"


def arrow_schema(table: DeltaTable) -> pa.Schema:
    """The table's columns."""
    return pa.schema(table.schema().to_arrow())


def with_date(rows: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    """Rows with a column for the day in UTC, if `columns` have one that messages have not."""
    if DATE_COLUMN not in columns or DATE_COLUMN in rows.schema.names:
        return rows
    return rows.append_column(DATE_COLUMN, rows.column(TIMESTAMP_COLUMN).cast(pa.date32()))


class TableWriter:
    """Writes rows to the files of a table, for one range."""

    def __init__(
        self, table: DeltaTable, partition_by: Sequence[str], names: Sequence[str]
    ) -> None:
        """`names` are the columns that messages have."""
        self._id = table.metadata().id
        self._partition_by = partition_by
        columns = arrow_schema(table)
        # A column that parts the table is in the log, not in the files.
        kept = [item for item in columns if item.name in names and item.name not in partition_by]
        self.form = pa.schema(kept)

    def add(self, files: PartitionWriter, rows: pa.RecordBatch) -> None:
        """Rows as messages have them."""
        for key, part in split(rows, [self._key_column(rows, name) for name in self._partition_by]):
            arrays = [part.column(item.name).cast(item.type) for item in self.form]
            files.add(key, pa.RecordBatch.from_arrays(arrays, schema=self.form))

    def _key_column(self, rows: pa.RecordBatch, name: str) -> KeyColumn:
        if name not in rows.schema.names:
            return KeyColumn(pa.nulls(rows.num_rows, pa.string()))
        # The protocol has no empty text as a partition: it says the same as null.
        return KeyColumn(_text(rows.column(name)), lambda value: value or None)

    def entry(self, file: LocalFile, name: str) -> dict[str, Any]:
        """What the commit needs to know of a file."""
        return {
            "of": self._id,
            "path": name,
            "size": file.size_bytes,
            "partition": dict(zip(self._partition_by, file.key, strict=True)),
            "time_ms": int(time.time() * 1000),
            "statistics": json.dumps(statistics(file.footer, self.form)),
        }


def _text(values: pa.Array) -> pa.Array:
    """Values as Delta's protocol spells those of partitions ("Partition Value Serialization")."""
    if pa.types.is_timestamp(values.type):
        return pc.strftime(values, format="%Y-%m-%d %H:%M:%S")  # with the fraction
    return values.cast(pa.string())


def add_action(entry: Mapping[str, Any]) -> AddAction:
    """What the driver commits, from the entry that a task has sent."""
    return AddAction(
        path=entry["path"],  # needs no escapes: digits, letters, dashes and a dot
        size=entry["size"],
        partition_values=entry["partition"],
        modification_time=entry["time_ms"],
        data_change=True,
        stats=entry["statistics"],
    )


def statistics(footer: pq.FileMetaData, form: pa.Schema) -> dict[str, Any]:
    """Rows, nulls and bounds as Delta's protocol has them ("Per-file Statistics").

    Bounds are told of types alone where Parquet's order and Delta's are the same for certain.
    """
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    columns = {footer.schema.column(at).path: at for at in range(footer.num_columns)}
    for item in list(form)[:STATISTICS_MAX]:
        at = columns.get(item.name)
        if at is None or pa.types.is_nested(item.type):
            continue
        found = [footer.row_group(n).column(at).statistics for n in range(footer.num_row_groups)]
        if any(part is None or not part.has_null_count for part in found):
            continue
        nulls[item.name] = sum(part.null_count for part in found)
        bounded = [part for part in found if part.num_values]
        if bounded and all(part.has_min_max for part in bounded):
            low = _bound(min(part.min for part in bounded), item.type)
            high = _bound(max(part.max for part in bounded), item.type)
            if low is not None and high is not None:
                least[item.name], most[item.name] = low, high
    return {
        "numRecords": footer.num_rows,
        "minValues": least,
        "maxValues": most,
        "nullCount": nulls,
    }


def _bound(value: Any, kind: pa.DataType) -> Any:
    if pa.types.is_integer(kind):
        return value
    if pa.types.is_string(kind):
        return value if len(value) <= TEXT_MAX else None
    if pa.types.is_date32(kind) and isinstance(value, date):
        return value.isoformat()
    if pa.types.is_timestamp(kind) and kind.tz is not None and isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return None

"""Mode Upsert of a Delta sink: rows are staged beside the table, and merged by their keys."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable

from iggy_spark import s3
from iggy_spark.errors import SinkError
from iggy_spark.sinks.delta_place import FilesPlace
from iggy_spark.sinks.folder import WORK

BATCH_BYTES_MAX: Final = 1 << 30  # of one batch's rows in the driver's memory
ORDER: Final = ("iggy_timestamp", "iggy_partition_id", "iggy_offset")  # the last row of a key wins


class Staging:
    """Files with rows that wait for their merge, in a folder that readers of the table skip."""

    def __init__(self, files: FilesPlace, name: str) -> None:
        """`name` is the sink's."""
        self._files = files
        self._folder = f"{WORK}/{quote(name, safe='')}"

    def place(self, name: str) -> str:
        """Where a file of that name is staged."""
        return f"{self._folder}/{name}"

    def rows(self, entries: Iterable[Mapping[str, Any]]) -> pa.Table:
        """All rows of some files.

        Raises:
            SinkError: they are too many for the driver.
        """
        tables = []
        with tempfile.TemporaryDirectory(prefix="iggy-sink-") as folder:
            for entry in entries:
                copy = Path(folder) / "rows"
                self._files.get(entry["path"], copy)
                tables.append(pq.ParquetFile(copy).read())
                if sum(table.nbytes for table in tables) > BATCH_BYTES_MAX:
                    raise SinkError(
                        f"delta.mode: Upsert merges a batch in the driver's memory, and this one "
                        f"has more than {BATCH_BYTES_MAX >> 20} MiB: set maxOffsetsPerTrigger lower"
                    )
        return pa.concat_tables(tables)

    def remove(self, entries: Iterable[Mapping[str, Any]]) -> None:
        """Tidying up: what stays goes at the next start."""
        with suppress(OSError, s3.StoreError):
            for entry in entries:
                self._files.remove(entry["path"])

    def clear(self) -> None:
        """Remove everything. A driver that was replaced cannot merge these rows any more."""
        for name in list(self._names()):
            self._files.remove(name)

    def _names(self) -> Iterator[str]:
        yield from self._files.names(self._folder)


def last_of_each(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """The last row of each key: by the broker's time, then by partition and offset."""
    ordered = rows.sort_by([(name, "ascending") for name in ORDER])
    numbered = ordered.append_column("", pa.array(range(len(ordered)), pa.int64()))
    last = numbered.group_by(list(keys)).aggregate([("", "max")]).column("_max")
    return ordered.take(last)


def merge(
    table: DeltaTable, rows: pa.Table, keys: Sequence[str], properties: CommitProperties
) -> None:
    """Replace the rows that have the same keys, add the others, in one commit."""
    last = last_of_each(rows, keys)
    same = " AND ".join(f"target.{_quoted(key)} = source.{_quoted(key)}" for key in keys)
    columns = {_quoted(name): f"source.{_quoted(name)}" for name in last.column_names}
    (
        table.merge(
            last, same, source_alias="source", target_alias="target", commit_properties=properties
        )
        .when_matched_update(columns)
        .when_not_matched_insert(columns)
        .execute()
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'

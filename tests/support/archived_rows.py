"""What the readers of an archive read, without Spark."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.datasource import InputPartition

from iggy_spark import archived, options, readers

Row = tuple[int, int, bytes]
"""Partition, offset and payload."""


def batch(given: dict[str, str], *, forgets: bool = True) -> readers.IggyBatchReader:
    """A reader that remembers nothing of what the archive was, unless told otherwise."""
    if forgets:
        archived._archives.clear()
    return readers.IggyBatchReader(options.parse(given, mode="batch"))


def rows_of(given: dict[str, str], parts: Sequence[InputPartition] | None = None) -> list[Row]:
    """What the tasks of a batch read, one after another; `parts`: tasks of an earlier plan."""
    reader = batch(given, forgets=parts is None)
    return [
        row
        for part in (reader.partitions() if parts is None else parts)
        for found in reader.read(part)
        for row in zip(
            *(found[name].to_pylist() for name in ("partition", "offset", "payload")), strict=True
        )
    ]

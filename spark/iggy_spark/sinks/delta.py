"""Delta tables, exactly once: tasks write files, the driver commits a batch at once.

What makes it exactly once:
- No file belongs to the table before the commit, which adds the files of all tasks at once.
- The same commit records an application's transaction for each partition of the topic,
  `<sink>/<incarnation>/<partition>`, whose version is the next offset. The library records them and
  does not compare them: they are read before each commit, and what is below them is left out.
- A commit is the next version of the table's log, which can be made only once. A second driver, or
  another writer, makes the commit fail; then everything is read again.

With mode Upsert tasks write their rows where no reader looks, and the driver merges them, the last
row of each key, in a commit with the same transactions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, TableNotFoundError

from iggy_spark import blocks, schema
from iggy_spark.errors import SinkError
from iggy_spark.offsets import OffsetRange
from iggy_spark.retry import Retry, TransientError
from iggy_spark.sinks import delta_checks, delta_files, delta_place, table_place
from iggy_spark.sinks.base import Portion, Spans, Task, Written
from iggy_spark.sinks.delta_upsert import Staging, merge
from iggy_spark.sinks.range_files import DATE_COLUMN
from iggy_spark.sinks.table_files import LocalFile, file_name, writing
from iggy_spark.sinks.table_place import Part

PARTITIONS: Final = "partitions"  # a transaction too: how many partitions have one


class DeltaSink:
    """Writes ranges into one table."""

    exactly_once = True
    keeps_place = True

    def __init__(
        self, block: blocks.Delta, fields: Sequence[schema.Field], *, name: str, retry: Retry
    ) -> None:
        """`fields` are the columns of messages, `name` is the sink's. Touches nothing yet.

        Raises:
            OptionError: a column of `partitionBy` or `keyColumns` cannot be one.
        """
        delta_checks.check_block(block, fields)
        self._block, self._name, self._retry = block, name, retry
        columns = [schema.arrow_field(item) for item in fields]
        if DATE_COLUMN in block.partition_by and DATE_COLUMN not in {item.name for item in fields}:
            columns.append(pa.field(DATE_COLUMN, pa.date32(), nullable=False))
        self._ours = pa.schema(columns)
        self._target = f"delta.path: {block.path}"
        self._files = delta_place.files_of(block)
        self._staging = Staging(self._files, name)

    @property
    def _merges(self) -> bool:
        return self._block.mode == "Upsert"

    def check(self) -> None:
        """Make the table if it is missing, and compare its columns."""
        try:
            with delta_place.asking(self._block):
                self._files.check()
                table = self._found() or self._created()
        except TransientError as error:
            raise SinkError(str(error)) from error
        delta_checks.check_table(table, self._ours, target=self._target)

    def _found(self) -> DeltaTable | None:
        with suppress(TableNotFoundError):
            return delta_place.load(self._block)
        return None

    def _created(self) -> DeltaTable:
        with suppress(CommitFailedError):  # another sink was first
            DeltaTable.create(
                delta_place.address(self._block),
                self._ours,
                mode="ignore",
                partition_by=list(self._block.partition_by),
                storage_options=delta_place.storage_options(self._block),
            )
        return delta_place.load(self._block)

    def prepare(self, incarnation: str) -> Mapping[int, Spans]:
        """How far the table is. What earlier runs have staged goes: nothing refers to it."""

        def clear() -> None:
            with delta_place.asking(self._block):
                self._staging.clear()

        if self._merges:
            self._retry.call(clear, what=self._target)
        return self.held(incarnation)

    def held(self, incarnation: str) -> Mapping[int, Spans]:
        """How far the table is; one that is not there holds nothing."""

        def look() -> dict[int, int]:
            with delta_place.asking(self._block):
                table = self._found()
                if table is None:
                    return {}
                count = table.transaction_version(self._application(incarnation, PARTITIONS))
                return self._held(table, incarnation, range(count or 0))

        return table_place.spans_of(self._retry.call(look, what=self._target))

    def _held(
        self, table: DeltaTable, incarnation: str, partitions: Iterable[int]
    ) -> dict[int, int]:
        found = {
            number: table.transaction_version(self._application(incarnation, number))
            for number in partitions
        }
        return {number: version for number, version in found.items() if version is not None}

    def _application(self, incarnation: str, what: int | str) -> str:
        return f"{self._name}/{incarnation}/{what}"

    def write_task(self, wanted: OffsetRange, portions: Iterable[Portion], task: Task) -> Written:
        """Write the files of a range, which no reader sees yet."""
        writer = self._retry.call(self._writer, what=self._target)
        rows = 0
        with writing(writer.form) as files:
            for portion in portions:
                rows += portion.rows.num_rows
                if portion.rows.num_rows:
                    writer.add(files, delta_files.with_date(portion.rows, self._ours.names))
            finished = files.finish()
            task.confirm()
            entries = [
                self._upload(writer, file, file_name(wanted, number))
                for number, file in enumerate(finished)
            ]
        return table_place.written(wanted, entries, rows=rows)

    def _writer(self) -> delta_files.TableWriter:
        with delta_place.asking(self._block):
            table = delta_place.load(self._block)
        delta_checks.check_table(table, self._ours, target=self._target)
        parts = () if self._merges else tuple(table.metadata().partition_columns)
        return delta_files.TableWriter(table, parts, self._ours.names)

    def _upload(
        self, writer: delta_files.TableWriter, file: LocalFile, name: str
    ) -> dict[str, Any]:
        place = self._staging.place(name) if self._merges else name

        def work() -> None:
            with delta_place.asking(self._block):
                self._files.put(place, file.path)

        self._retry.call(work, what=self._target)
        return writer.entry(file, place)

    def commit(self, results: Sequence[Written]) -> None:
        """Add or merge the files of a batch and move the offsets, in one commit."""
        parts = table_place.parts_of(results)
        if parts:
            self._retry.call(lambda: self._commit_once(parts), what=self._target)

    def _commit_once(self, parts: Sequence[Part]) -> None:
        with delta_place.asking(self._block):
            table = delta_place.load(self._block)
            numbers = {part.partition for part in parts}
            held = self._held(table, parts[0].incarnation, numbers)
            kept, then = table_place.missing(parts, held, target=self._target)
            if not kept:
                return
            entries = [entry for part in kept for entry in part.files]
            # The library would try a commit that failed again without reading our offsets.
            properties = CommitProperties(
                max_commit_retries=0, app_transactions=self._transactions(table, kept, then)
            )
            if self._merges and entries:
                merge(table, self._staging.rows(entries), self._block.key_columns, properties)
            else:
                self._append(table, entries, properties)
        if self._merges:
            self._staging.remove(entries)

    def _transactions(
        self, table: DeltaTable, kept: Sequence[Part], then: Mapping[int, int]
    ) -> list[Transaction]:
        incarnation = kept[0].incarnation
        moved = sorted({part.partition for part in kept})
        count = self._application(incarnation, PARTITIONS)
        counted = max(table.transaction_version(count) or 0, moved[-1] + 1)
        return [
            Transaction(count, counted),
            *(Transaction(self._application(incarnation, at), then[at]) for at in moved),
        ]

    def _append(
        self, table: DeltaTable, entries: Sequence[Mapping[str, Any]], properties: CommitProperties
    ) -> None:
        found = table.metadata()
        partition_by = found.partition_columns
        if any(
            entry["of"] != found.id or list(entry["partition"]) != partition_by for entry in entries
        ):
            raise SinkError(
                f"{self._target}: it was made anew, or its partitions were changed, while a batch "
                "was written: the next run writes the batch anew"
            )
        table.create_write_transaction(
            [delta_files.add_action(entry) for entry in entries],
            "append",
            table.schema(),
            partition_by=partition_by,
            commit_properties=properties,
        )

    def close(self) -> None:
        """Nothing is open between batches."""

"""Iceberg tables, exactly once: tasks write data files, the driver commits a batch at once.

What makes it exactly once:
- No file belongs to the table before the commit, which adds the files of all tasks in one snapshot.
- The snapshot says in its summary, as `iggy.<sink>.offsets`, the next offset of every partition,
  with the topic's incarnation. Before a commit the newest such snapshot among the ancestors of
  `main` is read, and what is below its offsets is left out.
- A commit holds only if `main` is still the snapshot that was read: the catalog compares. A second
  driver, or another writer, makes the commit fail; then everything is read again.

A table property of the same name is set by the same commit. It counts when snapshots have expired
and none of this sink's is left. While the whole history is there, the snapshots alone count: an
owner who takes the table back to an older snapshot takes the sink's offsets back with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa
from pyiceberg import exceptions
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH

from iggy_spark import blocks, schema
from iggy_spark.errors import OptionError, SinkError
from iggy_spark.offsets import OffsetRange
from iggy_spark.retry import Retry, TransientError
from iggy_spark.sinks import iceberg_catalog, iceberg_files, iceberg_schema, table_place
from iggy_spark.sinks.base import Portion, Spans, Task, Written
from iggy_spark.sinks.table_files import LocalFile, file_name
from iggy_spark.sinks.table_place import LIVES_MAX, Part
from iggy_spark.sinks.table_schema import check_partition_by

FIRST_SEQUENCE_NUMBER: Final = 1  # of the first snapshot that a table ever had
ANCESTORS_MAX: Final = 100_000  # snapshots that are looked through for this sink's newest

Lives = dict[str, dict[int, int]]  # incarnation -> partition -> next offset, the newest life last


class IcebergSink:
    """Writes ranges into one table of a catalog."""

    exactly_once = True
    keeps_place = True

    def __init__(
        self, block: blocks.Iceberg, fields: Sequence[schema.Field], *, name: str, retry: Retry
    ) -> None:
        """`fields` are the columns of messages, `name` is the sink's. Touches nothing yet.

        Raises:
            OptionError: a column of `partitionBy` cannot part a table.
        """
        check_partition_by(
            fields,
            block.partition_by,
            field="iceberg.partitionBy",
            never=("FLOAT", "DOUBLE", "BINARY"),
        )
        self._block, self._fields, self._retry = block, fields, retry
        self._ours = pa.schema([schema.arrow_field(item) for item in fields])
        self._property = f"iggy.{name}.offsets"
        self._target = f"iceberg.table: {block.table}"

    def check(self) -> None:
        """Make the table if it is missing, and compare its columns."""
        try:
            with iceberg_catalog.opened(self._block) as catalog:
                table = self._found(catalog) or self._created(catalog)
                iceberg_schema.check_table(table, self._ours, target=self._target)
        except TransientError as error:
            raise SinkError(str(error)) from error

    def _found(self, catalog: Catalog) -> Table | None:
        try:
            return iceberg_catalog.table_of(catalog, self._block)
        except exceptions.NoSuchTableError:
            if not self._block.create_table:
                raise OptionError(
                    f"{self._target} does not exist: make it, or set iceberg.createTable"
                ) from None
        return None

    def _created(self, catalog: Catalog) -> Table:
        names = tuple(self._block.table.split("."))
        if len(names) == 1:
            raise OptionError(f"{self._target}: write it with its namespace, such as shop.orders")
        with suppress(exceptions.NamespaceAlreadyExistsError):
            catalog.create_namespace(names[:-1])
        made = iceberg_schema.new_schema(self._fields)
        spec = iceberg_schema.new_spec(made, self._fields, self._block.partition_by)
        # Old files of metadata would grow without end: each batch makes one.
        properties = {TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED: "true"}
        try:
            return catalog.create_table(names, made, partition_spec=spec, properties=properties)
        except exceptions.TableAlreadyExistsError:
            return iceberg_catalog.table_of(catalog, self._block)  # another sink was first

    def prepare(self, incarnation: str) -> Mapping[int, Spans]:
        """How far the table is."""
        return self.held(incarnation)

    def held(self, incarnation: str) -> Mapping[int, Spans]:
        """The same: nothing is ever left half done. A table that is not there holds nothing."""

        def look() -> Lives:
            with iceberg_catalog.opened(self._block) as catalog:
                table = self._found(catalog)
                return {} if table is None else lives_of(table.metadata, self._property)

        lives = self._retry.call(look, what=self._target)
        return table_place.spans_of(lives.get(incarnation, {}))

    def write_task(self, wanted: OffsetRange, portions: Iterable[Portion], task: Task) -> Written:
        """Write the files of a range, which no reader sees yet."""
        table = self._retry.call(self._load, what=self._target)
        iceberg_schema.check_table(table, self._ours, target=self._target)
        writer = iceberg_files.TableWriter(table, self._ours.names)
        rows = 0
        with writer.open() as files:
            for portion in portions:
                rows += portion.rows.num_rows
                if portion.rows.num_rows:
                    writer.add(files, portion.rows)
            finished = files.finish()
            task.confirm()
            entries = [
                self._upload(writer, file, file_name(wanted, number))
                for number, file in enumerate(finished)
            ]
        return table_place.written(wanted, entries, rows=rows)

    def _load(self) -> Table:
        with iceberg_catalog.opened(self._block) as catalog:
            return iceberg_catalog.table_of(catalog, self._block)

    def _upload(
        self, writer: iceberg_files.TableWriter, file: LocalFile, name: str
    ) -> dict[str, Any]:
        def work() -> dict[str, Any]:
            with iceberg_catalog.translated(self._block):
                return writer.upload(file, name)

        return self._retry.call(work, what=self._target)

    def commit(self, results: Sequence[Written]) -> None:
        """Add the files of a batch and move the offsets, in one snapshot."""
        parts = table_place.parts_of(results)
        if parts:
            self._retry.call(lambda: self._commit_once(parts), what=self._target)

    def _commit_once(self, parts: Sequence[Part]) -> None:
        with iceberg_catalog.opened(self._block) as catalog:
            table = iceberg_catalog.table_of(catalog, self._block)
            lives = lives_of(table.metadata, self._property)
            incarnation = parts[0].incarnation
            held = lives.pop(incarnation, {})
            kept, then = table_place.missing(parts, held, target=self._target)
            if kept:
                lives[incarnation] = then  # last: the newest life
                self._append(table, kept, lives)

    def _append(self, table: Table, parts: Sequence[Part], lives: Lives) -> None:
        entries = list(iceberg_files.entries_of(parts))
        if any(entry["of"] != iceberg_files.mark_of(table.metadata) for entry in entries):
            raise SinkError(
                f"{self._target}: it was made anew, or its partitions were changed, while a batch "
                "was written: the next run writes the batch anew"
            )
        _make_light(table)
        offsets = {self._property: _to_text(lives)}
        with table.transaction() as transaction:
            transaction.set_properties(offsets)
            made = transaction.update_snapshot(snapshot_properties=offsets, branch=MAIN_BRANCH)
            with made.merge_append() as append:
                for entry in entries:
                    append.append_data_file(iceberg_files.data_file(entry))

    def close(self) -> None:
        """Nothing is open between batches."""


def lives_of(metadata: TableMetadata, name: str) -> Lives:
    """How far a sink's table is: from its newest snapshot among the ancestors of `main`, else from
    the table's property, if the history does not reach back to its beginning.
    """
    snapshots = {item.snapshot_id: item for item in metadata.snapshots}
    at = metadata.refs[MAIN_BRANCH].snapshot_id if MAIN_BRANCH in metadata.refs else None
    if at is None:
        return {}  # no row is there
    for _ in range(ANCESTORS_MAX):
        snapshot = snapshots.get(at)
        if snapshot is None:
            break
        text = snapshot.summary.get(name) if snapshot.summary is not None else None
        if text is not None:
            return _from_text(text)
        if snapshot.sequence_number == FIRST_SEQUENCE_NUMBER:
            return {}
        if snapshot.parent_snapshot_id is None:
            break  # expired by PyIceberg, which unlinks the children
        at = snapshot.parent_snapshot_id
    return _from_text(metadata.properties.get(name, "{}"))


def _from_text(text: str) -> Lives:
    return {
        incarnation: {int(partition): end for partition, end in ends.items()}
        for incarnation, ends in json.loads(text).items()
    }


def _to_text(lives: Lives) -> str:
    newest = dict(list(lives.items())[-LIVES_MAX:])
    return json.dumps(newest, separators=(",", ":"))


def _make_light(table: Table) -> None:
    """Change what a commit is prepared from, which the catalog never sees:

    - PyIceberg makes no attempts of its own after a commit that failed: they would not read our
      offsets again.
    - It has no snapshots but those of branches and tags: it copies all of them a dozen times.
    - It joins small manifests. Without that a commit would list all that were made before it.
    """
    found = table.metadata
    # As Iceberg has it where a table says nothing ("Write properties"); PyIceberg says false.
    merges = {TableProperties.MANIFEST_MERGE_ENABLED: "true"}
    heads = {ref.snapshot_id for ref in found.refs.values()}
    table.metadata = found.model_copy(
        update={
            "properties": merges | found.properties | {TableProperties.COMMIT_NUM_RETRIES: "0"},
            "snapshots": [item for item in found.snapshots if item.snapshot_id in heads],
            "snapshot_log": [],
        }
    )

"""What a Delta sink cannot do with some settings and some tables, each with the way out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable

from iggy_spark import blocks, schema
from iggy_spark.errors import OptionError
from iggy_spark.sinks import delta_files
from iggy_spark.sinks.range_files import DATE_COLUMN
from iggy_spark.sinks.table_schema import check_fits, check_partition_by

_NOT_FOR_PARTITIONS: Final = ("FLOAT", "DOUBLE", "BINARY", "TIMESTAMP", "TIMESTAMP_NTZ")
# Features that ask nothing of a writer that adds files, beyond what is looked at here.
_FEATURES: Final = frozenset(
    {
        "appendOnly", "invariants", "checkConstraints", "generatedColumns", "changeDataFeed",
        "timestampNtz", "deletionVectors", "domainMetadata", "clustering", "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)  # fmt: skip
_COLUMN_RULES: Final = ("delta.generationExpression", "delta.invariants", "delta.identity.start")
_FORGETS: Final = "delta.setTransactionRetentionDuration"


def check_block(block: blocks.Delta, fields: Sequence[schema.Field]) -> None:
    """Raises OptionError: the settings do not fit each other, or the payload."""
    check_partition_by(
        fields, block.partition_by, field="delta.partitionBy", never=_NOT_FOR_PARTITIONS
    )
    names = {item.name for item in fields} | {DATE_COLUMN}
    if not names - set(block.partition_by) - {DATE_COLUMN}:
        raise OptionError("delta.partitionBy: names every column, none is left for the files")
    if (block.mode == "Upsert") != bool(block.key_columns):
        raise OptionError("delta.keyColumns: goes with mode Upsert, which needs it")
    known = {item.name: item for item in fields}
    for column in block.key_columns:
        if column not in known:
            raise OptionError(
                f"delta.keyColumns: {column!r} is no column, choose from {', '.join(known)}"
            )
        if known[column].nullable:
            raise OptionError(
                f"delta.keyColumns: {column!r} may be null, and null equals nothing: declare it "
                "NOT NULL in payload.schema"
            )


def check_table(table: DeltaTable, ours: pa.Schema, *, target: str) -> None:
    """Raises OptionError: messages do not fit the table, or it asks for what we cannot do."""
    check_fits(ours, delta_files.arrow_schema(table), target=target)
    for lack in (*_of_settings(table), *_of_columns(table)):
        raise OptionError(f"{target}: {lack}, which this sink lacks: write to another table")
    if _FORGETS in table.metadata().configuration:
        raise OptionError(
            f"{target}: the table forgets transactions ({_FORGETS}), and with them what was "
            "written: remove that property"
        )


def _of_settings(table: DeltaTable) -> Iterator[str]:
    unknown = set(table.protocol().writer_features or ()) - _FEATURES
    if unknown:
        yield f"the table has the features {', '.join(sorted(unknown))}"
    settings = table.metadata().configuration
    if settings.get("delta.columnMapping.mode", "none") != "none":
        yield "the table maps the names of columns"
    if any(name.startswith("delta.constraints.") for name in settings):
        yield "the table has CHECK constraints"


def _of_columns(table: DeltaTable) -> Iterator[str]:
    for field in table.schema().fields:
        if any(rule in field.metadata for rule in _COLUMN_RULES):
            yield f"column {field.name} has a rule or is computed"
    types = delta_files.arrow_schema(table)
    for name in table.metadata().partition_columns:
        kind = types.field(name).type
        if pa.types.is_floating(kind) or pa.types.is_binary(kind):
            yield f"the table has partitions by {name}, {kind}"

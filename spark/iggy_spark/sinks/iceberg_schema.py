"""Columns of messages -> an Iceberg table: its types, its partitions, and what does not fit.

Spark's type          Iceberg's type
BOOLEAN               boolean
TINYINT SMALLINT INT  int
BIGINT                long
FLOAT, DOUBLE         float, double
DECIMAL(p,s)          decimal(p,s)
STRING, BINARY        string, binary
DATE                  date
TIMESTAMP             timestamptz
TIMESTAMP_NTZ         timestamp
ARRAY, MAP, STRUCT    list, map, struct
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyiceberg import types as iceberg
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import DayTransform, IdentityTransform, UnknownTransform

from iggy_spark import schema
from iggy_spark.errors import OptionError
from iggy_spark.sinks.range_files import DATE_COLUMN
from iggy_spark.sinks.table_schema import check_fits

FORMAT_VERSION_MAX = 2
TIMESTAMP_COLUMN = "iggy_timestamp"
_TYPES: dict[str, iceberg.PrimitiveType] = {
    "BOOLEAN": iceberg.BooleanType(),
    "TINYINT": iceberg.IntegerType(),
    "SMALLINT": iceberg.IntegerType(),
    "INT": iceberg.IntegerType(),
    "BIGINT": iceberg.LongType(),
    "FLOAT": iceberg.FloatType(),
    "DOUBLE": iceberg.DoubleType(),
    "STRING": iceberg.StringType(),
    "BINARY": iceberg.BinaryType(),
    "DATE": iceberg.DateType(),
    "TIMESTAMP": iceberg.TimestamptzType(),
    "TIMESTAMP_NTZ": iceberg.TimestampType(),
}


def new_schema(fields: Sequence[schema.Field]) -> Schema:
    """The schema of a table that is made for these columns."""
    numbers = itertools.count(1)
    return Schema(*[_field(item, numbers) for item in fields])


def _field(item: schema.Field, numbers: Iterator[int]) -> iceberg.NestedField:
    return iceberg.NestedField(
        next(numbers), item.name, _type(item.type, numbers), required=not item.nullable
    )


def _type(kind: schema.Type, numbers: Iterator[int]) -> iceberg.IcebergType:
    if isinstance(kind, schema.Array):
        return iceberg.ListType(next(numbers), _type(kind.element, numbers), element_required=False)
    if isinstance(kind, schema.Map):
        return iceberg.MapType(
            key_id=next(numbers),
            key_type=_type(kind.key, numbers),
            value_id=next(numbers),
            value_type=_type(kind.value, numbers),
            value_required=False,
        )
    if isinstance(kind, schema.Struct):
        return iceberg.StructType(*[_field(item, numbers) for item in kind.fields])
    if isinstance(kind, schema.Map):
        key, value = next(numbers), next(numbers)
        inner = (_type(kind.key, numbers), _type(kind.value, numbers))
        return iceberg.MapType(key, inner[0], value, inner[1], value_required=False)
    if pa.types.is_decimal(kind.arrow):
        return iceberg.DecimalType(kind.arrow.precision, kind.arrow.scale)
    return _TYPES[kind.ddl]


def new_spec(made: Schema, fields: Sequence[schema.Field], columns: Sequence[str]) -> PartitionSpec:
    """The partitions of such a table: identity of each column, the day for `iggy_date`."""
    parts = []
    for number, column in enumerate(columns, PARTITION_FIELD_ID_START):
        by_day = column == DATE_COLUMN and column not in {item.name for item in fields}
        source = made.find_field(TIMESTAMP_COLUMN if by_day else column).field_id
        transform: DayTransform[Any] | IdentityTransform[Any] = (
            DayTransform() if by_day else IdentityTransform()
        )
        parts.append(PartitionField(source, number, transform, column))
    return PartitionSpec(*parts)


def check_table(table: Table, ours: pa.Schema, *, target: str) -> None:
    """Whether messages fit a table that is there.

    Raises:
        OptionError: they do not; the message names the column.
    """
    found = table.metadata
    if found.format_version > FORMAT_VERSION_MAX:
        raise OptionError(
            f"{target}: the table has format version {found.format_version}, and PyIceberg writes "
            f"up to {FORMAT_VERSION_MAX}: write to another table"
        )
    if any(isinstance(part.transform, UnknownTransform) for part in found.spec().fields):
        raise OptionError(f"{target}: the table has partitions of a kind that PyIceberg lacks")
    if found.properties.get("write.format.default", "parquet").lower() != "parquet":
        raise OptionError(f"{target}: write.format.default of the table is not parquet: change it")
    check_fits(ours, schema_to_pyarrow(found.schema()), target=target)

"""Whether messages fit the columns of a table that others made. Pure.

Columns are found by name. Numbers may become wider on the way, nothing else changes its type; what
a table needs must be there in every message.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa
from pyarrow import types

from iggy_spark import schema
from iggy_spark.errors import OptionError
from iggy_spark.sinks.range_files import DATE_COLUMN

_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())


def check_partition_by(
    fields: Sequence[schema.Field],
    columns: Sequence[str],
    *,
    field: str,
    never: Collection[str],
) -> None:
    """`field` begins the message, such as "iceberg.partitionBy"; `never` are types that cannot.

    Raises:
        OptionError: a column cannot part a table; the message names it.
    """
    found = {item.name: item.type for item in fields}
    if len(set(columns)) != len(columns):
        raise OptionError(f"{field}: a column is named twice")
    for column in columns:
        if column == DATE_COLUMN and column not in found:
            continue
        if column not in found:
            known = ", ".join((*found, DATE_COLUMN))
            raise OptionError(f"{field}: {column!r} is no column, choose from {known}")
        kind = found[column]
        if not isinstance(kind, schema.Scalar) or kind.ddl in never:
            raise OptionError(
                f"{field}: {column!r} is {schema.to_ddl(kind)}, which cannot part a table: choose "
                f"a column with few values, or {DATE_COLUMN} for the day in UTC"
            )


def check_fits(ours: pa.Schema, table: pa.Schema, *, target: str) -> None:
    """`target` begins the message, such as "iceberg.table: shop.orders".

    Raises:
        OptionError: a column is missing here or there, or has another type; the message names it.
    """
    for problem in _problems(ours, table):
        raise OptionError(f"{target}: {problem}")


def _problems(ours: pa.Schema, table: pa.Schema) -> Iterator[str]:
    for name in ours.names:
        if name not in table.names:
            yield (
                f"the table has no column {name}: add one of type {ours.field(name).type}, or "
                "leave the field out of payload.schema"
            )
        else:
            yield from _of_field(ours.field(name), table.field(name), name)
    for field in table:
        if field.name not in ours.names and not field.nullable:
            yield (
                f"column {field.name} must not be null, and messages have no such field: declare "
                "it in payload.schema, or let it be null"
            )


def _of_field(ours: pa.Field, table: pa.Field, path: str) -> Iterator[str]:
    if ours.nullable and not table.nullable:
        yield f"column {path} must not be null: declare it NOT NULL in payload.schema"
    yield from _of_type(ours.type, table.type, path)


def _of_type(ours: pa.DataType, table: pa.DataType, path: str) -> Iterator[str]:
    if types.is_struct(ours) and types.is_struct(table):
        inner = [
            pa.schema([kind.field(at) for at in range(kind.num_fields)]) for kind in (ours, table)
        ]
        yield from (f"in {path}: {problem}" for problem in _problems(inner[0], inner[1]))
    elif _is_list(ours) and _is_list(table):
        yield from _of_field(ours.value_field, table.value_field, f"{path}.element")
    elif types.is_map(ours) and types.is_map(table):
        yield from _of_type(ours.key_type, table.key_type, f"{path}.key")
        yield from _of_field(ours.item_field, table.item_field, f"{path}.value")
    elif not _widens(ours, table):
        yield (
            f"column {path} is {table} in the table and {ours} in the messages: correct "
            "payload.schema"
        )


def _is_list(kind: pa.DataType) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind))


def _widens(ours: pa.DataType, table: pa.DataType) -> bool:
    if ours in _INTEGERS and table in _INTEGERS:
        return _INTEGERS.index(ours) <= _INTEGERS.index(table)
    if types.is_decimal(ours) and types.is_decimal(table):
        return bool(ours.scale == table.scale and ours.precision <= table.precision)
    if types.is_timestamp(ours) and types.is_timestamp(table):
        return bool((ours.tz is None) == (table.tz is None) and table.unit in ("us", "ns"))
    for same in (_is_text, _is_bytes, types.is_floating):
        if same(ours) and same(table):
            return same is not types.is_floating or ours.bit_width <= table.bit_width
    return bool(ours == table)


def _is_text(kind: pa.DataType) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind))

"""The flights as batches for a producer, and as the rows that a lake must have."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from e2e_producer import Batch, Place
from flights_demo.flights import json_rows
from flights_demo.plan import plan

PLACE_COLUMNS = {"iggy_partition_id", "iggy_offset", "iggy_timestamp"}  # the sink's own


def batches(flights: pa.Table, partitions: int) -> Iterator[Batch]:
    """All of them, as the demo sends them: one carrier is one request."""
    for request in plan(flights["carrier"].to_pylist(), partitions):
        yield Batch(request.carrier, list(json_rows(flights, request.rows)))


def difference(found: pa.Table, flights: pa.Table) -> str:
    """What tells the rows of a lake from those that were sent, whatever their order; or nothing."""
    wanted = in_the_lake(flights)
    missing = set(wanted.column_names) ^ (set(found.column_names) - PLACE_COLUMNS)
    if missing:
        return f"columns of only one of both: {sorted(missing)}"
    found = found.select(wanted.column_names).cast(wanted.schema)
    if found.num_rows != wanted.num_rows:
        return f"{found.num_rows:,} rows, and not {wanted.num_rows:,}"
    order = [(name, "ascending") for name in wanted.column_names]
    found, wanted = found.sort_by(order), wanted.sort_by(order)
    for name in wanted.column_names:
        if not found[name].equals(wanted[name]):
            return f"the rows differ, and {name} is the first column that shows it"
    return ""


def places(found: pa.Table) -> list[Place]:
    """Partition and offset of each row, in order. What was written twice is there twice."""
    columns = (found["iggy_partition_id"].to_pylist(), found["iggy_offset"].to_pylist())
    return sorted(zip(*columns, strict=True))


def in_the_lake(flights: pa.Table) -> pa.Table:
    """Whole numbers of 32 bits, and times as times, as the sample's schema says."""
    columns = {}
    for name in flights.column_names:
        column = flights[name]
        if name == "time_hour":
            column = pc.strptime(column, format="%Y-%m-%dT%H:%M:%SZ", unit="us")
            column = column.cast(pa.timestamp("us", "UTC"))
        elif pa.types.is_integer(column.type):
            column = column.cast(pa.int32())
        columns[name] = column
    return pa.table(columns)

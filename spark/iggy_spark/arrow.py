"""Message regions → Arrow record batches, column by column, never message by message."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np
import pyarrow as pa

from iggy_spark import header_columns, schema
from iggy_spark.options import ReadOptions
from iggy_wire.kernel import Columns

ID_BYTES = 16
CONSTANTS_MAX = 8  # columns of one value that are used again: most batches have the same length
TIMESTAMP = pa.timestamp("us", tz="UTC")
ERROR = pa.struct([("stage", pa.string()), ("class", pa.string()), ("message", pa.string())])
ERROR_DDL = "STRUCT<stage: STRING, class: STRING, message: STRING>"

_TYPES: dict[str, tuple[pa.DataType, str]] = {
    "stream": (pa.string(), "STRING"),
    "topic": (pa.string(), "STRING"),
    "partition": (pa.int32(), "INT"),
    "offset": (pa.int64(), "BIGINT"),
    "timestamp": (TIMESTAMP, "TIMESTAMP"),
    "origin_timestamp": (TIMESTAMP, "TIMESTAMP"),
    "id": (pa.binary(), "BINARY"),
    "payload": (pa.binary(), "BINARY"),
    "headers": (header_columns.TYPE, header_columns.DDL),
    "error": (ERROR, ERROR_DDL),
}


def arrow_schema(options: ReadOptions) -> pa.Schema:
    """The columns of the options as Arrow fields; Spark wants exactly these, all nullable."""
    return pa.schema([pa.field(name, _type(name, options)[0]) for name in options.columns])


def spark_ddl(options: ReadOptions) -> str:
    """The same columns as DDL text."""
    return ", ".join(f"{schema.quote(name)} {_type(name, options)[1]}" for name in options.columns)


def _type(name: str, options: ReadOptions) -> tuple[pa.DataType, str]:
    if name != "value":
        return _TYPES[name]
    if options.payload.format == "text" or options.payload.is_document:
        return pa.string(), "STRING"
    kind = schema.Struct(options.payload.fields)
    return schema.to_arrow(kind), schema.to_ddl(kind)


def metadata_column(
    name: str, columns: Columns, *, options: ReadOptions, partition: int
) -> pa.Array:
    """One of the columns that need no decoding, `payload` included."""
    if name == "stream":
        return _repeated(options.stream, columns.count)
    if name == "topic":
        return _repeated(options.topic, columns.count)
    if name == "partition":
        return _repeated(partition, columns.count)
    return _FROM_COLUMNS[name](columns)


@lru_cache(CONSTANTS_MAX)
def _repeated(value: str | int, count: int) -> pa.Array:
    kind = pa.string() if isinstance(value, str) else pa.int32()
    return pa.repeat(pa.scalar(value, kind), count)


def payloads(columns: Columns) -> pa.Array:
    """The payloads as they are."""
    buffers = [None, pa.py_buffer(columns.payload_offsets), pa.py_buffer(columns.payloads)]
    return pa.Array.from_buffers(pa.binary(), columns.count, buffers)


def _fixed(kind: pa.DataType, count: int, data: bytes) -> pa.Array:
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(data)])


def _ids(columns: Columns) -> pa.Array:
    # On the wire an id is a little-endian number; as bytes and as text people read it big-endian.
    halves = np.frombuffer(columns.ids, dtype=np.uint64).reshape(columns.count, 2)
    ids = halves[:, ::-1].byteswap()
    buffers = [None, _id_ends(columns.count), pa.py_buffer(ids)]
    return pa.Array.from_buffers(pa.binary(), columns.count, buffers)


@lru_cache(CONSTANTS_MAX)
def _id_ends(count: int) -> pa.Buffer:
    return pa.py_buffer(np.arange(0, ID_BYTES * (count + 1), ID_BYTES, dtype=np.int32))


_FROM_COLUMNS: dict[str, Callable[[Columns], pa.Array]] = {
    "offset": lambda columns: _fixed(pa.int64(), columns.count, columns.offsets),
    "timestamp": lambda columns: _fixed(TIMESTAMP, columns.count, columns.timestamps_us),
    "origin_timestamp": lambda columns: _fixed(
        TIMESTAMP, columns.count, columns.origin_timestamps_us
    ),
    "id": _ids,
    "payload": payloads,
    "headers": header_columns.header_column,
}


def pieces(batch: pa.RecordBatch, bytes_max: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of equal numbers of rows and up to about `bytes_max`."""
    count = max(1, -(-batch.get_total_buffer_size() // bytes_max))
    rows = -(-batch.num_rows // count) or 1
    for first in range(0, batch.num_rows, rows):
        yield batch.slice(first, rows)

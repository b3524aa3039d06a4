"""Columns of a message → the table that a sink writes, and the rejected messages beside it.

A table has the payload's columns and three of ours: `iggy_partition_id`, `iggy_offset` and
`iggy_timestamp` (when the broker took the message, UTC). Position and offset make every row
traceable to its message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

import pyarrow as pa

from iggy_spark import arrow, decode, schema
from iggy_spark.batches import bad_payload, messages
from iggy_spark.fetch import RangeFetch
from iggy_spark.messages import Messages
from iggy_spark.options import ReadOptions
from iggy_spark.payload import Payload
from iggy_spark.sinks.base import Portion, Refusal

METADATA = (
    schema.Field("iggy_partition_id", schema.Scalar("INT", pa.int32()), nullable=False),
    schema.Field("iggy_offset", schema.Scalar("BIGINT", pa.int64()), nullable=False),
    schema.Field("iggy_timestamp", schema.Scalar("TIMESTAMP", arrow.TIMESTAMP), nullable=False),
)
_SOURCES = ("partition", "offset", "timestamp")  # of METADATA, in the data source's words
_REJECTED = (
    schema.Field("payload", schema.Scalar("BINARY", pa.binary()), nullable=False),
    schema.Field("error_class", schema.Scalar("STRING", pa.string()), nullable=False),
    schema.Field("error", schema.Scalar("STRING", pa.string()), nullable=False),
)
REJECTED_SCHEMA = pa.schema([schema.arrow_field(item) for item in (*_REJECTED, *METADATA)])


@cache
def none_rejected() -> pa.RecordBatch:
    """No rows."""
    return pa.RecordBatch.from_pylist([], REJECTED_SCHEMA)


def table_fields(payload: Payload) -> tuple[schema.Field, ...]:
    """The columns of the table: the declared fields; `value` for text, `payload` for raw, and
    `document` for JSON without a schema.
    """
    fields = payload.fields
    if payload.format == "text" or payload.is_document:
        name = "document" if payload.is_document else "value"
        fields = (schema.Field(name, schema.Scalar("STRING", pa.string()), nullable=False),)
    elif payload.format == "raw":
        fields = (schema.Field("payload", schema.Scalar("BINARY", pa.binary()), nullable=False),)
    return (*fields, *METADATA)


def portions(options: ReadOptions, fetch: RangeFetch) -> Iterator[Portion]:
    """Everything that `fetch` brings, decoded by the options.

    Raises:
        BadPayload: a payload does not fit, and `payload.on_error` is `fail`.
    """
    return decoded(options, (messages(options, fetch.wanted, columns) for columns in fetch))


def decoded(options: ReadOptions, found: Iterable[Messages]) -> Iterator[Portion]:
    """The same for messages, wherever they come from."""
    decoder = decode.build(options.payload)
    form = table_schema(options.payload)
    for known in found:
        columns = known.columns
        metadata = [
            arrow.metadata_column(name, columns, options=options, partition=known.partition)
            for name in _SOURCES
        ]
        if decoder is None:
            rows = pa.RecordBatch.from_arrays([arrow.payloads(columns), *metadata], schema=form)
            yield Portion(rows, known)
            continue
        result = decoder.decode(arrow.payloads(columns), known)
        if result.rejected and options.payload.on_error == "fail":
            raise bad_payload(options, known.partition, columns, result.rejected[0])
        refusals = tuple(_refusal(bad, known) for bad in result.rejected)
        yield Portion(_good(result, metadata, form), known, refusals, result.filtered)


def table_schema(payload: Payload) -> pa.Schema:
    """`table_fields` as Arrow has them."""
    return pa.schema([schema.arrow_field(item) for item in table_fields(payload)])


def _refusal(bad: decode.Rejected, known: Messages) -> Refusal:
    offset = known.offsets[bad.row]
    return Refusal(offset, bad.stage, bad.kind, bad.message, bad.transform)


def _good(result: decode.Decoded, metadata: list[pa.Array], form: pa.Schema) -> pa.RecordBatch:
    values = result.values
    payload = values.flatten() if pa.types.is_struct(values.type) else [values]
    if result.good_rows is not None:
        metadata = [column.take(result.good_rows) for column in metadata]
    return pa.RecordBatch.from_arrays([*payload, *metadata], schema=form)


def rejected(portion: Portion) -> pa.RecordBatch:
    """The refused messages of a portion, with their bytes and the reasons: `REJECTED_SCHEMA`."""
    if not portion.refusals:
        return none_rejected()
    known = portion.messages
    row_of = {offset: row for row, offset in enumerate(known.offsets)}
    rows = [row_of[bad.offset] for bad in portion.refusals]
    return pa.RecordBatch.from_arrays(
        [
            arrow.payloads(known.columns).take(pa.array(rows, pa.int64())),
            pa.array([bad.kind for bad in portion.refusals], pa.string()),
            pa.array([bad.message for bad in portion.refusals], pa.string()),
            pa.array([known.partition] * len(rows), pa.int32()),
            pa.array([bad.offset for bad in portion.refusals], pa.int64()),
            pa.array([known.timestamps_us[row] for row in rows], arrow.TIMESTAMP),
        ],
        schema=REJECTED_SCHEMA,
    )

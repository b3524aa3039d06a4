"""One range of a partition → record batches for Spark, with the columns of the options."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from iggy_spark import arrow, decode
from iggy_spark.errors import BadPayload
from iggy_spark.fetch import RangeFetch
from iggy_spark.messages import Messages
from iggy_spark.offsets import OffsetRange
from iggy_spark.options import ReadOptions
from iggy_wire.kernel import Columns


def record_batches(options: ReadOptions, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
    """The range as record batches with the columns of the options.

    A message that a transform drops has no row, nor has one that cannot be decoded if those are to
    be skipped; how many there were of the latter is logged.

    Raises:
        BadPayload: a payload cannot be decoded and `onDecodeError` is `fail`.
        IggySparkError: as `RangeFetch`.
    """
    decoder = decode.build(options.payload)
    form = arrow.arrow_schema(options)
    for columns in RangeFetch(options, wanted):
        decoded: dict[str, pa.Array] = {}
        if decoder is not None and {"value", "error"} & set(options.columns):
            result = decoder.decode(arrow.payloads(columns), messages(options, wanted, columns))
            if result.rejected and options.payload.on_error == "fail":
                raise bad_payload(options, wanted, columns, result.rejected[0])
            pair = decode.aligned_columns(result, columns.count)
            decoded = dict(zip(("value", "error"), pair, strict=True))
        whole = pa.RecordBatch.from_arrays(
            [
                decoded[name]
                if name in decoded
                else arrow.metadata_column(
                    name, columns, options=options, partition=wanted.partition
                )
                for name in options.columns
            ],
            schema=form,
        )
        yield from arrow.pieces(whole, options.arrow_batch_bytes)


def messages(options: ReadOptions, wanted: OffsetRange, columns: Columns) -> Messages:
    """What a decoder may ask about the messages of `columns`, which are of the range `wanted`."""
    return Messages(columns, options.stream, options.topic, wanted.incarnation, wanted.partition)


def bad_payload(
    options: ReadOptions, wanted: OffsetRange, columns: Columns, bad: decode.Rejected
) -> BadPayload:
    """The error that names a payload by its position."""
    offset = int.from_bytes(columns.offsets[8 * bad.row : 8 * bad.row + 8], "little")
    return BadPayload(
        f"{options.topic_name} partition {wanted.partition} offset {offset}: {bad.message} "
        f"({bad.kind}); correct payloadSchema or keep such rows with onDecodeError=keep"
    )

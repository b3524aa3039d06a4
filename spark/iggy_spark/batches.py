"""One range of a partition → record batches for Spark, with the columns of the options."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import pyarrow as pa

from iggy_spark import arrow, decode
from iggy_spark.errors import BadPayload
from iggy_spark.joined_fetch import fetch_of
from iggy_spark.messages import Messages
from iggy_spark.offsets import OffsetRange
from iggy_spark.options import ReadOptions
from iggy_wire.kernel import Columns

_log = logging.getLogger(__name__)


def record_batches(options: ReadOptions, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
    """The range as record batches with the columns of the options.

    A message that a transform drops has no row, nor has one that cannot be decoded if those are to
    be skipped; how many there were of the latter is logged.

    Raises:
        BadPayload: a payload cannot be decoded and `onDecodeError` is `fail`.
        IggySparkError: as `Fetch`.
    """
    decoder = decode.build(options.payload)
    if not {"value", "error"} & set(options.columns) and not _drops(options):
        decoder = None
    form = arrow.arrow_schema(options)
    skipped = _Skipped()
    for columns in fetch_of(options, wanted):
        decoded: dict[str, pa.Array] = {}
        rows: pa.Array | None = None
        if decoder is not None:
            result = decoder.decode(arrow.payloads(columns), messages(options, wanted, columns))
            if result.rejected and options.payload.on_error == "fail":
                raise bad_payload(options, wanted.partition, columns, result.rejected[0])
            skip = options.payload.on_error == "skip"
            rows, *pair = decode.aligned_columns(result, columns.count, skip=skip)
            decoded = dict(zip(("value", "error"), pair, strict=True))
            if skip:
                skipped.add(result.rejected)
        for name in options.columns:
            if name not in decoded:
                whole = arrow.metadata_column(
                    name, columns, options=options, partition=wanted.partition
                )
                decoded[name] = whole if rows is None else whole.take(rows)
        batch = pa.RecordBatch.from_arrays([decoded[name] for name in options.columns], schema=form)
        yield from arrow.pieces(batch, options.arrow_batch_bytes)
    skipped.log(f"{options.topic_name} partition {wanted.partition}")


class _Skipped:
    """Messages of a range that are left out because they do not fit."""

    def __init__(self) -> None:
        self._count = 0
        self._first: decode.Rejected | None = None

    def add(self, rejected: Sequence[decode.Rejected]) -> None:
        self._count += len(rejected)
        self._first = self._first or (rejected[0] if rejected else None)

    def log(self, where: str) -> None:
        if self._first is not None:
            _log.warning(
                "%s: %d messages were skipped, the first because: %s (%s)",
                where, self._count, self._first.message, self._first.kind,
            )  # fmt: skip


def _drops(options: ReadOptions) -> bool:
    """Whether there may be messages without a row, whichever columns are asked for."""
    return bool(options.payload.transforms) or options.payload.on_error == "skip"


def messages(options: ReadOptions, wanted: OffsetRange, columns: Columns) -> Messages:
    """What a decoder may ask about the messages of `columns`, which are of the range `wanted`."""
    return Messages(columns, options.stream, options.topic, wanted.incarnation, wanted.partition)


def bad_payload(
    options: ReadOptions, partition: int, columns: Columns, bad: decode.Rejected
) -> BadPayload:
    """The error that names a payload by its position."""
    offset = int.from_bytes(columns.offsets[8 * bad.row : 8 * bad.row + 8], "little")
    where = "" if bad.transform is None else f"transforms[{bad.transform}]: "
    return BadPayload(
        f"{options.topic_name} partition {partition} offset {offset}: {where}{bad.message} "
        f"({bad.kind}); correct payloadSchema or transforms, or keep such rows with "
        "onDecodeError=keep"
    )

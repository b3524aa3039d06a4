"""Rows of a frame → messages in their topics, batch by batch, in one task."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iggy_spark import encode, header_blocks
from iggy_spark.arrow import ID_BYTES
from iggy_spark.encode import Outgoing
from iggy_spark.errors import BadRow
from iggy_spark.option_values import NAME_BYTES_MAX
from iggy_spark.sending import Receipt, Rows, Sender, groups
from iggy_spark.write_columns import WriteColumns
from iggy_spark.write_options import WriteOptions

TOPICS_MAX = 1000  # that one task makes; a wrong column could name another in every row

_LOW_BITS = 64


@dataclass(frozen=True, slots=True)
class Place:
    """Which rows these are: the same of a task that is repeated, if the plan is the same."""

    seed: str  # of a streaming query its id
    batch: int
    task: int


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows that go to one topic."""

    messages: Outgoing
    keys: pa.Array | None
    partitions: pa.Array | None

    def take(self, rows: Rows) -> _Part:
        chosen = pa.array(rows, pa.int64())
        return _Part(
            self.messages.take(rows),
            None if self.keys is None else self.keys.take(chosen),
            None if self.partitions is None else self.partitions.take(chosen),
        )


class RowWriter:
    """Sends record batches of one task, in order."""

    def __init__(self, options: WriteOptions, columns: WriteColumns, place: Place) -> None:
        """Connects at the first call."""
        self._options = options
        self._columns = columns
        self._place = place
        self._rows = 0
        self._made: set[tuple[str, str]] = set()
        self.receipts: list[Receipt] = []  # one for each request of this task
        self._sender = Sender(
            options,
            batch_bytes=options.batch_bytes,
            batch_messages=options.batch_messages,
            on_receipt=self.receipts.append,
        )

    def prepare(self) -> None:
        """Make the topic that the options name, if it shall be made, even for no rows."""
        if self._options.stream is not None and self._options.topic is not None:
            self._ensure(self._options.stream, self._options.topic)

    def write(self, batch: pa.RecordBatch) -> None:
        """Send all rows; they are acknowledged when this returns.

        Raises:
            BadRow: a row makes no message; the numbers are of rows in the task.
            IggySparkError: as `Sender.send`.
        """
        try:
            self._send(batch)
        except BadRow as error:
            first = self._rows
            raise BadRow(f"task {self._place.task}, rows from {first}: {error}") from error
        self._rows += batch.num_rows

    def _send(self, batch: pa.RecordBatch) -> None:
        part = self._part(batch)
        for stream, topic, rows in list(self._topics(batch)):
            self._ensure(stream, topic)
            chosen = part if rows is None else part.take(rows)
            self._sender.send(
                stream, topic, chosen.messages, partitions=chosen.partitions, keys=chosen.keys
            )

    def _part(self, batch: pa.RecordBatch) -> _Part:
        columns, options = self._columns, self._options
        if options.ids == "random":
            ids = None
        elif options.ids == "deterministic":
            ids = deterministic_ids(self._place, self._rows, batch.num_rows)
        else:
            ids = _column(batch, columns.id)
        messages = Outgoing.of(
            batch.column(columns.payload), ids=ids, headers=_headers(batch, columns, options)
        )
        return _Part(
            messages,
            keys=_column(batch, columns.key) if options.partitioning == "key" else None,
            partitions=_column(batch, columns.partition),
        )

    def _topics(self, batch: pa.RecordBatch) -> Iterator[tuple[str, str, Rows | None]]:
        """Stream, topic and rows of each topic; rows None: all of them."""
        if batch.num_rows == 0:
            return
        streams, stream_numbers = _names(
            "stream", self._options.stream, batch, self._columns.stream
        )
        topics, topic_numbers = _names("topic", self._options.topic, batch, self._columns.topic)
        for target, rows in groups(stream_numbers * len(topics) + topic_numbers):
            yield streams[target // len(topics)], topics[target % len(topics)], rows

    def _ensure(self, stream: str, topic: str) -> None:
        count = self._options.create_partitions
        if count is not None and (stream, topic) not in self._made:
            if len(self._made) == TOPICS_MAX:
                raise BadRow(
                    f"one task is to make more than {TOPICS_MAX} topics: are the columns stream "
                    "and topic the right ones?"
                )
            self._sender.ensure_topic(stream, topic, count)
            self._made.add((stream, topic))


def deterministic_ids(place: Place, first_row: int, count: int) -> pa.Array:
    """Ids of rows of a task, counted from its first: a hash of the place, and the row's number."""
    text = f"{place.seed}\n{place.batch}\n{place.task}"
    digest = hashlib.blake2b(text.encode(), digest_size=ID_BYTES).digest()
    high, low = int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big")
    ids = np.empty((count, 2), dtype=">u8")
    ids[:, 0] = high
    start = np.uint64((low + first_row) % (1 << _LOW_BITS))
    ids[:, 1] = start + np.arange(count, dtype=np.uint64)  # wraps around, as it should
    return encode.ids_of(ids.tobytes())


def _headers(
    batch: pa.RecordBatch, columns: WriteColumns, options: WriteOptions
) -> pa.Array | None:
    pairs = None
    if (maps := _column(batch, columns.headers)) is not None:
        pairs = header_blocks.pairs_of_maps(maps, skip_null=options.skip_null_headers)
    if options.key_header is not None:
        keys = header_blocks.pairs_of_column(options.key_header, _column(batch, columns.key))
        pairs = keys if pairs is None else pairs.without(options.key_header.encode()).plus(keys)
    return None if pairs is None else header_blocks.blocks(pairs, batch.num_rows)


def _column(batch: pa.RecordBatch, position: int | None) -> pa.Array | None:
    return None if position is None else batch.column(position)


def _names(
    what: str, fixed: str | None, batch: pa.RecordBatch, position: int | None
) -> tuple[list[str], Rows]:
    """Distinct names, and for each row which it is."""
    if fixed is not None:
        return [fixed], np.zeros(batch.num_rows, dtype=np.int64)
    column = _column(batch, position)
    assert column is not None, "the columns were chosen with the options"
    if column.null_count:
        row = pc.index(pc.is_null(column), True).as_py()
        raise BadRow(f"row {row}: {what} is null: set the option {what}, or a value")
    encoded = column.dictionary_encode()
    names = encoded.dictionary.to_pylist()
    for name in names:
        if not 1 <= len(name.encode()) <= NAME_BYTES_MAX:
            raise BadRow(f"{what} {name[:20]!r} is no name: names have 1 to {NAME_BYTES_MAX} bytes")
    numbers: Rows = encoded.indices.to_numpy().astype(np.int64)
    return names, numbers

"""Columns of messages → batches as they travel, column by column, never message by message."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iggy_spark.arrow import ID_BYTES
from iggy_spark.errors import BadRow
from iggy_wire import kernel
from iggy_wire.kernel_types import (
    BATCH_HEADER_BYTES,
    FRAME_HEADER_BYTES,
    HEADERS_BYTES_MAX,
    PAYLOAD_BYTES_MAX,
)

BYTES = pa.large_binary()  # 64-bit offsets: rows of one batch may have more than 2 GiB together

# Iggy protocol 0.11: of the batch header a producer writes time, length and count; of a frame all.
_HEADER = struct.Struct("<24xQQ8xI")
_FRAME = np.dtype(
    [
        ("checksum", "<u8"),
        ("id", f"V{ID_BYTES}"),
        ("offset_delta", "<u4"),
        ("timestamp_delta", "<u4"),
        ("headers_bytes", "<u4"),
        ("payload_bytes", "<u4"),
        ("reserved", "<u8"),
    ]
)
assert _FRAME.itemsize == FRAME_HEADER_BYTES


@dataclass(frozen=True, slots=True)
class Outgoing:
    """Outgoing as Arrow arrays of one length. Slices are cheap. Made by `of`."""

    payloads: pa.Array  # large_binary, none null, none empty
    ids: pa.Array  # large_binary, 16 bytes each, big-endian as in the source's column `id`
    headers: pa.Array | None  # large_binary, none null: user headers as on the wire, or empty

    @classmethod
    def of(
        cls, payloads: pa.Array, *, ids: pa.Array | None = None, headers: pa.Array | None = None
    ) -> Outgoing:
        """Checked messages.

        `payloads`: binary or string. `ids`: binary of 16 bytes, big-endian; None makes random ones.
        `headers`: binary, user headers encoded as on the wire; null or empty is none.

        Raises:
            BadRow: a null, an empty payload, an id of another length, or more than a message holds.
        """
        count = len(payloads)
        if ids is None:
            ids = ids_of(os.urandom(ID_BYTES * count))
        if len(ids) != count or (headers is not None and len(headers) != count):
            raise ValueError("payloads, ids and headers must have one length")
        payloads, ids = _bytes("payload", payloads), _bytes("id", ids)
        _check_lengths("payload", payloads, 1, PAYLOAD_BYTES_MAX)
        _check_lengths("id", ids, ID_BYTES, ID_BYTES)
        if headers is not None:
            headers = pc.fill_null(headers.cast(BYTES), b"")
            _check_lengths("headers, encoded", headers, 0, HEADERS_BYTES_MAX)
        return cls(payloads, ids, headers)

    def __len__(self) -> int:
        """How many messages."""
        return len(self.payloads)

    def slice(self, at: int, count: int) -> Outgoing:
        """Some that follow one another, not copied."""
        return self._each(lambda column: column.slice(at, count))

    def take(self, rows: np.ndarray[Any, np.dtype[np.int64]]) -> Outgoing:
        """These rows in this order, copied."""
        return self._each(lambda column: column.take(pa.array(rows)))

    def sizes(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """What each takes in a batch, in bytes."""
        sizes = FRAME_HEADER_BYTES + _lengths(self.payloads)
        return sizes if self.headers is None else sizes + _lengths(self.headers)

    def _each(self, change: Any) -> Outgoing:
        headers = None if self.headers is None else change(self.headers)
        return Outgoing(change(self.payloads), change(self.ids), headers)


def ids_of(data: bytes) -> pa.Array:
    """Ids from 16 bytes each."""
    ends = np.arange(0, len(data) + 1, ID_BYTES, dtype=np.int64)
    buffers = [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(data)]
    return pa.Array.from_buffers(BYTES, len(ends) - 1, buffers)


def batch(messages: Outgoing, *, origin_timestamp_us: int) -> bytearray:
    """One sealed batch, as a producer sends it; all messages have the same origin timestamp."""
    count = len(messages)
    # The first head holds the batch header too, so that joining makes the whole batch.
    ends = np.arange(0, FRAME_HEADER_BYTES * (count + 1), FRAME_HEADER_BYTES, dtype=np.int64)
    ends[1:] += BATCH_HEADER_BYTES
    heads = bytes(BATCH_HEADER_BYTES) + _frames(messages).tobytes()
    buffers = [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(heads)]
    parts = [pa.Array.from_buffers(BYTES, count, buffers), messages.payloads]
    if messages.headers is not None:
        parts.append(messages.headers)
    joined = pc.binary_join_element_wise(*parts, pa.scalar(b"", BYTES))
    sealed = bytearray(joined.buffers()[2])
    _HEADER.pack_into(sealed, 0, origin_timestamp_us, len(sealed), count)
    kernel.seal(sealed)
    return sealed


def requests(messages: Outgoing, *, bytes_max: int, count_max: int) -> Iterator[Outgoing]:
    """Cut in order: as many as fit both limits, at least one. A limit counts the batch header."""
    ends = BATCH_HEADER_BYTES + np.cumsum(messages.sizes())
    at, before = 0, 0
    while at < len(messages):
        fitting = int(np.searchsorted(ends, before + bytes_max, side="right")) - at
        count = min(max(fitting, 1), count_max, len(messages) - at)
        yield messages.slice(at, count)
        at += count
        before = int(ends[at - 1]) - BATCH_HEADER_BYTES


def _frames(messages: Outgoing) -> np.ndarray[Any, Any]:
    frames = np.zeros(len(messages), _FRAME)
    # On the wire an id is a little-endian number.
    ids = messages.ids
    first = int(np.frombuffer(ids.buffers()[1], np.int64, 1, offset=8 * ids.offset)[0])
    big = np.frombuffer(ids.buffers()[2], np.uint8, ID_BYTES * len(ids), offset=first)
    small = np.ascontiguousarray(big.reshape(-1, ID_BYTES)[:, ::-1])
    frames["id"] = small.view(f"V{ID_BYTES}").ravel()
    frames["offset_delta"] = np.arange(len(messages))
    frames["payload_bytes"] = _lengths(messages.payloads)
    if messages.headers is not None:
        frames["headers_bytes"] = _lengths(messages.headers)
    return frames


def _bytes(what: str, column: pa.Array) -> pa.Array:
    if column.null_count:
        row = int(pc.index(pc.is_null(column), True).as_py())
        raise BadRow(f"row {row}: {what} is null: filter such rows, or give them a value")
    return column.cast(BYTES)


def _check_lengths(what: str, column: pa.Array, low: int, high: int) -> None:
    lengths = _lengths(column)
    wrong = np.flatnonzero((lengths < low) | (lengths > high))
    if len(wrong):
        allowed = f"{low}" if low == high else f"{low} to {high}"
        raise BadRow(
            f"row {wrong[0]}: {what} has {lengths[wrong[0]]} bytes, a message takes {allowed}: "
            "filter such rows, or change them"
        )


def _lengths(column: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    lengths: np.ndarray[Any, np.dtype[np.int64]] = pc.binary_length(column).to_numpy(
        zero_copy_only=False
    )
    return lengths

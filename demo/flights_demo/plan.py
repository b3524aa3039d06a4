"""What has to be sent: pure decisions about which flights go where, and in which order.

Every run makes the same plan for the same input. So the end of a partition says exactly which
flights it has, and a run that was stopped anywhere is completed by sending the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import xxhash

# Flights are taken in slices of this many rows; within a slice one carrier is one request. So a
# shorter input is a prefix of a longer one only if it is a multiple of this.
SLICE_ROWS = 5_000


@dataclass(frozen=True, slots=True)
class Request:
    """Flights of one carrier that are sent together."""

    partition_id: int
    carrier: str
    base_offset: int  # the offset that the first of them must get
    rows: list[int]  # indices into the input


class ForeignData(Exception):
    """The topic holds something that is not the plan's."""


def partition_of(key: str, partitions_count: int) -> int:
    """The partition that the official client chooses for a message key."""
    return xxhash.xxh32_intdigest(key.encode()) % partitions_count


def plan(carriers: Sequence[str], partitions_count: int) -> list[Request]:
    """All requests for the whole input, as if every partition were empty."""
    next_offsets = [0] * partitions_count
    requests = []
    for start in range(0, len(carriers), SLICE_ROWS):
        rows_by_carrier: dict[str, list[int]] = {}
        for row in range(start, min(start + SLICE_ROWS, len(carriers))):
            rows_by_carrier.setdefault(carriers[row], []).append(row)
        for carrier, rows in rows_by_carrier.items():
            partition_id = partition_of(carrier, partitions_count)
            requests.append(Request(partition_id, carrier, next_offsets[partition_id], rows))
            next_offsets[partition_id] += len(rows)
    return requests


def missing(requests: Sequence[Request], next_offsets: Sequence[int]) -> Iterator[Request]:
    """What is left of the plan when each partition has the messages below its next offset."""
    planned = [0] * len(next_offsets)
    for request in requests:
        planned[request.partition_id] = request.base_offset + len(request.rows)
    for partition_id, (has, wants) in enumerate(zip(next_offsets, planned, strict=True)):
        if has > wants:
            raise ForeignData(
                f"partition {partition_id} has {has:,} messages, the input only {wants:,}: "
                "the topic holds other data. Delete the data folder to start over."
            )
    for request in requests:
        done = next_offsets[request.partition_id] - request.base_offset
        if done <= 0:
            yield request
        elif done < len(request.rows):
            yield Request(
                request.partition_id,
                request.carrier,
                request.base_offset + done,
                request.rows[done:],
            )

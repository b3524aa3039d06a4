"""What every sink is: five methods, and the values that pass through them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import pyarrow as pa

from iggy_spark.offsets import OffsetRange

Spans = tuple[tuple[int, int], ...]  # runs of offsets, first included, end excluded, in order


@dataclass(frozen=True, slots=True)
class Portion:
    """Some messages of a range, decoded: the good rows, and the rejected ones with their bytes."""

    rows: pa.RecordBatch
    rejected: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class Written:
    """What one task did with one range; travels from the task to the driver as JSON."""

    partition: int
    first: int
    end: int
    rows: int = 0
    rejected: int = 0
    skipped: int = 0  # in the target before
    lost: int = 0  # gone from the broker, which `failOnDataLoss=false` allows
    size_bytes: int = 0
    preview: tuple[str, ...] = ()  # lines for a person, of sinks that show rows

    def to_json(self) -> dict[str, Any]:
        """The fields by name."""
        return asdict(self)


class Sink(Protocol):
    """A target. Made from its settings alone, in the driver and again in every task."""

    def check(self) -> None:
        """Before anything runs: can the target be written?

        Raises:
            SinkError: no; the message names the target.
        """

    def prepare(self, incarnation: str) -> Mapping[int, Spans]:
        """Once, in the driver, before the first batch: finish what a crash left half done.

        Returns what the target already holds of this incarnation, per partition.
        """

    def write_task(
        self, wanted: OffsetRange, portions: Iterable[Portion], confirm: Callable[[], None]
    ) -> Written:
        """In a task: all of one range or nothing, and the same range again changes nothing.

        `confirm` is called when everything is ready to appear; it raises if another driver has
        taken over meanwhile.
        """

    def commit(self, results: Sequence[Written]) -> None:
        """In the driver, after all tasks of a batch."""

    def close(self) -> None:
        """In the driver, at the end."""


def still_ours() -> None:
    """Confirms where a lock keeps other drivers out."""


def merge(spans: Iterable[tuple[int, int]]) -> Spans:
    """Runs joined where they touch or overlap."""
    merged: list[tuple[int, int]] = []
    for first, end in sorted(spans):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((first, end))
    return tuple(merged)


def without(wanted: OffsetRange, covered: Spans) -> Iterator[OffsetRange]:
    """The parts of a range that no span covers, in order."""
    at = wanted.first
    for first, end in covered:
        if end <= at:
            continue
        if first >= wanted.end:
            break
        if first > at:
            yield OffsetRange(wanted.incarnation, wanted.partition, at, first)
        at = max(at, end)
    if at < wanted.end:
        yield OffsetRange(wanted.incarnation, wanted.partition, at, wanted.end)

"""What every sink is: five methods, and the values that pass through them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import pyarrow as pa

from iggy_spark.messages import Messages
from iggy_spark.offsets import OffsetRange

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Spans = tuple[tuple[int, int], ...]  # runs of offsets, first included, end excluded, in order


@dataclass(frozen=True, slots=True)
class Refusal:
    """A message that cannot be written, and why. No `message` holds a secret."""

    offset: int
    stage: str  # decode, transform, write
    kind: str  # such as SchemaMismatch, or the target's own name for it
    message: str
    transform: int | None = None  # which one, from 0


@dataclass(frozen=True, slots=True)
class Portion:
    """Some messages of a range: the good ones as rows of the table, in offset order."""

    rows: pa.RecordBatch
    messages: Messages  # all of them, as they came
    refusals: tuple[Refusal, ...] = ()  # could not be decoded or transformed
    filtered: int = 0  # dropped by a transform


@dataclass(frozen=True, slots=True)
class Written:
    """What one task did with one range; travels from the task to the driver as JSON."""

    partition: int
    first: int
    end: int
    rows: int = 0
    rejected: int = 0
    dead: int = 0  # of these, sent to the dead letter topic
    filtered: int = 0
    skipped: int = 0  # in the target before
    lost: int = 0  # gone from the broker, which `failOnDataLoss=false` allows
    # Calls that the target could not answer, by `retry.Cause`.
    retries: Mapping[str, int] = field(default_factory=dict)
    size_bytes: int = 0
    preview: tuple[str, ...] = ()  # lines for a person, of sinks that show rows
    details: tuple[Any, ...] = ()  # what `commit` needs, as JSON has it

    def to_json(self) -> dict[str, Any]:
        """The fields by name."""
        return asdict(self)

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Written:
        """Read what `to_json` wrote."""
        lists = {name: tuple(value[name]) for name in ("preview", "details")}
        return Written(**{**value, **lists})


class Task(Protocol):
    """What a sink may ask of the task that it writes in."""

    def refuse(self, portion: Portion, refusals: Sequence[Refusal]) -> None:
        """The target refuses these messages of a portion: they go to the dead letters.

        Raises:
            BadPayload: no bad message is tolerated.
            TooManyBadRecords: more are bad than the settings allow.
        """

    def confirm(self) -> None:
        """Everything is ready to appear, or has: dead letters are safe when this returns.

        Raises:
            Fenced: another driver has taken over; nothing may appear any more.
            TooManyBadRecords: more are bad than the settings allow.
        """


class Sink(Protocol):
    """A target. Made from its settings alone, in the driver and again in every task.

    Calls that a target may answer later go through `retry.Retry`. All errors are of three kinds:
    `retry.TransientError` within such a call, refusals of single messages, and `SinkError`.
    """

    @property
    def exactly_once(self) -> bool:
        """Whether a range that is written again changes nothing, with these settings."""

    @property
    def keeps_place(self) -> bool:
        """Whether `prepare` tells all that the target holds, so that a lost checkpoint is made up
        for by the target itself.
        """

    def check(self) -> None:
        """Before anything runs: can the target be written?

        Raises:
            SinkError: no; the message names the target.
            OptionError: never, with these settings; the message names the field.
        """

    def prepare(self, incarnation: str) -> Mapping[int, Spans]:
        """In the driver, before the first batch of a topic: finish what a crash left half done.

        Returns what the target already holds of this incarnation, per partition.
        """

    def write_task(self, wanted: OffsetRange, portions: Iterable[Portion], task: Task) -> Written:
        """In a task: write one range. What it returns counts rows and bytes alone.

        `task.confirm` is called once, when all portions have passed: before they appear where they
        appear together, else behind the last one.
        """

    def commit(self, results: Sequence[Written]) -> None:
        """In the driver, after all tasks of a batch."""

    def close(self) -> None:
        """In the driver, at the end."""


@runtime_checkable
class Telling(Protocol):
    """A sink whose target can be asked without a change to it."""

    def held(self, incarnation: str) -> Mapping[int, Spans]:
        """What can be seen there of an incarnation, also while a job writes; as `prepare` would
        return it if nothing was left half done.

        Raises:
            SinkError, OptionError: as `prepare`.
        """


@runtime_checkable
class InJava(Protocol):
    """A sink whose target Spark's Java alone reaches."""

    def look(self, spark: SparkSession) -> None:
        """The rest of `check`, as soon as there is a Spark.

        Raises:
            SinkError, OptionError: as `check`.
        """


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

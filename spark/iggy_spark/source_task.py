"""What Spark asks of a source's job: plans of batches, and tasks that read the other system and
send to the topic at once.

Messages never pass through Spark's JVM; what a task yields is one line that says what it did. Spark
plans, retries and keeps the checkpoint.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from iggy_spark import driver_mark, no_pandas
from iggy_spark.absence import Notice
from iggy_spark.encode import Outgoing
from iggy_spark.errors import OptionError
from iggy_spark.retry import Retry
from iggy_spark.sending import BATCH_BYTES, BATCH_MESSAGES, Sender
from iggy_spark.source_config import SourceConfig
from iggy_spark.source_keys import with_keys
from iggy_spark.sources import registry
from iggy_spark.sources.base import Freezing, Position, Source
from iggy_spark.spark_versions import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from iggy_spark.write_options import WriteOptions

no_pandas.settle()

RESULT_SCHEMA = pa.schema([pa.field("result", pa.string())])
IDLE_S: Final = 1.0  # a source that had nothing new is left alone for so long
POSITION_BYTES_MAX: Final = 1 << 20  # as JSON; Spark writes it down twice a batch


@dataclass(frozen=True, slots=True)
class Carried:
    """What a task did; travels to the driver as JSON."""

    messages: int = 0
    size_bytes: int = 0  # of payloads
    retries: Mapping[str, int] = field(default_factory=dict)  # by `retry.Cause`

    def plus(self, other: Carried) -> Carried:
        """Both together."""
        return Carried(
            self.messages + other.messages,
            self.size_bytes + other.size_bytes,
            dict(Counter(self.retries) + Counter(other.retries)),
        )


class PartOfBatch(InputPartition):
    """One task."""

    def __init__(self, start: Position, end: Position, part: Mapping[str, Any]) -> None:
        """A part of the batch from `start` to `end`."""
        super().__init__(part)
        self.start, self.end, self.part = start, end, part


class SourceReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans lie with one helper process beside the driver; `read` runs in tasks."""

    def __init__(
        self, config: SourceConfig, options: WriteOptions, *, start: Position, mark: str, away: Path
    ) -> None:
        """Opens nothing: Spark pickles a second instance into the tasks. `away` is where they tell
        that the other system is away.
        """
        self._config, self._options = config, options
        self._start, self._mark, self._away = start, mark, away
        self._source: Source | None = None
        self._is_ending = False
        self._idle: tuple[Position, float] | None = None  # since when nothing is new

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """`maxMessagesPerTrigger`."""
        return ReadMaxRows(self._config.source.max_messages_per_trigger)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where the first batch begins: the job has written that down."""
        return dict(self._start)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Only what is there now, of a source that can tell."""
        self._is_ending = True
        source = self._planner()
        if isinstance(source, Freezing):
            source.freeze()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """End of the next batch."""
        if self._is_idle(start):
            return start
        # The limit is always our own: Spark has none for the last batch of a run that ends.
        end = self._planner().latest(start, self._config.source.max_messages_per_trigger)
        if end == start:
            self._idle = (start, time.monotonic())
            return start
        found = dict(end)
        size = len(json.dumps(found))
        if size > POSITION_BYTES_MAX:
            raise OptionError(
                f"source: its position takes {size} bytes, at most {POSITION_BYTES_MAX} are kept: "
                "split the source into several"
            )
        return found

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of one batch; a replay gets the same ones."""
        return [PartOfBatch(start, end, part) for part in self._planner().split(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Carry one part; yield what was done."""
        if not isinstance(partition, PartOfBatch):  # Spark makes one task up if there is none
            return
        with driver_mark.beside(self._config).writing(self._mark):
            retry = Retry(self._config.retry_policy, away=Notice(self._away))
            done = carry(self._config, self._options, partition, retry=retry)
        line = json.dumps(asdict(done))
        yield pa.RecordBatch.from_arrays([pa.array([line])], schema=RESULT_SCHEMA)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: the job tells the source, as soon as Spark has written a batch down. This call
        comes one batch late, and for the last one never.
        """

    def stop(self) -> None:
        """The query is over."""
        if self._source is not None:
            self._source.close()

    def _planner(self) -> Source:
        if self._source is None:
            retry = Retry(self._config.retry_policy, away=Notice(self._away))
            self._source = registry.build(self._config, retry=retry)
        return self._source

    def _is_idle(self, start: Position) -> bool:
        """Spark asks many times a second where there is nothing new."""
        if self._idle is None or self._is_ending:
            return False
        at, since_s = self._idle
        pause_s = min(IDLE_S, self._config.interval_ms / 1000)
        return at == start and time.monotonic() - since_s < pause_s


def carry(
    config: SourceConfig, options: WriteOptions, task: PartOfBatch, *, retry: Retry
) -> Carried:
    """Read one part and send it to the topic; everything is acknowledged when this returns.

    Raises:
        SinkError: the other system does not answer.
        BrokerRefused, BrokerUnavailable, BadRow: as `Sender.send`.
    """
    source = registry.build(config, retry=retry)
    sender = Sender(options)
    messages = size_bytes = 0
    try:
        for batch in gathered(source.read(task.start, task.end, task.part)):
            keyed = with_keys(batch, config.source.key)
            send(sender, config, keyed)
            messages += keyed.num_rows
            size_bytes += payload_bytes(keyed)
    finally:
        source.close()
    retries = {str(cause): times for cause, times in retry.counts.items()}
    return Carried(messages, size_bytes, retries)


def send(sender: Sender, config: SourceConfig, batch: pa.RecordBatch) -> None:
    """Send messages, by their keys where they have any."""
    keys = batch.column("key")
    sender.send(
        config.stream,
        config.topic,
        Outgoing.of(batch.column("payload"), ids=batch.column("id")),
        keys=None if keys.null_count == len(keys) else keys,
    )


def gathered(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Small batches joined, so that a request has many messages. Empty ones are left out."""
    waiting: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for batch in found:
        if not batch.num_rows:
            continue
        waiting.append(batch)
        rows += batch.num_rows
        size_bytes += payload_bytes(batch)
        if rows >= BATCH_MESSAGES or size_bytes >= BATCH_BYTES:
            yield _joined(waiting)
            waiting, rows, size_bytes = [], 0, 0
    if waiting:
        yield _joined(waiting)


def payload_bytes(batch: pa.RecordBatch) -> int:
    """Size of all payloads."""
    return int(pc.sum(pc.binary_length(batch.column("payload"))).as_py() or 0)


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)

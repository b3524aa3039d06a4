"""What a task of the sink job does: read a range, decode it, write it to the target.

Rows never pass through Spark's JVM, which would cost more than everything else together; what a
task yields is one line that says what it did. Spark plans, retries and keeps the checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import InputPartition

from iggy_spark import driver_mark, no_pandas, readers, redrive, worker_memory
from iggy_spark.absence import Notice
from iggy_spark.dead_letters import DeadLetters
from iggy_spark.errors import BadPayload
from iggy_spark.fetch import RangeFetch
from iggy_spark.job_config import JobConfig
from iggy_spark.limits import BadLimits, bad_limits
from iggy_spark.offsets import OffsetRange
from iggy_spark.options import ReadOptions
from iggy_spark.retry import Retry
from iggy_spark.sinks import registry
from iggy_spark.sinks.base import Portion, Refusal, Sink, Spans, Written, still_ours, without
from iggy_spark.sinks.rows import portions

no_pandas.settle()

BATCH_PROPERTY: Final = "streaming.sql.batchId"  # Spark 4.3
RESULT_SCHEMA = pa.schema([pa.field("result", pa.string())])


class SinkReader(readers.IggyStreamReader):
    """Plans like the data source; a task writes instead of handing rows to Spark."""

    def __init__(
        self, options: ReadOptions, job: str, covered: str, mark: str, letters: str, away: str
    ) -> None:
        """The texts are as `sink_source.own_options` made them."""
        super().__init__(options)
        self._job, self._covered, self._mark, self._letters = job, covered, mark, letters
        self._away = away

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Write one range; yield what was done."""
        worker_memory.settle()
        if not isinstance(partition, readers.RangePartition):
            return
        config = msgspec.json.decode(self._job, type=JobConfig)
        # The payload with its transforms is declared in the job's file, not in the options.
        options = replace(self._options, payload=config.payload)
        spans = json.loads(self._covered).get(str(partition.wanted.partition), [])
        covered = tuple((first, end) for first, end in spans)
        away = Path(self._away)
        retry = Retry(config.retry_policy, away=Notice(away))
        sink = registry.build(config, show=lambda line: None, retry=retry, reach=options, away=away)
        with driver_mark.of(config).writing(self._mark) as confirm:
            letters = DeadLetters.of(config, options, batch=_batch())
            found = portions
            # Of letters any number may be bad: they have been so before.
            limits = bad_limits(config)
            if self._letters:
                assert config.redrive is not None
                assert letters is not None
                found = partial(redrive.portions, request=config.redrive, letters=letters)
                limits = None
            work = TaskWork(letters, limits=limits, confirm=confirm)
            written = write_range(
                options, partition.wanted, sink=sink, covered=covered, work=work, found=found
            )
        line = json.dumps(
            replace(
                written, retries={str(name): times for name, times in retry.counts.items()}
            ).to_json()
        )
        yield pa.RecordBatch.from_arrays([pa.array([line])], schema=RESULT_SCHEMA)


def _batch() -> int | None:
    """Number of the batch that a task belongs to, as Spark's MicroBatchExecution tells its tasks;
    None outside of Spark.
    """
    context = TaskContext.get()
    told = None if context is None else context.getLocalProperty(BATCH_PROPERTY)
    return None if told is None else int(told)


class TaskWork:
    """What a task keeps beside its sink: counts, and the messages that are set aside."""

    def __init__(
        self,
        letters: DeadLetters | None = None,
        *,
        limits: BadLimits | None = None,
        confirm: Callable[[], None] = still_ours,
    ) -> None:
        """Without `letters` refused messages are for the sink to keep, and `refuse` stops the task;
        without `limits` any number is allowed.
        """
        self._letters, self._limits, self._confirm = letters, limits, confirm
        self.seen = 0
        self.rejected = 0
        self.dead = 0
        self.filtered = 0

    def passing(self, found: Iterable[Portion]) -> Iterator[Portion]:
        """The portions, without the refused messages that go to the dead letters."""
        for portion in found:
            self.seen += portion.messages.count
            self.filtered += portion.filtered
            self._count(portion.refusals)
            if self._letters is not None and portion.refusals:
                self._letters.add(portion.messages, portion.refusals)
                self.dead += len(portion.refusals)
                yield replace(portion, refusals=())
            else:
                yield portion

    def refuse(self, portion: Portion, refusals: Sequence[Refusal]) -> None:
        """See `base.Task`."""
        if not refusals:
            return
        if self._letters is None:
            known, bad = portion.messages, refusals[0]
            raise BadPayload(
                f"{known.stream}/{known.topic} partition {known.partition} offset {bad.offset}: "
                f"the target refuses the message: {bad.message} ({bad.kind}); correct what is "
                "sent, or set such messages aside with errors.tolerance: Data"
            )
        self._count(refusals)
        self._letters.add(portion.messages, refusals)
        self.dead += len(refusals)

    def confirm(self) -> None:
        """See `base.Task`. Dead letters come first: after the target's own commit a repeated batch
        would skip these messages and never look at them again.
        """
        if self._limits is not None:
            self._limits.check(self.rejected, self.seen)
        if self._letters is not None:
            self._letters.send()
        self._confirm()

    def _count(self, refusals: Sequence[Refusal]) -> None:
        self.rejected += len(refusals)
        if self._limits is not None:
            self._limits.check_count(self.rejected)


def write_range(
    options: ReadOptions,
    wanted: OffsetRange,
    *,
    sink: Sink,
    covered: Spans,
    work: TaskWork | None = None,
    found: Callable[[ReadOptions, RangeFetch], Iterator[Portion]] = portions,
) -> Written:
    """Write what the target does not have yet of a range. `found` makes portions of messages."""
    work = work or TaskWork()
    total = Written(wanted.partition, wanted.first, wanted.end)
    missing = 0
    for part in without(wanted, covered):
        missing += part.count
        fetch = RangeFetch(options, part)
        done = sink.write_task(part, work.passing(found(options, fetch)), work)
        total = replace(
            total,
            rows=total.rows + done.rows,
            lost=total.lost + fetch.lost,
            size_bytes=total.size_bytes + done.size_bytes,
            preview=total.preview + done.preview,
            details=total.details + done.details,
        )
    return replace(
        total,
        skipped=wanted.count - missing,
        rejected=work.rejected,
        dead=work.dead,
        filtered=work.filtered,
    )

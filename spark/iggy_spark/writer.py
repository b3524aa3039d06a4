"""Batch and stream writers: what Spark asks of tasks, and what it says when they are done."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from iggy_spark import write_columns
from iggy_spark.errors import IggySparkError, OptionError
from iggy_spark.sending import Receipt
from iggy_spark.write_options import WriteOptions
from iggy_spark.writing import Place, RowWriter

RANGES_MAX = 100  # that one line of the log names

_log = logging.getLogger(__name__)
# Python leaves out INFO by default; here that would be the one line a batch that tells what it did.
_log.setLevel(logging.INFO)

# How Spark 4.3 tells a task of a streaming query which it is.
_QUERY_ID, _BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task has done: where each of its requests landed, in the order they were sent."""

    task: int
    receipts: tuple[Receipt, ...]


def check_mode(overwrite: bool) -> None:
    """Only appending makes sense.

    Raises:
        OptionError: Spark is to overwrite.
    """
    if overwrite:
        raise OptionError(
            "mode: overwrite would have to delete the topic's messages, also for all who read "
            'it: use mode("append") or outputMode("append"), and purge the topic yourself'
        )


class _TopicWriter:
    """What both writers do in a task."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        """Opens nothing: a writer is pickled into tasks."""
        self._options = options
        self._columns = write_columns.choose(schema, options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Send the rows of a task; what was sent is acknowledged when this returns."""
        place = self._place()
        writer = RowWriter(self._options, self._columns, place)
        try:
            writer.prepare()
            for batch in iterator:
                writer.write(batch)
        except IggySparkError:
            # Spark does not hand over what a failed task has done.
            _log.warning("task %d failed; %s", place.task, staying(writer.receipts))
            raise
        return Written(place.task, tuple(writer.receipts))

    def _place(self) -> Place:
        raise NotImplementedError


class IggyBatchWriter(_TopicWriter, DataSourceArrowWriter):
    """One write of a frame."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        """Opens nothing: a writer is pickled into tasks."""
        super().__init__(options, schema)
        self._seed = options.id_seed or uuid.uuid4().hex

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All tasks are done."""
        _log.info("written: %s", summary(_receipts(messages)))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """A task has failed for good: say what is there all the same."""
        _log.warning("the write failed; of tasks that were done %s", staying(_receipts(messages)))

    def _place(self) -> Place:
        return Place(self._seed, 0, _task().partitionId())


class IggyStreamWriter(_TopicWriter, DataSourceStreamArrowWriter):
    """The end of a streaming query."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """All tasks of a micro-batch are done."""
        _log.info("batch %d written: %s", batchId, summary(_receipts(messages)))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """A task has failed for good: say what is there all the same."""
        told = staying(_receipts(messages))
        _log.warning("batch %d failed; of tasks that were done %s", batchId, told)

    def _place(self) -> Place:
        task = _task()
        query, batch = task.getLocalProperty(_QUERY_ID), task.getLocalProperty(_BATCH_ID)
        assert query is not None, "Spark 4.3 says it to the tasks of a streaming query"
        assert batch is not None
        return Place(self._options.id_seed or query, int(batch), task.partitionId())


def _task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None, "Spark calls write in tasks"
    return task


def _receipts(messages: Sequence[WriterCommitMessage | None]) -> list[Receipt]:
    """Those of all tasks that were done; a failed one has no message."""
    done = (message for message in messages if isinstance(message, Written))
    return [receipt for message in done for receipt in message.receipts]


def ranges(receipts: Sequence[Receipt]) -> list[Receipt]:
    """Receipts in order, with those that follow one another as one."""
    found: list[Receipt] = []
    for receipt in sorted(receipts):
        last = found[-1] if found else None
        if last is not None and last[:3] == receipt[:3] and last.last + 1 == receipt.first:
            found[-1] = last._replace(last=receipt.last)
        else:
            found.append(receipt)
    return found


def summary(receipts: Sequence[Receipt]) -> str:
    """Messages, requests and offset ranges, for a line of the log."""
    count = sum(receipt.last - receipt.first + 1 for receipt in receipts)
    told = [
        f"{part.stream}/{part.topic} partition {part.partition} offsets {part.first}-{part.last}"
        for part in ranges(receipts)
    ]
    if len(told) > RANGES_MAX:
        told = [*told[:RANGES_MAX], f"and {len(told) - RANGES_MAX} more ranges"]
    head = f"{count} messages in {len(receipts)} requests"
    return f"{head}: {', '.join(told)}" if told else head


def staying(receipts: Sequence[Receipt]) -> str:
    """What nobody can take back."""
    if not receipts:
        return "nothing is in a topic"
    return f"this stays in topics: {summary(receipts)}"

"""Batch and stream readers: what Spark asks, answered with the pure parts and the broker."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)

from iggy_spark import archive_lives, archive_places, offsets, pushdown, starts, worker_memory
from iggy_spark.batch_size import BatchSize
from iggy_spark.batches import record_batches
from iggy_spark.errors import BrokerUnavailable, OptionError
from iggy_spark.first_start import FirstStart
from iggy_spark.mirror import Mirrors
from iggy_spark.offsets import OffsetRange, Offsets, QueryOffsets, Task, TopicState
from iggy_spark.options import ReadOptions
from iggy_spark.retention import RetentionWatch
from iggy_spark.selection import TopicName
from iggy_spark.spark_versions import ReadLimit, SupportsTriggerAvailableNow
from iggy_spark.tails import Tails
from iggy_spark.topics import Topics

PLANS_MAX = 100  # of one micro-batch, when connections break all the time

_log = logging.getLogger(__name__)


class RangePartition(InputPartition):
    """One task: a range of one partition."""

    def __init__(self, topic: TopicName, wanted: OffsetRange) -> None:
        """`wanted` is what the task reads of `topic`."""
        super().__init__(wanted)
        self.topic = topic
        self.wanted = wanted


class RangeReader:
    """What all readers do in a task."""

    def __init__(self, options: ReadOptions) -> None:
        """Opens nothing: a reader is pickled into tasks."""
        self._options = options
        self._topics = Topics(options)

    def _tasks(
        self, start: QueryOffsets, end: QueryOffsets, *, by_segments: bool
    ) -> list[InputPartition]:
        tasks = offsets.plan_tasks(start, end, partitions_min=self._options.min_partitions)
        return [
            RangePartition(self._topics.name(task.topic), wanted)
            for task in tasks
            for wanted in (self._split(task) if by_segments else [task.wanted])
        ]

    def _split(self, task: Task) -> list[OffsetRange]:
        return archive_places.split(self._topics.connection(task.topic), task.wanted)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Record batches of one range, in offset order."""
        worker_memory.settle()
        if isinstance(partition, RangePartition):  # Spark makes one task up if there is none
            yield from record_batches(self._options.for_topic(partition.topic), partition.wanted)


class IggyBatchReader(RangeReader, DataSourceReader):
    """A read of what the topics hold between two points."""

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks between where the topics start and where they end now."""
        return self._tasks(*self._span(), by_segments=True)

    def _span(self) -> tuple[QueryOffsets, QueryOffsets]:
        found = self._topics.look()
        if not found:
            raise OptionError(f"there are no {self._options.selection}: correct subscribePattern")
        options = self._options
        starts.check_places(options.selection, found, options.starting, options.ending)
        first, last = [], []
        for state in found:
            connection = self._topics.connection(state.name)
            start = starts.resolve_start(self._options, state, connection, stream=False)
            first.append(start)
            last.append(starts.resolve_end(self._options, state, connection, start))
        return QueryOffsets.of(first), QueryOffsets.of(last)


class IggyFilteringReader(IggyBatchReader):
    """The same, for what filters leave of it. A class of its own: Spark refuses a reader that can
    push filters down where `spark.sql.python.filterPushdown.enabled` is off.
    """

    def __init__(self, options: ReadOptions) -> None:
        """Opens nothing."""
        super().__init__(options)
        self._bounds = pushdown.Bounds()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Remember what the filters say of partitions, offsets and times; return the rest."""
        self._bounds, left = pushdown.narrow(filters)
        return left

    def _span(self) -> tuple[QueryOffsets, QueryOffsets]:
        start, end = super()._span()
        topics = [self._narrowed(item, end.topics[name]) for name, item in start.topics.items()]
        return QueryOffsets.of(a for a, _ in topics), QueryOffsets.of(b for _, b in topics)

    def _narrowed(self, start: Offsets, end: Offsets) -> tuple[Offsets, Offsets]:
        bounds, connection = self._bounds, self._topics.connection(start.topic)
        wanted = bounds.partitions
        firsts, ends = {}, {}
        for number, until in end.positions.items():
            if wanted is not None and number not in wanted:
                continue
            first, last = max(start.positions[number], bounds.first), min(until, bounds.end)
            if bounds.first_us is not None and first < last:
                found = connection.at_time(number, max(0, bounds.first_us))
                first = max(first, until if found is None else found)
            if bounds.end_us is not None and first < last:
                found = connection.at_time(number, max(0, bounds.end_us))
                last = last if found is None else min(last, found)
            firsts[number], ends[number] = first, max(first, last)
        return replace(start, positions=firsts), replace(end, positions=ends)


class IggyStreamReader(RangeReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Micro-batches. Lives in one helper process beside the driver for the whole query.

    As Spark 4.2 and newer want it; `bounded_reader` has the one for 4.1.
    """

    def __init__(self, options: ReadOptions) -> None:
        """Opens nothing: Spark pickles a second instance into the tasks."""
        super().__init__(options)
        self._first = FirstStart(options, self._topics)
        self._mirrors = Mirrors(options, self._topics)
        self._size = BatchSize(options, self._topics)
        self._retention = RetentionWatch(options, self._topics)
        self._tails = Tails(self._topics)
        self._initial: QueryOffsets | None = None
        self._found: tuple[float, list[TopicState]] | None = None
        self._looked = False  # whether this process has planned a batch
        self._available_now = False
        self._target: list[TopicState] | None = None
        self._noted: tuple[str, ...] = ()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """`maxOffsetsPerTrigger`, as Spark hands it to `latestOffset`."""
        return self._size.default()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where the query begins. Spark stores it nowhere and asks again after a failed batch 0."""
        if self._initial is None:
            self._initial = self._first.find()
        return self._initial.to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Only remembers it: a pending batch comes first, and partitions may have changed."""
        self._available_now = True
        self._target = None

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """End of the next micro-batch. `start` is the end of the last finished one: mirror it."""
        done = self._checked(start)
        return self._next_end(done, limit, done=done).to_json()

    def _next_end(
        self, start: QueryOffsets, limit: ReadLimit, *, done: QueryOffsets | None
    ) -> QueryOffsets:
        """End of a micro-batch that begins at `start`. What is below `done` is finished; None is
        where nobody knows of anything that is.
        """
        self._looked = True
        for _ in range(PLANS_MAX):
            end = self._planned(start, limit, done=done)
            if self._tails.is_sure:
                return end
            # The connection broke meanwhile: what answers now may be an older copy of the broker.
        raise BrokerUnavailable(
            f"the connection to the broker broke {PLANS_MAX} times while a batch was planned"
        )

    def _planned(
        self, start: QueryOffsets, limit: ReadLimit, *, done: QueryOffsets | None
    ) -> QueryOffsets:
        replaced = self._tails.look(start)
        found = self._states()
        if done is not None:
            self._mirrors.store(done, found)
            if done != self._initial:
                self._first.forget(done, found)
        if self._available_now:
            # Taken once, so that the run ends however fast producers are.
            self._target = found if self._target is None else self._target
            found = self._target
        advance = offsets.advance(
            start,
            found,
            fail_on_data_loss=self._options.fail_on_data_loss,
            restart_recreated=self._options.on_topic_recreated == "restart",
            replaced=replaced,
        )
        self._tell(advance.notes)
        if self._options.archive is None:  # else what goes there is not gone
            self._retention.look(advance.start, found)
        waiting = sum(advance.backlog.values())
        if not self._available_now and self._size.holds_back(waiting):
            return start
        rows_max = self._size.rows_max(advance, found, limit)
        return self._tails.mark(offsets.limit_end(advance, rows_max), start)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """The ends as last seen, for the query's progress. A replayed batch has seen none yet."""
        found = self._found[1] if self._found else self._states()
        ends = [Offsets(item.name, str(item.incarnation), item.ends) for item in found]
        return QueryOffsets.of(ends).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of one micro-batch; a replay gets the same ones."""
        until = self._checked(end)
        if not self._looked:
            self._first.check_replay()
            for name, lost in self._tails.look(until).items():
                offsets.lose(name, lost, fail=self._options.fail_on_data_loss)
        # A replay is the first thing that a restarted query does: another must not be at it.
        self._mirrors.join(until)
        # Where a broker is asked, the tasks see themselves what is in an archive: a replay has the
        # same ones.
        by_segments = not self._options.has_broker
        return self._tasks(QueryOffsets.from_json(start), until, by_segments=by_segments)

    def commit(self, end: dict[str, Any]) -> None:
        """Spark calls this one batch late and never for the last one: mirror all the same."""
        self._mirrors.store(QueryOffsets.from_json(end))

    def stop(self) -> None:
        """The query is over: leave the consumer groups."""
        self._mirrors.close()

    def _checked(self, value: dict[str, Any]) -> QueryOffsets:
        found = QueryOffsets.from_json(value)
        self._options.selection.check(found)
        archive_lives.check_origin(found, is_archive=not self._options.has_broker)
        return found

    def _tell(self, notes: tuple[str, ...]) -> None:
        if notes != self._noted:  # Spark asks many times a second
            self._noted = notes
            for note in notes:
                _log.warning("going on without what is gone: %s", note)

    def _states(self) -> list[TopicState]:
        # Spark asks about 30 times a second when idle; the broker should not pay for that.
        now = time.monotonic()
        if self._found is None or now - self._found[0] >= self._options.poll_interval_ms / 1000:
            self._found = (now, self._topics.look())
        return self._found[1]

"""Batch and stream readers: what Spark asks, answered with the pure parts and the broker."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from iggy_spark import offsets, starts, state
from iggy_spark.batches import record_batches
from iggy_spark.connections import Connection
from iggy_spark.errors import OptionError
from iggy_spark.mirror import Mirror
from iggy_spark.offsets import OffsetRange, Offsets, TopicState
from iggy_spark.options import ReadOptions

_log = logging.getLogger(__name__)


class RangePartition(InputPartition):
    """One task: a range of one partition."""

    def __init__(self, wanted: OffsetRange) -> None:
        """`wanted` is what the task reads."""
        super().__init__(wanted)
        self.wanted = wanted


class RangeReader:
    """What both readers do in a task."""

    def __init__(self, options: ReadOptions) -> None:
        """Opens nothing: a reader is pickled into tasks."""
        self._options = options

    def _tasks(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        least = self._options.min_partitions
        ranges = offsets.plan_ranges(start, end, partitions_min=least)
        return [RangePartition(wanted) for wanted in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Record batches of one range, in offset order."""
        if isinstance(partition, RangePartition):  # Spark makes one task up if there is none
            yield from record_batches(self._options, partition.wanted)


class IggyBatchReader(RangeReader, DataSourceReader):
    """A read of what the topic holds between two points."""

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks between where the topic starts and where it ends now."""
        connection = Connection(self._options)
        found = connection.topic_state()
        start = starts.resolve_start(self._options, found, connection, stream=False)
        end = starts.resolve_end(self._options, found, start)
        return self._tasks(start, end)


class IggyStreamReader(RangeReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Micro-batches. Lives in one helper process beside the driver for the whole query."""

    def __init__(self, options: ReadOptions) -> None:
        """Opens nothing: Spark pickles a second instance into the tasks."""
        super().__init__(options)
        self._connection = Connection(options)
        self._mirror: Mirror | None = None
        if options.offset_mirror != "off" and options.consumer_group is not None:
            self._mirror = Mirror(options)
        self._initial: Offsets | None = None
        self._found: tuple[float, TopicState] | None = None
        self._available_now = False
        self._target: TopicState | None = None
        self._noted: tuple[str, ...] = ()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """`maxOffsetsPerTrigger`, as Spark hands it to `latestOffset`."""
        rows_max = self._options.max_offsets_per_trigger
        return ReadMaxRows(rows_max) if rows_max else ReadAllAvailable()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where the query begins. Spark stores it nowhere and asks again after a failed batch 0,
        so a start that moves is written down before it is used.
        """
        if self._initial is None:
            self._initial = self._first_start()
        return self._initial.to_json()

    def _first_start(self) -> Offsets:
        location = self._options.state_location
        if location is not None and (written := state.read_initial(location)) is not None:
            offsets.check_topic(written, self._options.topic_name)
            return written
        moving = _moves(self._options)
        if location is None and moving and not self._options.unsafe_moving_start:
            raise OptionError(
                f"startingOffsets={moving} needs stateLocation, a folder beside the checkpoint: "
                "without it messages that arrive before the first batch is done can be lost. Set "
                "it, or startingOffsets=earliest, or unsafeMovingStart=true to take the risk"
            )
        found = self._connection.topic_state()
        start = starts.resolve_start(self._options, found, self._connection, stream=True)
        return start if location is None else state.write_initial(location, start)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Only remembers it: a pending batch comes first, and partitions may have changed."""
        self._available_now = True
        self._target = None

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """End of the next micro-batch. `start` is the end of the last finished one: mirror it."""
        done = Offsets.from_json(start)
        offsets.check_topic(done, self._options.topic_name)
        found = self._topic_state()
        if self._mirror is not None and done.incarnation == str(found.incarnation):
            self._mirror.store(done)
        if self._available_now:
            # Taken once, so that the run ends however fast producers are.
            self._target = self._target or found
            found = self._target
        advance = offsets.advance(
            done,
            found,
            fail_on_data_loss=self._options.fail_on_data_loss,
            restart_recreated=self._options.on_topic_recreated == "restart",
        )
        if advance.notes != self._noted:  # Spark asks many times a second
            self._noted = advance.notes
            for note in advance.notes:
                _log.warning("%s, going on without what is gone: %s", found.name, note)
        rows_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return offsets.limit_end(advance.start, advance.ends, rows_max).to_json()

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """The ends as last seen, for the query's progress. A replayed batch has seen none yet."""
        found = self._found[1] if self._found else self._topic_state()
        return Offsets(found.name, str(found.incarnation), found.ends).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of one micro-batch; a replay gets the same ones."""
        until = Offsets.from_json(end)
        if self._mirror is not None:
            # A replay is the first thing that a restarted query does: another must not be at it.
            self._mirror.join(until.incarnation)
        return self._tasks(Offsets.from_json(start), until)

    def commit(self, end: dict[str, Any]) -> None:
        """Spark calls this one batch late and never for the last one: mirror all the same."""
        if self._mirror is not None:
            self._mirror.store(Offsets.from_json(end))

    def stop(self) -> None:
        """The query is over: leave the consumer group."""
        if self._mirror is not None:
            self._mirror.close()

    def _topic_state(self) -> TopicState:
        # Spark asks about 30 times a second when idle; the broker should not pay for that.
        now = time.monotonic()
        if self._found is None or now - self._found[0] >= self._options.poll_interval_ms / 1000:
            self._found = (now, self._connection.topic_state())
        return self._found[1]


def _moves(options: ReadOptions) -> str | None:
    """The part of startingOffsets that gives another position when asked later; None if none."""
    start = options.starting_offsets
    if isinstance(start, str):
        return start if start in ("latest", "committed") else None
    moving = {offsets.LATEST: "latest", offsets.COMMITTED: "committed"}
    return next((moving[mark] for mark in start.values() if mark in moving), None)

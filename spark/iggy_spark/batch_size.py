"""How large the next micro-batch may be, and whether it is time for one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
)

from iggy_spark.offsets import Advance, Kept, Place, TopicState, rows_within
from iggy_spark.options import ReadOptions
from iggy_spark.topics import Topics

SAMPLE_MESSAGES: Final = 16  # to learn how large messages are
SAMPLE_BYTES: Final = 64 << 10  # about; one message at least


class BatchSize:
    """The limits of one query."""

    def __init__(
        self, options: ReadOptions, topics: Topics, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`clock` in seconds."""
        self._options = options
        self._topics = topics
        self._clock = clock
        self._since_s: float | None = None  # when waiting for the next batch began

    def default(self) -> ReadLimit:
        """What Spark hands to `latestOffset`, unless all that is there is to be read."""
        if self._options.max_offsets_per_trigger:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.max_bytes_per_trigger:
            return ReadMaxBytes(self._options.max_bytes_per_trigger)
        return ReadAllAvailable()

    def rows_max(
        self, found: Advance, states: Iterable[TopicState], limit: ReadLimit
    ) -> int | None:
        """The most messages of the next batch, by number and by bytes; None without a limit."""
        if isinstance(limit, ReadAllAvailable):
            return None
        rows_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        bytes_max = self._options.max_bytes_per_trigger
        if isinstance(limit, ReadMaxBytes):
            bytes_max = limit.max_bytes
        rows = self._rows_within(found, states, bytes_max) if bytes_max else None
        given = [most for most in (rows_max, rows) if most is not None]
        return min(given, default=None)

    def _rows_within(
        self, found: Advance, states: Iterable[TopicState], bytes_max: int
    ) -> int | None:
        backlog = found.backlog
        kept: dict[Place, Kept] = {
            (state.name, number): amount
            for state in states
            for number, amount in state.kept.items()
        }
        # The size of all that a partition holds is known for nothing.
        if sum(kept[place].size_bytes for place in backlog if place in kept) <= bytes_max:
            return None
        start = found.start.places
        sizes = {
            place: self._message_bytes(place, start[place], kept.get(place)) for place in backlog
        }
        return rows_within(backlog, sizes, bytes_max)

    def _message_bytes(self, place: Place, offset: int, kept: Kept | None) -> float:
        """Learned from messages at the start of the batch, which are nearest to those in it."""
        average = kept.size_bytes / kept.messages if kept is not None and kept.messages else 1.0
        count = max(1, min(SAMPLE_MESSAGES, int(SAMPLE_BYTES / max(1.0, average))))
        topic, number = place
        sample = self._topics.connection(topic).message_bytes(number, offset, count=count)
        return average if sample is None else sample

    def holds_back(self, rows: int) -> bool:
        """Whether a backlog is too small for a batch, and has not waited for long enough."""
        now = self._clock()
        if self._since_s is None:
            self._since_s = now
        waited_ms = (now - self._since_s) * 1000
        small = rows < self._options.min_offsets_per_trigger
        if small and waited_ms < self._options.max_trigger_delay_ms:
            return True
        if rows:
            self._since_s = now
        return False

"""How large the next micro-batch may be, and whether it is time for one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

from iggy_spark.offsets import Advance, Kept, Place, TopicState, limit_end, rows_within
from iggy_spark.options import ReadOptions
from iggy_spark.spark_versions import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
)
from iggy_spark.topics import Topics

SAMPLE_MESSAGES: Final = 16  # to learn how large messages are
SAMPLE_BYTES: Final = 64 << 10  # about; one message at least
LARGE_BYTES: Final = 1 << 20  # no sample is taken of so few messages that they may be so large
SLACK: Final = 1.25  # how far an estimate may pass the limit: no two samples are the same


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
        kept: dict[Place, Kept] = {
            (state.name, number): amount
            for state in states
            for number, amount in state.kept.items()
        }
        backlog = found.backlog
        # The size of all that a partition holds is known for nothing, unless some is elsewhere.
        there = sum(kept[place].size_bytes for place in backlog if place in kept)
        is_all = all(
            waiting <= kept.get(place, Kept(waiting, 0)).messages
            for place, waiting in backlog.items()
        )
        if not bytes_max or (is_all and there <= bytes_max):
            return rows_max
        if sum(backlog.values()) * LARGE_BYTES <= bytes_max:
            return rows_max
        return self._rows_within(found, kept, rows_max, bytes_max)

    def _rows_within(
        self, found: Advance, kept: dict[Place, Kept], rows_max: int | None, bytes_max: int
    ) -> int:
        """Learned from messages at the start of the batch and, as sizes change, at its end."""
        start, backlog = found.start.places, found.backlog
        first = {place: self._message_bytes(place, start[place], kept) for place in backlog}
        rows = rows_within(backlog, first, bytes_max)
        rows = rows if rows_max is None else min(rows, rows_max)
        while rows > 1:
            size_bytes = 0.0
            for place, end in limit_end(found, rows).places.items():
                if end > start[place]:
                    last = self._message_bytes(place, end, kept, before=True)
                    size_bytes += (end - start[place]) * (first[place] + last) / 2
            if size_bytes <= SLACK * bytes_max:
                break
            rows //= 2
        return rows

    def _message_bytes(
        self, place: Place, offset: int, kept: dict[Place, Kept], *, before: bool = False
    ) -> float:
        """Size of the messages at an offset, or just `before` it."""
        topic, number = place
        held = kept.get(place, Kept(0, 0))
        average = held.size_bytes / held.messages if held.messages else 1.0
        count = max(1, min(SAMPLE_MESSAGES, int(SAMPLE_BYTES / max(1.0, average))))
        at = max(0, offset - count) if before else offset
        sample = self._topics.connection(topic).message_bytes(number, at, count=count)
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

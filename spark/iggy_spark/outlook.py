"""How far a job is behind, and for how long what it has not read will still be there."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from iggy_spark.connections import Connection
from iggy_spark.errors import BrokerRefused, BrokerUnavailable, CorruptReply
from iggy_spark.offsets import OFFSET_MAX, TopicState
from iggy_spark.options import ReadOptions
from iggy_wire import kernel
from iggy_wire.primitives import PollingStrategy

LOOK_MS: Final = 10_000  # between two looks at the broker
CONTACT_MS: Final = 1000  # who asks has other things to do than to wait for a lost broker
PARTITIONS_MAX: Final = 64  # whose first unread message is looked at: those with the largest lag


class Standing(NamedTuple):
    """Where a job is in one partition."""

    next_offset: int  # the first that is not done
    lag_messages: int


@dataclass(frozen=True, slots=True)
class Outlook:
    """What was seen in one look."""

    lag_messages: int
    lag_seconds: float
    """Age of the oldest message that is not done; 0.0 if there is none."""
    headroom_ratio: float | None
    """Share of the topic's expiry that this message still has; None where messages never expire."""
    partitions: Mapping[int, Standing] = field(default_factory=dict)


class Lookout:
    """Looks at the broker now and then."""

    def __init__(
        self,
        options: ReadOptions,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`now` gives seconds since 1970. Nothing is asked yet."""
        self._connection = Connection(replace(options, retry_timeout_ms=CONTACT_MS))
        self._clock, self._now = clock, now
        self._due_s = 0.0

    def look(self, committed: Mapping[int, int], found: TopicState | None = None) -> Outlook | None:
        """What is seen beyond `committed`, the next offset to do per partition; None if it is not
        time yet, or the broker does not answer. `found` is the topic, if that is known just now.
        """
        if self._clock() < self._due_s:
            return None
        self._due_s = self._clock() + LOOK_MS / 1000
        try:
            return self._seen(committed, found or self._connection.topic_state())
        except (BrokerUnavailable, BrokerRefused, CorruptReply):
            return None  # the query says so itself, when it needs the broker

    def _seen(self, committed: Mapping[int, int], found: TopicState) -> Outlook:
        partitions = {
            number: Standing(done := committed.get(number, 0), max(0, end - done))
            for number, end in found.ends.items()
        }
        behind = {number: at.lag_messages for number, at in partitions.items() if at.lag_messages}
        worst = sorted(behind, key=lambda number: -behind[number])[:PARTITIONS_MAX]
        times = [self._taken_us(number, committed.get(number, 0)) for number in worst]
        known = [taken for taken in times if taken is not None]
        age_s = max(0.0, self._now() - min(known) / 1e6) if known else 0.0
        headroom = None
        if found.expiry_us is not None:
            headroom = max(0.0, 1 - age_s * 1e6 / found.expiry_us)
        return Outlook(sum(behind.values()), age_s, headroom, partitions)

    def _taken_us(self, partition: int, offset: int) -> int | None:
        """When the broker took the first message that is not done."""
        polled = self._connection.poll(partition, PollingStrategy.offset(offset), count=1)
        if not polled.count:
            return None
        columns = kernel.columns(polled.region, 0, OFFSET_MAX)
        return int.from_bytes(columns.timestamps_us[:8], "little")

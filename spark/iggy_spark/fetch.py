"""One task's read: a range of offsets → columns, checked so that nothing is missing or foreign."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial

import numpy as np

from iggy_spark.connections import Connection
from iggy_spark.errors import BrokerUnavailable, CorruptReply, DataLoss, TopicRecreated
from iggy_spark.offsets import OffsetRange, TopicState
from iggy_spark.options import ReadOptions
from iggy_spark.salvage import Hole, salvaged
from iggy_wire import kernel
from iggy_wire.errors import WireError
from iggy_wire.kernel import Columns
from iggy_wire.primitives import PollingStrategy
from iggy_wire.replies import Polled

FIRST_POLL_MESSAGES = 500  # before the size of a message is known
TAIL_GRACE_S = 2.0  # how long a partition may look shorter than planned before that is a loss
SLOW_S = 5.0  # who takes so long for one reply is not read ahead for
PAUSE_S = 0.02  # between polls of an end that is written but not yet shown
GONE, DAMAGED = "are gone", "are damaged"

Elsewhere = Callable[[int, int], Iterable[Columns]]
"""Messages that the broker has no more, by first and exclusive end."""

_log = logging.getLogger(__name__)


class RangeFetch:
    """Iterates over the columns of one range; `lost` counts what was not there.

    Raises while iterating:
        DataLoss: messages are gone, or the broker keeps damaged ones back, and `failOnDataLoss` is
            true.
        TopicRecreated: the topic is not the one the range was planned for.
        CorruptReply: a checksum is wrong and `failOnDataLoss` is true, or offsets do not follow one
            another.
        BrokerUnavailable: the broker or the end of the range did not come in time.
    """

    def __init__(
        self, options: ReadOptions, wanted: OffsetRange, *, elsewhere: Elsewhere | None = None
    ) -> None:
        """Nothing is asked before the first iteration. `elsewhere` says itself what is lost."""
        self._options = options
        self._elsewhere = elsewhere
        self._wanted = self.wanted = wanted
        self._connection = Connection(options)
        self._count = min(FIRST_POLL_MESSAGES, options.fetch_messages)
        self._empty_since: float | None = None
        self._look_s = TAIL_GRACE_S
        self.lost = 0

    def __iter__(self) -> Iterator[Columns]:
        """Columns in offset order, together exactly the range, minus what is counted as lost."""
        local = self._local(self._check_incarnation())
        if self._wanted.count:
            yield from self._in_order(local)
        # A topic that was recreated between the plan and now has other messages under these
        # offsets. Whoever consumes this iterator makes nothing visible before it ends.
        self._check_incarnation()

    def _in_order(self, local: int) -> Iterator[Columns]:
        at, end = self._wanted.first, self._wanted.end
        took_s = 0.0
        coming = self._ask(at)
        while at < end:
            polled = coming()
            columns = self._columns(polled)
            if columns is not None:
                self._empty_since = None
                first, last = self._checked(columns, at)
                self._learn(len(polled.region), polled.count)
                if first > at:
                    # Iggy protocol 0.11: a poll below the oldest message silently starts there.
                    yield from self._lost(at, first)
                at = last + 1
            elif polled.count:
                at = yield from self._around_damage(at)
            else:
                at = yield from self._wait(at, local, polled.current_offset)
            if at < end:
                coming = self._ask(at, ahead=took_s < SLOW_S)
            if columns is not None and columns.count:
                began = time.monotonic()
                yield columns
                took_s = time.monotonic() - began

    def _ask(self, at: int, *, ahead: bool = True) -> Callable[[], Polled]:
        """The next reply is on its way while Spark takes the current one: the kernel keeps it. To
        one who is slow it would not matter, and the broker might give up on us.
        """
        count = min(self._count, self._wanted.end - at)
        poll = self._connection.ask_poll if ahead else partial(partial, self._connection.poll)
        return poll(self._wanted.partition, PollingStrategy.offset(at), count=count)

    def _columns(self, polled: Polled) -> Columns | None:
        """None: there are none, or a checksum is wrong, or lengths do not fit."""
        if not polled.count:
            return None
        verify = self._options.verify_checksum
        try:
            return kernel.columns(polled.region, 0, self._wanted.end, verify=verify)
        except WireError:
            return None

    def _around_damage(self, at: int) -> Generator[Columns, None, int]:
        """What is sound of the reply to a poll at `at`, which had a damaged batch; where it ends.

        It is asked for again first: maybe it was damaged on the way.
        """
        count = min(self._count, self._wanted.end - at)
        polled = self._connection.poll(
            self._wanted.partition, PollingStrategy.offset(at), count=count
        )
        stop = at + min(polled.count, count)
        found = list(salvaged(polled.region, at, stop))  # before the memory has the next reply
        for item in found:
            if isinstance(item, Hole):
                yield from self._damaged(*item)
            else:
                yield item
        return stop

    def _damaged(self, first: int, end: int) -> Iterable[Columns]:
        """Messages came with a wrong checksum: others may have them."""
        if self._elsewhere is None and self._options.fail_on_data_loss:
            raise CorruptReply(
                f"{self._where()}: the broker's bytes are broken at offsets "
                f"{first}\u2013{end - 1}: "
                "a checksum or a length is wrong; set failOnDataLoss=false to go on without them"
            )
        return self._lost(first, end, why=DAMAGED)

    def _wait(self, at: int, local: int, current_offset: int) -> Generator[Columns, None, int]:
        """Nothing came of what is from `at` on: wait, or go on behind it; where."""
        now = time.monotonic()
        self._empty_since = self._empty_since or now
        waited_s = now - self._empty_since
        stop, why = self._missing(at, local, current_offset, waited_s)
        if stop > at:
            yield from self._lost(at, stop, why=why)
            self._empty_since = None
            return stop
        if self._gone(at, current_offset, waited_s):
            return self._wanted.end
        time.sleep(PAUSE_S)
        return at

    def _missing(
        self, at: int, local: int, current_offset: int, waited_s: float
    ) -> tuple[int, str]:
        """Up to where messages from `at` on do not come, and why; `at`: nobody knows yet."""
        if at < local and waited_s > TAIL_GRACE_S:
            return local, GONE  # and nothing came behind them
        if waited_s > self._look_s:
            self._look_s *= 2
            given = self._given(at, current_offset)
            if given is not None:
                self._look_s = TAIL_GRACE_S
                return min(given, self._wanted.end), DAMAGED
        return at, GONE

    def _given(self, at: int, last: int) -> int | None:
        """Offset of the first message behind `at`, up to `last`, that the broker gives; None: none.

        It counts `at`, and does not give it: it does so with what is damaged on its disk. One that
        just does not show its end yet gives nothing behind it either.
        """
        low, high, step = at, last + 1, 1
        while low < last and high > last:
            place = min(low + step, last)
            if self._gives(place):
                high = place
            else:
                low, step = place, 2 * step
        while high <= last and high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._gives(middle) else (middle, high)
        return high if high <= last else None

    def _gives(self, offset: int) -> bool:
        strategy = PollingStrategy.offset(offset)
        return self._connection.poll(self._wanted.partition, strategy, count=1).count > 0

    def _checked(self, columns: Columns, at: int) -> tuple[int, int]:
        """First and last offset of a reply to a poll at `at`; nothing in it is out of place."""
        end = self._wanted.end
        offsets = np.frombuffer(columns.offsets, dtype=np.int64)
        # Without a message below the end, all that was asked for is gone.
        first, last = (int(offsets[0]), int(offsets[-1])) if columns.count else (end, end - 1)
        if first < at or last - first + 1 != columns.count:
            raise CorruptReply(
                f"{self._where()}: asked for offset {at}, the reply has {columns.count} messages "
                f"from {first} to {last}"
            )
        return first, last

    def _lost(self, first: int, end: int, *, why: str = GONE) -> Iterable[Columns]:
        """What the broker does not give, from where else it is."""
        if self._elsewhere is not None:
            return self._elsewhere(first, end)
        self._lose(first, end, why=why)
        return ()

    def _lose(self, first: int, end: int, *, why: str = GONE) -> None:
        self.lost += lose(self._options, self._wanted.partition, first, end, why=why)

    def _gone(self, at: int, current_offset: int, waited_s: float) -> bool:
        """Whether the rest of the range will not come: the partition ends below the plan."""
        end = self._wanted.end
        if current_offset + 1 < end and waited_s > TAIL_GRACE_S:
            self._lose(at, end)
            return True
        if waited_s > self._options.retry_timeout_ms / 1000:
            raise BrokerUnavailable(
                f"{self._where()}: offset {end - 1} was planned, but nothing comes after {at - 1}; "
                f"waited {waited_s:.0f} s"
            )
        return False

    def _learn(self, region_bytes: int, count: int) -> None:
        """Ask for about `fetchBytes` the next time."""
        per_message = max(1, region_bytes // count)
        self._count = max(
            1, min(self._options.fetch_messages, self._options.fetch_bytes // per_message)
        )

    def _check_incarnation(self) -> TopicState:
        state = self._connection.topic_state()
        if str(state.incarnation) != self._wanted.incarnation:
            raise TopicRecreated(
                f"topic {self._options.topic_name} was deleted and created again while it was read "
                f"(now {state.incarnation}, planned {self._wanted.incarnation})"
            )
        return state

    def _local(self, state: TopicState) -> int:
        """What of the range lies below the messages that the broker had when reading began: up to
        here.
        """
        number = self._wanted.partition
        kept = state.kept.get(number)
        return 0 if kept is None else min(self._wanted.end, state.ends[number] - kept.messages)

    def _where(self) -> str:
        return f"{self._options.topic_name} partition {self._wanted.partition}"


def lose(
    options: ReadOptions, partition: int, first: int, end: int, *, why: str = GONE, nor: str = ""
) -> int:
    """Messages cannot be had, from `first` on, below `end`; how many. `nor`: who else lacks them.

    Raises:
        DataLoss: `failOnDataLoss` is true.
    """
    lost = (
        f"{options.topic_name} partition {partition}: offsets {first}\u2013{end - 1} "
        f"({end - first} messages) {why}{nor}"
    )
    if options.fail_on_data_loss:
        behind = "earliest" if why == GONE else "next"
        raise DataLoss(
            f"{lost}, the {behind} is {end}; set failOnDataLoss=false to go on without them"
        )
    _log.warning("%s; going on behind them", lost)
    return end - first

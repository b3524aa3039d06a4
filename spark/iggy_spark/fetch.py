"""One task's read: a range of offsets → columns, checked so that nothing is missing or foreign."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np

from iggy_spark.connections import Connection
from iggy_spark.errors import BrokerUnavailable, CorruptReply, DataLoss, TopicRecreated
from iggy_spark.offsets import OffsetRange, TopicState
from iggy_spark.options import ReadOptions
from iggy_wire import kernel
from iggy_wire.errors import WireError
from iggy_wire.kernel import Buffer, Columns
from iggy_wire.primitives import PollingStrategy
from iggy_wire.replies import Polled

FIRST_POLL_MESSAGES = 500  # before the size of a message is known
TAIL_GRACE_S = 2.0  # how long a partition may look shorter than planned before that is a loss
SLOW_S = 5.0  # who takes so long for one reply is not read ahead for
PAUSE_S = 0.02  # between polls of an end that is written but not yet shown

Elsewhere = Callable[[int, int], Iterable[Columns]]
"""Messages that the broker has no more, by first and exclusive end."""

_log = logging.getLogger(__name__)


class RangeFetch:
    """Iterates over the columns of one range; `lost` counts what was not there.

    Raises while iterating:
        DataLoss: messages are gone and `failOnDataLoss` is true.
        TopicRecreated: the topic is not the one the range was planned for.
        CorruptReply: a checksum is wrong, or offsets do not follow one another.
        BrokerUnavailable: the broker or the end of the range did not come in time.
    """

    def __init__(
        self, options: ReadOptions, wanted: OffsetRange, *, elsewhere: Elsewhere | None = None
    ) -> None:
        """Nothing is asked before the first iteration. `elsewhere` says itself what is lost."""
        self._options = options
        self._elsewhere = elsewhere or self._lost
        self._wanted = self.wanted = wanted
        self._connection = Connection(options)
        self._count = min(FIRST_POLL_MESSAGES, options.fetch_messages)
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
        waiting_since: float | None = None
        took_s = 0.0
        coming = self._ask(at)
        while at < end:
            polled = coming()
            if polled.count:
                waiting_since = None
                columns = self._columns(polled.region)
                first, last = self._checked(columns, at)
                self._learn(len(polled.region), polled.count)
                if first > at:
                    # Iggy protocol 0.11: a poll below the oldest message silently starts there.
                    yield from self._elsewhere(at, first)
                at = last + 1
            else:
                now = time.monotonic()
                waiting_since = waiting_since or now
                waited_s = now - waiting_since
                if at < local and waited_s > TAIL_GRACE_S:
                    yield from self._elsewhere(at, local)  # and nothing came behind them
                    at, waiting_since = local, None
                elif self._gone(at, polled.current_offset, waited_s):
                    return
                else:
                    time.sleep(PAUSE_S)
            if at < end:
                coming = self._ask(at, ahead=took_s < SLOW_S)
            if polled.count and columns.count:
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

    def _columns(self, region: Buffer) -> Columns:
        try:
            return kernel.columns(region, 0, self._wanted.end, verify=self._options.verify_checksum)
        except WireError as error:
            raise CorruptReply(
                f"{self._where()}: the broker's bytes are broken: {error}"
            ) from error

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

    def _lost(self, first: int, end: int) -> Iterable[Columns]:
        self._lose(first, end)
        return ()

    def _lose(self, first: int, end: int) -> None:
        self.lost += lose(self._options, self._wanted.partition, first, end)

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


def lose(options: ReadOptions, partition: int, first: int, end: int, *, nor: str = "") -> int:
    """Messages are gone, from `first` on, below `end`; how many. `nor`: who else lacks them.

    Raises:
        DataLoss: `failOnDataLoss` is true.
    """
    lost = (
        f"{options.topic_name} partition {partition}: offsets {first}\u2013{end - 1} "
        f"({end - first} messages) are gone"
    )
    if options.fail_on_data_loss:
        raise DataLoss(
            f"{lost}{nor}, the earliest is {end}; set failOnDataLoss=false to go on without them"
        )
    _log.warning("%s%s; going on behind them", lost, nor)
    return end - first

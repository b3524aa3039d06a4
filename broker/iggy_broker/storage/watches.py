"""Who waits for a partition's end to get somewhere, and how much a poll would find.

An append asks only whether anybody waits. A watch is told once, when the end of what may be seen
reaches its offset, or when the partition is not what it was (purged, deleted, opened again): who
waited looks again.
"""

from __future__ import annotations

import asyncio
import itertools
from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Final

from iggy_broker.errors import Reject
from iggy_broker.storage.polling import POLL_NEXT, start_offset

if TYPE_CHECKING:
    from iggy_broker.storage.consumer_offsets import ConsumerKey
    from iggy_broker.storage.partition import Partition
    from iggy_broker.storage.values import Strategy

Watch = tuple[int, int, asyncio.Future[None]]  # offset, number, and who is told
Watches = list[Watch]  # by offset, and for one offset by age

ENOUGH: Final = 1 << 62  # in place of a number of messages: a poll says what is the matter

_NUMBERS: Final = itertools.count()


def wake(watches: Watches, end: int | None = None) -> None:
    """The partition's visible end is `end` now; None: it is not the same partition any more."""
    reached = len(watches) if end is None else bisect_left(watches, (end + 1,))
    told = watches[:reached]
    del watches[:reached]
    for _, _, future in told:
        if not future.done():
            future.set_result(None)


def more_than(
    partition: Partition, strategy: Strategy, count: int, consumer: ConsumerKey, above: int
) -> asyncio.Future[int]:
    """How many messages such a poll would find, `count` being ignored, once that is over `above`.

    `ENOUGH` if the partition is not served. Cancel it to wait no more. A stored offset that is
    moved back meanwhile is not noticed.
    """
    answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    watches = partition.watches
    mine: list[Watch] = []  # at most one

    def look() -> None:
        there, start = _there(partition, strategy, count, consumer)
        if there > above:
            answer.set_result(there)
            return
        future: asyncio.Future[None] = answer.get_loop().create_future()
        future.add_done_callback(told)
        mine[:] = [(start + above + 1, next(_NUMBERS), future)]
        insort(watches, mine[0])

    def told(future: asyncio.Future[None]) -> None:
        if not answer.done():
            look()

    def leave(done: asyncio.Future[int]) -> None:
        for watch in mine:
            _leave(watches, watch)

    look()
    answer.add_done_callback(leave)
    return answer


def _leave(watches: Watches, watch: Watch) -> None:
    place = bisect_left(watches, watch[:2])
    if place < len(watches) and watches[place] is watch:
        del watches[place]


def _there(
    partition: Partition, strategy: Strategy, count: int, consumer: ConsumerKey
) -> tuple[int, int]:
    """How many messages are there, and the offset from which on they count."""
    if partition.fenced and not (partition.waits and partition.place.is_new):
        return ENOUGH, 0
    log, end = partition.log, partition.visible_next_offset
    try:
        stored = partition.offsets.get(consumer) if strategy.kind == POLL_NEXT else None
        start = start_offset(strategy, count, log, end, stored)
    except Reject:
        return ENOUGH, 0
    if not (partition.has_older and start < log.first_offset):
        start = max(start, log.first_offset)
    return max(end - start, 0), start

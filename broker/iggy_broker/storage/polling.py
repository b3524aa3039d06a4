"""Where a poll begins. Kinds of strategies: Iggy protocol 0.11."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from iggy_broker.storage.older import Asked, Older
from iggy_broker.storage.partition_log import PartitionLog
from iggy_broker.storage.segment import Part
from iggy_broker.storage.values import Strategy

POLL_OFFSET: Final = 1
POLL_TIMESTAMP: Final = 2
POLL_LAST: Final = 4
POLL_NEXT: Final = 5


def start_offset(
    strategy: Strategy, count: int, log: PartitionLog, end_offset: int, stored: int | None
) -> int:
    """Offset of the first message that is wanted; may lie below the oldest or beyond the last.

    `end_offset` is the end of what may be seen, `stored` the consumer's offset, for the kind next.
    """
    kind = strategy.kind
    if kind == POLL_OFFSET:
        return strategy.value
    if kind == POLL_NEXT:
        return 0 if stored is None else stored + 1
    if kind == POLL_LAST:
        return max(end_offset - count, 0)
    if kind == POLL_TIMESTAMP:
        return log.offset_at_time(strategy.value)
    return 0


def poll_older(
    older: Older, log: PartitionLog, asked: Asked, strategy: Strategy, offset: int, end: int
) -> tuple[int, int, int, list[Part]] | None:
    """What a poll from `offset` on finds that begins before the log: (start, end, bytes, parts).

    It goes on in the log, up to `end`. None: all that is wanted is in the log. Raises as `Older`.
    """
    wanted: int | None = offset
    if strategy.kind == POLL_TIMESTAMP:
        wanted = older.offset_at_time(asked, strategy.value)
    if wanted is None or wanted >= asked.end:
        return None
    found = older.read(replace(asked, is_whole=strategy.kind == POLL_LAST), wanted)
    if found is None:
        return None
    start, reached, size_bytes, parts = found
    stop = min(start + asked.count, end)
    if reached == asked.end < stop and size_bytes < asked.bytes_max:
        reached, more_bytes, more = log.read(reached, stop, asked.bytes_max - size_bytes)
        size_bytes += more_bytes
        parts += more
    return start, reached, size_bytes, parts

"""Where a poll begins. Kinds of strategies: Iggy protocol 0.11."""

from __future__ import annotations

from typing import Final

from iggy_broker.storage.partition_log import PartitionLog
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

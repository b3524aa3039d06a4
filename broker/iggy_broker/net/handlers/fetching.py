"""One partition's part of a fetch: never more bytes than asked for, and committed only then.

A poll may bring more than it was asked for, so that a reader gets on whatever the limit is. Who
fetches takes no reply that is longer than asked for (Iggy protocol 0.12, fetch).
"""

from __future__ import annotations

from typing import Final

from iggy_broker.errors import Reject
from iggy_broker.net.context import Services
from iggy_broker.net.handlers.messages import PollTail, count_poll
from iggy_broker.net.p12 import served_in
from iggy_broker.net.targets import ReadTarget
from iggy_broker.storage.partition import ConsumerKey, Part, Partition
from iggy_wire.errors import ErrorCode
from iggy_wire.primitives import PollingStrategy, StrategyKind
from iggy_wire.replies_waiting import Section

BEYOND_BYTES: Final = 64 * 1024  # what a poll may bring beyond its limit, unless a batch is longer


def fetch(
    services: Services, read: ReadTarget, tail: PollTail, bytes_max: int
) -> tuple[Section, list[Part]]:
    """What a partition of this shard has. INVALID_SIZE_BYTES if not even a message fits."""
    target, partition, key = read.target, read.partition, read.key
    assert target is not None and partition is not None and key is not None, "served by the owner"
    strategy, count, auto_commit = tail
    wanted_bytes = max(bytes_max - BEYOND_BYTES, 1)
    polled = partition.poll(strategy, count, bytes_max=wanted_bytes, consumer=key)
    while polled.size_bytes > bytes_max and polled.count > 1:
        fewer = polled.count // 2
        polled = partition.poll(strategy, fewer, bytes_max=wanted_bytes, consumer=key)
    if polled.size_bytes > bytes_max:
        detail = f"a message of {polled.size_bytes} bytes: {bytes_max} are allowed; poll it alone"
        raise Reject(ErrorCode.INVALID_SIZE_BYTES, detail)
    next_offset = polled.last_offset + 1 if polled.count else _start(partition, strategy, key)
    if polled.count and auto_commit:
        partition.offsets.advance(key, polled.last_offset)
    count_poll(services, read, polled)
    section = Section(
        target.partition_id,
        0,
        polled.current_offset,
        polled.count,
        *served_in(services.replica.state, read),
        next_offset,
        polled.size_bytes,
    )
    return section, polled.parts


def _start(partition: Partition, strategy: PollingStrategy, key: ConsumerKey) -> int:
    """Where a fetch that found nothing has looked."""
    offset = strategy.value
    if strategy.kind == StrategyKind.NEXT:
        stored = partition.offsets.get(key)
        offset = 0 if stored is None else stored + 1
    return max(offset, partition.log.first_offset)

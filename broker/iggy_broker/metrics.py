"""Counters of one shard, in memory that all shards share, and their text for Prometheus.

Hot paths add to plain attributes of `Counters`; `publish` copies them into the shard's own block of
the shared memory. Only the owner writes a block, everybody may read all of them, so nobody locks.
A reader may see a block that is up to `PUBLISH_INTERVAL_S` old.
"""

from __future__ import annotations

import bisect
import mmap
from typing import Final

PUBLISH_INTERVAL_S: Final = 1.0

# name → (kind, help). The order is the layout of a block; what only rises ends in `_total`.
FIELDS: Final[dict[str, tuple[str, str]]] = {
    "ready": ("gauge", "1 when the shard has recovered its partitions and accepts clients."),
    "drained": ("gauge", "1 when a stopping shard has answered its clients."),
    "connections": ("gauge", "Open client connections."),
    "sessions": ("gauge", "Logged-in client connections."),
    "messages_received_total": ("counter", "Messages that producers sent and we acknowledged."),
    "messages_sent_total": ("counter", "Messages that polls returned."),
    "bytes_received_total": ("counter", "Bytes of acknowledged batches."),
    "bytes_sent_total": ("counter", "Bytes of batches that polls returned."),
    "sends_total": ("counter", "Acknowledged send requests."),
    "polls_total": ("counter", "Answered poll requests."),
    "requests_total": ("counter", "Other answered requests."),
    "refusals_total": ("counter", "Requests answered with an error code."),
    "evictions_total": ("counter", "Eviction frames sent."),
    "logins_total": ("counter", "Successful logins."),
    "logins_failed_total": ("counter", "Logins with wrong credentials."),
    "forwarded_total": ("counter", "Requests passed to the shard that owns the partition."),
    "handovers_total": ("counter", "Connections handed to the shard that owns their partition."),
    "connections_refused_total": ("counter", "Connections closed because of a limit."),
    "checksum_errors_total": ("counter", "Batches refused or not served for a wrong checksum."),
}
# Upper bounds of the histogram of syncs; the last bucket, without a bound, is implied.
SYNC_BUCKETS_S: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0)
_SYNC_AT: Final = len(FIELDS)  # place of the buckets in a block; the sum in microseconds follows
_SYNC_FIELDS: Final = len(SYNC_BUCKETS_S) + 2
BLOCK_FIELDS_MAX: Final = 64  # fields of one shard's block; the rest is room for new ones
_WORD_BYTES: Final = 8

assert _SYNC_AT + _SYNC_FIELDS <= BLOCK_FIELDS_MAX


class SharedCounters:
    """The memory: one block of unsigned 64-bit words per shard. Make it before the fork."""

    __slots__ = ("_memory", "_words", "shards_count")

    def __init__(self, shards_count: int) -> None:
        """Zeroed blocks for `shards_count` shards."""
        self.shards_count = shards_count
        self._memory = mmap.mmap(-1, shards_count * BLOCK_FIELDS_MAX * _WORD_BYTES)
        self._words = memoryview(self._memory).cast("Q")

    def block(self, shard_id: int) -> memoryview:
        """The words of one shard, in the order of `FIELDS`; only that shard may write them."""
        at = shard_id * BLOCK_FIELDS_MAX
        return self._words[at : at + BLOCK_FIELDS_MAX]

    def values(self, name: str) -> list[int]:
        """One field, by shard."""
        at = _PLACES[name]
        return [int(self._words[shard * BLOCK_FIELDS_MAX + at]) for shard in self._shards]

    def syncs(self, shard_id: int) -> tuple[list[int], int]:
        """Syncs of one shard by bucket, not summed up, and their time in microseconds."""
        at = shard_id * BLOCK_FIELDS_MAX + _SYNC_AT
        words = [int(word) for word in self._words[at : at + _SYNC_FIELDS]]
        return words[:-1], words[-1]

    def total(self, name: str) -> int:
        """One field, summed over the shards."""
        return sum(self.values(name))

    @property
    def all_ready(self) -> bool:
        """Whether every shard has recovered and accepts clients."""
        return self.all_set("ready")

    def all_set(self, name: str) -> bool:
        """Whether a field is nonzero for every shard."""
        return all(self.values(name))

    @property
    def _shards(self) -> range:
        return range(self.shards_count)


class Counters:
    """One shard's own numbers; the attributes are the names of `FIELDS`."""

    __slots__ = (*FIELDS, "_block", "_syncs", "shared")

    ready: int
    drained: int
    connections: int
    sessions: int
    messages_received_total: int
    messages_sent_total: int
    bytes_received_total: int
    bytes_sent_total: int
    sends_total: int
    polls_total: int
    requests_total: int
    refusals_total: int
    evictions_total: int
    logins_total: int
    logins_failed_total: int
    forwarded_total: int
    handovers_total: int
    connections_refused_total: int
    checksum_errors_total: int

    def __init__(self, shared: SharedCounters, shard_id: int) -> None:
        """Zero, and to be published in the block of `shard_id`."""
        self.shared = shared
        self._block = shared.block(shard_id)
        self._syncs = [0] * _SYNC_FIELDS
        for name in FIELDS:
            setattr(self, name, 0)

    def synced(self, duration_s: float) -> None:
        """A sync took so long."""
        self._syncs[bisect.bisect_left(SYNC_BUCKETS_S, duration_s)] += 1
        self._syncs[-1] += int(duration_s * 1_000_000)

    def publish(self) -> None:
        """Make the numbers visible to the other shards."""
        for place, count in enumerate(self._syncs, _SYNC_AT):
            self._block[place] = count
        for place, name in enumerate(FIELDS):
            self._block[place] = getattr(self, name)


_PLACES: Final = {name: place for place, name in enumerate(FIELDS)}

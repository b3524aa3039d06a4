"""Counters of one shard, in memory that all shards share. `net/families.py` makes metrics of them.

Hot paths add to plain attributes of `Counters`; `publish` copies them into the shard's own block of
the shared memory, once in `PUBLISH_INTERVAL_S` and for each scrape. Only the owner writes a block,
everybody may read all of them, so nobody locks.
"""

from __future__ import annotations

import bisect
import mmap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from iggy_wire.errors import ErrorCode
from iggy_wire.header import EvictionReason

PUBLISH_INTERVAL_S: Final = 1.0

# name → (kind, help). One word for each shard. What only rises ends in `_total`; what ends in
# `_seconds` or `_seconds_total` is kept in microseconds.
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
    "logins_total": ("counter", "Successful logins."),
    "forwarded_total": ("counter", "Requests passed to the shard that owns the partition."),
    "handovers_total": ("counter", "Connections handed to the shard that owns their partition."),
    "connections_refused_total": ("counter", "Connections closed because of a limit."),
    "http_api_requests_total": ("counter", "HTTP requests, whatever they were answered."),
    "http_api_connections": ("gauge", "Open HTTP connections."),
    "http_api_unread_bytes": ("gauge", "HTTP answers that clients have not taken yet."),
    "requests_running": ("gauge", "Requests being served that are neither sends nor polls."),
    "polls_waiting": ("gauge", "Requests that wait at the broker for messages."),
    "passwords_waiting": ("gauge", "Passwords that are being hashed or wait for it."),
    "client_queued_bytes": ("gauge", "Replies that clients have not taken yet, in files, too."),
    "unread_replies_bytes": ("gauge", "Memory of replies that clients have not taken yet."),
    "link_queued_bytes": ("gauge", "Bytes for other shards that wait to go out."),
    "link_in_flight_bytes": ("gauge", "What other shards were asked and have not answered."),
    "buffers_in_use_bytes": (
        "gauge",
        "Memory of half-received frames, and of what waits behind busy connections.",
    ),
    "buffers_kept_bytes": ("gauge", "Returned memory of frames, kept for the next ones."),
    "index_cache_bytes": ("gauge", "Memory of the indexes of sealed segments."),
    "unsynced_messages": ("gauge", "Acknowledged messages that a power cut could take."),
    "unsynced_bytes": ("gauge", "Bytes of batches that a power cut could take."),
    "resident_memory_bytes": ("gauge", "Memory of the process, with what it shares."),
    "cpu_seconds_total": ("counter", "Processor time of the process."),
    "recovery_partitions": ("gauge", "Partitions opened at start."),
    "recovery_messages": ("gauge", "Messages found at start."),
    "recovery_cut_bytes": ("gauge", "Bytes that recovery took out of the logs at start."),
    "recovery_seconds": ("gauge", "How long opening the partitions took at start."),
    "retention_segments_total": ("counter", "Segments removed for their age or size."),
    "retention_bytes_total": ("counter", "Bytes of these segments."),
    "retention_waiting_segments": (
        "gauge",
        "Segments that are too old or too much, and that a stored offset has not passed.",
    ),
    "scrub_bytes_total": ("counter", "Bytes that the background check has read."),
    "scrub_passes_total": ("counter", "How often the background check has read all data."),
    "damaged_segments": ("gauge", "Segments that a check found damaged; see the log."),
    "archiver_checked": ("gauge", "1 when the archive was found usable since the start."),
    "archiver_failing": ("gauge", "1 while something that was tried last was not archived."),
    "archiver_segments_total": ("counter", "Sealed segments copied to the archive, and read back."),
    "archiver_uploads_total": ("counter", "Objects stored in the archive."),
    "archiver_bytes_total": ("counter", "Bytes of segments stored in the archive."),
    "archiver_failures_total": ("counter", "Copies that failed; each is tried again."),
    "archiver_vanished_total": ("counter", "Segments that were gone before they were copied."),
    "archiver_pending_segments": ("gauge", "Sealed segments that are to be copied."),
    "archiver_behind_seconds": (
        "gauge",
        "With continuous: age of the oldest message that may not be in the archive.",
    ),
    "archiver_pass_seconds": (
        "gauge",
        "With continuous: how long the last copy of all that was written took.",
    ),
    "archiver_last_copy_seconds": (
        "gauge",
        "When something was last stored in the archive, since 1970; 0 before the first copy.",
    ),
    "archive_reads_total": ("counter", "Polls that the archive answered."),
    "archive_reads_fetches_total": ("counter", "Blocks that were fetched from the archive."),
    "archive_reads_bytes_total": ("counter", "Bytes of these blocks."),
    "archive_reads_failures_total": ("counter", "Reads that the archive did not answer."),
    "archive_reads_refused_total": ("counter", "Polls put off because too many reads run or wait."),
    "archive_reads_waiting": ("gauge", "Reads of the archive that run or wait."),
    "archive_reads_cache_bytes": ("gauge", "Memory of the blocks that are kept."),
    "clock_steps_total": ("counter", "Jumps of the wall clock, seen by shard 0."),
    "log_lines_suppressed_total": ("counter", "Log lines not written for being too many."),
}


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts by a label whose values are known beforehand."""

    kind: str
    description: str
    label: str
    values: tuple[str, ...]


TALLIES: Final[dict[str, Tally]] = {
    "refusals_total": Tally(
        "counter",
        "Requests answered with an error code.",
        "code",
        tuple(code.name.lower() for code in ErrorCode),
    ),
    "evictions_total": Tally(
        "counter",
        "Eviction frames sent.",
        "reason",
        tuple(reason.name.lower() for reason in EvictionReason),
    ),
    "logins_failed_total": Tally(
        "counter", "Refused logins.", "method", ("password", "token", "unknown")
    ),
    "connections_closed_total": Tally(
        "counter",
        "Connections that we closed for what the client did.",
        "reason",
        ("stalled", "slow", "bad_length", "unread", "stranger", "websocket"),
    ),
    "transport_connections": Tally(
        "gauge",
        "Open client connections of all shards, by how they came.",
        "transport",
        ("tcp", "quic", "websocket"),
    ),
    "checksum_errors_total": Tally(
        "counter",
        "Batches with a wrong checksum: refused from a client, or found on the disk or in the "
        "archive.",
        "source",
        ("client", "disk", "archive"),
    ),
    "recovery_decisions": Tally(
        "gauge",
        "What recovery had to decide at start.",
        "kind",
        (
            "tail_cut", "segment_set_aside", "index_rebuilt", "damaged", "fenced", "foreign_file",
            "folder_missing", "folder_set_aside", "purge_finished", "life_noted",
            "marker_disbelieved",
        ),
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Distribution:
    """A histogram: upper bounds of its buckets; the last one, without a bound, is implied."""

    description: str
    bounds_s: tuple[float, ...]


DISTRIBUTIONS: Final[dict[str, Distribution]] = {
    "fsync_seconds": Distribution(
        "How long syncs to the disk took that clients waited for.",
        (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0),
    ),
    "loop_lag_seconds": Distribution(
        "How late the event loop was, looked at every 0.25 s.",
        (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0),
    ),
}

ZEROS_MAX: Final = 16  # a label of more values is shown with those only that were counted
_WORD_BYTES: Final = 8
_MICRO: Final = 1_000_000


def _layout() -> tuple[dict[str, int], dict[tuple[str, str], int], dict[str, int], int]:
    """Places in a block: of fields, of tallied values, of histograms (sum behind); its length."""
    at = len(FIELDS)
    tallied = {}
    for name, tally in TALLIES.items():
        for value in tally.values:
            tallied[name, value] = at
            at += 1
    spread = {}
    for name, distribution in DISTRIBUTIONS.items():
        spread[name] = at
        at += len(distribution.bounds_s) + 2
    return {name: place for place, name in enumerate(FIELDS)}, tallied, spread, at


_FIELDS_AT, _TALLIED_AT, _SPREAD_AT, BLOCK_WORDS = _layout()


class SharedCounters:
    """The memory: one block of unsigned 64-bit words per shard. Make it before the fork."""

    __slots__ = ("_memory", "_words", "shards_count")

    def __init__(self, shards_count: int) -> None:
        """Zeroed blocks for `shards_count` shards."""
        self.shards_count = shards_count
        self._memory = mmap.mmap(-1, shards_count * BLOCK_WORDS * _WORD_BYTES)
        self._words = memoryview(self._memory).cast("Q")

    def block(self, shard_id: int) -> memoryview:
        """The words of one shard; only that shard may write them."""
        at = shard_id * BLOCK_WORDS
        return self._words[at : at + BLOCK_WORDS]

    def values(self, name: str) -> list[int]:
        """One field, by shard."""
        return self._by_shard(_FIELDS_AT[name])

    def total(self, name: str) -> int:
        """One field, summed over the shards."""
        return sum(self.values(name))

    def tallied(self, name: str) -> dict[str, int]:
        """Counts by the value of the label, summed over the shards; of many without the zeros."""
        values = TALLIES[name].values
        sums = {value: sum(self._by_shard(_TALLIED_AT[name, value])) for value in values}
        if len(values) <= ZEROS_MAX:
            return sums
        return {value: count for value, count in sums.items() if count}

    def spread(self, name: str, shard_id: int) -> tuple[list[int], int]:
        """A histogram of one shard: counts by bucket, not summed up, and the time in us."""
        at = shard_id * BLOCK_WORDS + _SPREAD_AT[name]
        count = len(DISTRIBUTIONS[name].bounds_s) + 2
        words = [int(word) for word in self._words[at : at + count]]
        return words[:-1], words[-1]

    @property
    def all_ready(self) -> bool:
        """Whether every shard has recovered and accepts clients."""
        return self.all_set("ready")

    def all_set(self, name: str) -> bool:
        """Whether a field is nonzero for every shard."""
        return all(self.values(name))

    def _by_shard(self, at: int) -> list[int]:
        return [int(word) for word in self._words[at::BLOCK_WORDS]]


class Counters:
    """One shard's own numbers; the attributes are the names of `FIELDS`."""

    __slots__ = (*FIELDS, "_block", "_more", "looks", "shared")

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
    logins_total: int
    forwarded_total: int
    handovers_total: int
    connections_refused_total: int
    http_api_requests_total: int
    http_api_connections: int
    http_api_unread_bytes: int
    requests_running: int
    polls_waiting: int
    passwords_waiting: int
    client_queued_bytes: int
    unread_replies_bytes: int
    link_queued_bytes: int
    link_in_flight_bytes: int
    buffers_in_use_bytes: int
    buffers_kept_bytes: int
    index_cache_bytes: int
    unsynced_messages: int
    unsynced_bytes: int
    resident_memory_bytes: int
    cpu_seconds_total: int
    recovery_partitions: int
    recovery_messages: int
    recovery_cut_bytes: int
    recovery_seconds: int
    retention_segments_total: int
    retention_bytes_total: int
    retention_waiting_segments: int
    scrub_bytes_total: int
    scrub_passes_total: int
    damaged_segments: int
    archiver_checked: int
    archiver_failing: int
    archiver_segments_total: int
    archiver_uploads_total: int
    archiver_bytes_total: int
    archiver_failures_total: int
    archiver_vanished_total: int
    archiver_pending_segments: int
    archiver_behind_seconds: int
    archiver_pass_seconds: int
    archiver_last_copy_seconds: int
    archive_reads_total: int
    archive_reads_fetches_total: int
    archive_reads_bytes_total: int
    archive_reads_failures_total: int
    archive_reads_refused_total: int
    archive_reads_waiting: int
    archive_reads_cache_bytes: int
    clock_steps_total: int
    log_lines_suppressed_total: int

    def __init__(self, shared: SharedCounters, shard_id: int) -> None:
        """Zero, and to be published in the block of `shard_id`."""
        self.shared = shared
        self.looks: list[Callable[[], None]] = []
        """What brings ages up to date before they are published."""
        self._block = shared.block(shard_id)
        self._more = memoryview(bytearray(BLOCK_WORDS * _WORD_BYTES)).cast("Q")
        for name in FIELDS:
            setattr(self, name, 0)

    def refused(self, code: ErrorCode) -> None:
        """A request was answered with an error code."""
        self.count("refusals_total", code.name.lower())

    def evicted(self, reason: EvictionReason) -> None:
        """A client got an eviction."""
        self.count("evictions_total", reason.name.lower())

    def count(self, tally: str, value: str, more: int = 1) -> None:
        """So many more of this value of a tally's label."""
        self._more[_TALLIED_AT[tally, value]] += more

    def spread(self, name: str, duration_s: float) -> None:
        """Something took so long: one more in the histogram of that name."""
        at, bounds = _SPREAD_AT[name], DISTRIBUTIONS[name].bounds_s
        self._more[at + bisect.bisect_left(bounds, duration_s)] += 1
        self._more[at + len(bounds) + 1] += int(duration_s * _MICRO)

    def synced(self, duration_s: float) -> None:
        """A sync took so long."""
        self.spread("fsync_seconds", duration_s)

    def publish(self) -> None:
        """Make the numbers visible to the other shards."""
        for look in self.looks:
            look()
        start = len(FIELDS)
        self._block[start:] = self._more[start:]
        for place, name in enumerate(FIELDS):
            self._block[place] = getattr(self, name)

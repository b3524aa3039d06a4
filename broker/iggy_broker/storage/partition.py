"""The single writer of one partition: admit, stamp, append, poll, offsets. Signatures first."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from iggy_broker.clock import Clock
from iggy_broker.storage.disk import Disk, File
from iggy_broker.storage.partition_table import PartitionTable

SEGMENT_BYTES_DEFAULT = 1 << 30
SENDFILE_BYTES_MIN = 64 * 1024  # shorter stretches of a poll are read, longer ones left in the file


class FileRange(NamedTuple):
    """Stored bytes that go out unchanged. Use it before the next turn of the loop.

    `os.sendfile(socket, part.file.fileno(), part.position, part.size_bytes)`, or `part.read()`.
    """

    file: File
    position: int
    size_bytes: int

    def read(self) -> bytes:
        """The bytes themselves."""
        return self.file.read(self.size_bytes, self.position)


Part = bytes | FileRange


class Polled(NamedTuple):
    """What a poll found: whole (perhaps cut) batches, in order, ready to go out after the head."""

    current_offset: int  # last visible offset of the partition, 0 if empty
    count: int  # messages in `parts`
    last_offset: int  # offset of the last of them; meaningless when count is 0
    size_bytes: int  # sum over `parts`
    parts: list[Part]


class ConsumerKey(NamedTuple):
    """Whose offset: kind 1 = consumer, 2 = group, as on the wire."""

    kind: int
    id: int


class Strategy(Protocol):
    """A polling strategy (`iggy_wire.primitives`): 1 offset, 2 timestamp, 3 first, 4 last, 5 next."""

    @property
    def kind(self) -> int:
        """1 to 5."""
        ...

    @property
    def value(self) -> int:
        """Offset or timestamp in microseconds; ignored by the others."""
        ...


@dataclass(frozen=True, slots=True)
class PartitionOptions:
    """What the topic asks for. `None` = no limit."""

    segment_bytes: int = SEGMENT_BYTES_DEFAULT
    persisted: bool = False  # sync before every answer; readers see synced bytes only
    offsets_persisted: bool = False  # the same for stored consumer offsets
    sync_messages: int | None = None  # the append that leaves so many unsynced waits for a sync
    sync_bytes: int | None = None
    validate_checksum: bool = True  # bytes written by an earlier process are verified at first read


@dataclass(frozen=True, slots=True)
class PartitionPlace:
    """Which partition this is."""

    folder: str  # layout.partition_folder(...)
    partition_id: int
    slot: int  # in the partition table
    incarnation: int = 1  # which life (e.g. created_at in microseconds, not 0); files of another are removed
    purges: int = 0  # purges that metadata knows of; a purge that a crash interrupted is finished at open


@dataclass(frozen=True, slots=True)
class StorageParts:
    """What all partitions of a shard share."""

    disk: Disk
    clock: Clock
    table: PartitionTable
    syncer: "Syncer | None" = None  # None: waits are synced on the spot (tests, tools)
    warn: Callable[[str], None] = field(default=lambda text: None)


# Partition.open(place, options, parts) -> Partition                       raises OSError, StorageFailed
#   .recovery: tuple[Decision, ...]     what opening had to decide (cut tail, missing folder, ...)
#   .append(batch: memoryview) -> int   base offset; batch is stamped in place; Reject = nothing stored
#   .must_wait: bool                    after append: the answer must wait for `wait_durable()`
#   .wait_durable() -> asyncio.Future[None]   done when all that was appended so far is on the disk
#   .poll(strategy, count, *, bytes_max, consumer: ConsumerKey | None = None, auto_commit=False) -> Polled
#   .figures -> PartitionFigures        as in the table
#   .current_offset, .next_offset, .visible_next_offset
#   .offsets: ConsumerOffsets           get(key) -> int | None, store(key, offset), delete(key)
#   .purge(purges: int), .delete_oldest_segments(count) -> int
#   .save() -> asyncio.Future[None] | None   saver's tick: sync if anything is unsynced
#   .close()  clean stop: sync, marker.   .delete()  remove all files
# storage.folders: delete_stream(parts, root, id) / delete_topic(...)      folder removal by shard 0

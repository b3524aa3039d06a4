"""What goes into a partition and comes out of it: plain values and the parts that it is given."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from iggy_broker.clock import Clock
from iggy_broker.storage.deduplication import WindowOptions
from iggy_broker.storage.disk import Disk
from iggy_broker.storage.gate import Gate
from iggy_broker.storage.index_cache import IndexCache
from iggy_broker.storage.older import Older
from iggy_broker.storage.partition_table import PartitionTable
from iggy_broker.storage.segment import Part
from iggy_broker.storage.syncer import Syncer
from iggy_wire.sealing import NO_KEYS, Keyring

SEGMENT_BYTES_DEFAULT = 1 << 30


class Polled(msgspec.Struct, frozen=True):
    """What a poll found: whole (perhaps cut) batches, in order, ready to go out after the head."""

    current_offset: int  # last visible offset of the partition, 0 if empty
    count: int  # messages in `parts`
    last_offset: int  # offset of the last of them; meaningless when count is 0
    size_bytes: int  # sum over `parts`
    parts: list[Part]


class Strategy(Protocol):
    """A polling strategy, as `iggy_wire.primitives.PollingStrategy`."""

    @property
    def kind(self) -> int:
        """1 offset, 2 timestamp, 3 first, 4 last, 5 next."""
        ...

    @property
    def value(self) -> int:
        """Offset or timestamp in microseconds; ignored by the other kinds."""
        ...


@dataclass(frozen=True, slots=True)
class PartitionOptions:
    """What the topic asks for. `None` = no such limit."""

    segment_bytes: int = SEGMENT_BYTES_DEFAULT  # a segment is sealed when it has so many
    persisted: bool = False  # sync before every answer; readers see synced bytes only
    offsets_persisted: bool = False  # the same for stored consumer offsets
    sync_messages: int | None = None  # the append that leaves so many unsynced waits for a sync
    sync_bytes: int | None = None  # the same in bytes
    save_messages: int | None = None  # the append that leaves so many begins a sync and waits not
    validate_checksum: bool = True  # bytes of an earlier process are verified at first read
    window: WindowOptions | None = None  # messages that were sent before are left out


@dataclass(frozen=True, slots=True)
class PartitionPlace:
    """Which partition this is."""

    folder: str  # layout.partition_folder(...)
    partition_id: int
    slot: int  # in the partition table
    incarnation: int = (
        1  # which life (say, created at, microseconds); files of another are set aside
    )
    purges: int = 0  # purges that metadata knows; one that a crash interrupted is finished at open
    is_new: bool = False  # just created: a missing folder is no surprise


@dataclass(frozen=True, slots=True)
class StorageParts:
    """What all partitions of a shard share."""

    disk: Disk
    clock: Clock
    table: PartitionTable
    syncer: Syncer | None = None  # None: waits are synced on the spot (tests, tools)
    indexes: IndexCache = field(default_factory=IndexCache)
    warn: Callable[[str], None] = field(default=lambda text: None)
    gate: Gate = field(default_factory=Gate)
    keys: Keyring = NO_KEYS
    older: Older | None = None
    """Who has messages that logs have no more."""

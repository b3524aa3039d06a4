"""A partition on a simulated disk, a clock that is told, and a list that says what must be read."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from iggy_broker.storage.disk import Disk
from iggy_broker.storage.partition import (
    FileRange,
    Partition,
    PartitionOptions,
    PartitionPlace,
    Polled,
    StorageParts,
)
from iggy_broker.storage.partition_table import PartitionTable
from iggy_wire.batch import Message, build, messages
from iggy_wire.sealing import NO_KEYS, Keyring
from simulated_disk import SimulatedDisk

FOLDER = "/data/streams/0/topics/0/partitions/0"
NEW_PLACE = PartitionPlace(FOLDER, 0, 0, is_new=True)
SMALL_SEGMENTS = PartitionOptions(segment_bytes=64 * 1024)


class Strategy(NamedTuple):
    kind: int
    value: int = 0


def from_offset(offset: int) -> Strategy:
    return Strategy(1, offset)


def from_time(timestamp_us: int) -> Strategy:
    return Strategy(2, timestamp_us)


FIRST, LAST, NEXT = Strategy(3), Strategy(4), Strategy(5)


class ManualClock:
    """Time moves when it is told to."""

    def __init__(self) -> None:
        self.time_us = 1_000_000

    def now_us(self) -> int:
        return self.time_us

    def monotonic_us(self) -> int:
        return self.time_us


class Stored(NamedTuple):
    offset: int
    timestamp_us: int
    payload: bytes


@dataclass
class World:
    """One partition and what it must hold."""

    disk: Disk
    options: PartitionOptions = SMALL_SEGMENTS
    place: PartitionPlace = NEW_PLACE
    clock: ManualClock = field(default_factory=ManualClock)
    warnings: list[str] = field(default_factory=list)
    stored: list[Stored] = field(default_factory=list)
    sent: list[bytes] = field(default_factory=list)  # also what was refused or cut short
    counter: int = 0
    keys: Keyring = NO_KEYS

    def __post_init__(self) -> None:
        self.table = PartitionTable(4)
        self.partition = self.open()

    def open(self) -> Partition:
        parts = StorageParts(
            self.disk, self.clock, self.table, warn=self.warnings.append, keys=self.keys
        )
        self.partition = Partition.open(self.place, self.options, parts)
        self.place = replace(self.place, is_new=False)
        return self.partition

    def reopen(self) -> Partition:
        """Clean stop and start."""
        self.partition.close()
        return self.open()

    def restart(self, disk: Disk) -> Partition:
        """Start on what a crash left."""
        self.disk = disk
        return self.open()

    def batch(self, count: int, payload_bytes: int = 10) -> bytearray:
        """A batch of messages that differ from all others."""
        made = []
        for _ in range(count):
            self.counter += 1
            payload = f"{self.counter:08d}".encode().ljust(payload_bytes, b".")
            self.sent.append(payload)
            made.append(Message(payload))
        return build(made, origin_timestamp_us=7)

    def append(self, count: int = 1, payload_bytes: int = 10) -> int:
        batch = self.batch(count, payload_bytes)
        base = self.partition.append(memoryview(batch))
        for message in messages(batch):
            self.stored.append(Stored(message.offset, message.timestamp_us, message.payload))
        return base

    def poll(self, strategy: Strategy, count: int, bytes_max: int = 1 << 20) -> list[Stored]:
        polled = self.partition.poll(strategy, count, bytes_max=bytes_max)
        return read(polled)

    def expected(self, strategy: Strategy, count: int) -> list[Stored]:
        """Brute force over the list."""
        visible = [s for s in self.stored if s.offset < self.partition.visible_next_offset]
        if strategy.kind == 1:
            start = [s for s in visible if s.offset >= strategy.value]
        elif strategy.kind == 2:
            start = [s for s in visible if s.timestamp_us >= strategy.value]
        elif strategy.kind == 4:
            start = visible[-count:] if count else []
        else:
            start = visible
        return start[:count]

    def everything(self) -> list[Stored]:
        """All that can be read, in steps."""
        found: list[Stored] = []
        offset = 0
        while step := self.poll(from_offset(offset), 1 << 30, bytes_max=50_000):
            found += step
            offset = step[-1].offset + 1
        return found


def read(polled: Polled) -> list[Stored]:
    """The messages of a poll; checks its own figures on the way."""
    region = b"".join(p.read() if isinstance(p, FileRange) else p for p in polled.parts)
    assert len(region) == polled.size_bytes
    found = [Stored(m.offset, m.timestamp_us, m.payload) for m in messages(region)]
    assert len(found) == polled.count
    assert not found or found[-1].offset == polled.last_offset
    return found


def simulated_world(seed: int = 0, keys: Keyring = NO_KEYS, **changes: object) -> World:
    """A new partition on a new simulated disk."""
    disk = SimulatedDisk(seed)
    disk.make_folders("/data")
    disk.settle()
    options = replace(SMALL_SEGMENTS, **changes)  # type: ignore[arg-type]
    return World(disk, options, keys=keys)


def disk_of(world: World) -> SimulatedDisk:
    assert isinstance(world.disk, SimulatedDisk)
    return world.disk


def killed(world: World) -> SimulatedDisk:
    return disk_of(world).crash(power_cut=False)


def three_batches() -> tuple[World, int]:
    """A killed broker's log of three batches, and where the last one begins."""
    world = simulated_world()
    world.append(3)
    world.append(2)
    start = world.partition.log.size_bytes
    world.append(4)
    return world, start

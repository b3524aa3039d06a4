"""One topic whose partitions belong to shards with a cleaner each, on a simulated disk."""

from __future__ import annotations

import asyncio

from iggy_broker import config
from iggy_broker.cleaner import Cleaner
from iggy_broker.metadata import changes
from iggy_broker.metadata.model import State
from iggy_broker.metadata.options import node_settings
from iggy_broker.metadata.placement import pack, shard_of
from iggy_broker.metrics import Counters, SharedCounters
from iggy_broker.partition_host import OwnedPartitions
from iggy_broker.storage.partition import ConsumerKey, Partition, StorageParts
from iggy_broker.storage.partition_table import PartitionTable
from iggy_wire.batch import Message, build
from iggy_wire.options import make_options
from metadata_cases import accepted_entries, replayed
from simulated_disk import SimulatedDisk
from storage_cases import ManualClock

SEGMENT_BYTES = 1 << 20
MESSAGE_BYTES = 300_000
"""Four of them make a segment."""
READER = ConsumerKey(1, 1)


class Clocks(ManualClock):
    """A wall clock that can be set, and one that cannot."""

    def __init__(self) -> None:
        super().__init__()
        self.set_by_us = 0

    def now_us(self) -> int:
        return self.time_us + self.set_by_us

    def pass_s(self, seconds: float) -> None:
        self.time_us += int(seconds * 1_000_000)


class CleanedTopic:
    """The topic `t` of the stream `s`. Options are spelled as clients give them."""

    def __init__(
        self,
        *,
        partitions: int = 1,
        shards: int = 1,
        settings: dict[str, str] | None = None,
        **options: int,
    ) -> None:
        variables = {"IGGY_SYSTEM_PATH": "/data", **(settings or {})}
        self.config = config.load(None, variables).config
        self.clock = Clocks()
        self.warnings: list[str] = []
        disk = SimulatedDisk(0)
        disk.make_folders("/data")
        self.counters = SharedCounters(shards)
        self.parts = StorageParts(
            disk, self.clock, PartitionTable(partitions), warn=self.warnings.append
        )
        self.state = State()
        self.change(changes.CreateStream("s"))
        given = make_options({"segment_size": SEGMENT_BYTES, **options})
        self.change(changes.CreateTopic("s", "t", partitions, given))
        self.hosts = [self._host(shard, shards) for shard in range(shards)]
        self.begin()

    def begin(self) -> None:
        """What a start does when the partitions are open."""
        self.cleaners = [
            Cleaner(
                self.config,
                state=lambda: self.state,
                partitions=host.open,
                parts=self.parts,
                counters=Counters(self.counters, shard),
            )
            for shard, host in enumerate(self.hosts)
        ]

    def _host(self, shard: int, shards: int) -> OwnedPartitions:
        host = OwnedPartitions(
            "/data",
            shard_id=shard,
            shards_count=shards,
            node=node_settings(self.config),
            parts=self.parts,
        )

        async def begin() -> None:
            await host.open_all(State())
            await host.open_partitions(self.state, list(self.state.placed()))

        asyncio.run(begin())
        return host

    def change(self, change: changes.AnyChange) -> None:
        self.state = replayed(accepted_entries([change], self.state), self.state)

    def update(self, **options: int) -> None:
        """As UpdateTopic."""
        self.change(changes.UpdateTopic("s", "t", "t", make_options(options)))

    def partition(self, number: int = 0) -> Partition:
        packed = pack(0, 0, number)
        return self.hosts[shard_of(packed, len(self.hosts))].open[packed]

    def fill(self, number: int = 0, *, segments: float = 1, spread_s: float = 0.0) -> None:
        """Append so many segments; `spread_s` pass between two messages."""
        for _ in range(int(segments * 4)):
            batch = build([Message(bytes(MESSAGE_BYTES))], origin_timestamp_us=1)
            self.partition(number).append(memoryview(batch))
            self.clock.pass_s(spread_s)

    def clean(self) -> list[float | None]:
        """One pass of each shard."""

        async def passes() -> list[float | None]:
            return [await cleaner.clean() for cleaner in self.cleaners]

        return asyncio.run(passes())

    def clean_all(self) -> None:
        """Passes until no shard wants another one."""
        for _ in range(1000):
            if self.clean() == [None] * len(self.cleaners):
                return
        raise AssertionError("there is always more to remove")

    def held(self) -> list[tuple[int, int]]:
        """First and next offset of each partition."""
        count = len(self.state.streams[0].topics[0].partitions)
        logs = [self.partition(number).log for number in range(count)]
        return [(log.first_offset, log.next_offset) for log in logs]

    @property
    def size_bytes(self) -> int:
        slots = [one.slot for one in self.state.streams[0].topics[0].partitions]
        return self.parts.table.totals(slots).size_bytes

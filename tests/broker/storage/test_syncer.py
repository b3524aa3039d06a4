"""Group commit: who is answered when, what readers see, what a failed sync does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from iggy_broker.storage.consumer_offsets import ConsumerKey
from iggy_broker.storage.disk import StorageFailed
from iggy_broker.storage.partition import Partition, PartitionOptions, PartitionPlace, StorageParts
from iggy_broker.storage.partition_table import PartitionTable
from iggy_broker.storage.syncer import Syncer, save_all
from simulated_disk import SimulatedDisk, SimulatedFile
from storage_cases import LAST, ManualClock, read, simulated_world

FOLDER = "/data/streams/0/topics/0/partitions/0"


class GatedDisk(SimulatedDisk):
    """Every file sync waits until the test lets it pass."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Semaphore(0)
        self.allowed = threading.Semaphore(0)
        self.gated = True

    def sync(self, node: object) -> None:
        if self.gated:
            self.begun.release()
            self.allowed.acquire()
        super().sync(node)  # type: ignore[arg-type]

    async def sync_has_begun(self) -> None:
        await asyncio.to_thread(self.begun.acquire)

    def open_gate(self) -> None:
        self.gated = False
        self.allowed.release(100)


def open_partition(
    disk: SimulatedDisk, syncer: Syncer, options: PartitionOptions, incarnation: int = 1
) -> Partition:
    parts = StorageParts(disk, ManualClock(), PartitionTable(1), syncer)
    place = PartitionPlace(FOLDER, 0, 0, incarnation, is_new=True)
    return Partition.open(place, options, parts)


def run(scenario: Callable[[GatedDisk, Syncer], object]) -> list[StorageFailed]:
    failures: list[StorageFailed] = []

    async def body() -> None:
        disk = GatedDisk()
        disk.make_folders("/data")
        disk.settle()
        syncer = Syncer(disk, failures.append)
        try:
            await scenario(disk, syncer)  # type: ignore[misc]
        finally:
            disk.open_gate()
            syncer.close()

    asyncio.run(body())
    return failures


def append(partition: Partition, count: int = 1) -> None:
    partition.append(memoryview(simulated_world().batch(count)))


PERSISTED = PartitionOptions(persisted=True)


def test_a_sync_answers_those_who_wrote_before_it_began_and_shows_their_bytes() -> None:
    async def scenario(disk: GatedDisk, syncer: Syncer) -> None:
        partition = open_partition(disk, syncer, PERSISTED)
        append(partition, 2)
        assert partition.must_wait
        first = partition.wait_durable()
        await disk.sync_has_begun()
        append(partition, 3)
        second = partition.wait_durable()
        assert partition.visible_next_offset == 0
        assert read(partition.poll(LAST, 10, bytes_max=1000)) == []

        disk.allowed.release(2)  # the first sync of a partition covers its life file, too
        await first

        assert not second.done()
        assert partition.visible_next_offset == 2
        assert partition.figures.visible_next_offset == 2
        assert partition.figures.next_offset == 5
        assert len(read(partition.poll(LAST, 10, bytes_max=10_000))) == 2
        disk.open_gate()
        await second
        assert partition.visible_next_offset == 5
        assert partition.current_offset == 4

    assert run(scenario) == []


def test_everybody_who_waits_shares_one_sync() -> None:
    async def scenario(disk: GatedDisk, syncer: Syncer) -> None:
        partition = open_partition(disk, syncer, PERSISTED)
        append(partition)
        first = partition.wait_durable()
        await disk.sync_has_begun()
        waiting = []
        for _ in range(50):
            append(partition)
            waiting.append(partition.wait_durable())
        before = disk.syncs
        disk.open_gate()
        await first
        await asyncio.gather(*waiting)
        assert disk.syncs - before == 3, "life and log, then the log for all others"

    assert run(scenario) == []


def test_a_failed_sync_fails_all_waiters_and_is_never_tried_again() -> None:
    async def scenario(disk: GatedDisk, syncer: Syncer) -> None:
        partition = open_partition(disk, syncer, PERSISTED)
        append(partition)
        first = partition.wait_durable()
        await disk.sync_has_begun()
        append(partition)
        second = partition.wait_durable()
        disk.failing_syncs = 1
        disk.open_gate()
        for future in (first, second, partition.wait_durable()):
            with pytest.raises(StorageFailed):
                await future
        assert partition.visible_next_offset == 0
        assert disk.syncs == 1

    (failure,) = run(scenario)
    assert "sync failed" in str(failure)


def test_a_waiter_that_went_away_disturbs_nobody() -> None:
    async def scenario(disk: GatedDisk, syncer: Syncer) -> None:
        partition = open_partition(disk, syncer, PERSISTED)
        append(partition)
        gone, kept = partition.wait_durable(), partition.wait_durable()
        await disk.sync_has_begun()
        gone.cancel()
        disk.open_gate()
        await kept

    assert run(scenario) == []


def test_the_saver_syncs_what_nobody_waits_for() -> None:
    async def scenario(disk: GatedDisk, syncer: Syncer) -> None:
        disk.open_gate()
        partition = open_partition(disk, syncer, PartitionOptions())
        append(partition, 3)
        assert not partition.must_wait
        assert partition.log.unsynced_messages == 3
        await save_all([partition])
        assert partition.log.unsynced_messages == 0
        syncs = disk.syncs
        await save_all([partition])  # nothing to do
        assert disk.syncs == syncs
        assert disk.crash(power_cut=True).size(f"{FOLDER}/{0:020d}.log") > 0

    assert run(scenario) == []


def test_an_append_that_reaches_the_threshold_must_wait() -> None:
    async def scenario(disk: GatedDisk, syncer: Syncer) -> None:
        disk.open_gate()
        partition = open_partition(disk, syncer, PartitionOptions(sync_messages=4))
        waits = []
        for _ in range(8):
            append(partition)
            waits.append(partition.must_wait)
            if partition.must_wait:
                await partition.wait_durable()
        assert waits == [False, False, False, True] * 2

    assert run(scenario) == []


def test_an_append_that_reaches_the_other_threshold_begins_a_sync_and_waits_not() -> None:
    async def scenario(disk: GatedDisk, syncer: Syncer) -> None:
        partition = open_partition(disk, syncer, PartitionOptions(save_messages=4))
        for count in (3, 1, 5):
            append(partition, count)
            assert not partition.must_wait
        assert partition.log.unsynced_messages == 9, "the disk has not answered yet"
        await disk.sync_has_begun()
        disk.open_gate()
        await partition.wait_durable()
        assert partition.log.unsynced_messages == 0

    assert run(scenario) == []


def test_persisted_offsets_share_the_sync() -> None:
    async def scenario(disk: GatedDisk, syncer: Syncer) -> None:
        disk.open_gate()
        options = PartitionOptions(persisted=True, offsets_persisted=True)
        partition = open_partition(disk, syncer, options)
        append(partition, 3)
        await partition.wait_durable()
        key = ConsumerKey(2, 5)
        partition.store_offset(key, 1)
        assert partition.must_wait
        await partition.wait_durable()
        after = disk.crash(power_cut=True)
        assert open_partition(after, syncer, options).offsets.get(key) == 1

    assert run(scenario) == []


@pytest.mark.parametrize("how", ["purge", "delete"])
def test_a_sync_in_flight_survives_purge_and_delete(how: str) -> None:
    async def scenario(disk: GatedDisk, syncer: Syncer) -> None:
        partition = open_partition(disk, syncer, PERSISTED)
        append(partition, 3)
        partition.offsets.store(ConsumerKey(1, 1), 0)
        waiting = partition.wait_durable()
        await disk.sync_has_begun()
        disk.gated = False
        if how == "purge":
            partition.purge(1)
            append(partition)
        else:
            partition.delete()
        disk.allowed.release(10)
        await waiting
        if how == "purge":
            assert partition.visible_next_offset == 0
            await partition.wait_durable()
            assert partition.visible_next_offset == 1
        else:
            again = open_partition(disk, syncer, PERSISTED, incarnation=2)
            assert again.next_offset == 0
            assert again.recovery == ()

    assert run(scenario) == []


def test_a_head_that_is_being_removed_does_not_take_new_files_of_the_same_name() -> None:
    async def scenario(disk: GatedDisk, syncer: Syncer) -> None:
        options = PartitionOptions(segment_bytes=1000)
        partition = open_partition(disk, syncer, options)
        for _ in range(20):
            append(partition)
        # The first sealed segment is being synced: the background lane is busy.
        await disk.sync_has_begun()
        assert partition.delete_oldest_segments(2) == 2
        disk.gated = False
        partition.purge(1)
        append(partition)
        disk.open_gate()
        done = asyncio.Event()
        loop = asyncio.get_running_loop()
        syncer.in_background(lambda: loop.call_soon_threadsafe(done.set) and None)
        await done.wait()
        assert disk.exists(f"{FOLDER}/{0:020d}.log")
        assert len(read(partition.poll(LAST, 5, bytes_max=1000))) == 1

    assert run(scenario) == []


def test_files_are_held_while_they_are_synced() -> None:
    held: list[str] = []

    class Held(SimulatedFile):
        def hold(self) -> None:
            held.append(self.path)
            super().hold()

        def release(self) -> None:
            held.remove(self.path)

    class HeldDisk(GatedDisk):
        def open(self, path: str, *, create: bool = False) -> SimulatedFile:
            super().open(path, create=create)
            return Held(self, path)

    async def body() -> None:
        disk = HeldDisk()
        disk.make_folders("/data")
        syncer = Syncer(disk, lambda failure: None)
        partition = open_partition(disk, syncer, PERSISTED)
        append(partition)
        waiting = partition.wait_durable()
        await disk.sync_has_begun()
        assert held == [f"{FOLDER}/{0:020d}.log", f"{FOLDER}/life"]
        disk.open_gate()
        await waiting
        assert held == []
        syncer.close()

    asyncio.run(body())

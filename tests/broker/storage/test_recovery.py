"""Starting after stops of all kinds: what is served, what is cut, what is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iggy_broker.errors import Reject
from iggy_broker.storage import layout
from iggy_broker.storage.consumer_offsets import ConsumerKey
from iggy_broker.storage.cutting import DecisionKind
from iggy_broker.storage.disk import StorageFailed
from storage_cases import FOLDER, LAST, disk_of, killed, simulated_world, three_batches

LOG_0 = layout.log_path(FOLDER, 0)


def test_a_clean_stop_opens_without_reading_the_log() -> None:
    world = simulated_world()
    for _ in range(100):
        world.append(3, 2000)
    world.partition.close()
    disk = disk_of(world)
    for path, node in disk.entries.items():
        if path.endswith(".log") and path != world.partition.log.segments[-1].path:
            node.data[300:310] = b"x" * 10  # nobody looks there at start

    partition = world.open()

    assert partition.recovery == ()
    assert partition.next_offset == 300
    assert not any(segment.index_is_loaded for segment in partition.log.segments)
    assert world.poll(LAST, 10) == world.stored[-10:]


def test_a_stale_marker_is_not_believed() -> None:
    world, _ = three_batches()
    world.partition.close()
    marker = disk_of(world).read_file(f"{FOLDER}/{layout.CLEAN_FILE}", bytes_max=1 << 20)
    world.open()
    world.partition.purge(1)
    world.stored = []
    world.counter = 0
    world.clock.time_us += 50
    for count in (3, 2, 4):  # the same bytes but for the time
        world.append(count)
    disk = killed(world)
    disk.write_file(f"{FOLDER}/{layout.CLEAN_FILE}", marker, sync=False)

    world.restart(disk)

    assert world.everything() == world.stored
    assert world.partition.log.last_timestamp_us == world.stored[-1].timestamp_us


def test_purge_and_delete_work_on_a_full_disk() -> None:
    world, _ = three_batches()
    disk = disk_of(world)
    disk.capacity_bytes = disk.used_bytes()

    world.partition.purge(1)
    world.stored = []
    assert world.append(1) == 0
    disk.capacity_bytes = disk.used_bytes()
    world.partition.delete()

    assert disk.used_bytes() == 0
    with pytest.raises(Reject, match="was deleted"):
        world.partition.append(memoryview(world.batch(1)))


def test_an_offset_drawn_back_stays_back_when_the_data_grows_again() -> None:
    world = simulated_world()
    key = ConsumerKey(1, 4)
    world.append(3)
    world.partition.sync_now()
    world.append(7)
    world.partition.store_offset(key, 9)
    disk = killed(world)
    disk.open(LOG_0).truncate(disk.open(LOG_0).size() - 1)
    partition = world.restart(disk)
    assert partition.next_offset == 3
    world.stored = world.stored[:3]
    world.append(20)
    partition.sync_now()

    after = world.restart(disk_of(world).crash(power_cut=True))

    assert after.offsets.get(key) == 2
    assert world.everything() == world.stored


def test_start_works_on_a_full_disk() -> None:
    world, start = three_batches()
    disk = killed(world)
    disk.open(LOG_0).truncate(start + 300)
    disk.capacity_bytes = disk.used_bytes()

    partition = world.restart(disk)

    assert partition.next_offset == 5
    (decision,) = partition.recovery
    assert (decision.cut_bytes, decision.kept_bytes) == (300, 0)
    assert "kept nowhere" in str(decision)
    assert world.everything() == world.stored[:5]


def test_a_folder_removed_by_hand_is_named_and_starts_empty() -> None:
    world, _ = three_batches()
    disk = killed(world)
    disk.remove_tree(FOLDER)

    partition = world.restart(disk)

    assert [decision.kind for decision in partition.recovery] == [DecisionKind.FOLDER_MISSING]
    world.stored = []
    assert world.append(1) == 0
    assert world.everything() == world.stored


def test_a_folder_of_another_life_is_set_aside() -> None:
    world, _ = three_batches()
    world.partition.close()
    world.place = replace(world.place, incarnation=2)

    partition = world.open()

    assert [decision.kind for decision in partition.recovery] == [DecisionKind.FOLDER_SET_ASIDE]
    assert partition.next_offset == 0
    aside = [n for n in disk_of(world).list_folder(FOLDER.rpartition("/")[0]) if "stale-1" in n]
    assert len(aside) == 1


def test_a_purge_that_only_metadata_knows_is_finished_at_start() -> None:
    world, _ = three_batches()
    world.partition.close()
    world.place = replace(world.place, purges=1)

    partition = world.open()

    assert [decision.kind for decision in partition.recovery] == [DecisionKind.PURGE_FINISHED]
    assert partition.next_offset == 0
    world.stored = []
    world.append(1)
    assert world.reopen().recovery == ()
    assert world.everything() == world.stored


def test_foreign_files_are_named_and_left_alone() -> None:
    world, _ = three_batches()
    world.partition.close()
    disk = disk_of(world)
    for name in (".DS_Store", "segment-0.log", "0.idx", "00000000000000000007.index"):
        disk.write_file(f"{FOLDER}/{name}", b"hello", sync=False)

    partition = world.open()

    named = {decision.why.split()[0] for decision in partition.recovery}
    assert named == {".DS_Store", "segment-0.log", "0.idx"}
    assert disk.exists(f"{FOLDER}/segment-0.log")
    assert not disk.exists(f"{FOLDER}/00000000000000000007.index")  # of no log: ours, useless
    assert world.everything() == world.stored


def test_a_recovery_that_cannot_sync_stops_the_shard() -> None:
    world, _ = three_batches()
    disk = killed(world)
    disk.failing_syncs = 1
    with pytest.raises(StorageFailed, match="life: sync failed"):
        world.restart(disk)

    disk.open(f"{FOLDER}/{layout.LIFE_FILE}").sync()
    disk.open(f"{FOLDER}/{layout.CLEAN_FILE}", create=True)  # of no use, but life is not synced now
    disk.failing_syncs = 1
    with pytest.raises(StorageFailed, match="cannot be synced"):
        world.restart(disk)


@pytest.mark.parametrize("persisted", [True, False])
def test_after_a_failed_sync_the_next_start_writes_unsynced_bytes_again(persisted: bool) -> None:
    world = simulated_world(persisted=persisted)
    world.append(1)
    world.partition.sync_now()
    world.append(3)
    disk_of(world).failing_syncs = 1
    work = world.partition.begin_sync(checkpoint=False)
    assert work is not None
    with pytest.raises(OSError, match="input/output error"):
        work.run(world.disk)  # of the log: its pages are lost, and look written
    world.restart(killed(world))
    assert world.partition.visible_next_offset == 4  # shown, so it must stay
    world.append(2)
    world.partition.sync_now()

    world.restart(disk_of(world).crash(power_cut=True))

    assert world.everything() == world.stored


def test_only_what_came_after_the_last_sync_is_read_at_start() -> None:
    world = simulated_world(segment_bytes=1 << 30)
    for _ in range(50):
        world.append(1, 100_000)
    world.partition.sync_now()
    world.append(1)
    disk = killed(world)
    reads: list[int] = []
    real_read = type(disk.open(LOG_0)).read

    def counted(self: object, size_bytes: int, position: int) -> bytes:
        data = real_read(self, size_bytes, position)  # type: ignore[arg-type]
        reads.append(len(data))
        return data

    type(disk.open(LOG_0)).read = counted  # type: ignore[method-assign]
    try:
        world.restart(disk)
    finally:
        type(disk.open(LOG_0)).read = real_read  # type: ignore[method-assign]

    assert sum(reads) < 10_000
    assert world.everything() == world.stored


def test_an_offset_file_made_before_a_kill_keeps_its_name_once_it_is_synced() -> None:
    world = simulated_world(persisted=True, offsets_persisted=True)
    key = ConsumerKey(1, 4)
    world.append(5)
    world.partition.sync_now()
    world.partition.store_offset(key, 1)
    partition = world.restart(killed(world))  # before anybody synced the file or its folder

    partition.store_offset(key, 3)
    partition.sync_now()

    after = world.restart(disk_of(world).crash(power_cut=True))
    assert after.offsets.get(key) == 3


@pytest.mark.parametrize("seed", range(10))
def test_a_new_offset_file_in_a_folder_made_before_a_kill_can_be_found(seed: int) -> None:
    world = simulated_world(seed, persisted=True, offsets_persisted=True)
    world.append(5)
    world.partition.sync_now()
    world.partition.store_offset(ConsumerKey(1, 4), 1)
    partition = world.restart(killed(world))  # the folder exists, and only in the page cache

    partition.store_offset(ConsumerKey(1, 5), 3)
    partition.sync_now()

    after = world.restart(disk_of(world).crash(power_cut=True))
    assert after.offsets.get(ConsumerKey(1, 5)) == 3

"""A copy of a partition that changes meanwhile: it opens, without a hole, with all of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from iggy_broker.storage.copying import CopyError, copy_partition
from iggy_broker.storage.layout import LIFE_FILE
from iggy_broker.storage.partition import ConsumerKey
from simulated_disk import SimulatedDisk
from storage_cases import FOLDER, SMALL_SEGMENTS, World, disk_of, from_offset

TARGET = "/backup/0"
READER = ConsumerKey(1, 5)


class BusyDisk(SimulatedDisk):
    """Something happens to the partition whenever its copier reads."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], None] | None = None

    def reading(self, path: str) -> None:
        super().reading(path)
        work, self.meanwhile = self.meanwhile, None
        if work is not None and path.startswith(FOLDER):
            work()
        self.meanwhile = work


def busy_world() -> tuple[World, BusyDisk]:
    disk = BusyDisk()
    for folder in ("/data", "/backup"):
        disk.make_folders(folder)
    disk.settle()
    return World(disk, SMALL_SEGMENTS), disk


def fill(world: World, count: int) -> None:
    for _ in range(count):
        world.append(1, 300)


def copied(world: World) -> World:
    """What opens from a copy that is made now, after a power cut."""
    disk = disk_of(world)
    found = copy_partition(disk, FOLDER, TARGET, incarnation=1)
    assert found is not None
    assert not found.damage
    disk.sync_folder("/backup")
    disk.sync_folder("")
    copy = World.__new__(World)
    copy.__dict__.update(world.__dict__)
    copy.warnings = []
    copy.place = replace(world.place, folder=TARGET, is_new=False)
    copy.restart(disk.crash(power_cut=True))
    assert not [one for one in copy.warnings if "offset" not in one]
    assert (found.first_offset, found.next_offset) == (
        copy.partition.log.first_offset,
        copy.partition.next_offset,
    )
    assert found.size_bytes == copy.partition.log.size_bytes
    return copy


def all_of(copy: World) -> list[int]:
    found: list[int] = []
    offset = copy.partition.log.first_offset
    while step := copy.poll(from_offset(offset), 1 << 20):
        assert step == copy.stored[step[0].offset : step[-1].offset + 1]
        found += [one.offset for one in step]
        offset = found[-1] + 1
    return found


@pytest.mark.parametrize("synced", [False, True])
def test_a_copy_of_a_quiet_partition(*, synced: bool) -> None:
    world, _ = busy_world()
    fill(world, 300)
    world.partition.store_offset(READER, 250)
    if synced:
        world.partition.sync_now()
        fill(world, 40)
    copy = copied(world)
    assert all_of(copy) == list(range(len(world.stored)))
    assert copy.partition.offsets.get(READER) == 250


@pytest.mark.parametrize("seed", range(30))
def test_a_copy_while_it_is_written_to_and_trimmed(seed: int) -> None:
    world, disk = busy_world()
    fill(world, 300)
    world.partition.sync_now()
    acknowledged = len(world.stored)
    chance = random.Random(seed)

    def work() -> None:
        kind = chance.random()
        if kind < 0.6:
            fill(world, chance.randrange(1, 30))
        elif kind < 0.7:
            world.partition.drop_oldest(1)
        elif kind < 0.8:
            world.partition.sync_now()
        else:
            world.partition.store_offset(READER, world.partition.next_offset - 1)

    disk.meanwhile = work
    copy = copied(world)
    disk.meanwhile = None

    found = all_of(copy)
    assert found == list(range(found[0], found[-1] + 1))
    assert found[-1] >= acknowledged - 1
    assert found[0] <= world.partition.log.first_offset
    stored = copy.partition.offsets.get(READER)
    assert stored is None or stored <= found[-1]


def test_a_batch_that_is_half_written_is_not_in_the_copy() -> None:
    world, disk = busy_world()
    fill(world, 10)
    path = world.partition.log.segments[-1].path
    disk.entries[path].data += b"half of a batch" * 20
    assert all_of(copied(world)) == list(range(10))
    assert len(disk.entries[path].data) > world.partition.log.size_bytes  # not ours to cut


def test_a_purge_meanwhile_begins_the_copy_anew() -> None:
    world, disk = busy_world()
    fill(world, 100)

    def purge() -> None:
        disk.meanwhile = None
        world.partition.purge(1)
        world.stored.clear()
        fill(world, 3)

    reads = 0

    def later() -> None:
        nonlocal reads
        reads += 1
        if reads == 4:
            purge()

    disk.meanwhile = later
    world.place = replace(world.place, purges=1)
    copy = copied(world)
    assert [one.payload for one in copy.everything()] == [one.payload for one in world.stored]


def test_one_that_is_purged_all_the_time_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iggy_broker.storage.copying.TRY_AGAIN_S", 0)
    world, disk = busy_world()
    fill(world, 10)
    purges = 0

    def purge() -> None:
        nonlocal purges
        purges += 1
        world.partition.purge(purges)

    disk.meanwhile = purge
    with pytest.raises(CopyError, match="changes all the time"):
        copy_partition(disk, FOLDER, TARGET, incarnation=1)
    assert not disk.exists(TARGET)


def test_one_that_is_being_made_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    world, disk = busy_world()
    fill(world, 10)
    path = f"{FOLDER}/{LIFE_FILE}"
    note = disk.read_file(path, bytes_max=100)
    disk.remove(path)

    def note_it(_: float) -> None:
        disk.write_file(path, note, sync=True)

    monkeypatch.setattr("iggy_broker.storage.copying.time.sleep", note_it)
    assert all_of(copied(world)) == list(range(10))
    assert disk.exists(f"{TARGET}/{LIFE_FILE}")


def test_a_deleted_one_and_one_of_another_life_are_not_copied() -> None:
    world, disk = busy_world()
    fill(world, 100)
    assert copy_partition(disk, FOLDER, TARGET, incarnation=2) is None
    disk.meanwhile = lambda: world.partition.delete() if disk.exists(FOLDER) else None
    assert copy_partition(disk, FOLDER, TARGET, incarnation=1) is None
    assert not disk.exists(TARGET)


def test_damage_where_is_written_is_told_and_copied_as_it_is() -> None:
    world, disk = busy_world()
    fill(world, 10)
    path = world.partition.log.segments[-1].path
    disk.entries[path].data[2000] ^= 1
    found = copy_partition(disk, FOLDER, TARGET, incarnation=1)
    assert found is not None
    assert "damaged at offset" in found.damage
    assert disk.size(f"{TARGET}/{0:020d}.log") == disk.size(path)

"""A disk that refuses any one operation, or all from then on: the caller hears it, nobody dies."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from iggy_broker.errors import Reject
from iggy_broker.storage import layout
from iggy_broker.storage.cutting import DecisionKind
from iggy_broker.storage.disk import may_pass
from iggy_broker.storage.partition import ConsumerKey, PartitionOptions
from refusing_disk import RefusingDisk
from simulated_disk import Node
from storage_cases import FIRST, FOLDER, World

CONSUMER = ConsumerKey(1, 7)


def live(world: World) -> None:
    """All that a partition does. What is refused must not have happened."""
    for step in range(30):
        append(world, 1 + step % 3)
        if step % 4 == 0 and world.stored:
            store(world, CONSUMER, world.stored[-1].offset)
            store(world, ConsumerKey(2, step), world.stored[-1].offset)
        if step % 7 == 6:
            world.partition.sync_now()
        if step == 12:
            purge(world)
        if step == 20:
            forget(world, CONSUMER)
        if step in (10, 24):
            world.reopen()


def append(world: World, count: int) -> None:
    try:
        world.append(count, 900)
    except Reject:
        if not world.partition.waits:
            assert world.everything() == world.expected(FIRST, len(world.stored))


def purge(world: World) -> None:
    world.place = replace(world.place, purges=1)  # the metadata knows it first
    world.partition.purge(1)
    world.stored = []
    assert world.partition.waits or world.partition.next_offset == 0


def store(world: World, key: ConsumerKey, offset: int) -> None:
    before = None if world.partition.waits else world.partition.offsets.get(key)
    try:
        world.partition.store_offset(key, offset)
    except Reject:
        if not world.partition.waits:
            assert world.partition.offsets.get(key) == before


def forget(world: World, key: ConsumerKey) -> None:
    try:
        world.partition.delete_offset(key)
    except Reject:
        return
    assert world.partition.offsets.get(key) is None


def world_on(disk: RefusingDisk, *, persisted: bool) -> World:
    disk.entries["/data"] = Node(is_folder=True)
    disk.entries[""].names["data"] = disk.entries["/data"]
    return World(disk, PartitionOptions(segment_bytes=4000, persisted=persisted))


def changes_of_a_life() -> int:
    disk = RefusingDisk(0, 0, errno.ENOSPC)
    world = world_on(disk, persisted=False)
    live(world)
    world.partition.delete()
    return disk.changes


@pytest.mark.parametrize("persisted", [False, True])
@pytest.mark.parametrize("refusals", [1, 9, 1_000_000])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_a_refusal_at_any_change_is_only_that(code: int, refusals: int, persisted: bool) -> None:
    for refuse_at in range(0, changes_of_a_life(), 1 if refusals == 1 else 5):
        disk = RefusingDisk(refuse_at, refusals, code)
        world = world_on(disk, persisted=persisted)
        live(world)
        kept = None if world.partition.waits else dict(world.partition.offsets._offsets)

        disk.refusals = 0  # there is room again
        world.append(2)
        world.partition.sync_now()
        assert world.everything() == world.stored
        if kept is not None:
            assert world.partition.offsets._offsets == kept
        world.restart(disk.crash(power_cut=True))
        assert world.everything() == world.stored
        if kept is not None:
            assert world.partition.offsets._offsets == kept


@pytest.mark.parametrize("refusals", [1, 1_000_000])
def test_a_deleted_partition_is_never_found_by_the_next_one_of_its_number(refusals: int) -> None:
    for refuse_at in range(40):
        disk = RefusingDisk(0, 0, errno.ENOSPC)
        world = world_on(disk, persisted=False)
        for _ in range(9):
            world.append(1, 900)
        disk.refuse_at, disk.refusals = disk.changes + refuse_at, refusals
        old = world.partition
        old.delete()

        world.stored = []
        world.place = replace(world.place, incarnation=2, is_new=True)
        world.open()
        with pytest.raises(Reject, match="was deleted"):
            old.append(memoryview(world.batch(1)))
        world.restart(disk.crash(power_cut=False))
        disk.refusals = 0

        assert world.append(1) == 0
        assert world.everything() == world.stored


@pytest.mark.parametrize(
    ("name", "passes"),
    [
        *((name, True) for name in ("ENOSPC", "EDQUOT", "EFBIG", "EROFS", "EMFILE", "ENFILE")),
        *((name, False) for name in ("EIO", "EACCES", "EPERM", "ENOENT")),
    ],
)
def test_what_a_disk_may_take_another_time(name: str, passes: bool) -> None:
    assert may_pass(OSError(getattr(errno, name), name)) is passes


@pytest.mark.parametrize("refuse_at", range(8))
def test_a_torn_tail_is_not_thrown_away_for_want_of_descriptors(refuse_at: int) -> None:
    disk = RefusingDisk(0, 0, errno.EMFILE)
    world = world_on(disk, persisted=False)
    world.append(3)
    path = layout.log_path(FOLDER, 0)
    disk.open(path).write(b"torn" * 100, disk.size(path))
    disk.refuse_at, disk.refusals = disk.changes + refuse_at, 1

    partition = world.restart(disk)

    assert not partition.waits or partition.open_again()
    cut = [one for one in partition.recovery if one.kind is DecisionKind.TAIL_CUT]
    assert [(one.cut_bytes, one.kept_bytes) for one in cut] == [(400, 400)]
    assert world.everything() == world.stored

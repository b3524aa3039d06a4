"""A disk that cannot read something now: whoever needs it is refused, and nothing else follows."""

from __future__ import annotations

import contextlib
import errno
import itertools
from dataclasses import replace

import pytest

from iggy_broker.errors import Reject
from iggy_broker.storage.disk import StorageFailed
from iggy_broker.storage.partition import ConsumerKey
from simulated_disk import SimulatedDisk
from storage_cases import FOLDER, NEW_PLACE, NEXT, World, read, simulated_world

READER = ConsumerKey(1, 7)


def stopped_world(segment_bytes: int = 64 * 1024) -> tuple[World, SimulatedDisk]:
    """Forty messages, of which a reader has passed ten; a clean stop and a start."""
    world = simulated_world(segment_bytes=segment_bytes)
    for _ in range(40):
        world.append(1, 300)
    world.partition.store_offset(READER, 9)
    world.reopen()
    assert isinstance(world.disk, SimulatedDisk)
    return world, world.disk


def test_an_offset_that_cannot_be_read_is_not_taken_for_absent() -> None:
    world, disk = stopped_world()
    disk.failing_reads = 2  # when all are loaded, and when this one is asked for

    with pytest.raises(Reject, match="CANNOT_READ_CONSUMER_OFFSETS"):
        world.partition.poll(NEXT, 1, bytes_max=1000, consumer=READER)
    again = world.partition.poll(NEXT, 1, bytes_max=1000, consumer=READER)

    assert [message.offset for message in read(again)] == [10]


def test_no_segment_goes_while_an_offset_cannot_be_read() -> None:
    world, disk = stopped_world(segment_bytes=2000)
    disk.failing_reads = 2

    assert world.partition.delete_oldest_segments(100) == 0
    assert world.partition.log.first_offset == 0
    assert world.partition.trim() > 0

    assert 0 < world.partition.log.first_offset <= 10


def test_an_offset_that_cannot_be_read_can_be_stored_anew_or_deleted() -> None:
    world, disk = stopped_world()
    disk.failing_reads = 1
    assert len(world.partition.offsets) == 1
    world.partition.store_offset(READER, 20)
    assert world.reopen().offsets.get(READER) == 20

    world.reopen()
    disk.failing_reads = 1
    assert len(world.partition.offsets) == 1
    world.partition.delete_offset(READER)

    assert world.reopen().offsets.get(READER) is None


def failing(
    disk: SimulatedDisk, operation: str, monkeypatch: pytest.MonkeyPatch, *, ending: str
) -> None:
    """Let an operation fail on paths that end so, until `monkeypatch.undo`."""
    real = getattr(disk, operation)

    def fails(where: object, *args: object) -> object:
        path = where if isinstance(where, str) else disk_path(disk, where)
        if path.endswith(ending):
            raise OSError(errno.EIO, "input/output error")
        return real(where, *args)

    monkeypatch.setattr(disk, operation, fails)


def disk_path(disk: SimulatedDisk, node: object) -> str:
    return next((path for path, one in disk.entries.items() if one is node), "")


def test_a_folder_of_offsets_that_cannot_be_listed_is_not_taken_for_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, disk = stopped_world(segment_bytes=2000)
    failing(disk, "list_folder", monkeypatch, ending="/consumers")

    for ask in (
        lambda: world.partition.poll(NEXT, 1, bytes_max=1000, consumer=READER),
        lambda: world.partition.offsets.get(READER),
        lambda: world.partition.delete_offset(READER),
    ):
        with pytest.raises(Reject, match="CANNOT_READ_CONSUMER_OFFSETS"):
            ask()
    assert world.partition.delete_oldest_segments(100) == 0
    stored = ConsumerKey(1, 8), ConsumerKey(2, 8)
    world.partition.store_offset(stored[0], 30)
    world.partition.store_offset(stored[1], 31)
    monkeypatch.undo()

    asked = [world.partition.offsets.get(key) for key in (READER, *stored)]
    assert asked == [9, 30, 31]
    assert world.partition.trim() > 0


def test_a_deleted_group_is_gone_also_where_its_offset_could_not_be_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group = ConsumerKey(2, 3)
    world, disk = stopped_world()
    world.partition.store_offset(group, 5)
    world.reopen()
    failing(disk, "list_folder", monkeypatch, ending="/groups")
    assert len(world.partition.offsets) == 1

    world.partition.offsets.delete_if_stored(group)
    monkeypatch.undo()

    assert world.partition.offsets.get(group) is None


def test_an_offset_that_cannot_be_read_outlives_a_refused_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, disk = stopped_world()
    disk.failing_reads = 1
    assert len(world.partition.offsets) == 1
    failing(disk, "write", monkeypatch, ending="/7")

    with pytest.raises(Reject, match="CANNOT_OPEN_CONSUMER_OFFSETS_FILE"):
        world.partition.store_offset(READER, 20)
    monkeypatch.undo()

    assert world.partition.offsets.get(READER) == 9


def test_a_send_is_refused_while_the_index_cannot_be_read() -> None:
    world, disk = stopped_world()
    disk.failing_reads = 1

    with pytest.raises(Reject, match="CANNOT_APPEND_MESSAGE"):
        world.partition.append(memoryview(world.batch(1)))

    assert world.append(1) == 40
    assert world.everything() == world.stored


def test_a_new_partition_sets_aside_a_folder_that_cannot_be_read() -> None:
    world, disk = stopped_world()
    disk.failing_reads = 1

    world.place = replace(NEW_PLACE, incarnation=2)
    world.stored = []
    partition = world.open()

    assert partition.next_offset == 0
    assert disk.exists(f"{FOLDER}.stale-unknown-0")


def test_a_partition_of_old_does_not_open_as_long_as_its_note_cannot_be_read() -> None:
    world, disk = stopped_world()
    world.partition.abandon()
    disk.failing_reads = 1

    with pytest.raises(OSError, match="input/output error"):
        world.open()

    world.open()
    assert world.everything() == world.stored


@pytest.mark.parametrize("number", range(8))
@pytest.mark.parametrize("operation", ["sync_folder", "sync", "reading"])
def test_a_torn_tail_is_not_thrown_away_because_the_disk_fails(
    operation: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = simulated_world()
    world.append(1, 300)
    assert isinstance(world.disk, SimulatedDisk)
    log = world.disk.open(f"{FOLDER}/{0:020d}.log")
    torn = bytes(world.batch(1, 300))[:400]
    log.write(torn, log.size())
    disk = world.disk.crash(power_cut=False)
    calls, real = itertools.count(), getattr(disk, operation)

    def fails_once(*args: object) -> object:
        if next(calls) == number:
            raise OSError(errno.EIO, "input/output error")
        return real(*args)

    monkeypatch.setattr(disk, operation, fails_once)
    with contextlib.suppress(OSError, StorageFailed):
        world.restart(disk)
    monkeypatch.undo()
    world.restart(disk.crash(power_cut=False))

    assert world.everything() == world.stored
    after = world.disk
    assert isinstance(after, SimulatedDisk)
    cut = [path for path in after.entries if "/cut/" in path and not after.is_folder(path)]
    assert torn in [after.read_file(path, bytes_max=1000) for path in cut]


def killed_world() -> tuple[World, SimulatedDisk]:
    """Three messages that are synced and noted, a kill and a start."""
    world = simulated_world()
    for _ in range(3):
        world.append(1, 300)
    world.partition.sync_now()
    assert isinstance(world.disk, SimulatedDisk)
    disk = world.disk.crash(power_cut=False)
    return world, disk


def test_a_clean_stop_without_reading_the_end_of_the_log_leaves_no_marker() -> None:
    world, disk = killed_world()
    world.restart(disk)
    disk.failing_reads = 1

    world.partition.close()

    assert not disk.exists(f"{FOLDER}/clean")
    assert "no clean-stop marker" in world.warnings[-1]
    world.open()
    assert world.everything() == world.stored


def test_a_clean_stop_of_a_log_that_rotted_at_its_beginning_is_one() -> None:
    world, disk = killed_world()
    disk.entries[f"{FOLDER}/{0:020d}.log"].data[0:64] = bytes(64)
    world.restart(disk)
    assert world.everything() == []

    world.partition.close()

    world.open()
    assert world.everything() == []
    assert world.partition.next_offset == 3


def test_a_partition_that_waits_for_room_waits_on_while_the_disk_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = simulated_world()
    assert isinstance(world.disk, SimulatedDisk)
    disk, world.place = world.disk, replace(NEW_PLACE, folder=f"{FOLDER}9", slot=1)
    disk.capacity_bytes = disk.used_bytes()
    waiting = world.open()
    assert waiting.waits
    disk.capacity_bytes = None
    failing(disk, "make_folders", monkeypatch, ending="9")

    with pytest.raises(Reject, match=r"CANNOT_OPEN_PARTITION_LOG_FILE.*input/output error"):
        waiting.append(memoryview(world.batch(1)))
    assert not waiting.open_again()
    monkeypatch.undo()

    assert world.append(1) == 0

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

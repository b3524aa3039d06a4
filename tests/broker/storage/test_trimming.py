"""Segments that are to go when everybody has read them: remembered, restarted, purged, damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from iggy_broker.storage.disk import RealDisk
from iggy_broker.storage.partition import ConsumerKey, PartitionOptions, PartitionPlace
from storage_cases import World, simulated_world

READER, LATER = ConsumerKey(1, 1), ConsumerKey(2, 1)


def real_world(tmp_path: Path) -> World:
    place = PartitionPlace(str(tmp_path / "0"), 0, 0, incarnation=1, is_new=True)
    return World(RealDisk(), PartitionOptions(segment_bytes=5000), place)


def filled(world: World, messages: int = 20) -> World:
    for _ in range(messages):
        world.append(1, 2000)  # three in a segment of 5,000 bytes
    return world


def test_the_lowest_stored_offset_of_all_decides() -> None:
    world = filled(simulated_world(segment_bytes=5000))
    partition = world.partition
    partition.store_offset(READER, 7)
    partition.store_offset(LATER, 1)
    assert partition.delete_oldest_segments(2) == 0
    assert partition.trimming.waits
    partition.store_offset(LATER, 2)
    assert partition.trim() == 1
    partition.store_offset(LATER, 19)
    assert partition.trim() == 1
    assert partition.log.first_offset == 6
    assert not partition.trimming.waits
    assert partition.trim() == 0, "what was not asked for stays"


def test_nothing_stored_is_no_barrier_and_the_last_segment_stays() -> None:
    world = filled(simulated_world(segment_bytes=5000))
    assert world.partition.delete_oldest_segments(0) == 0
    assert world.partition.delete_oldest_segments(100) == 6
    assert world.partition.log.first_offset == 18
    assert not world.partition.trimming.waits


def test_what_was_asked_for_survives_a_restart_and_not_a_purge(tmp_path: Path) -> None:
    world = filled(real_world(tmp_path))
    world.partition.store_offset(READER, 0)
    assert world.partition.delete_oldest_segments(2) == 0
    assert world.partition.delete_oldest_segments(1) == 0, "a smaller wish takes nothing back"
    world.reopen()
    assert world.partition.trimming.waits
    world.partition.store_offset(READER, 19)
    assert world.partition.trim() == 2

    world.partition.store_offset(READER, 7)
    assert world.partition.delete_oldest_segments(2) == 0
    world.partition.purge(1)
    assert not world.partition.trimming.waits
    assert not (Path(world.place.folder) / "trim").exists()


@pytest.mark.parametrize("damage", [b"", b"IKtr", b"IKtr" + bytes(16), b"x" * 4096])
def test_a_damaged_note_deletes_nothing(tmp_path: Path, damage: bytes) -> None:
    world = filled(real_world(tmp_path))
    world.partition.store_offset(READER, 0)
    world.partition.delete_oldest_segments(2)
    (Path(world.place.folder) / "trim").write_bytes(damage)
    world.reopen()
    world.partition.store_offset(READER, 19)
    assert world.partition.trim() == 0


def test_a_stop_after_a_deletion_leaves_a_marker_that_fits(tmp_path: Path) -> None:
    world = filled(real_world(tmp_path))
    world.reopen()

    assert world.partition.delete_oldest_segments(1) == 1

    assert world.reopen().recovery == ()
    assert world.reopen().recovery == ()

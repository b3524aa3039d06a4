"""Folders go out of sight at once; what a stop left over goes at the next start."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from iggy_broker.storage import layout
from iggy_broker.storage.disk import RealDisk
from iggy_broker.storage.removal import (
    HeadRemoval,
    move_away,
    remove_leftovers,
    remove_moved,
    take_away,
)
from simulated_disk import SimulatedDisk

ROUNDS = 300
PASSES = 8


def test_leftovers_of_every_level_are_removed_and_nothing_else(tmp_path: Path) -> None:
    disk, root = RealDisk(), str(tmp_path)
    for stream, topic, partition in [(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0), (2, 0, 0)]:
        disk.make_folders(layout.partition_folder(root, stream, topic, partition))
    disk.make_folders(f"{root}/streams/0/topics/0/partitions/0.stale-5-0")
    disk.make_folders(f"{root}/streams/foreign")
    assert move_away(disk, layout.partition_folder(root, 0, 0, 1)).endswith("1.deleted-0")
    move_away(disk, layout.topic_folder(root, 0, 1))
    move_away(disk, layout.stream_folder(root, 2))
    assert move_away(disk, layout.stream_folder(root, 9)) == ""

    remove_leftovers(disk, root)

    for empty in (layout.topic_folder(root, 3, 0), f"{root}/streams/4/topics"):
        disk.make_folders(empty)
    remove_leftovers(disk, root)

    assert disk.list_folder(f"{root}/streams") == ["0", "1", "foreign"]
    assert disk.list_folder(f"{root}/streams/0/topics") == ["0"]
    assert disk.list_folder(f"{root}/streams/0/topics/0/partitions") == ["0", "0.stale-5-0"]


def test_the_last_partition_takes_the_folders_above_along(tmp_path: Path) -> None:
    disk, root = RealDisk(), str(tmp_path)
    folders = [layout.partition_folder(root, 1, topic, 0) for topic in (0, 2)]
    for folder in folders:
        disk.make_folders(folder)

    assert take_away(disk, folders[0], None) == ""
    assert disk.list_folder(f"{root}/streams/1/topics") == ["2"]
    assert take_away(disk, folders[1], None) == ""
    assert disk.list_folder(f"{root}/streams") == []


def test_a_folder_is_made_while_another_shard_removes_its_empty_parents(tmp_path: Path) -> None:
    disk, root = RealDisk(), str(tmp_path)

    def remove_parents() -> None:
        for parent in layout.parents_of(layout.partition_folder(root, 0, 0, 0))[:4]:
            disk.remove_empty(parent)

    with ThreadPoolExecutor(1) as other:
        for number in range(ROUNDS):
            passes = [other.submit(remove_parents) for _ in range(PASSES)]  # one for each deletion
            folder = layout.partition_folder(root, 0, 0, number % 2)
            disk.make_folders(folder)
            assert disk.is_folder(folder)
            if number % 50:
                disk.remove_empty(folder)
            else:
                remove_moved(disk, move_away(disk, folder))
            for one in passes:
                one.result()
    remove_parents()

    assert disk.list_folder(f"{root}/streams") == []


def test_a_head_that_the_disk_keeps_is_removed_before_anything_newer() -> None:
    disk = SimulatedDisk()
    disk.make_folders("/p")
    for first in range(4):
        disk.open(layout.log_path("/p", first), create=True)
    removal = HeadRemoval(disk, "/p", None)
    real, disk.remove = disk.remove, refuse  # type: ignore[method-assign, assignment]
    with pytest.raises(OSError, match="busy"):
        removal.remove([0, 1])
    disk.remove = real  # type: ignore[method-assign]

    removal.remove([2])

    assert disk.list_folder("/p") == [f"{3:020d}.log"]


def refuse(path: str) -> None:
    raise OSError(16, "busy", path)

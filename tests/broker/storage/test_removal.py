"""Folders go out of sight at once; what a stop left over goes at the next start."""

from __future__ import annotations

from pathlib import Path

import pytest

from iggy_broker.storage import layout
from iggy_broker.storage.disk import RealDisk
from iggy_broker.storage.removal import HeadRemoval, move_away, remove_folder, remove_leftovers
from simulated_disk import SimulatedDisk


def test_a_removed_folder_is_gone_with_all_in_it(tmp_path: Path) -> None:
    disk, folder = RealDisk(), layout.topic_folder(str(tmp_path), 1, 2)
    disk.make_folders(f"{folder}/partitions/0")
    disk.write_file(f"{folder}/partitions/0/file", b"x", sync=False)

    remove_folder(disk, folder)
    remove_folder(disk, folder)

    assert list(Path(folder).parent.iterdir()) == []


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

    assert disk.list_folder(f"{root}/streams") == ["0", "1", "foreign"]
    assert disk.list_folder(f"{root}/streams/0/topics") == ["0"]
    assert disk.list_folder(f"{root}/streams/0/topics/0/partitions") == ["0", "0.stale-5-0"]


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

"""What the disk refuses without a client hearing of it is in the log, each kind with its event."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from iggy_broker.errors import Reject
from iggy_broker.log_events import EVENTS
from iggy_broker.logs import Note
from iggy_broker.storage.partition import ConsumerKey, PartitionOptions
from refusing_disk import RefusingDisk
from simulated_disk import Node
from storage_cases import World

GROUP = ConsumerKey(2, 7)
EVERYTHING = 1_000_000


def filled() -> tuple[RefusingDisk, World]:
    """A partition of several segments, with a stored offset."""
    disk = RefusingDisk(0, 0, errno.ENOSPC)
    disk.entries["/data"] = Node(is_folder=True)
    disk.entries[""].names["data"] = disk.entries["/data"]
    world = World(disk, PartitionOptions(segment_bytes=4000))
    for _ in range(12):
        world.append(1, 900)
    world.partition.store_offset(GROUP, 1)
    return disk, world


def refuse_all(disk: RefusingDisk) -> None:
    disk.refuse_at, disk.refusals = disk.changes, EVERYTHING


def events(world: World) -> Iterator[str]:
    for warning in world.warnings:
        assert isinstance(warning, Note), warning
        assert warning.event in EVENTS
        yield warning.event


def send(disk: RefusingDisk, world: World) -> None:
    refuse_all(disk)
    for _ in range(3):
        with pytest.raises(Reject):
            world.append(1)


def stop(disk: RefusingDisk, world: World) -> None:
    refuse_all(disk)
    world.partition.close()


def trim(disk: RefusingDisk, world: World) -> None:
    refuse_all(disk)
    world.partition.delete_oldest_segments(2)  # the group has not read them: noted for later
    assert world.partition.trimming.waits


def draw_back(disk: RefusingDisk, world: World) -> None:
    world.partition.store_offset(GROUP, 11)
    world.partition.sync_now()
    path = next(path for path in disk.entries if path.endswith("/offsets/groups/7"))
    disk.open(path).write((99).to_bytes(8, "little"), 0)
    disk.open(path).truncate(8)
    refuse_all(disk)
    world.restart(disk)
    assert world.partition.offsets.get(GROUP) == 11


def delete(disk: RefusingDisk, world: World) -> None:
    refuse_all(disk)
    world.partition.delete()


def purge_and_open(disk: RefusingDisk, world: World) -> None:
    refuse_all(disk)
    world.place = replace(world.place, purges=1)
    world.partition.purge(1)
    assert world.partition.waits
    disk.refusals = 0
    assert world.partition.open_again()


@pytest.mark.parametrize(
    ("what", "event"),
    [
        (send, "sends_refused"),
        (stop, "marker_not_written"),
        (trim, "trim_not_noted"),
        (draw_back, "offset_not_written"),
        (delete, "folder_kept"),
        (purge_and_open, "partition_opened"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_refusal_that_nobody_else_hears_of_is_told_once(
    what: Callable[[RefusingDisk, World], None], event: str
) -> None:
    disk, world = filled()

    what(disk, world)

    assert list(events(world)).count(event) == 1

"""Metadata made anew from folders: what is adopted, under which names, and what is not."""

from __future__ import annotations

import itertools

import pytest

from iggy_broker.metadata import changes, journal
from iggy_broker.metadata.apply import apply
from iggy_broker.metadata.changes import AnyChange, Entry
from iggy_broker.metadata.info import info_path, write_info
from iggy_broker.metadata.model import State
from iggy_broker.metadata.recreate import recreate, tell_unknown
from iggy_broker.metadata.snapshot import MetadataNewer
from iggy_broker.storage.layout import partition_folder
from iggy_broker.storage.life import write_life
from iggy_broker.storage.records import Life
from iggy_wire.options import make_options
from simulated_disk import Crashed, SimulatedDisk

ROOT = "/volume/data"
PERSISTED = make_options({"durability": "persisted"})
MADE: tuple[AnyChange, ...] = (
    changes.CreateRoot("iggy", "hash"),
    changes.CreateStream("orders"),
    changes.CreateTopic("orders", "new", 2, PERSISTED),
    changes.CreateGroup("orders", "new", "billing"),
    changes.CreateStream("gone"),
    changes.CreateTopic("gone", "old", 1),
    changes.DeleteStream("gone"),
    changes.CreateStream("events"),
    changes.CreateTopic("events", "clicks", 1),
    changes.PurgeTopic("events", "clicks"),
)


def after(*made: AnyChange) -> State:
    state = State()
    for op, change in enumerate(made, 1):
        state = apply(state, Entry(op, 100 + op, 0, change)).state
    return state


def disk_with(state: State, *, info: bool = True, metadata: bool = True) -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_folders(ROOT)
    for placed in state.placed():
        folder = partition_folder(ROOT, placed.stream_id, placed.topic_id, placed.partition.id)
        disk.make_folders(folder)
        life = Life(placed.partition.incarnation, placed.partition.purges, purging=False)
        write_life(disk, folder, life, sync=True)
    if info:
        assert write_info(disk, ROOT, state)
    if metadata:
        journal.start_anew(ROOT, state, disk=disk)
    disk.settle()
    return disk


def loaded(disk: SimulatedDisk) -> State:
    return journal.load(ROOT, disk=disk, entries_max=10).state


def events(notes: list[str]) -> list[str]:
    return [getattr(note, "event", "") for note in notes]


def streams_but_for_users(state: State) -> tuple[object, ...]:
    return (state.streams, state.stream_names, state.stream_ids, state.slots)


def test_metadata_that_agree_with_the_folders_stay_as_they_are() -> None:
    state = after(*MADE)
    disk = disk_with(state)
    assert recreate(disk, ROOT, now_us=1) == []
    assert tell_unknown(disk, ROOT, state) == []
    assert loaded(disk) == state


def test_a_new_directory_stays_new() -> None:
    disk = disk_with(State(), info=False, metadata=False)
    assert recreate(disk, ROOT, now_us=1) == []
    assert loaded(disk) == State()


@pytest.mark.parametrize("damage", ["missing", "snapshot", "journal", "garbage"])
def test_lost_metadata_come_back_from_info_and_folders_without_users(damage: str) -> None:
    state = after(*MADE)
    disk = disk_with(state)
    if damage == "missing":
        disk.remove_tree(f"{ROOT}/metadata")
    elif damage == "snapshot":
        disk.entries[f"{ROOT}/metadata/snapshot.bin"].data[60] ^= 1
    elif damage == "journal":
        disk.remove(f"{ROOT}/metadata/snapshot.bin")
        disk.write_file(f"{ROOT}/metadata/journal.wal", b"no journal at all", sync=True)
    else:
        disk.entries[f"{ROOT}/metadata/snapshot.bin"].data[:8] = b"\0" * 8

    told = events(recreate(disk, ROOT, now_us=1))

    found = loaded(disk)
    assert streams_but_for_users(found) == streams_but_for_users(state)
    assert found.users == {}
    assert found.op > state.op
    assert told == [*(["metadata_moved"] if damage != "missing" else []), "metadata_recreated"]
    aside = f"{ROOT}/metadata.damaged-0"
    assert disk.exists(aside) is (damage != "missing")
    assert recreate(disk, ROOT, now_us=2) == []


def test_without_info_numbers_are_names_and_lives_are_kept() -> None:
    state = after(*MADE)
    disk = disk_with(state, info=False, metadata=False)

    recreate(disk, ROOT, now_us=7)

    found = loaded(disk)
    names = [f"{s.name}/{t.name}" for s in found.streams_by_id() for t in s.topics_by_id()]
    assert names == ["stream-0/topic-0", "stream-1/topic-0"]
    lives = [(one.partition.incarnation, one.partition.purges) for one in found.placed()]
    assert lives == [(one.partition.incarnation, one.partition.purges) for one in state.placed()]


def test_an_old_info_gives_names_and_the_folders_say_which_life_they_are_of() -> None:
    before, now = after(*MADE[:6]), after(*MADE)  # stream 1 was "gone" then
    disk = disk_with(now, info=False, metadata=False)
    write_info(disk, ROOT, before)

    recreate(disk, ROOT, now_us=7)

    found = loaded(disk)
    assert found.stream("orders").topic("new").options == PERSISTED
    assert found.stream("orders").topic("new").find_group("billing") is not None
    (events_,) = found.stream("gone").topic("old").partitions
    assert (events_.incarnation, events_.purges) == (9, 1)


def test_a_gap_between_partitions_is_filled_with_empty_ones() -> None:
    disk = disk_with(State(), info=False, metadata=False)
    for number in (1, 3):
        disk.make_folders(partition_folder(ROOT, 2, 5, number))
    recreate(disk, ROOT, now_us=7)
    topic = loaded(disk).stream("stream-2").topic("topic-5")
    assert len(topic.partitions) == 4
    assert len({one.slot for one in topic.partitions}) == 4


def test_folders_beside_readable_metadata_are_adopted_unless_they_were_deleted() -> None:
    state = after(*MADE)
    disk = disk_with(state)
    new, copied, deleted = (
        partition_folder(ROOT, *place) for place in ((0, 0, 2), (7, 0, 0), (0, 3, 0))
    )
    for folder, incarnation in ((new, state.op + 5), (copied, 0), (deleted, 3)):
        disk.make_folders(folder)
        if incarnation:
            write_life(disk, folder, Life(incarnation, 0, purging=False), sync=True)
    disk.make_folders(f"{ROOT}/streams/0/topics/0/partitions/07")  # not ours
    disk.make_folders(f"{ROOT}/streams/0/topics/0/partitions/9999999999")

    assert events(tell_unknown(disk, ROOT, state)) == ["folder_unknown"] * 3
    notes = recreate(disk, ROOT, now_us=7)

    assert events(notes) == [
        "folder_unknown",
        "folder_adopted",
        "folder_adopted",
        "metadata_recreated",
    ]
    assert deleted in notes[0]
    found = loaded(disk)
    assert len(found.stream("orders").topic("new").partitions) == 3
    assert found.stream("stream-7").topic("topic-0").partitions[0].incarnation > state.op + 5
    assert found.users == state.users
    assert found.stream("events") == state.stream("events")


def test_metadata_of_a_newer_broker_are_not_moved_away() -> None:
    disk = disk_with(after(*MADE))
    disk.entries[f"{ROOT}/metadata/snapshot.bin"].data[8] = 200
    with pytest.raises(MetadataNewer):
        recreate(disk, ROOT, now_us=1)
    assert disk.exists(f"{ROOT}/metadata/snapshot.bin")


def test_a_damaged_info_is_no_harm() -> None:
    disk = disk_with(after(*MADE), metadata=False)
    disk.entries[info_path(ROOT)].data[-1] ^= 1
    recreate(disk, ROOT, now_us=1)
    assert "stream-0" in loaded(disk).stream_names


@pytest.mark.parametrize("power_cut", [False, True])
def test_a_crash_anywhere_is_made_good_by_the_next_start(*, power_cut: bool) -> None:
    state = after(*MADE)
    for crash_at in itertools.count():
        disk = disk_with(state)
        disk.entries[f"{ROOT}/metadata/snapshot.bin"].data[60] ^= 1
        disk.operations, disk.crash_at = 0, crash_at
        try:
            recreate(disk, ROOT, now_us=1)
        except Crashed:
            crashed = True
        else:
            crashed = False
        left = disk.crash(power_cut=power_cut)
        recreate(left, ROOT, now_us=2)
        assert streams_but_for_users(loaded(left)) == streams_but_for_users(state)
        if not crashed:
            return

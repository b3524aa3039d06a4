"""Metadata and stored offsets in the archive, and whose archive it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from archived_topic import CONTINUOUS, ArchivedTopic, Crashed, MemoryStore
from cleaned_topic import READER
from iggy_broker.archive.owner import (
    OWNER_FILE,
    Claim,
    NotOurs,
    NotThere,
    claim,
    judge,
    prepare,
    read_note,
    read_owner,
    successor,
    write_note,
)
from iggy_broker.archive.state_objects import Owner, StoredOffsets, encode
from iggy_broker.archive.store import ArchiveError
from iggy_broker.metadata import changes
from iggy_broker.metadata.snapshot import decode_snapshot, encode_snapshot
from iggy_broker.storage.consumer_offsets import ConsumerKey
from iggy_wire.archive import METADATA_KEY, OWNER_KEY, is_state
from simulated_disk import SimulatedDisk

GROUP = ConsumerKey(2, 7)
OFFSETS_KEY = "streams/0/topics/0/partitions/0/offsets.json"
OPERATIONS = 12
"""Of a disk, from nothing to an archive that has its owner."""


def copy_state(topic: ArchivedTopic) -> None:
    asyncio.run(topic.archiver.state_pass())


def offsets(topic: ArchivedTopic) -> StoredOffsets:
    return StoredOffsets.decode(topic.store.objects[OFFSETS_KEY], OFFSETS_KEY)


@pytest.mark.parametrize("settings", [CONTINUOUS, {}], ids=["continuous", "when due"])
def test_offsets_are_replaced_when_they_change_and_not_else(settings: dict[str, str]) -> None:
    topic = ArchivedTopic(settings=settings)
    copy_state(topic)
    assert OFFSETS_KEY not in topic.store.objects

    topic.send(10)
    topic.send(10)
    topic.sync()
    topic.partition().store_offset(READER, 1)
    topic.partition().store_offset(GROUP, 0)
    copy_state(topic)
    assert (offsets(topic).consumers, offsets(topic).groups) == ({1: 1}, {7: 0})
    assert offsets(topic).incarnation == topic.partition().place.incarnation

    stored_bytes = topic.store.stored_bytes
    copy_state(topic)
    assert topic.store.stored_bytes == stored_bytes

    topic.restart()
    topic.partition().delete_offset(READER)
    copy_state(topic)
    assert (offsets(topic).consumers, offsets(topic).groups) == ({}, {})


def test_metadata_are_replaced_when_they_change_and_not_else() -> None:
    topic = ArchivedTopic()
    copy_state(topic)
    assert decode_snapshot(topic.store.objects[METADATA_KEY], METADATA_KEY) == topic.state
    stored_bytes = topic.store.stored_bytes
    copy_state(topic)
    assert topic.store.stored_bytes == stored_bytes

    topic.change(changes.CreateStream("another"))
    copy_state(topic)
    assert topic.store.objects[METADATA_KEY] == encode_snapshot(topic.state)
    assert list(topic.store.objects) == [METADATA_KEY]


def test_earlier_metadata_stay_when_that_is_wanted() -> None:
    topic = ArchivedTopic(settings={"IGGY_DATA_MAINTENANCE_STATE_OVERWRITE": "false"})
    copy_state(topic)
    topic.clock.pass_s(1)
    topic.change(changes.CreateStream("another"))
    copy_state(topic)
    kept = [key for key in topic.store.objects if key != METADATA_KEY]
    assert len(kept) == 2
    assert all(is_state(key) for key in kept)
    assert topic.store.objects[kept[1]] == topic.store.objects[METADATA_KEY]


def test_what_cannot_be_copied_is_copied_later() -> None:
    topic = ArchivedTopic()
    topic.send(10)
    topic.partition().store_offset(READER, 0)
    topic.store.is_down = True
    copy_state(topic)
    assert topic.counters_of.archiver_failing == 1
    topic.store.is_down = False
    topic.clock.pass_s(60)
    copy_state(topic)
    assert topic.counters_of.archiver_failing == 0
    assert offsets(topic).consumers == {1: 0}


# -- the owner ---------------------------------------------------------------------------------


def owner(number: int, generation: int) -> Owner:
    return Owner(id=f"{number:032x}", generation=generation)


def settled(one: Owner) -> Owner:
    return replace(one, is_settled=True)


@pytest.mark.parametrize(
    ("ours", "there", "verdict"),
    [
        (None, None, Claim.TAKE),
        (owner(1, 1), None, Claim.TAKE),
        (settled(owner(1, 1)), None, Claim.AWAY),
        (settled(owner(2, 2)), owner(1, 1), Claim.TAKE),
        (owner(1, 1), owner(1, 1), Claim.OURS),
        (owner(2, 2), owner(1, 1), Claim.TAKE),
        (owner(1, 1), owner(2, 2), Claim.TAKEN),
        (owner(2, 2), owner(3, 2), Claim.TAKEN),
        (None, owner(1, 1), Claim.TAKEN),
    ],
)
def test_of_two_directories_the_later_one_has_the_archive(
    ours: Owner | None, there: Owner | None, verdict: Claim
) -> None:
    assert judge(ours, there) is verdict


def test_an_archive_goes_from_one_directory_to_the_next() -> None:
    store, former, next_one, stranger = MemoryStore(), *(new_disk() for _ in range(3))
    take: Callable[[SimulatedDisk], None] = lambda disk: claim(store, disk, "/data", now_us=5)  # noqa: E731
    take(former)
    take(former)
    there = read_owner(store)
    assert there is not None
    assert read_note(former, "/data") == settled(there)
    with pytest.raises(NotOurs, match="another data directory"):
        take(stranger)
    assert read_note(stranger, "/data") is None

    write_note(next_one, "/data", successor(read_owner(store), now_us=6))
    take(former)
    take(next_one)
    with pytest.raises(NotOurs, match="generation 2"):
        take(former)


def test_an_empty_place_is_taken_only_by_who_has_given_up_another() -> None:
    store, disk = MemoryStore(), new_disk()
    claim(store, disk, "/data", now_us=5)
    had = read_note(disk, "/data")
    assert had is not None
    store.objects.clear()
    for abandoned in ("", f"{7:032x}"):
        with pytest.raises(NotThere, match=f"abandoned to {had.id}"):
            claim(store, disk, "/data", now_us=6, abandoned=abandoned)
    assert store.objects == {}

    claim(store, disk, "/data", now_us=7, abandoned=had.id)
    claim(store, disk, "/data", now_us=8, abandoned=had.id)
    there = read_owner(store)
    assert there is not None
    assert there.id != had.id
    store.objects.clear()
    with pytest.raises(NotThere, match=there.id):
        claim(store, disk, "/data", now_us=9, abandoned=had.id)


def test_a_restored_directory_waits_for_the_archive_it_is_from() -> None:
    store, disk = MemoryStore(), new_disk()
    write_note(disk, "/data", successor(owner(1, 1), now_us=5))
    with pytest.raises(NotThere):
        claim(store, disk, "/data", now_us=6)
    store.objects[OWNER_KEY] = encode(owner(1, 1))
    claim(store, disk, "/data", now_us=7)
    assert read_owner(store) == owner_of(disk)


@pytest.mark.parametrize("noted_at", ["note", "object"])
def test_a_claim_that_a_crash_cut_is_made_again(noted_at: str) -> None:
    store, disk = MemoryStore(), new_disk()
    store.crash_at = 1 if noted_at == "note" else 2
    with pytest.raises(Crashed):
        claim(store, disk, "/data", now_us=5)
    store.crash_at = None
    claim(store, disk, "/data", now_us=6)
    assert read_owner(store) == owner_of(disk)


def test_an_archive_begins_on_a_disk_that_was_full_before_it_answered() -> None:
    store, disk = MemoryStore(), new_disk()
    prepare(disk, "/data", now_us=5)
    disk.capacity_bytes = disk.used_bytes()
    claim(store, disk, "/data", now_us=6)
    assert read_owner(store) == owner_of(disk)
    prepare(disk, "/data", now_us=7)
    assert disk.list_folder("/data") == [OWNER_FILE]
    store.objects.clear()
    with pytest.raises(NotThere):
        claim(store, disk, "/data", now_us=8)


def test_what_there_was_no_room_for_is_prepared_later() -> None:
    store, disk = MemoryStore(), new_disk()
    prepare(sized := new_disk(), "/data", now_us=5)
    for room_bytes in (0, sized.used_bytes() // 2, sized.used_bytes() - 1):
        disk.capacity_bytes = disk.used_bytes() + room_bytes
        with pytest.raises(OSError, match="no space"):
            prepare(disk, "/data", now_us=5)
        assert read_note(disk, "/data") is None
    disk.capacity_bytes = None
    prepare(disk, "/data", now_us=6)
    claim(store, disk, "/data", now_us=7)
    assert read_owner(store) == owner_of(disk)


def test_a_directory_that_is_prepared_takes_nobodys_archive() -> None:
    store, disk = MemoryStore(), new_disk()
    store.objects[OWNER_KEY] = encode(owner(1, 1))
    prepare(disk, "/data", now_us=5)
    with pytest.raises(NotOurs):
        claim(store, disk, "/data", now_us=6)


@pytest.mark.parametrize("power_cut", [False, True], ids=["kill", "power cut"])
def test_who_had_the_archive_before_a_crash_has_it_afterwards(power_cut: bool) -> None:
    def take(disk: SimulatedDisk) -> None:
        prepare(disk, "/data", now_us=5)
        claim(store, disk, "/data", now_us=6)

    for crash_at in range(OPERATIONS):
        store, disk = MemoryStore(), new_disk(crash_at)
        disk.settle()
        disk.crash_at = disk.operations + crash_at
        with pytest.raises(Crashed):
            take(disk)
        named = read_owner(store)
        after = disk.crash(power_cut=power_cut)
        take(after)
        assert read_owner(store) == owner_of(after)
        assert named in (None, read_owner(store))
    store, disk = MemoryStore(), new_disk()
    take(disk)
    assert disk.operations == OPERATIONS + 1, "all of them were cut"


def owner_of(disk: SimulatedDisk) -> Owner:
    """As the archive has it."""
    noted = read_note(disk, "/data")
    assert noted is not None
    assert noted.is_settled
    return replace(noted, is_settled=UNSET)


def new_disk(seed: int = 0) -> SimulatedDisk:
    disk = SimulatedDisk(seed)
    disk.make_folders("/data")
    return disk


def test_an_owner_that_cannot_be_read_is_nobody_elses_to_replace() -> None:
    store = MemoryStore()
    store.objects[OWNER_KEY] = b"{}"
    with pytest.raises(ArchiveError, match=r"owner\.json"):
        claim(store, new_disk(), "/data", now_us=5)
    store.objects[OWNER_KEY] = encode(owner(1, 1)).replace(b'"format": 1', b'"format": 2')
    with pytest.raises(ArchiveError, match="format 2"):
        claim(store, new_disk(), "/data", now_us=5)

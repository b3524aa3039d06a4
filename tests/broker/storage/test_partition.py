"""Appending, rolling, polling and deleting, on the simulated and the real disk."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iggy_broker.errors import Reject
from iggy_broker.storage import layout
from iggy_broker.storage.closing import close_all
from iggy_broker.storage.consumer_offsets import ConsumerKey
from iggy_broker.storage.disk import RealDisk, StorageFailed
from iggy_broker.storage.partition import FileRange, PartitionPlace
from iggy_wire import kernel
from simulated_disk import SimulatedDisk
from storage_cases import (
    FIRST,
    FOLDER,
    LAST,
    NEXT,
    SMALL_SEGMENTS,
    World,
    from_offset,
    from_time,
    read,
    simulated_world,
)


def real_world(tmp_path: Path, **changes: object) -> World:
    folder = layout.partition_folder(str(tmp_path), 1, 2, 3)
    options = replace(SMALL_SEGMENTS, **changes)  # type: ignore[arg-type]
    return World(RealDisk(), options, PartitionPlace(folder, 3, 1, is_new=True))


def test_a_batch_on_disk_is_the_batch_that_was_sent_but_for_the_stamp(tmp_path: Path) -> None:
    world = real_world(tmp_path)
    world.append(2)
    batch = world.batch(3, 50)
    sent = bytes(batch)

    assert world.partition.append(memoryview(batch)) == 2

    stored = Path(world.partition.log.segments[0].path).read_bytes()[-len(sent) :]
    assert stored[24:40] == sent[24:40]
    assert stored[48:] == sent[48:]
    assert int.from_bytes(stored[0:8], "little") == 3
    assert int.from_bytes(stored[8:16], "little") == 2
    assert kernel.verify(stored) == 0
    world.partition.close()


def test_a_wrong_batch_is_refused_and_leaves_nothing() -> None:
    world = simulated_world()
    world.append(1)
    batch = world.batch(2)
    batch[310] ^= 1

    with pytest.raises(Reject, match="INVALID_MESSAGE_CHECKSUM"):
        world.partition.append(memoryview(batch))

    assert world.partition.next_offset == 1
    assert world.append(1) == 1
    assert world.everything() == world.stored


def test_time_rises_even_when_the_clock_does_not() -> None:
    world = simulated_world()
    for step_us in (0, -100, 0, 5000, -4999):
        world.clock.time_us += step_us
        world.append(1)
    world.reopen()
    world.append(1)

    times = [stored.timestamp_us for stored in world.stored]
    assert times == sorted(set(times))


def test_segments_are_sealed_by_the_batch_that_fills_them() -> None:
    world = simulated_world(segment_bytes=10_000)
    for _ in range(10):
        world.append(1, 3000)

    sizes = [segment.size_bytes for segment in world.partition.log.segments]
    assert sizes == [4 * 3304, 4 * 3304, 2 * 3304]
    names = [n for n in world.disk.list_folder(FOLDER) if n.endswith(".log")]
    assert names == [f"{first:020d}.log" for first in (0, 4, 8)]
    assert world.partition.figures.segments_count == 3


def test_an_empty_partition_answers_every_strategy_with_nothing() -> None:
    world = simulated_world()
    for strategy in (FIRST, LAST, NEXT, from_offset(0), from_offset(9), from_time(0)):
        polled = world.partition.poll(strategy, 10, bytes_max=1000)
        assert (polled.current_offset, polled.count, polled.parts) == (0, 0, [])
    assert world.partition.figures.segments_count == 1


@pytest.mark.parametrize("batches", [1024, 1025, 2049, 5000])
def test_thousands_of_tiny_batches(batches: int) -> None:
    world = simulated_world(segment_bytes=1 << 30)
    for _ in range(batches):
        world.append(1, 8)
    world.partition.sync_now()
    world.reopen()

    assert world.everything() == world.stored
    assert [stored.offset for stored in world.stored] == list(range(batches))


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(
        st.tuples(st.integers(1, 30), st.sampled_from([8, 100, 2000, 17_000, 70_000])), max_size=60
    ),
    polls=st.lists(
        st.tuples(
            st.sampled_from([1, 2, 3, 4]),
            st.floats(0, 1.1),
            st.one_of(st.integers(0, 50), st.just(1 << 31)),
        ),
        min_size=10,
        max_size=30,
    ),
    segment_bytes=st.sampled_from([20_000, 200_000, 1 << 30]),
)
def test_polls_equal_brute_force(
    sizes: list[tuple[int, int]], polls: list[tuple[int, float, int]], segment_bytes: int
) -> None:
    world = simulated_world(segment_bytes=segment_bytes)
    for count, payload_bytes in sizes:
        world.clock.time_us += 3
        world.append(min(count, max(140_000 // payload_bytes, 1)), payload_bytes)
    for kind, where, count in polls:
        value = int(where * len(world.stored))
        if kind == 2:
            value = 1_000_000 + int(where * 3 * len(sizes))
        strategy = from_offset(value)._replace(kind=kind)
        assert world.poll(strategy, count, 1 << 40) == world.expected(strategy, count)


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.sampled_from([8, 100, 3000, 17_000, 70_000]), min_size=1, max_size=60),
    bytes_max=st.integers(0, 200_000),
)
def test_bytes_are_limited_but_every_poll_gets_on(sizes: list[int], bytes_max: int) -> None:
    world = simulated_world(segment_bytes=100_000)
    for payload_bytes in sizes:
        world.append(1, payload_bytes)
    found = []
    while step := world.poll(from_offset(len(found)), 1 << 30, max(bytes_max, 1)):
        size_bytes = sum(304 + len(stored.payload) for stored in step)
        assert len(step) == 1 or size_bytes <= bytes_max + 32 * 1024
        found += step
    assert found == world.stored


def test_long_stretches_stay_in_the_file(tmp_path: Path) -> None:
    world = real_world(tmp_path, segment_bytes=1 << 30)
    for _ in range(50):
        world.append(10, 1000)

    polled = world.partition.poll(from_offset(3), 490, bytes_max=1 << 30)

    ranges = [part for part in polled.parts if isinstance(part, FileRange)]
    assert len(ranges) == 1
    assert ranges[0].size_bytes > 400_000
    with open(tmp_path / "copy", "wb") as copy:
        sent = os.sendfile(copy.fileno(), ranges[0].file.fileno(), ranges[0].position, 1 << 30)
    assert sent >= ranges[0].size_bytes
    assert (tmp_path / "copy").read_bytes()[: ranges[0].size_bytes] == ranges[0].read()
    assert read(polled) == world.stored[3:493]
    world.partition.close()


def test_short_polls_are_bytes() -> None:
    world = simulated_world()
    for _ in range(50):
        world.append(10, 100)

    polled = world.partition.poll(from_offset(3), 50, bytes_max=1 << 30)

    assert all(isinstance(part, bytes) for part in polled.parts)
    assert read(polled) == world.stored[3:53]


def test_next_follows_the_stored_offset_of_its_consumer() -> None:
    world = simulated_world()
    for _ in range(4):
        world.append(5)
    one, group = ConsumerKey(1, 1), ConsumerKey(2, 1)

    def next_of(key: ConsumerKey, commit: bool) -> list[int]:
        polled = world.partition.poll(NEXT, 7, bytes_max=9999, consumer=key, auto_commit=commit)
        return [stored.offset for stored in read(polled)]

    assert next_of(one, False) == next_of(one, True) == list(range(7))
    assert next_of(one, True) == list(range(7, 14))
    assert next_of(group, True) == list(range(7))
    world.reopen()
    assert next_of(one, True) == list(range(14, 20))
    assert next_of(one, True) == []
    assert world.partition.offsets.get(one) == 19


def test_auto_commit_never_goes_back_but_a_store_may() -> None:
    world = simulated_world()
    world.append(10)
    key = ConsumerKey(1, 1)
    world.partition.store_offset(key, 8)
    world.partition.poll(FIRST, 3, bytes_max=9999, consumer=key, auto_commit=True)
    assert world.partition.offsets.get(key) == 8
    world.partition.store_offset(key, 2)
    assert world.partition.offsets.get(key) == 2
    world.partition.poll(from_offset(99), 3, bytes_max=9999, consumer=key, auto_commit=True)
    assert world.partition.offsets.get(key) == 2


@pytest.mark.parametrize("offset", [5, 6, 1 << 63, (1 << 64) - 1])
def test_an_offset_beyond_the_end_cannot_be_stored(offset: int) -> None:
    world = simulated_world()
    key = ConsumerKey(1, 1)
    with pytest.raises(Reject, match="INVALID_OFFSET"):
        world.partition.store_offset(key, 0)
    world.append(5)
    world.partition.store_offset(key, 4)

    with pytest.raises(Reject, match="INVALID_OFFSET"):
        world.partition.store_offset(key, offset)

    assert world.partition.offsets.get(key) == 4


def test_a_full_disk_refuses_and_recovers_by_itself() -> None:
    world = simulated_world()
    disk = world.disk
    assert isinstance(disk, SimulatedDisk)
    for _ in range(10):
        world.append(1, 1000)
    disk.capacity_bytes = disk.used_bytes() + 700
    for _ in range(3):
        with pytest.raises(Reject, match="no space left"):
            world.partition.append(memoryview(world.batch(1, 1000)))
        assert world.everything() == world.stored
    assert len(world.warnings) == 1
    assert "sends are refused" in world.warnings[0]
    assert "no space left" in world.warnings[0]
    disk.capacity_bytes = None

    assert world.append(1, 1000) == 10
    assert world.reopen().recovery == ()
    assert world.everything() == world.stored


def test_no_room_for_a_new_segment_does_not_undo_the_batch_that_filled_the_old_one() -> None:
    world = simulated_world(segment_bytes=5000)
    disk = world.disk
    assert isinstance(disk, SimulatedDisk)
    world.append(1, 3000)
    disk.capacity_bytes = disk.used_bytes() + 3304 + 24
    assert world.append(1, 3000) == 1
    with pytest.raises(Reject, match="no space left"):
        world.partition.append(memoryview(world.batch(1)))
    disk.capacity_bytes = None

    assert world.append(1) == 2
    assert [segment.first_offset for segment in world.partition.log.segments] == [0, 2]
    assert world.everything() == world.stored


def test_a_broken_disk_is_not_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    world = simulated_world()
    world.append(1)

    def broken(*args: object) -> None:
        raise OSError(5, "input/output error")

    monkeypatch.setattr(world.disk, "write", broken)
    with pytest.raises(StorageFailed):
        world.partition.append(memoryview(world.batch(1)))


def test_purge_leaves_nothing_and_starts_at_zero(tmp_path: Path) -> None:
    world = real_world(tmp_path)
    for _ in range(300):
        world.append(1, 1000)
    world.partition.store_offset(ConsumerKey(1, 5), 100)

    world.partition.purge(1)
    world.stored = []

    figures = world.partition.figures
    assert (figures.messages_count, figures.size_bytes, figures.segments_count) == (0, 0, 1)
    assert figures.current_offset == 0
    assert figures.purges == 1
    assert world.partition.offsets.get(ConsumerKey(1, 5)) is None
    assert world.everything() == []
    assert world.append(2) == 0
    world.reopen()
    assert world.everything() == world.stored
    world.partition.purge(2)
    world.partition.purge(3)
    world.partition.close()


def test_delete_removes_the_folder(tmp_path: Path) -> None:
    world = real_world(tmp_path)
    world.append(3)
    world.partition.delete()

    assert list(tmp_path.rglob("*")) == [tmp_path / "streams"]
    assert world.partition.figures.state == 0
    world.place = replace(world.place, incarnation=2, is_new=True)
    world.stored = []
    world.open()
    assert world.append(1) == 0
    world.partition.close()


def test_only_sealed_and_consumed_segments_are_deleted() -> None:
    world = simulated_world(segment_bytes=5000)
    for _ in range(20):
        world.append(1, 2000)  # three in a segment
    partition = world.partition
    key = ConsumerKey(1, 1)
    partition.store_offset(key, 4)

    assert partition.delete_oldest_segments(5) == 1
    assert partition.log.first_offset == 3
    partition.store_offset(key, 8)
    assert partition.trim() == 2, "they were asked for before"
    partition.store_offset(key, 19)
    assert partition.delete_oldest_segments(1) == 2, "the fifth was asked for, too"
    assert partition.delete_oldest_segments(100) == 1
    assert partition.delete_oldest_segments(100) == 0
    assert partition.log.first_offset == 18
    assert [s.offset for s in world.poll(FIRST, 100)] == [18, 19]
    assert [s.offset for s in world.poll(from_time(0), 100)] == [18, 19]
    assert partition.figures.messages_count == 2
    assert partition.figures.segments_count == 1
    assert partition.current_offset == 19
    world.reopen()
    assert world.append(1) == 20
    assert [s.offset for s in world.poll(FIRST, 100)] == [18, 19, 20]


def test_thousands_of_partitions_open_with_few_descriptors(tmp_path: Path) -> None:
    disk = RealDisk(open_files_max=16)
    worlds = []
    for number in range(200):
        folder = layout.partition_folder(str(tmp_path), 0, 0, number)
        worlds.append(World(disk, SMALL_SEGMENTS, PartitionPlace(folder, number, 0, is_new=True)))
    for _ in range(3):
        for world in worlds:
            world.append(1)
    assert disk.open_files <= 16
    for world in worlds:
        assert world.everything() == world.stored
        world.partition.close()
    assert disk.open_files == 0


def test_many_partitions_stop_side_by_side(tmp_path: Path) -> None:
    disk = RealDisk(open_files_max=8)
    worlds = []
    for number in range(70):
        folder = layout.partition_folder(str(tmp_path), 0, 0, number)
        worlds.append(World(disk, SMALL_SEGMENTS, PartitionPlace(folder, number, 0, is_new=True)))
        worlds[-1].append(2)

    close_all([world.partition for world in worlds], disk)

    assert disk.open_files == 0
    for world in worlds:
        assert world.open().recovery == ()
        assert world.everything() == world.stored
        world.partition.abandon()


def test_a_failed_sync_at_the_stop_leaves_no_marker() -> None:
    world = simulated_world()
    world.append(1)
    assert isinstance(world.disk, SimulatedDisk)
    world.disk.failing_syncs = 1

    with pytest.raises(StorageFailed):
        close_all([world.partition], world.disk)

    assert not world.disk.exists(f"{FOLDER}/{layout.CLEAN_FILE}")

"""Index entries: the file format, look-up against a linear scan, what is plausible."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from iggy_broker.storage.index_cache import IndexCache
from iggy_broker.storage.sparse_index import SparseIndex
from iggy_broker.storage.verified import INTERVALS_MAX, Verified
from simulated_disk import SimulatedDisk, SimulatedFile


def new_file() -> SimulatedFile:
    return SimulatedDisk().open("/index", create=True)


def filled(entries: list[tuple[int, int, int]]) -> SparseIndex:
    index = SparseIndex(new_file())
    for entry in entries:
        index.add(*entry)
    return index


def test_an_entry_is_three_little_endian_numbers() -> None:
    file = new_file()
    index = SparseIndex(file)
    index.appended(0, 11, 0)
    index.appended(7, 12, 20_000)
    assert file.read(100, 0) == struct.pack("<6Q", 0, 11, 0, 7, 12, 20_000)

    again = SparseIndex.parse(file, file.read(100, 0))

    assert list(again.offsets) == [0, 7]
    assert again.checksum() == index.checksum()
    assert again.next_position == index.next_position


def test_a_full_disk_delays_entries_and_loses_none() -> None:
    disk = SimulatedDisk()
    file = disk.open("/index", create=True)
    index = SparseIndex(file)
    disk.capacity_bytes = 30
    for number in range(3):
        index.appended(number, number, number * 20_000)
    assert file.size() < 72
    disk.capacity_bytes = None

    index.appended(3, 3, 60_000)

    assert list(SparseIndex.parse(file, file.read(1000, 0)).offsets) == [0, 1, 2, 3]


@given(
    st.lists(st.tuples(*[st.integers(1, 50)] * 3), min_size=1, max_size=50), st.integers(0, 2600)
)
def test_look_up_equals_a_linear_scan(steps: list[tuple[int, int, int]], value: int) -> None:
    entries, offset, time, position = [(0, 5, 0)], 0, 5, 0
    for step in steps:
        offset, time, position = offset + step[0], time + step[1], position + step[2]
        entries.append((offset, time, position))
    index = filled(entries)

    assert index.floor(value) == sum(entry[0] <= value for entry in entries) - 1
    assert index.floor_time(value) == sum(entry[1] < value for entry in entries) - 1
    assert index.floor_position(value) == sum(entry[2] <= value for entry in entries) - 1
    assert index.is_plausible(first_offset=0, next_offset=offset + 1, size_bytes=position + 1)
    index.cut(value)
    assert list(index.positions) == [entry[2] for entry in entries if entry[2] < value]


def test_entries_that_cannot_be_right_are_not_plausible() -> None:
    good = [(5, 1, 0), (9, 2, 400), (12, 3, 900)]
    bounds = {"first_offset": 5, "next_offset": 20, "size_bytes": 2000}
    assert filled(good).is_plausible(**bounds)
    assert not filled([]).is_plausible(**bounds)
    assert filled([]).is_plausible(first_offset=5, next_offset=5, size_bytes=0)
    for wrong in [(9, 2, 900), (9, 9, 400), (30, 2, 400), (0, 0, 0)]:
        assert not filled([good[0], wrong, good[2]]).is_plausible(**bounds)
    for first in [(4, 1, 0), (5, 1, 10)]:
        assert not filled([first, *good[1:]]).is_plausible(**bounds)
    for last in [(20, 3, 900), (12, 3, 2000)]:
        assert not filled([*good[:2], last]).is_plausible(**bounds)


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(1, 40)), max_size=60))
def test_verified_stretches_are_exactly_those_that_were_added(
    added: list[tuple[int, int]],
) -> None:
    verified, bytes_known = Verified(400), set(range(400, 1000))
    for start, length in added:
        verified.add(start, start + length)
        bytes_known |= set(range(start, start + length))
    for start in range(0, 420, 7):
        for stop in range(start + 1, 450, 13):
            assert verified.covers(start, stop) == (set(range(start, stop)) <= bytes_known)


def test_verified_stretches_are_limited() -> None:
    verified = Verified(1 << 40)
    for number in range(INTERVALS_MAX + 10):
        verified.add(number * 100, number * 100 + 10 + number)

    assert len(verified._starts) == INTERVALS_MAX
    assert not verified.covers(0, 10)
    assert verified.covers(7000, 7010)


class FakeSegment:
    def __init__(self, index_bytes: int) -> None:
        self.index_bytes = index_bytes

    def forget_index(self) -> None:
        self.index_bytes = 0


def test_without_memory_only_the_index_in_use_is_kept() -> None:
    cache = IndexCache(bytes_max=0)
    first, second = FakeSegment(40), FakeSegment(40)
    cache.touch(first)
    cache.touch(second)
    assert [segment.index_bytes for segment in (first, second)] == [0, 40]


def test_indexes_not_used_lately_leave_memory() -> None:
    cache = IndexCache(bytes_max=100)
    first, second, third = FakeSegment(40), FakeSegment(40), FakeSegment(40)
    for segment in (first, second, first, third):
        cache.touch(segment)

    assert [segment.index_bytes for segment in (first, second, third)] == [40, 0, 40]
    assert cache.size_bytes == 80
    cache.forget(first)
    cache.forget(second)
    assert cache.size_bytes == 40
    huge = FakeSegment(500)
    cache.touch(huge)
    assert huge.index_bytes == 500

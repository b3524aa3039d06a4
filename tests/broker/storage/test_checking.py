"""The check of all stored bytes: every flipped bit is found, and what is sound is served."""

from __future__ import annotations

import random

import pytest

from iggy_broker.logs import Note
from iggy_broker.storage.checking import SegmentCheck, check_now
from iggy_broker.storage.segment import Segment
from simulated_disk import SimulatedDisk
from storage_cases import World, disk_of, from_offset, killed, simulated_world

MESSAGES = 300  # of some 600 bytes: three segments


def filled_world() -> World:
    world = simulated_world()
    for _ in range(MESSAGES):
        world.append(1, 300)
    return world


def rot(disk: SimulatedDisk, segment: Segment, position: int) -> None:
    disk.entries[segment.path].data[position] ^= 4


def start_of(segment: Segment, offset: int) -> int:
    """Byte where the batch with this offset begins."""
    (length,) = {segment.size_bytes // (segment.next_offset - segment.first_offset)}
    return (offset - segment.first_offset) * length


def damaged_at(world: World) -> list[tuple[object, object]]:
    notes = [note for note in check_now(world.partition) if isinstance(note, Note)]
    assert all(note.event == "segment_damaged" for note in notes)
    return [(note.fields["offset"], note.fields["position"]) for note in notes]


def test_sound_data_is_found_sound_and_need_not_be_checked_by_the_first_read() -> None:
    world = filled_world()
    world.restart(killed(world))
    assert check_now(world.partition) == []
    for segment in world.partition.log.segments:
        assert segment.verified is None or segment.verified.covers(0, segment.size_bytes)
    assert world.everything() == world.stored


@pytest.mark.parametrize("seed", range(20))
def test_any_flipped_bit_is_found_also_where_it_was_read_before(seed: int) -> None:
    world = filled_world()
    assert world.everything() == world.stored
    chance = random.Random(seed)
    segment = chance.choice(world.partition.log.segments[:-1])
    offset = chance.randrange(segment.first_offset, segment.next_offset)
    start = start_of(segment, offset)
    rot(disk_of(world), segment, start + chance.randrange(start_of(segment, offset + 1) - start))

    assert damaged_at(world) == [(offset, start)]

    sound = [one for one in world.stored if not offset <= one.offset < segment.next_offset]
    found = world.everything()
    while found and found[-1].offset < MESSAGES - 1:  # a reader that goes on behind the segment
        found += world.poll(from_offset(segment.next_offset + len(found) - offset), 40)
    assert found == sound
    for _ in range(50):
        offset, count = chance.randrange(MESSAGES), chance.choice((1, 7, MESSAGES))
        read = world.poll(from_offset(offset), count)
        assert read == [one for one in sound if one.offset >= offset][: len(read)] or not read
    assert damaged_at(world) == []  # told once, and the rest is sound


def test_the_segment_that_is_written_to_is_sealed_and_sends_go_on() -> None:
    world = filled_world()
    active = world.partition.log.segments[-1]
    damaged = active.first_offset + 5
    rot(disk_of(world), active, start_of(active, damaged) + 290)

    assert [offset for offset, _ in damaged_at(world)] == [damaged]

    assert world.partition.log.segments[-1] is not active
    for _ in range(200):
        world.append(1, 300)
    behind = active.next_offset
    assert world.poll(from_offset(behind), 50) == world.stored[behind : behind + 50]
    assert world.poll(from_offset(active.first_offset), 50) == world.stored[damaged - 5 : damaged]
    assert world.poll(from_offset(damaged), 50) == []
    world.reopen()
    assert world.poll(from_offset(behind), 50) == world.stored[behind : behind + 50]
    assert world.poll(from_offset(damaged - 5), 50) == world.stored[damaged - 5 : damaged]


def test_a_damaged_first_batch_of_the_segment_that_is_written_to() -> None:
    world = simulated_world()
    world.append(3)
    rot(disk_of(world), world.partition.log.segments[0], 300)
    assert damaged_at(world) == [(0, 0)]
    assert world.append(2) == 3
    assert world.poll(from_offset(0), 9) == []
    assert world.poll(from_offset(3), 9) == world.stored[3:]


def test_a_read_that_meets_damage_where_is_written_hides_nothing_that_comes_later() -> None:
    world = filled_world()
    world.restart(killed(world))
    active = world.partition.log.segments[-1]
    damaged = active.first_offset + 5
    rot(disk_of(world), active, start_of(active, damaged) + 290)
    assert active.verified is not None
    active.verified.trusted_from = active.size_bytes  # as after a clean stop: nothing was read yet
    world.append(1, 300)
    assert world.poll(from_offset(damaged), 50) == []
    for _ in range(60):
        world.append(1, 300)  # more than one stretch of the index
    assert world.poll(from_offset(MESSAGES + 55), 50) == world.stored[-6:]
    assert len(world.poll(from_offset(active.first_offset), 50)) == 5
    assert len(world.poll(from_offset(active.first_offset), 50)) == 5


@pytest.mark.parametrize("left", [0, 100, 5000])
def test_a_file_that_became_shorter(left: int) -> None:
    world = filled_world()
    segment = world.partition.log.segments[0]
    del disk_of(world).entries[segment.path].data[left:]
    (note,) = check_now(world.partition)
    assert "truncated" in note
    assert all(one in world.stored for one in world.everything())
    behind = segment.next_offset
    assert world.poll(from_offset(behind), 9) == world.stored[behind : behind + 9]


def test_a_disk_that_cannot_read_is_told_and_nothing_is_given_up() -> None:
    world = filled_world()
    disk_of(world).failing_reads = 1
    (note,) = check_now(world.partition)
    assert "cannot be read" in note
    assert world.everything() == world.stored


def test_a_check_takes_steps() -> None:
    world = simulated_world(segment_bytes=8 << 20)
    for _ in range(5):
        world.append(1, 1 << 20)
    world.append(1, 3 << 20)  # larger than a step
    check = SegmentCheck(world.partition.log.segments[0])
    steps = 0
    while not check.is_over:
        assert check.step() <= 5 << 20
        steps += 1
    assert check.damage() is None
    assert steps > 5

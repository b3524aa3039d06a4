"""An index that rotted, and looks well: what is read stays right."""

from __future__ import annotations

import random

import pytest

from iggy_broker.storage.sparse_index import ENTRY_BYTES
from simulated_disk import SimulatedDisk
from storage_cases import FOLDER, World, from_offset, from_time, simulated_world

MESSAGES = 400  # of 600 bytes and more: stretches that go out as file ranges


def killed_world() -> tuple[World, SimulatedDisk]:
    world = simulated_world(segment_bytes=1 << 20)
    chance = random.Random(5)
    for _ in range(MESSAGES):
        world.append(1, chance.choice((100, 300, 900)))
    world.partition.sync_now()
    assert isinstance(world.disk, SimulatedDisk)
    return world, world.disk


def flip(disk: SimulatedDisk, chance: random.Random, fields: tuple[int, ...]) -> None:
    """A low bit of an entry other than the first: the index still looks well."""
    data = disk.entries[f"{FOLDER}/{0:020d}.index"].data
    entry, field = chance.randrange(1, len(data) // ENTRY_BYTES), chance.choice(fields)
    data[entry * ENTRY_BYTES + field + chance.choice((0, 0, 1, 2))] ^= 1 << chance.randrange(8)


@pytest.mark.parametrize("seed", range(40))
def test_polls_are_right_with_any_bit_of_the_index_wrong(seed: int) -> None:
    world, disk = killed_world()
    chance = random.Random(seed)
    flip(disk, chance, (0, 16, 16, 16))
    world.restart(disk.crash(power_cut=False))
    assert world.everything() == world.stored  # from here on all counts as verified

    for _ in range(60):
        offset, count = chance.randrange(MESSAGES), chance.choice((1, 50, 200, MESSAGES))

        found = world.poll(from_offset(offset), count)

        assert found == world.expected(from_offset(offset), count)[: len(found)]
        assert found


@pytest.mark.parametrize("seed", range(40))
def test_polls_by_time_are_right_with_any_bit_of_the_index_wrong(seed: int) -> None:
    world, disk = killed_world()
    chance = random.Random(seed)
    flip(disk, chance, (0, 8, 8, 16))
    world.restart(disk.crash(power_cut=False))

    for _ in range(60):
        when = from_time(chance.choice(world.stored).timestamp_us + chance.choice((-1, 0, 1)))

        assert world.poll(when, 1) == world.expected(when, 1)

"""The background check of one shard: how fast it reads, what it tells, and what it leaves alone."""

from __future__ import annotations

import asyncio

import pytest

from iggy_broker.config_maintenance import Scrub
from iggy_broker.metrics import Counters, SharedCounters
from iggy_broker.scrubber import Scrubber
from iggy_broker.storage.partition import StorageParts
from storage_cases import World, disk_of, simulated_world

RATE = 1 << 20


def scrubber_of(world: World) -> tuple[Scrubber, Counters]:
    counters = Counters(SharedCounters(1), 0)
    parts = StorageParts(world.disk, world.clock, world.table, warn=world.warnings.append)
    settings = Scrub(rate_bytes=RATE)
    partitions = {0: world.partition}
    return Scrubber(settings, partitions=partitions, parts=parts, counters=counters), counters


def filled_world() -> World:
    world = simulated_world()
    for _ in range(300):
        world.append(1, 300)
    return world


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What was slept, in seconds; nobody waits for it."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    return pauses


def test_it_reads_everything_no_faster_than_it_may(slept: list[float]) -> None:
    world = filled_world()
    scrubber, counters = scrubber_of(world)
    asyncio.run(scrubber.scrub())
    assert counters.scrub_bytes_total == world.partition.log.size_bytes
    assert sum(slept) >= world.partition.log.size_bytes / RATE
    assert (counters.scrub_passes_total, counters.damaged_segments) == (1, 0)
    assert world.warnings == []


@pytest.mark.usefixtures("slept")
def test_damage_is_told_once_however_often_it_is_met() -> None:
    world = filled_world()
    scrubber, counters = scrubber_of(world)
    disk_of(world).entries[world.partition.log.segments[1].path].data[5000] ^= 1
    for _ in range(3):
        asyncio.run(scrubber.scrub())
    (told,) = world.warnings
    assert "checksum error at offset" in told
    assert counters.damaged_segments == 1
    assert counters.scrub_passes_total == 3


@pytest.mark.usefixtures("slept")
def test_what_cannot_be_read_is_told_and_tried_again() -> None:
    world = filled_world()
    scrubber, counters = scrubber_of(world)
    disk_of(world).failing_reads = 1
    asyncio.run(scrubber.scrub())
    assert "cannot be read" in world.warnings[0]
    assert counters.damaged_segments == 0
    read = counters.scrub_bytes_total
    asyncio.run(scrubber.scrub())
    assert counters.scrub_bytes_total == read + world.partition.log.size_bytes
    assert world.everything() == world.stored


def test_a_segment_that_goes_meanwhile_is_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    world = filled_world()
    scrubber, counters = scrubber_of(world)

    async def sleep(seconds: float) -> None:
        assert seconds >= 0
        if len(world.partition.log.segments) > 2:
            world.partition.drop_oldest(2)
        elif world.partition.next_offset:
            world.partition.purge(1)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    asyncio.run(scrubber.scrub())
    assert world.warnings == []
    assert counters.damaged_segments == 0


@pytest.mark.usefixtures("slept")
def test_a_full_disk_seals_nothing_and_the_next_pass_fences() -> None:
    world = simulated_world()
    world.append(3)
    world.append(3)
    disk = disk_of(world)
    segment = world.partition.log.segments[0]
    disk.entries[segment.path].data[segment.size_bytes // 2 + 300] ^= 1
    disk.capacity_bytes = disk.used_bytes()
    scrubber, counters = scrubber_of(world)
    asyncio.run(scrubber.scrub())
    assert counters.damaged_segments == 0
    assert [one for one in world.warnings if "checksum error" in one]
    disk.capacity_bytes = None
    asyncio.run(scrubber.scrub())
    assert counters.damaged_segments == 1
    assert world.append(1) == 6
    assert len(world.everything()) == 3

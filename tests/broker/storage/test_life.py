"""Whose messages a folder holds, through purges, deletions and crashes at any of their steps."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from iggy_broker.storage.removal import move_away, remove_moved
from simulated_disk import Crashed
from storage_cases import FOLDER, NEW_PLACE, World, disk_of, simulated_world

STEPS = 16  # operations of the disk in which a purge is over
SEEDS = range(12)


def synced_world(seed: int) -> World:
    """Twenty messages that no power cut takes."""
    world = simulated_world(seed, persisted=True)
    for _ in range(20):
        world.append(1, 100)
    world.partition.sync_now()
    return world


def crash_at(world: World, step: int, action: Callable[[], None], *, power_cut: bool) -> None:
    """The machine stops at the nth operation of the action; the world has what is left."""
    disk = disk_of(world)
    disk.crash_at = disk.operations + step
    with contextlib.suppress(Crashed):
        action()
    world.disk = disk.crash(power_cut=power_cut)


@pytest.mark.parametrize("step", range(8))
def test_a_deleted_partition_never_becomes_the_next_of_its_number(step: int) -> None:
    for seed in range(40):
        world = synced_world(seed)
        world.partition.abandon()
        away = move_away(world.disk, FOLDER)
        world.place = replace(NEW_PLACE, incarnation=2)
        world.stored = []
        world.open()

        crash_at(world, step, partial(remove_moved, world.disk, away), power_cut=True)
        world.open()

        assert world.everything() == [], f"seed {seed}"


@pytest.mark.parametrize("step", range(STEPS))
def test_a_purge_is_done_whenever_the_power_fails_and_what_comes_after_it_stays(step: int) -> None:
    for seed in SEEDS:
        world = synced_world(seed)
        crash_at(world, step, partial(world.partition.purge, 1), power_cut=True)

        world.place = replace(world.place, purges=1)  # metadata knew of it before it began
        world.stored = []
        world.open()
        assert world.everything() == [], f"seed {seed}"
        world.append(3)
        world.partition.sync_now()

        world.restart(disk_of(world).crash(power_cut=True))

        assert world.everything() == world.stored, f"seed {seed}"


@pytest.mark.parametrize("step", range(STEPS))
def test_a_purge_cut_short_by_a_kill_is_over_for_good_after_the_next_start(step: int) -> None:
    for seed in SEEDS:
        world = synced_world(seed)
        crash_at(world, step, partial(world.partition.purge, 1), power_cut=False)
        world.place = replace(world.place, purges=1)
        world.stored = []
        world.open()
        world.append(3)
        world.partition.sync_now()

        world.restart(disk_of(world).crash(power_cut=True))

        assert world.everything() == world.stored, f"seed {seed}"


def test_a_folder_without_its_note_is_not_taken_over() -> None:
    world = synced_world(0)
    disk = disk_of(world)
    disk.remove(f"{FOLDER}/life")

    world.place = replace(NEW_PLACE, incarnation=2)
    partition = world.open()

    assert partition.next_offset == 0
    assert "is now" in str(partition.recovery[0])
    assert disk.exists(f"{FOLDER}.stale-unknown-0")


def test_a_folder_without_its_note_does_not_come_back_after_a_power_cut() -> None:
    for seed in range(40):
        world = synced_world(seed)
        disk_of(world).remove(f"{FOLDER}/life")
        disk_of(world).sync_folder(FOLDER)
        world.partition.abandon()
        world.place = replace(NEW_PLACE, incarnation=2)
        world.stored = []
        world.open()
        world.append(2)

        world.place = replace(world.place, is_new=False)
        world.restart(disk_of(world).crash(power_cut=True))

        found = world.everything()
        assert found == world.stored[: len(found)], f"seed {seed}"


@pytest.mark.parametrize("seed", SEEDS)
def test_the_note_is_on_the_disk_with_the_first_messages(seed: int) -> None:
    world = synced_world(seed)

    world.restart(disk_of(world).crash(power_cut=True))
    assert world.everything() == world.stored

    world.place = replace(NEW_PLACE, incarnation=2)
    assert world.open().next_offset == 0

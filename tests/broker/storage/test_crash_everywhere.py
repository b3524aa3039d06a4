"""One scenario, stopped before every single disk operation, then started again: nothing is lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from iggy_broker.storage.consumer_offsets import ConsumerKey
from iggy_broker.storage.partition import PartitionOptions
from simulated_disk import Crashed, SimulatedDisk
from storage_cases import NEW_PLACE, SMALL_SEGMENTS, World

KEY = ConsumerKey(1, 3)
PERSISTED = PartitionOptions(segment_bytes=4000, persisted=True)


class Scenario:
    """Runs until the disk stops it; remembers what a client was told."""

    def __init__(self, seed: int, crash_at: int | None) -> None:
        disk = SimulatedDisk(seed)
        disk.make_folders("/data")
        disk.settle()
        disk.operations = 0
        disk.crash_at = crash_at
        self.disk = disk
        self.acknowledged = 0  # next offset when a sync last returned
        self.purging = self.purged = False
        self.sent_before_purge = 0
        self.offset_is_durable = False
        self.finished = False
        self.world: World | None = None

    def run(self) -> None:
        try:
            self._run()
        except Crashed:
            return
        self.finished = True

    def _run(self) -> None:
        world = self.world = World(self.disk, PERSISTED, NEW_PLACE)
        self._append(world, 6)
        world.partition.store_offset(KEY, 3)
        world.partition.sync_now()
        self.offset_is_durable = True
        world.reopen()
        self._append(world, 3)
        self.sent_before_purge = len(world.sent)
        self.purging = True
        world.partition.purge(1)
        self.purged, self.acknowledged = True, 0
        self._append(world, 6)
        world.partition.delete_oldest_segments(1)
        self._append(world, 2)
        world.partition.close()

    def _append(self, world: World, batches: int) -> None:
        for _ in range(batches):
            world.append(2, 500)
            world.partition.sync_now()
            self.acknowledged = world.partition.next_offset


def operations_of_a_whole_run() -> int:
    scenario = Scenario(0, None)
    scenario.run()
    assert scenario.finished
    return scenario.disk.operations


def check(scenario: Scenario, power_cut: bool) -> None:
    sent = scenario.world.sent if scenario.world else []
    stored = scenario.world.stored if scenario.world else []
    disk = scenario.disk.crash(power_cut=power_cut)
    world = World(disk, PERSISTED, NEW_PLACE)
    partition = world.partition
    assert partition.fenced == ""
    found = world.everything()
    first = partition.log.first_offset
    assert [message.offset for message in found] == list(range(first, partition.next_offset))
    places = [sent.index(message.payload) for message in found]  # nothing is invented,
    assert places == list(range(places[0], places[-1] + 1)) if places else True  # nor mixed
    told = {message.payload: message for message in stored}
    assert all(told.get(message.payload, message) == message for message in found)
    if scenario.purged:
        assert all(place >= scenario.sent_before_purge for place in places)
    if scenario.purged or not scenario.purging:
        assert partition.next_offset >= scenario.acknowledged
    offset = partition.offsets.get(KEY)
    assert offset is None or offset < partition.next_offset
    if scenario.offset_is_durable and not scenario.purging:
        assert offset == 3
    assert world.append(1) == first + len(found)
    partition.sync_now()
    assert world.everything() == found + world.stored
    again = World(disk.crash(power_cut=True), SMALL_SEGMENTS, NEW_PLACE)
    assert again.everything() == found + world.stored


@pytest.mark.parametrize("power_cut", [True, False], ids=["power", "kill"])
@pytest.mark.parametrize("seed", range(2))
def test_every_stop_can_be_started_again(seed: int, power_cut: bool) -> None:
    for crash_at in range(operations_of_a_whole_run() + 1):
        scenario = Scenario(seed * 7919 + crash_at, crash_at)
        scenario.run()
        check(scenario, power_cut)


@pytest.mark.parametrize("power_cut", [True, False], ids=["power", "kill"])
def test_a_stop_during_recovery_can_be_started_again(power_cut: bool) -> None:
    for crash_at in range(60):
        scenario = Scenario(crash_at, 100)
        scenario.run()
        assert scenario.world is not None
        sent = scenario.world.sent
        disk = scenario.disk.crash(power_cut=True)
        path = "/data/streams/0/topics/0/partitions/0/00000000000000000000.log"
        if disk.exists(path):
            disk.open(path).write(b"torn" * 100, disk.size(path))
        disk.operations = 0
        disk.crash_at = crash_at
        stopped = _interrupted(lambda disk=disk: World(disk, PERSISTED, NEW_PLACE))
        world = World(disk.crash(power_cut=power_cut), PERSISTED, NEW_PLACE)
        assert all(message.payload in sent for message in world.everything())
        if scenario.purged or not scenario.purging:
            assert world.partition.next_offset >= scenario.acknowledged
        if not stopped:
            return
    raise AssertionError("recovery took more operations than expected")


def _interrupted(start: Callable[[], object]) -> bool:
    try:
        start()
    except Crashed:
        return True
    return False

"""The journal on a disk that crashes: what was acknowledged is there, and nothing else is."""

from __future__ import annotations

import random

import pytest

from iggy_broker.metadata import changes, journal
from iggy_broker.storage.disk import StorageFailed
from metadata_cases import accepted_entries, replayed
from simulated_disk import Crashed, SimulatedDisk

ROOT = "/mnt/data"
HISTORY = accepted_entries(
    [
        changes.CreateStream("s"),
        *(changes.CreateTopic("s", f"t{n}", n % 3) for n in range(12)),
        changes.DeleteTopic("s", "t3"),
        *(changes.CreateGroup("s", "t1", f"g{n}") for n in range(12)),
        changes.PurgeStream("s"),
        changes.CreatePartitions("s", "t0", 4),
    ]
)
STATES = {count: replayed(HISTORY[:count]) for count in range(len(HISTORY) + 1)}


def mounted(disk: SimulatedDisk) -> SimulatedDisk:
    """The disk with the folder that an administrator made long ago."""
    disk.make_folders("/mnt")
    disk.settle()
    return disk


class Broker:
    """Lives on a disk until a crash; knows what it acknowledged, over all its lives."""

    def __init__(self) -> None:
        self.acknowledged = 0

    def live(self, disk: SimulatedDisk) -> None:
        """Recover, and append what is left of the history."""
        recovered = journal.load(ROOT, disk=disk, entries_max=5)
        op = recovered.state.op
        # One record was perhaps written and not answered: its change may be there or not.
        assert self.acknowledged <= op <= self.acknowledged + 1
        assert recovered.state == STATES[op]
        self.acknowledged = op  # recovery synced it, so it counts
        for entry in HISTORY[op:]:
            recovered.journal.append_now(STATES[entry.op], [entry])
            self.acknowledged = entry.op


def crashes_until_done(seed: int, *, power_cuts: float) -> int:
    """How many crashes it took until the whole history was acknowledged."""
    chance, disk, broker, crashes = random.Random(seed), mounted(SimulatedDisk(seed)), Broker(), 0
    while True:
        disk.crash_at = chance.randint(0, chance.choice((15, 90)))
        try:
            broker.live(disk)
        except Crashed:
            crashes += 1
            disk = disk.crash(power_cut=chance.random() < power_cuts)
        else:
            assert broker.acknowledged == len(HISTORY)
            return crashes


@pytest.mark.parametrize("power_cuts", [0.0, 0.5, 1.0], ids=["killed", "both", "power-cut"])
def test_acknowledged_changes_survive_any_crash(power_cuts: float) -> None:
    counts = [crashes_until_done(seed, power_cuts=power_cuts) for seed in range(150)]

    assert sum(counts) > 150, "the test is about crashes"


def test_without_space_a_change_is_refused_and_the_next_start_is_clean() -> None:
    disk = mounted(SimulatedDisk(capacity_bytes=700))
    recovered = journal.load(ROOT, disk=disk, entries_max=1000)

    acknowledged = 0
    with pytest.raises(journal.JournalFull, match="no space left"):
        for entry in HISTORY:
            recovered.journal.append_now(STATES[entry.op], [entry])
            acknowledged = entry.op

    assert acknowledged > 1
    again = journal.load(ROOT, disk=disk.crash(power_cut=True), entries_max=1000)
    assert again.state == STATES[acknowledged]
    assert again.notes == ()


def test_a_record_whose_sync_failed_is_not_built_upon() -> None:
    disk = mounted(SimulatedDisk())
    first = journal.load(ROOT, disk=disk, entries_max=1000)
    first.journal.append_now(STATES[1], [HISTORY[0]])
    disk.failing_syncs = 1
    with pytest.raises(StorageFailed):
        first.journal.append_now(STATES[2], [HISTORY[1]])

    # The page cache still shows the record, and the next life goes on behind it.
    disk = disk.crash(power_cut=False)
    second = journal.load(ROOT, disk=disk, entries_max=1000)
    for entry in HISTORY[second.state.op : 5]:
        second.journal.append_now(STATES[entry.op], [entry])

    third = journal.load(ROOT, disk=disk.crash(power_cut=True), entries_max=1000)
    assert third.state == STATES[5]

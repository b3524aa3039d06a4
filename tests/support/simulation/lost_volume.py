"""A lost volume: a new one, restored from the archive, has all that was archived."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from iggy_broker.restore import command, survey
from iggy_broker.restore.command import Wishes, restore
from iggy_broker.storage.partition import ConsumerKey
from simulation.archive import ArchiveConnection
from simulation.disk import FaultyDisk
from simulation.loop import Inline
from simulation.oracle import ViolationError
from simulation.planted_archive import replaced
from simulation.settings import ROOT

if TYPE_CHECKING:
    from simulation.scenario import Scenario

Offsets = dict[int, dict[ConsumerKey, int]]  # by the packed name of the partition


async def lose_volume(scenario: Scenario) -> None:
    """After a quiet time with a continuous archive. Nobody is in, before and after."""
    broker = scenario.broker
    if not broker.config.data_maintenance.archiver.continuous:
        return
    before = _offsets(scenario)
    scenario.crash(power_cut=True)
    await scenario.settle_down()
    scenario.power_cut = False  # nothing at all is lost
    broker.disk = _new_disk(scenario)
    scenario.archive.calm = True
    store = ArchiveConnection(scenario.archive, broker.disk, pause=lambda: None)
    with _in_this_world(broker.disk):
        report = restore(ROOT, store, Wishes("the archive", is_ours=True), clock=broker.clock)
    if report is None or report.restored.problems or report.restored.cut_offsets:
        raise ViolationError(f"not restored: {report and report.restored}")
    await scenario.start()
    await scenario.audit(rot=False)
    after = _offsets(scenario)
    if wrong := [packed for packed, stored in before.items() if after.get(packed) != stored]:
        told = [(packed, before[packed], after.get(packed)) for packed in wrong]
        raise ViolationError(f"stored offsets are not restored: {told}")
    scenario.oracle.count("archive: volumes restored")


def _offsets(scenario: Scenario) -> Offsets:
    """What is stored, where something is."""
    partitions = [
        (packed, partition)
        for edge in scenario.broker.edges()
        for packed, partition in edge.services.partitions.items()
        if not partition.fenced
    ]
    found = {packed: partition.offsets.all() or {} for packed, partition in partitions}
    return {packed: stored for packed, stored in found.items() if stored}


def _new_disk(scenario: Scenario) -> FaultyDisk:
    lost = scenario.broker.disk
    disk = FaultyDisk(scenario.schedule, scenario.seed)
    disk.make_folders(ROOT)
    disk.settle()
    disk.happened, disk.on_remove = lost.happened, lost.on_remove
    return disk


@contextlib.contextmanager
def _in_this_world(disk: FaultyDisk) -> Iterator[None]:
    """The command has the simulated disk, and no threads."""

    def inline(*args: object, **more: object) -> Inline:
        return Inline()

    with (
        replaced(command, "RealDisk", lambda: disk),
        replaced(command, "ThreadPoolExecutor", inline),
        replaced(survey, "ThreadPoolExecutor", inline),
    ):
        yield

"""How a life of the broker ends, and what hinders the next start."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulation.scenario import Scenario

HINDERED = "disk fails while starting"
ENDINGS = (
    "power cut at an operation",
    "power cut",
    "killed",
    "killed at an operation",
    "supervisor killed",
    "failed sync",
    "failed folder sync",
    "a shard dies",
    "clean stop",
    "crash while starting",
    HINDERED,
)


async def end(scenario: Scenario, ending: str) -> None:
    """Bring the end about, or begin it."""
    broker, chance = scenario.broker, scenario.chance
    scenario.power_cut_next = ending.startswith("power") or chance.random() < 0.5
    if ending.endswith("at an operation"):
        await _at_an_operation(scenario, power_cut=ending.startswith("power"))
    elif ending in ("power cut", "killed"):
        scenario.crash(power_cut=ending == "power cut")
    elif ending in ("failed sync", "failed folder sync"):
        await _failing(scenario, folders=ending == "failed folder sync")
    elif ending == "a shard dies":
        scenario.expected_end = True
        broker.kill_shard(chance.randrange(broker.shards_count))
    elif ending == "supervisor killed":
        scenario.expected_end = True
        scenario.oracle.count("kills")
        broker.kill_supervisor()
    elif ending == "crash while starting":
        scenario.crash(power_cut=chance.random() < 0.5)
        broker.disk.crash_at = broker.disk.operations + chance.randint(0, 60)
    elif ending == HINDERED:
        scenario.crash(power_cut=chance.random() < 0.5)
        _hinder(scenario)
    else:
        scenario.expected_end = True
        broker.stop()


async def _at_an_operation(scenario: Scenario, *, power_cut: bool) -> None:
    broker, disk = scenario.broker, scenario.broker.disk
    scenario.power_cut_next = power_cut
    disk.crash_at = disk.operations + scenario.chance.randint(0, 120)
    await scenario.wait(lambda: broker.is_down, 5.0)
    if not broker.is_down:
        scenario.crash(power_cut=power_cut)


async def _failing(scenario: Scenario, *, folders: bool) -> None:
    """Let syncs fail until the broker gives up; what nobody waits for stops nobody."""
    broker, disk, chance = scenario.broker, scenario.broker.disk, scenario.chance
    scenario.expected_end = True
    if folders:
        disk.failing_folder_syncs = chance.randint(1, 5)
    else:
        disk.failing_syncs = chance.randint(3, 5)  # that of a snapshot stops nobody
    await scenario.wait(lambda: broker.is_down, 1.0 if folders else 10.0)
    disk.make_well()
    if not broker.is_down:
        scenario.crash(power_cut=chance.random() < 0.5)


def _hinder(scenario: Scenario) -> None:
    """The next start meets a disk that fails; the one after it does not."""
    disk, chance = scenario.broker.disk, scenario.chance
    disk.spared = chance.randint(0, 40)
    kind = chance.choice(("failing_syncs", "failing_folder_syncs", "failing_reads"))
    setattr(disk, kind, chance.randint(1, 3))

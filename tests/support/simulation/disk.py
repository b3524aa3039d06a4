"""The crashing disk with a trace, with rot, and with syncs that take their time.

Faults of `SimulatedDisk`: power cut (lost and torn writes, lost folder entries), killed process, no
space, failed sync (its pages are never written), failed sync of a folder, failed read, crash in the
middle of the nth operation.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator

from simulated_disk import Crashed, SimulatedDisk
from simulated_nodes import Node
from simulation.loop import Schedule
from simulation.network import hash_of

QUICK_S = (50e-6, 3e-3)  # how long a sync takes
SLOW_S = (0.2, 2.0)


class FaultyDisk(SimulatedDisk):
    """What one machine has, until it is lost; `crash` gives what the next life finds."""

    def __init__(self, schedule: Schedule, seed: int = 0) -> None:
        super().__init__(seed)
        self.schedule = schedule
        self.stopped = False  # the operation at which it was to crash has come
        self.slow_until_s = 0.0
        self.spared = 0  # so many syncs or reads go well before those that are to fail
        self.on_remove: Callable[[str], None] = lambda path: None  # before it goes
        self._delays = random.Random(f"disk-{seed}")

    def sync_duration_s(self) -> float:
        slow = self.schedule.now_s < self.slow_until_s
        self.happened["slow syncs"] += slow
        return self._delays.uniform(*(SLOW_S if slow else QUICK_S))

    def crash(self, *, power_cut: bool) -> FaultyDisk:
        base = super().crash(power_cut=power_cut)
        after = FaultyDisk(self.schedule, self.chance.randrange(1 << 30))
        after.entries = base.entries
        after.happened = self.happened
        after.on_remove = self.on_remove
        self.crash_at = 0  # whoever still holds the old one gets nothing done
        self.stopped = True
        return after

    def reading(self, path: str) -> None:
        if self.failing_reads:
            self.schedule.note("read", path, self.failing_reads, self.spared)
        with self._sparing("failing_reads"):
            super().reading(path)

    @contextlib.contextmanager
    def _sparing(self, faults: str) -> Iterator[None]:
        """Let a few go well before the first that fails."""
        coming = getattr(self, faults)
        if not coming or not self.spared:
            yield
            return
        self.spared -= 1
        setattr(self, faults, 0)
        try:
            yield
        finally:
            setattr(self, faults, coming)

    def make_well(self) -> None:
        """No fault is in force any more."""
        self.capacity_bytes = None
        self.failing_syncs = self.failing_folder_syncs = self.failing_reads = self.spared = 0

    def rot(self, path: str, chance: random.Random) -> int:
        """Flip one bit, in the page cache and for good; where."""
        node = self.entries[path]
        at = chance.randrange(len(node.data))
        self.happened["bits that rotted"] += 1
        for content in (node.data, node.durable):
            if at < len(content):
                content[at] ^= 1 << chance.randrange(8)
        return at

    def files(self, suffix: str) -> list[str]:
        """Paths of files of one kind that have something in them."""
        return sorted(
            path
            for path, node in self.entries.items()
            if path.endswith(suffix) and ".deleted-" not in path and node.data
        )

    def _step(self) -> None:
        try:
            super()._step()
        except Crashed:
            self.stopped = True
            raise

    def write(self, node: Node, data: bytes, position: int) -> None:
        self.schedule.note("write", node.made_as, position, len(data), hash_of(data))
        super().write(node, data, position)

    def sync(self, node: Node) -> None:
        self.schedule.note("sync", node.made_as, len(node.data), self.failing_syncs)
        with self._sparing("failing_syncs"):
            super().sync(node)

    def rename(self, source: str, target: str) -> None:
        self.schedule.note("rename", source, target)
        super().rename(source, target)

    def step(self) -> None:
        """Something that is no operation of the disk, and where the machine may stop as well."""
        self._step()

    @contextlib.contextmanager
    def unharmed(self) -> Iterator[None]:
        """Read without a fault, for whoever is not of this world."""
        coming, self.failing_reads = self.failing_reads, 0
        try:
            yield
        finally:
            self.failing_reads = coming

    def remove(self, path: str) -> None:
        self.schedule.note("remove", path)
        self.on_remove(path)
        super().remove(path)

    def sync_folder(self, path: str) -> None:
        self.schedule.note("sync folder", path, self.failing_folder_syncs)
        with self._sparing("failing_folder_syncs"):
            super().sync_folder(path)

    def _make(self, path: str, node: Node) -> None:
        self.schedule.note("make", path)
        super()._make(path, node)

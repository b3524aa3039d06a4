"""Small troubles while clients work, and rot while the broker is down."""

from __future__ import annotations

import random

from iggy_broker.storage.layout import CLEAN_FILE
from simulation.broker import SimulatedBroker
from simulation.disk import FaultyDisk
from simulation.loop import SimulatedLoop
from simulation.network import Network

TROUBLES = ("cut", "no space", "slow disk", "clock jump", "stall", "read error")
CLOCK_JUMPS_US = (-3_600_000_000, -50_000, 50_000, 86_400_000_000)


class Troubles:
    """One after the other, each kind as often as the others."""

    def __init__(
        self,
        broker: SimulatedBroker,
        network: Network,
        operator: SimulatedLoop,
        chance: random.Random,
    ) -> None:
        self._broker = broker
        self._network = network
        self._operator = operator
        self._chance = chance
        self._left: list[str] = []

    def next(self) -> str:
        """Make the next trouble; its kind."""
        if not self._left:
            self._left = list(TROUBLES)
            self._chance.shuffle(self._left)
        kind = self._left.pop()
        self._broker.schedule.note("trouble", kind)
        self._make(kind)
        return kind

    def _make(self, kind: str) -> None:
        chance, broker = self._chance, self._broker
        disk, now_s = broker.disk, broker.schedule.now_s
        if kind == "cut":
            ends = [one for one in self._network.sockets if one.name.startswith("c")]
            if ends:
                chance.choice(ends).cut()
        elif kind == "no space":
            room_bytes = chance.choice((0, chance.randint(0, 20_000)))
            disk.capacity_bytes = disk.used_bytes() + room_bytes
            self._operator.call_later(chance.uniform(0.01, 0.06), _make_room, disk)
        elif kind == "slow disk":
            disk.slow_until_s = now_s + chance.uniform(0.01, 0.2)
        elif kind == "read error":
            disk.failing_reads = chance.randint(1, 6)
            self._operator.call_later(chance.uniform(0.01, 0.06), _read_again, disk)
        elif kind == "clock jump":
            broker.clock.offset_us += chance.choice(CLOCK_JUMPS_US)
        else:
            chance.choice(broker.loops).stall(chance.uniform(0.005, 0.3))


def _make_room(disk: FaultyDisk) -> None:
    disk.capacity_bytes = None


def _read_again(disk: FaultyDisk) -> None:
    disk.failing_reads = 0


def rot(
    disk: FaultyDisk, suffix: str, chance: random.Random, *, unread: bool = False
) -> tuple[int, int] | None:
    """Flip a bit in a file of stream 0; topic and partition, None if there is no such file.

    `unread`: in a partition that was opened by its marker and not read since.
    """
    paths = [path for path in disk.files(suffix) if "/streams/0/" in path and "/cut/" not in path]
    if unread:
        paths = [path for path in paths if disk.exists(f"{path.rpartition('/')[0]}/{CLEAN_FILE}")]
    if not paths:
        return None
    path = chance.choice(paths)
    at = disk.rot(path, chance)
    disk.schedule.note("rot", path, at)
    parts = path.split("/")
    return int(parts[parts.index("topics") + 1]), int(parts[parts.index("partitions") + 1])

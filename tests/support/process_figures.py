"""What the processes of a broker take: memory, descriptors, threads; and whether that grows."""

from __future__ import annotations

import contextlib
import os
import statistics
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

KIB = 1024


def pss_bytes(pid: int) -> int:
    """Memory of a process; of what it shares with others, its part."""
    return _field(Path(f"/proc/{pid}/smaps_rollup"), "Pss:") * KIB


def anonymous_bytes(pid: int) -> int:
    """The same without files that are mapped: other programs, too, share those, and come and go."""
    return _field(Path(f"/proc/{pid}/smaps_rollup"), "Pss_Anon:") * KIB


def descriptors(pid: int) -> int:
    """Open files, sockets and pipes."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def open_files(pid: int) -> list[str]:
    """The same by name: paths, or `socket`, `pipe` and the like, which have none."""
    folder = f"/proc/{pid}/fd"
    found = []
    for number in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(f"{folder}/{number}").partition(":")[0])
    return found


def threads(pid: int) -> int:
    """Threads of a process."""
    return _field(Path(f"/proc/{pid}/status"), "Threads:")


def cpu_s(pid: int) -> float:
    """Time on a core since it began, in steps of 10 ms."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / 100


def folder_bytes(folder: Path) -> int:
    """Size of all files below; what goes meanwhile counts as nothing."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += os.stat(os.path.join(path, name)).st_size
    return total


class Series:
    """Samples of named figures over a run."""

    def __init__(self) -> None:
        self.values: defaultdict[str, list[float]] = defaultdict(list)

    def add(self, name: str, value: float) -> None:
        """One more sample."""
        self.values[name].append(value)

    def early(self, name: str) -> float:
        """The median of the second quarter; in the first one, things warm up."""
        return statistics.median(self._quarter(name, 1))

    def late(self, name: str) -> float:
        """The median of the last quarter."""
        return statistics.median(self._quarter(name, 3))

    def growth(self, name: str) -> float:
        """From one to the other."""
        return self.late(name) - self.early(name)

    def _quarter(self, name: str, number: int) -> list[float]:
        values = self.values[name]
        length = len(values) // 4
        assert length >= 2, f"too few samples of {name}"
        return values[number * length : (number + 1) * length]

    def grown(self, limits: Iterable[tuple[str, float]]) -> dict[str, float]:
        """What grew beyond its limit; names are the beginnings of those of the figures."""
        found: dict[str, float] = {}
        for beginning, limit in limits:
            names = [name for name in self.values if name.startswith(beginning)]
            assert names, f"{beginning} was never sampled"
            found |= {name: self.growth(name) for name in names if self.growth(name) > limit}
        return found

    def highest(self, beginning: str) -> float:
        """The largest sample of all these figures."""
        return max(max(v) for name, v in self.values.items() if name.startswith(beginning))


def _field(path: Path, name: str) -> int:
    for line in path.read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    raise AssertionError(f"{path} has no {name}")

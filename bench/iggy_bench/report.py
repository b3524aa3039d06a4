"""What a run found: rows, the machine it ran on, and how both look."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import msgspec

BUSY_LOAD = 1.0  # load average of others beyond which clocks are not believed


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: a figure, what it is compared with, and the aim."""

    what: str
    ours: str
    baseline: str
    ratio: float | None
    aim: str
    met: bool | None  # None: nothing was aimed at
    note: str = ""
    by_clock: bool = False  # judged by time that passed: worth nothing on a busy machine


@dataclass(frozen=True, slots=True)
class Machine:
    """Where the figures come from: figures of two machines are not compared."""

    cpu: str
    cores: int
    memory_gb: float
    kernel: str
    python: str
    file_system: str
    load_average_before: float
    compiled_kernel: bool
    commit: str

    @property
    def is_busy(self) -> bool:
        """Others had work for more than one core when the run began."""
        return self.load_average_before > BUSY_LOAD


@dataclass(slots=True)
class Report:
    """A whole run."""

    machine: Machine
    rows: list[Row] = field(default_factory=list)
    samples: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    made_at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    def save(self, path: Path) -> None:
        """As JSON, with every sample that a median was taken of."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(asdict(self)), indent=1) + b"\n")

    def markdown(self) -> str:
        """The table and the machine, as docs/performance.md has them."""
        machine = self.machine
        lines = [
            "| work | broker | compared with | ratio | aim | |",
            "|---|---|---|---|---|---|",
        ]
        for row in self.rows:
            ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
            met = {None: "", True: "met", False: "**not met**"}[row.met]
            if met and row.by_clock and machine.is_busy:
                met = "not judged: busy machine"
            what = f"{row.what} ({row.note})" if row.note else row.what
            lines.append(f"| {what} | {row.ours} | {row.baseline} | {ratio} | {row.aim} | {met} |")
        lines += [
            "",
            f"{machine.cpu}, {machine.cores} cores, {machine.memory_gb:.0f} GB, "
            f"Linux {machine.kernel}, {machine.file_system}, Python {machine.python}, "
            f"kernel {'compiled' if machine.compiled_kernel else 'plain'}; load average before "
            f"{machine.load_average_before:.1f}; commit {machine.commit}, {self.made_at}.",
        ]
        return "\n".join(lines)


def machine_facts(folder: Path) -> Machine:
    """What one has to know to read the figures; `folder` is where the data goes."""
    from iggy_wire import kernel  # here: the tests of this module need no kernel

    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Machine(
        cpu=_cpu_name(),
        cores=len(os.sched_getaffinity(0)),
        memory_gb=pages / 1e9,
        kernel=platform.release(),
        python=platform.python_version(),
        file_system=_file_system(folder),
        load_average_before=os.getloadavg()[0],
        compiled_kernel=kernel.COMPILED,
        commit=_commit(),
    )


def middle(values: list[float]) -> float:
    """The median: one noisy round does not move it."""
    return median(values)


def percentile(values: list[float], percent: float) -> float:
    """The value that `percent` of the others are not above."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def _cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(("model name", "Model")):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _file_system(folder: Path) -> str:
    best = ("", "unknown")
    for line in Path("/proc/mounts").read_text().splitlines():
        _device, mount, kind, *_rest = line.split()
        if folder.resolve().is_relative_to(mount) and len(mount) >= len(best[0]):
            best = (mount, kind)
    return best[1]


def _commit() -> str:
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parent,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


def progress(text: str) -> None:
    """A line for whoever waits; the table itself goes to standard output."""
    print(text, file=sys.stderr, flush=True)

"""What the kernel says of a process: memory, descriptors, processor time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

MIB = 1 << 20


def proportional_bytes(pids: Iterable[int]) -> int:
    """Memory of processes together, shared pages counted once (PSS)."""
    total = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1]) << 10
    return total


def descriptors(pid: int) -> int:
    """Open files and sockets of a process."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def processor_s(pid: int) -> float:
    """Seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def sockets(pid: int) -> int:
    """Open sockets of a process."""
    found = 0
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            found += os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:")
    return found


def highest_bytes(pid: int) -> int:
    """The most memory that a process ever had, shared pages included."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    raise AssertionError(f"no such line for process {pid}")

"""How many cores this process may use: the affinity mask, and the limit of a container."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Final

CGROUP: Final = Path("/sys/fs/cgroup")
_QUOTA_AND_PERIOD: Final = 2


def usable_cores(cgroup: Path = CGROUP) -> int:
    """Cores of the affinity mask, or fewer if the container's quota is smaller (rounded up).

    A pod with `limits.cpu: 2` on a machine with 64 cores sees all 64, and would be throttled to a
    crawl with a shard on each.
    """
    cores = len(os.sched_getaffinity(0))
    quota = _quota(cgroup)
    return cores if quota is None else max(1, min(cores, math.ceil(quota)))


def _quota(cgroup: Path) -> float | None:
    """Cores' worth of time that the control group grants; None without a limit."""
    words = _words(cgroup / "cpu.max")  # version 2: quota (or max) and period
    if not words:
        words = _words(cgroup / "cpu" / "cpu.cfs_quota_us")  # version 1: two files
        words += _words(cgroup / "cpu" / "cpu.cfs_period_us")
    if len(words) != _QUOTA_AND_PERIOD or not all(word.isdecimal() for word in words):
        return None
    quota, period = (int(word) for word in words)
    return quota / period if quota and period else None


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []

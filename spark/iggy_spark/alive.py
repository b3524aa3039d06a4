"""The job's sign of life: a file that a probe judges. `python -m iggy_spark.alive FILE` ends with 0
as long as the job is well.

Well is a job whose batches end, or that has nothing to do; long batches are allowed for. The file
says until when its word holds, on the clock of the machine, which no correction of the time moves,
and whose word it is: in a pod whose container was started anew the old file is still there.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

TRIGGERS_MAX: Final = 10  # without the end of a batch; then the query is stuck
STUCK_S_MIN: Final = 900.0  # a batch of many messages into a slow target takes its time
RENEW_S: Final = 1.0
_FIRST_PROCESS: Final = Path("/proc/1/stat")


class Sign:
    """Written again and again; without a path nothing is written."""

    def __init__(self, path: str | None, *, interval_ms: int) -> None:
        """`interval_ms` is the time between two triggers."""
        self._path = None if path is None else Path(path)
        self._limit_s = max(STUCK_S_MIN, TRIGGERS_MAX * interval_ms / 1000)
        self._until_s = 0.0
        self._written_s = 0.0

    def moved(self) -> None:
        """Something has ended well, or there was nothing to do."""
        self._until_s = time.monotonic() + self._limit_s

    def write(self) -> None:
        """Give one's word. Cheap: to be called all the time."""
        now_s = time.monotonic()
        if self._path is None or now_s - self._written_s < RENEW_S:
            return
        self._written_s = now_s
        until_s = min(self._until_s, now_s + STUCK_S_MIN)  # a frozen process must not stay well
        unfinished = self._path.with_name(f"{self._path.name}.new")
        unfinished.write_text(json.dumps({"life": _life(), "until_s": until_s}), "utf-8")
        unfinished.replace(self._path)


def is_well(path: Path) -> bool:
    """Whether the word of this container's job still holds."""
    try:
        told = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return False
    return bool(told["life"] == _life() and time.monotonic() < told["until_s"])


def _life() -> str:
    """When the container's first process started: another one after each restart."""
    if not _FIRST_PROCESS.exists():
        return str(os.getppid())
    # Field 22; the name before it is in brackets, and may hold spaces.
    return _FIRST_PROCESS.read_text("utf-8").rpartition(")")[2].split()[19]


def main(arguments: Sequence[str]) -> int:
    """Exit code 0: well."""
    if is_well(Path(arguments[0])):
        return 0
    sys.stderr.write("no batch has ended for too long, or the job has not begun\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

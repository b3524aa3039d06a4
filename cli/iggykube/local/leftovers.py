"""Processes of an instance that was killed: the next one ends them before it starts its own."""

import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

import msgspec

from iggykube.local.folders import Folders, write_private
from iggykube.local.processes import process_started_at

LEFTOVER_S_MAX: Final = 60.0
_PAUSE_S: Final = 0.05


class Remembered(msgspec.Struct, frozen=True):
    """A process of ours. `started_at` tells it from a later one of the same number."""

    pid: int
    started_at: str


def remember(folders: Folders, pids: Iterable[int]) -> None:
    """Write down what runs, jobs first: in this order they are ended."""
    processes = [Remembered(pid, process_started_at(pid)) for pid in pids]
    write_private(folders.run / "processes.json", msgspec.json.encode(processes).decode())


def end_leftovers(folders: Folders) -> Iterator[str]:
    """End what an instance that was killed has left behind; what was done, for people."""
    try:
        text = (folders.run / "processes.json").read_bytes()
        processes = msgspec.json.decode(text, type=list[Remembered])
    except (OSError, msgspec.MsgspecError):
        return
    for process in processes:
        if process.started_at and process_started_at(process.pid) == process.started_at:
            _end(process)
            yield f"ended process {process.pid}, left over from an instance that was killed"


def _end(process: Remembered) -> None:
    deadline_s = time.monotonic() + LEFTOVER_S_MAX
    number = int(signal.SIGTERM)
    while process_started_at(process.pid) == process.started_at:
        with suppress(ProcessLookupError):  # it may end at any moment
            os.kill(process.pid, number)
        time.sleep(_PAUSE_S)
        number = signal.SIGKILL if time.monotonic() > deadline_s else 0

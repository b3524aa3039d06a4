"""Long-lived processes: started with a note of who they are, found and ended by that note."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from .trouble import OUTPUT_LINES_SHOWN

STOP_S = 30.0
STEP_S = 0.05


@dataclass(frozen=True, slots=True)
class Note:
    """One process that was started: its number alone could be another's by now."""

    pid: int
    started: int  # clock ticks after the machine's start, from /proc
    boot: str
    fingerprint: str  # of the command and its settings: another one means a restart


class Processes:
    """The notes of one cluster, a file for each process."""

    def __init__(self, notes: Path, logs: Path) -> None:
        self._notes = notes
        self._logs = logs

    def log(self, name: str) -> Path:
        return self._logs / f"{name}.log"

    def log_end(self, name: str) -> str:
        if not self.log(name).exists():
            return "(no log)"
        lines = self.log(name).read_text(errors="replace").splitlines()
        return "\n".join(lines[-OUTPUT_LINES_SHOWN:])

    def running(self, name: str) -> Note | None:
        """The process of that name, if it is still the one that was started."""
        path = self._notes / f"{name}.json"
        if not path.exists():
            return None
        note = Note(**json.loads(path.read_text()))
        alive = note.boot == _boot() and _started(note.pid) == note.started
        return note if alive else None

    def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        fingerprint: str,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start it apart from this session; what an earlier one wrote is kept as `.log.1`."""
        self._notes.mkdir(parents=True, exist_ok=True)
        self._logs.mkdir(parents=True, exist_ok=True)
        log = self.log(name)
        if log.exists():
            log.replace(log.with_suffix(".log.1"))
        pid = os.posix_spawnp(
            command[0],
            list(command),
            os.environ | dict(environment or {}),
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
        note = Note(pid, _started(pid) or 0, _boot(), fingerprint)
        # Written whole: a note that is cut would lose a process.
        unfinished = self._notes / f"{name}.unfinished"
        unfinished.write_text(json.dumps(asdict(note)))
        unfinished.replace(self._notes / f"{name}.json")

    def stop(self, name: str, within_s: float = STOP_S) -> None:
        """Ask, wait, insist; a process that is gone or another's is left alone."""
        note = self.running(name)
        if note is not None:
            _signal(note.pid, signal.SIGTERM)
            if not self._ended(name, within_s):
                _signal(note.pid, signal.SIGKILL)
                self._ended(name, within_s)
        (self._notes / f"{name}.json").unlink(missing_ok=True)

    def _ended(self, name: str, within_s: float) -> bool:
        deadline = time.monotonic() + within_s
        while self.running(name) is not None:
            if time.monotonic() > deadline:
                return False
            time.sleep(STEP_S)
        return True


def fingerprint(command: Sequence[str], settings: Sequence[Path]) -> str:
    """Changes with the command, with a settings file, and with nothing else."""
    digest = hashlib.sha256("\0".join(command).encode())
    for path in settings:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # it ended by itself just now
        os.kill(pid, number)


def _started(pid: int) -> int | None:
    """When a process started; None for one that has ended, also if nobody has asked how."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()  # the name before may hold anything
    return None if fields[0] == "Z" else int(fields[19])


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()

"""A child process with its log, its lines of output and an orderly end."""

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final

import msgspec

from iggykube.local.folders import LOG_BYTES_MAX

LINE_BYTES_MAX: Final = 1 << 16
_READ_BYTES: Final = 1 << 16
_TAIL_BYTES: Final = 1 << 14
_GRAVE: Final = ("error", "critical")
_DEAD_STATES: Final = "ZX"  # ended, but nobody has asked for its exit code


class LogLine(msgspec.Struct, frozen=True):
    """A line of a broker's log, as far as it is read here."""

    level: str = ""
    message: str = ""


class Child:
    """One process in a session of its own, so that Ctrl-C reaches only us."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        folder: Path,
        log: Path,
        reads_lines: bool = False,
    ) -> None:
        """Start it in `folder`. `reads_lines`: stdout comes to us; else it goes to the log too."""
        with log.open("ab") as file:
            set_aside(log)
            self._process = subprocess.Popen(
                command,
                env=dict(environment),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if reads_lines else file,
                stderr=file,
                start_new_session=True,
            )
        self._log = log
        self._log_start = log.stat().st_size
        self._pending = b""
        self._is_at_end = False
        if self._process.stdout is not None:
            os.set_blocking(self._process.stdout.fileno(), False)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def output(self) -> IO[bytes] | None:
        """For select: readable when there are lines. None if there will be no more."""
        return None if self._is_at_end else self._process.stdout

    @property
    def exit_code(self) -> int | None:
        """None while it runs; minus a signal's number if that ended it."""
        return self._process.poll()

    def lines(self) -> list[bytes]:
        """Whole lines that have come since the last call. A line that is too long is dropped."""
        stream = self._process.stdout
        chunk: bytes | None = b""
        while stream is not None and (chunk := stream.read(_READ_BYTES)):
            self._pending += chunk
        self._is_at_end = chunk is not None  # None: nothing to read for now
        *lines, self._pending = self._pending.split(b"\n")
        if len(self._pending) > LINE_BYTES_MAX:
            self._pending = b""
        return [line for line in lines if line and len(line) <= LINE_BYTES_MAX]

    def limit_log(self) -> None:
        """Keep its log small. To be called now and then."""
        if set_aside(self._log):
            self._log_start = 0

    def terminate(self) -> None:
        """Ask it to finish."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it and all its children at once."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)

    def wait(self, timeout_s: float) -> int | None:
        """Its exit code, or None if it still runs after `timeout_s`."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def close(self) -> None:
        """Let go of its output once it has ended."""
        if self._process.stdout is not None:
            self._process.stdout.close()

    def reason(self, exit_code: int) -> str:
        """Why it ended: the signal, or else what it said last if that was not in good order."""
        if exit_code < 0:
            name = signal.Signals(-exit_code).name
            hint = "; the system does that when memory runs out" if name == "SIGKILL" else ""
            return f"ended by {name}{hint}"
        words = self.last_words()
        try:
            line = msgspec.json.decode(words, type=LogLine)
        except msgspec.MsgspecError:
            return words or f"exit code {exit_code}"
        return line.message if line.level in _GRAVE else f"exit code {exit_code}"

    def last_words(self) -> str:
        """The last line that this process wrote to its log, to say why it ended."""
        if not self._log.exists():
            return ""
        with self._log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(self._log_start, size - _TAIL_BYTES))
            text = file.read().decode(errors="replace").rstrip()
        return text.rpartition("\n")[2].strip()


def set_aside(log: Path) -> bool:
    """Move what is in a log to `.1` if it is too much; whether it was.

    Its process keeps the file open and appends, so that is copied and emptied: a line written in
    between is lost. So is the old content where the disk has no room for the copy.
    """
    try:
        if log.stat().st_size <= LOG_BYTES_MAX:
            return False
    except FileNotFoundError:  # somebody has tidied up
        return False
    older = log.with_name(log.name + ".1")
    try:
        shutil.copyfile(log, older)
    except OSError:
        older.unlink(missing_ok=True)
    os.truncate(log, 0)
    return True


def process_started_at(pid: int) -> str:
    """A mark that tells a process from a later one of the same number; empty if it is gone."""
    try:
        # Linux' stat: the name may hold blanks and brackets; behind it state, then field 22, the
        # start time.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] in _DEAD_STATES else fields[19]
    except (OSError, IndexError):
        return ""

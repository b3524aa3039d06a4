"""The main job on the real thing, small: broker, official client, Spark, Parquet. Also cut off."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROWS = 20_000
WAIT_S = 240


class Demo:
    """One run of `make demo`."""

    def __init__(self, data: Path) -> None:
        command = [
            *(sys.executable, "-W", "error", str(ROOT / "demo" / "run.py")),
            *("--data", str(data), "--rows", str(ROWS), "--port", "0", "--monitoring-port", "0"),
        ]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "COLUMNS": "100"},
        )
        self.lines: list[str] = []

    def until(self, pattern: str) -> None:
        """Read its output up to a line with this pattern."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            if re.search(pattern, line):
                return
        pytest.fail(f"{pattern!r} never came:\n" + "\n".join(self.lines))

    def end(self) -> int:
        """Read the rest and return the exit code."""
        output, _ = self.process.communicate(timeout=WAIT_S)  # closes the pipe, too
        self.lines += output.splitlines()
        return self.process.returncode

    @property
    def table(self) -> list[str]:
        """The rows of the table at the end."""
        return [line for line in self.lines if line.startswith("│")]

    @property
    def warnings(self) -> list[str]:
        """Lines that a user would have to ignore."""
        return [line for line in self.lines if re.search(r"warn|exception|traceback", line, re.I)]


@pytest.mark.timeout(4 * WAIT_S)
def test_a_run_that_was_cut_short_is_completed_without_duplicates(tmp_path: Path) -> None:
    killed = Demo(tmp_path)
    killed.until(r"sent [1-9][\d,]*, committed")
    killed.process.send_signal(signal.SIGKILL)
    killed.end()

    interrupted = Demo(tmp_path)
    interrupted.until(r"sink running")
    interrupted.process.send_signal(signal.SIGINT)
    assert interrupted.end() == 128 + signal.SIGINT
    assert interrupted.lines[-2:] == [
        "Stopping: the sink finishes its batch (Ctrl-C again: at once).",
        "Stopped. The next run goes on from here.",
    ]
    assert interrupted.warnings == []

    completed = Demo(tmp_path)
    assert completed.end() == 0, "\n".join(completed.lines)
    assert completed.warnings == []
    assert f"{ROWS:,}" in completed.table[-1]
    assert f"All {ROWS:,} flights sent are in the files, none twice." in completed.lines

    again = Demo(tmp_path)
    assert again.end() == 0, "\n".join(again.lines)
    assert any(line.strip().startswith("sent nothing") for line in again.lines)
    assert again.table == completed.table
    assert logs_without_trouble(tmp_path / "logs") == []


def logs_without_trouble(folder: Path) -> list[str]:
    """Lines of the children's logs that say more than that all is well."""
    return [
        line
        for log in sorted(folder.iterdir())
        for line in log.read_text().splitlines()
        if re.search(r'WARN|ERROR|Traceback|"level": ?"(warn|error)', line)
    ]

"""The test cluster's processes: found again by their note, and never mistaken for another."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e_cluster.processes import Processes, fingerprint
from waiting import wait_until

# Says that it is there, then waits; `stubborn` does not end when it is asked to.
STUBBORN = (
    "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "print('here', flush=True); signal.pause()"
)
WILLING = "import signal; print('here', flush=True); signal.pause()"


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    found = Processes(tmp_path / "notes", tmp_path / "logs")
    yield found
    found.stop("one")


def started(processes: Processes, code: str = WILLING) -> int:
    processes.start("one", [sys.executable, "-c", code], fingerprint="a")
    wait_until(lambda: "here" in processes.log("one").read_text(), "the process is there")
    note = processes.running("one")
    assert note is not None
    return note.pid


def test_a_process_is_found_again_by_its_note(processes: Processes, tmp_path: Path) -> None:
    pid = started(processes)

    note = Processes(tmp_path / "notes", tmp_path / "logs").running("one")

    assert note is not None
    assert (note.pid, note.fingerprint) == (pid, "a")


def test_a_process_ends_when_asked(processes: Processes) -> None:
    pid = started(processes)

    processes.stop("one")

    assert processes.running("one") is None
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGTERM


def test_one_that_does_not_end_is_killed(processes: Processes) -> None:
    pid = started(processes, STUBBORN)

    processes.stop("one", within_s=0.2)

    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL


def test_one_that_ended_by_itself_does_not_run(processes: Processes) -> None:
    pid = started(processes)

    os.kill(pid, signal.SIGKILL)

    wait_until(lambda: processes.running("one") is None, "it is seen as ended")
    os.waitpid(pid, 0)


@pytest.mark.parametrize("change", [{"started": 1}, {"boot": "another"}])
def test_a_process_that_took_its_number_is_left_alone(
    processes: Processes, tmp_path: Path, change: dict[str, object]
) -> None:
    pid = started(processes)
    note = tmp_path / "notes" / "one.json"
    whole = note.read_text()
    note.write_text(json.dumps(json.loads(whole) | change))

    seen = processes.running("one")
    processes.stop("one")

    assert seen is None
    os.kill(pid, 0)  # it lives
    note.write_text(whole)


def test_the_log_of_the_life_before_is_kept(processes: Processes) -> None:
    started(processes)
    processes.stop("one")
    processes.log("one").write_text("the first life")

    started(processes)

    assert processes.log("one").with_suffix(".log.1").read_text() == "the first life"


def test_a_fingerprint_changes_with_command_and_settings(tmp_path: Path) -> None:
    settings = tmp_path / "settings"
    settings.write_text("a")
    before = fingerprint(["program", "--a"], [settings])

    assert fingerprint(["program", "--a"], [settings]) == before
    assert fingerprint(["program", "--b"], [settings]) != before
    settings.write_text("b")
    assert fingerprint(["program", "--a"], [settings]) != before

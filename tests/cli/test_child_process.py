"""A child process and its log."""

import os
import sys
from pathlib import Path

import pytest

from iggykube.local import processes
from iggykube.local.processes import Child, set_aside

LIMIT_BYTES = 1000


@pytest.fixture(autouse=True)
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "LOG_BYTES_MAX", LIMIT_BYTES)


def chatty(log: Path, line: str, count: int) -> Child:
    code = f"import os\nfor _ in range({count}): os.write(2, b{line!r} + b'\\n')"
    environment = dict(os.environ)
    return Child([sys.executable, "-c", code], environment=environment, folder=log.parent, log=log)


def test_a_log_stays_small_while_its_process_writes_on(tmp_path: Path) -> None:
    log = tmp_path / "child.log"
    code = (
        "import os, sys\n"
        "os.write(2, b'first ' * 200)\n"
        "os.write(1, b'written\\n')\n"
        "while not os.path.exists('go on'): pass\n"
        "os.write(2, b'last words\\n')\n"
    )
    child = Child(
        [sys.executable, "-c", code],
        environment=dict(os.environ),
        folder=tmp_path,
        log=log,
        reads_lines=True,
    )
    while not child.lines():
        pass
    child.limit_log()
    (tmp_path / "go on").touch()
    assert child.wait(60) == 0
    child.close()

    assert log.read_bytes() == b"last words\n"
    assert (tmp_path / "child.log.1").read_bytes() == b"first " * 200
    assert child.last_words() == "last words"


def test_a_log_that_was_too_large_is_set_aside_at_the_start(tmp_path: Path) -> None:
    log = tmp_path / "child.log"
    log.write_bytes(b"x" * (LIMIT_BYTES + 1))

    child = chatty(log, "new", 1)
    child.wait(60)

    assert log.read_bytes() == b"new\n"
    assert (tmp_path / "child.log.1").stat().st_size == LIMIT_BYTES + 1


def test_a_log_within_its_limit_is_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "child.log"
    log.write_bytes(b"x" * LIMIT_BYTES)

    assert not set_aside(log)
    assert [path.name for path in tmp_path.iterdir()] == ["child.log"]


def test_a_log_that_somebody_removed_is_no_trouble(tmp_path: Path) -> None:
    child = chatty(tmp_path / "child.log", "words", 1)
    child.wait(60)
    (tmp_path / "child.log").unlink()

    child.limit_log()

    assert child.last_words() == ""


def test_what_cannot_be_kept_aside_is_dropped(tmp_path: Path) -> None:
    log = tmp_path / "child.log"
    log.write_bytes(b"x" * (LIMIT_BYTES + 1))
    (tmp_path / "child.log.1").symlink_to("/dev/full")

    assert set_aside(log)

    assert log.read_bytes() == b""
    assert not (tmp_path / "child.log.1").exists()


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import os; os.kill(os.getpid(), 15)", "ended by SIGTERM"),
        ("import os; os.kill(os.getpid(), 9)", "ended by SIGKILL; the system does that when"),
        ("import sys; sys.exit('no such file: x')", "no such file: x"),
        ("import sys; sys.exit(3)", "exit code 3"),
        (
            'import sys; sys.exit(\'{"level": "critical", "message": "shard 1 failed"}\')',
            "shard 1 failed",
        ),
        ('import sys; sys.exit(\'{"level": "info", "message": "ready"}\')', "exit code 1"),
    ],
)
def test_why_a_process_ended(tmp_path: Path, code: str, reason: str) -> None:
    log = tmp_path / "child.log"
    command = [sys.executable, "-c", code]
    child = Child(command, environment=dict(os.environ), folder=tmp_path, log=log)
    exit_code = child.wait(60)

    assert exit_code is not None
    assert child.reason(exit_code).startswith(reason)

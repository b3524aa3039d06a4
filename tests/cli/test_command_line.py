import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from iggykube.__main__ import run
from iggykube.local import Folders

SAMPLE = Path(__file__).parents[2] / "docs" / "samples" / "flights.yaml"
TOPIC = """\
apiVersion: iggykube.dev/v1alpha1
kind: IggyTopic
metadata: {name: orders}
spec: {streamRef: {name: shop}%s}
"""


def iggykube(
    *arguments: str | Path, environment: dict[str, str] | None = None, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "iggykube", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=os.environ | (environment or {}),
        stdin=subprocess.DEVNULL,
    )


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "topic.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["up"], ["'-f'"]),
        (["up", "-f", "none.yaml"], ["'-f'", "none.yaml"]),
        (["up", "-f", str(SAMPLE), "--port", "70000"], ["'--port'", "70000"]),
        (["up", "-f", str(SAMPLE), "--port", "-1"], ["'--port'", "-1"]),
        (["up", "-f", str(SAMPLE), "--monitoring-port", "x"], ["'--monitoring-port'", "'x'"]),
        (["status", "--output", "xml"], ["'--output'", "'xml'"]),
        (["status", "--dta", "x"], ["--dta", "--data"]),
        (["chek"], ["'chek'", "'check'"]),
        (["status", "more"], ["more"]),
    ],
)
def test_a_wrong_command_is_one_line_and_code_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: list[str]
) -> None:
    exit_code = run(arguments)

    told = capsys.readouterr()
    assert exit_code == 2
    assert told.out == ""
    assert len(told.err.splitlines()) == 1
    assert all(word in told.err for word in words), told.err


@pytest.mark.parametrize(
    "arguments", [["--help"], ["up", "--help"], ["status", "-h"], ["--version"]]
)
def test_help_goes_to_stdout(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    exit_code = run(arguments)

    told = capsys.readouterr()
    assert (exit_code, told.err) == (0, "")
    assert "iggykube" in told.out


def test_check_accepts_the_sample() -> None:
    ended = iggykube("check", "-f", SAMPLE)

    assert ended.returncode == 0
    assert ended.stdout == "IggyStream flights: ok\nIggyTopic departures: ok\n"
    assert ended.stderr == ""


def test_check_tells_every_problem_on_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, TOPIC % ", partitons: 3, compression: Zip")

    ended = iggykube("check", "-f", path)

    assert (ended.returncode, ended.stdout) == (1, "")
    lines = ended.stderr.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith(f"{path}:4:")
    assert "did you mean partitions?" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_check_notes_what_stands_elsewhere(tmp_path: Path) -> None:
    ended = iggykube("check", "-f", write(tmp_path, TOPIC % ""))

    assert ended.returncode == 0
    assert "no IggyStream of the name shop" in ended.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (TOPIC % "", "no IggyStream of the name shop in the files"),
        ("kind: [", "this is not YAML"),
        (TOPIC % ", sinks: [{name: a, type: Files, files: {path: a}, payload: {format: Avro}, "
         "checkpoint: {volume: {}}}]", "spec.sinks[0].payload.schema: is missing"),
    ],
)  # fmt: skip
def test_up_refuses_files_before_it_touches_anything(tmp_path: Path, text: str, words: str) -> None:
    path = write(tmp_path, text)

    ended = iggykube("up", "-f", path, "--data", tmp_path / "data")

    assert ended.returncode == 1
    assert words in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("command", ["status", "down"])
def test_without_an_instance_there_is_one_line_and_code_1(tmp_path: Path, command: str) -> None:
    ended = iggykube(command, "--data", tmp_path)

    assert (ended.returncode, ended.stdout) == (1, "")
    assert len(ended.stderr.splitlines()) == 1
    assert "no instance runs" in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_data_directory_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    topic = write(
        tmp_path, "apiVersion: iggykube.dev/v1alpha1\nkind: IggyStream\nmetadata: {name: s}\n"
    )

    ended = iggykube("up", "-f", topic, "--data", tmp_path / "file" / "data")

    assert (ended.returncode, ended.stdout) == (1, "")
    assert len(ended.stderr.splitlines()) == 1
    assert "data directory" in ended.stderr
    assert "--data" in ended.stderr


def test_no_home_is_no_matter(tmp_path: Path) -> None:
    ended = iggykube("status", environment={"HOME": "/nonexistent"}, folder=tmp_path)

    assert ended.returncode == 1
    assert "no instance runs" in ended.stderr


def test_a_full_stdout_is_a_failure_without_traceback() -> None:
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "iggykube", "check", "-f", str(SAMPLE)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert ended.returncode == 1
    assert "No space left" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_closed_stdout_is_a_failure_without_traceback() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [sys.executable, "-m", "iggykube", "check", "-f", str(SAMPLE)],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)

    assert ended.returncode == 1
    assert ended.stderr == ""


def test_secrets_are_for_the_owner_only(tmp_path: Path) -> None:
    folders = Folders(tmp_path / "data")
    folders.create()

    first, second = folders.password(), folders.password()

    assert first == second
    assert len(first) >= 32
    assert stat.S_IMODE(folders.password_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folders.root.stat().st_mode) == 0o700

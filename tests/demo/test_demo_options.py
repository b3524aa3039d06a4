"""What the demo says to options and files that it cannot use, and to a Ctrl-C before it began."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from flights_demo.main import main

RUN = Path(__file__).resolve().parents[2] / "demo" / "run.py"
STREAM = "apiVersion: iggykube.dev/v1alpha1\nkind: IggyStream\nmetadata: {name: a}\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--rows", "0"], "--rows: 0 is no number of flights"),
        (["--rows", "-5"], "--rows: -5 is no number of flights"),
        (["--rows", "many"], "--rows: many is no number of flights"),
        (["--port", "65536"], "--port: 65536 is no port"),
        (["--monitoring-port", "x"], "--monitoring-port: x is no port"),
    ],
)
def test_a_wrong_option_is_named(
    capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    assert ended.value.code == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (STREAM, "needs a stream and one topic whose first sink is Files"),
        (STREAM + 'spec: {"[brackets]": 1}\n', "[brackets]"),
        (STREAM + "spec: {foo: 1}\n", "spec.foo: unknown field"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, told: str
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(text)

    assert main(["--file", str(file), "--data", str(tmp_path / "data")]) == 1

    assert told in capsys.readouterr().out


def test_an_interrupt_while_modules_are_read_leaves_no_trace() -> None:
    # The module that is read first interrupts, as a person might.
    code = (
        "import os, runpy, signal, sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.startswith('flights_demo'): os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        f"runpy.run_path({str(RUN)!r}, run_name='__main__')\n"
    )

    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert (ended.returncode, ended.stderr) == (128 + signal.SIGINT, "")

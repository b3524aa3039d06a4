"""Spark 4.1, which is no part of the environment: an interpreter that has it, where there is one.

In the folder that `SPARK_41` names, else in `build/spark-4.1`. How to make it says
docs/testing.md.
"""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from quick_java import QUICK

FOLDER_VARIABLE = "SPARK_41"
ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests/support/spark_41_program.py"
PATHS = ("wire", "broker", "operator", "spark", "cli", "tests/support")
PROGRAM_S = 1200.0  # it takes one minute, or many on a busy machine


def interpreter() -> Path:
    """The Python. Skips the test where there is none."""
    found = _folder() / "bin/python"
    if not found.exists():
        pytest.skip(
            f"no Python with PySpark 4.1 in {_folder()}: let {FOLDER_VARIABLE} name its folder, or "
            'make one as docs/testing.md says, "Spark 4.1"'
        )
    return found


def run(
    *words: str, folder: Path, more: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A program of ours in it, by its words after `python`, to its end; `more` variables for it."""
    env = {
        **os.environ,
        **QUICK,
        **(more or {}),
        "PYTHONPATH": ":".join(str(ROOT / path) for path in PATHS),
        "PYSPARK_PYTHON": str(interpreter()),
    }
    return subprocess.run(
        [str(interpreter()), *words],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=PROGRAM_S,
    )


def submit(
    program: Path, *words: str, conf: Mapping[str, str], env: Mapping[str, str], folder: Path
) -> subprocess.CompletedProcess[str]:
    """A program with the table jars and the settings beside it, as spark-submit would start it."""
    jars = ",".join(str(path) for path in sorted((_folder() / "jars").glob("*.jar")))
    given = ["--properties-file", str(program.with_suffix(".conf")), "--jars", jars]
    given += [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    variables = {**env, "PYSPARK_SUBMIT_ARGS": shlex.join([*given, "pyspark-shell"])}
    return run(str(program), *words, folder=folder, more=variables)


def seen(broker: str, folder: Path) -> dict[str, Any]:
    """What the program has seen, by part."""
    done = run(str(PROGRAM), broker, str(_folder() / "jars"), str(folder), folder=folder)
    if done.returncode:
        sys.stderr.write(done.stderr)
        pytest.fail(f"{PROGRAM.name}: exit code {done.returncode}, see above", pytrace=False)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _folder() -> Path:
    return Path(os.environ.get(FOLDER_VARIABLE) or ROOT / "build/spark-4.1")

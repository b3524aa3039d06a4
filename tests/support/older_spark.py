"""Sparks that are older than the environment's: those of the variants of the image.

`make older-sparks` makes an interpreter with one of them, and the jars of its image, in
`build/spark-VERSION`.
"""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from quick_java import QUICK

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests/support/older_spark_program.py"
PATHS = ("wire", "broker", "operator", "spark", "cli", "tests/support")
PROGRAM_S = 1200.0  # it takes half a minute, or many on a busy machine


@dataclass(frozen=True)
class OlderSpark:
    """One of them, by what its version begins with, such as 4.1."""

    version: str

    @property
    def _folder(self) -> Path:
        return ROOT / f"build/spark-{self.version}"

    @property
    def python(self) -> Path:
        """The interpreter. Skips the test where there is none."""
        found = self._folder / "bin/python"
        if not found.exists():
            pytest.skip(f"no Python with PySpark {self.version}: run: make older-sparks")
        return found

    def jars(self) -> str:
        """The jars of the image, as Spark's settings name them."""
        return ",".join(str(path) for path in sorted((self._folder / "jars").glob("*.jar")))

    def run(
        self, *words: str, folder: Path, more: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """A program of ours, by its words after `python`, to its end; `more` variables for it."""
        env = {
            **os.environ,
            **QUICK,
            **(more or {}),
            "PYTHONPATH": ":".join(str(ROOT / path) for path in PATHS),
            "PYSPARK_PYTHON": str(self.python),
        }
        return subprocess.run(
            [str(self.python), *words],
            cwd=folder,
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=PROGRAM_S,
        )

    def submit(
        self,
        program: Path,
        *words: str,
        conf: Mapping[str, str],
        env: Mapping[str, str],
        folder: Path,
    ) -> subprocess.CompletedProcess[str]:
        """A program with the jars and the settings beside it, as spark-submit would start it."""
        given = ["--properties-file", str(program.with_suffix(".conf")), "--jars", self.jars()]
        given += [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
        variables = {**env, "PYSPARK_SUBMIT_ARGS": shlex.join([*given, "pyspark-shell"])}
        return self.run(str(program), *words, folder=folder, more=variables)

    def seen(self, broker: str, folder: Path) -> dict[str, Any]:
        """What the program has seen, by part."""
        done = self.run(str(PROGRAM), broker, self.jars(), str(folder), folder=folder)
        if done.returncode:
            sys.stderr.write(done.stderr)
            pytest.fail(f"{PROGRAM.name}: exit code {done.returncode}, see above", pytrace=False)
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

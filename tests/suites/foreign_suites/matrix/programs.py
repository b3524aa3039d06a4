"""How a client is fetched and built into the cache, and how its program is run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from foreign_suites import cargo
from foreign_suites.places import SUITES, cache

FETCH_S_MAX = 600.0
CLIENTS = SUITES / "clients"


@dataclass(frozen=True, slots=True)
class Command:
    """What starts a program, and what it needs in its environment."""

    words: Sequence[str]
    environment: Mapping[str, str]


class Program(Protocol):
    """A program of ours on one version of a client."""

    def missing(self) -> str | None:
        """Why it cannot be built here, or None."""

    def built(self, version: str, log: Path) -> Command:
        """Fetch and build what is not in the cache. CalledProcessError: `log` says why."""


class PythonProgram:
    """The wheel in a folder of its own, fetched by name and checked by its hash."""

    def missing(self) -> str | None:
        """Nothing can be."""
        return None

    def built(self, version: str, log: Path) -> Command:
        """Download the wheel."""
        site = _home("python", version)
        if not site.exists():
            requirements = CLIENTS / "python" / f"requirements-{version}.txt"
            fetching = _emptied(site.with_suffix(".new"))
            options = ["--no-deps", "--only-binary=:all:", "--require-hashes", "--quiet"]
            options += [f"--requirement={requirements}", f"--target={fetching}"]
            _run([sys.executable, "-m", "pip", "install", *options], fetching.parent, log)
            fetching.rename(site)
        program = CLIENTS / "python" / "round_trip.py"
        return Command([sys.executable, str(program)], {"PYTHONPATH": str(site)})


class RustProgram:
    """Built with cargo; `feature` chooses the calls of that generation of the client."""

    def __init__(self, feature: str) -> None:
        self._feature = feature
        self.missing = cargo.missing

    def built(self, version: str, log: Path) -> Command:
        """Build from a copy that names the version, so that each keeps its own lock file."""
        source = _home("rust", version)
        shutil.copytree(CLIENTS / "rust", source, dirs_exist_ok=True)
        manifest = source / "Cargo.toml"
        manifest.write_text(manifest.read_text().replace('"=0.11.0"', f'"={version}"'))
        cargo.run(["build", "--features", self._feature], folder=source, log=log)
        program = source / "round-trip"
        shutil.copy(cache() / "cargo-target" / "debug" / "iggy-round-trip", program)
        return Command([str(program)], {"RUST_BACKTRACE": "0"})


class CliProgram:
    """The command line `iggy`, which a program of ours calls again and again."""

    missing = staticmethod(cargo.missing)

    def built(self, version: str, log: Path) -> Command:
        """Install it into the cache."""
        program = cargo.installed(version, log)
        words = [sys.executable, str(CLIENTS / "cli" / "round_trip.py")]
        return Command(words, {"IGGY_PROGRAM": str(program), "PYTHONPATH": str(SUITES)})


class JavaProgram:
    """Built with Maven, which also lists what it needs at run time."""

    def missing(self) -> str | None:
        """Maven brings no Java along."""
        lacking = [name for name in ("java", "mvn") if not shutil.which(name)]
        return f"{' and '.join(lacking)} is not here (Java 17, Maven 3.8)" if lacking else None

    def built(self, version: str, log: Path) -> Command:
        """Compile against that version."""
        source = _home("java", version)
        shutil.copytree(CLIENTS / "java", source, dirs_exist_ok=True)
        goals = ["package", "dependency:copy-dependencies", "-DincludeScope=runtime"]
        _run(["mvn", "--batch-mode", "--quiet", f"-Diggy.version={version}", *goals], source, log)
        target = source / "target"
        path = os.pathsep.join((str(target / "classes"), str(target / "dependency" / "*")))
        return Command(["java", "-cp", path, "RoundTrip"], {})


def _home(language: str, version: str) -> Path:
    folder = cache() / "matrix" / f"{language}-{version}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    return folder


def _emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def _run(command: list[str], folder: Path, log: Path) -> None:
    with log.open("ab") as file:
        subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            timeout=FETCH_S_MAX,
            check=True,
        )

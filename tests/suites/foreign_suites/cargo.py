"""Builds with cargo into the cache, where a build of before is found again."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from foreign_suites.places import cache

BUILD_S_MAX = 5400.0
_MISSING = "cargo is not here (Rust 1.95 or newer)"


def missing() -> str | None:
    """Why nothing can be built here, or None."""
    return None if shutil.which("cargo") else _MISSING


def run(arguments: list[str], *, folder: Path, log: Path) -> None:
    """Run cargo in `folder`. CalledProcessError: it failed, `log` says why."""
    # One folder for all: what two programs share is compiled once. Debug information costs most of
    # the time and space of a build that nobody debugs.
    ours = {"CARGO_TARGET_DIR": str(cache() / "cargo-target"), "CARGO_PROFILE_DEV_DEBUG": "false"}
    with log.open("ab") as file:
        subprocess.run(
            ["cargo", *arguments],
            cwd=folder,
            env=os.environ | ours,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            timeout=BUILD_S_MAX,
            check=True,
        )


def installed(version: str, log: Path) -> Path:
    """The program of the crate `iggy-cli`, built if it is not there. Errors: those of `run`."""
    root = cache() / f"cli-{version}"
    program = root / "bin" / "iggy"
    if not program.exists():
        options = ["--debug", "--locked", "--root", str(root)]
        run(["install", *options, f"iggy-cli@{version}"], folder=cache(), log=log)
    return program

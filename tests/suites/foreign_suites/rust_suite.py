"""Our program on the released Rust client: every command, as steps that print how they ended."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from foreign_suites import cargo
from foreign_suites.broker import TCP_PORT, default_broker, health, run_beside
from foreign_suites.places import SUITES, cache
from foreign_suites.results import Outcome, Result

NAME = "rust"
TITLE = "a program on the crate iggy 0.11.0"
RUN_S_MAX = 600.0
missing = cargo.missing


def run(folder: Path, known: Mapping[str, str], *, keyword: str | None) -> list[Result]:
    """Build the program if it changed, and run it against a fresh broker. Steps need each other."""
    del known
    program = _built(folder)
    output = folder / "steps.txt"
    with default_broker(folder) as broker:
        ending = run_beside(
            broker,
            [str(program), f"127.0.0.1:{TCP_PORT}"],
            folder=folder,
            environment=os.environ,
            output=output,
            limit_s=RUN_S_MAX,
        )
    found = [*read(output.read_text(errors="replace"), ending), *health(broker)]
    return [one for one in found if keyword is None or keyword in one.test]


def read(text: str, ending: str) -> Iterator[Result]:
    """The steps that the program printed, and one more if it did not reach its end."""
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        name, _, detail = rest.partition(": ")
        if word in (Outcome.PASSED.value, Outcome.FAILED.value):
            yield Result(name, Outcome(word), detail)
    if not ending.endswith("ended with 0"):
        yield Result("the whole program", Outcome.FAILED, ending)


def _built(folder: Path) -> Path:
    # Built from a copy, so that cargo's lock file stays in the cache.
    source = cache() / NAME
    shutil.copytree(SUITES / "rust", source, dirs_exist_ok=True)
    cargo.run(["build"], folder=source, log=folder / "build.txt")
    return cache() / "cargo-target" / "debug" / "iggy-probe"

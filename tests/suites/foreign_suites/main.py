"""Runs the suites one after the other, each against a fresh broker, and prints one table.

Exit codes: 0 all went as the list of known failures says, 1 something did not, 2 wrong arguments
or a machine that cannot run it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import CalledProcessError
from typing import Protocol

from foreign_suites import cli_suite, matrix_suite, places, python_suite, rust_suite, table
from foreign_suites.broker import PortTaken
from foreign_suites.matrix import page
from foreign_suites.results import Judged, Result, judge, known_failures


class Suite(Protocol):
    """What a module of a suite has."""

    NAME: str
    TITLE: str

    def missing(self) -> str | None:
        """Why the suite cannot run here, or None."""

    def run(self, folder: Path, known: Mapping[str, str], *, keyword: str | None) -> list[Result]:
        """Run it against a fresh broker, with logs in `folder`; the tests known to fail help."""


_ALL: tuple[Suite, ...] = (python_suite, rust_suite, cli_suite, matrix_suite)
SUITES = {suite.NAME: suite for suite in _ALL}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suites that `arguments` name, or all; the exit code."""
    options = _parser().parse_args(arguments)
    try:
        with places.alone():
            code = _run_all(options.suites or list(SUITES), options.keyword)
            if options.record:
                page.record(places.cache() / "runs" / matrix_suite.NAME / matrix_suite.CELLS)
            return code
    except (places.Busy, PortTaken, CalledProcessError) as error:
        sys.stderr.write(f"interop: {error}\n")
        return 2


def _run_all(names: Sequence[str], keyword: str | None) -> int:
    left_out: dict[str, str] = {}
    judged: list[Judged] = []
    for name in names:
        reason = SUITES[name].missing()
        if reason:
            left_out[name] = reason
        else:
            judged.append(_run(SUITES[name], keyword))
    sys.stdout.write("\n".join(("", *table.lines(judged, left_out), "")))
    return 0 if judged and all(one.is_good for one in judged) else 1


def _run(suite: Suite, keyword: str | None) -> Judged:
    folder = places.fresh_run(suite.NAME)
    sys.stdout.write(f"{suite.NAME}: {suite.TITLE}; logs in {folder}\n")
    sys.stdout.flush()
    started = time.monotonic()
    known = known_failures(places.SUITES / "known_failures.toml", suite.NAME)
    results = suite.run(folder, known, keyword=keyword)
    sys.stdout.write(f"{suite.NAME}: {len(results)} tests in {time.monotonic() - started:.0f} s\n")
    return judge(suite.NAME, results, known, is_whole=keyword is None)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make interop", description="Other people's clients and tests against our broker."
    )
    names = ", ".join(SUITES)
    parser.add_argument("suites", nargs="*", metavar="SUITE", type=_name, help=f"{names}, or all")
    parser.add_argument("-k", dest="keyword", help="only tests that match, as pytest means it")
    parser.add_argument(
        "--record", action="store_true", help="write the matrix into docs/compatibility.md"
    )
    return parser


def _name(text: str) -> str:
    if text not in SUITES:
        raise argparse.ArgumentTypeError(f"no suite {text!r}: write one of {', '.join(SUITES)}")
    return text

"""Runs the suites one after the other, each against a fresh broker, and prints one table.

Exit codes: 0 all went as the list of known failures says, 1 something did not, 2 wrong arguments
or a machine that cannot run it.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from types import ModuleType

from foreign_suites import places, python_suite, table
from foreign_suites.broker import PortTaken
from foreign_suites.results import Judged, judge, known_failures

SUITES = {suite.NAME: suite for suite in (python_suite,)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suites that `arguments` name, or all; the exit code."""
    options = _parser().parse_args(arguments)
    # So that an end from outside ends the broker and the suite too.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    left_out: dict[str, str] = {}
    judged: list[Judged] = []
    for name in options.suites or SUITES:
        reason = SUITES[name].missing()
        if reason:
            left_out[name] = reason
            continue
        try:
            judged.append(_run(SUITES[name], options.keyword))
        except PortTaken as error:
            sys.stderr.write(f"interop: {error}\n")
            return 2
    sys.stdout.write("\n".join(("", *table.lines(judged, left_out), "")))
    return 0 if judged and all(one.is_good for one in judged) else 1


def _run(suite: ModuleType, keyword: str | None) -> Judged:
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
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"of {', '.join(SUITES)}; all")
    parser.add_argument("-k", dest="keyword", help="only tests that match, as pytest means it")
    return parser

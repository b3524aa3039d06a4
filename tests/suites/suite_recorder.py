"""A pytest plugin for suites of others: writes one JSON line per test, as soon as it is known.

Loaded by name into their pytest (`-p suite_recorder`). A line survives a client library that
crashes its process at exit. `SUITE_RESULTS` names the file, `SUITE_KNOWN` a JSON list of tests
that are known to fail: those get little time, since most of them wait for what is not there.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

KNOWN_TIMEOUT_S = 5


class Recorder:
    """Collects the reports of each test's phases and writes the test's outcome after the last."""

    def __init__(self, results: Path, known: frozenset[str]) -> None:
        self._results = results
        self._known = known
        self._outcomes: dict[str, tuple[str, str]] = {}

    def _write(self, line: dict[str, object]) -> None:
        with self._results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Write what will run; shorten what is known to fail."""
        for item in items:
            if item.nodeid in self._known:
                item.add_marker(pytest.mark.timeout(KNOWN_TIMEOUT_S))
        self._write({"collected": [item.nodeid for item in items]})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """The first phase that did not pass is the outcome."""
        if report.outcome != "passed":
            self._outcomes.setdefault(report.nodeid, (report.outcome, _reason(report)))
        if report.when == "teardown":
            outcome, detail = self._outcomes.pop(report.nodeid, ("passed", ""))
            self._write({"test": report.nodeid, "outcome": outcome, "detail": detail})


def _reason(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash else str(report.longrepr)
    return " ".join(text.split())[:300]


def pytest_configure(config: pytest.Config) -> None:
    """Start to record."""
    known = json.loads(Path(os.environ["SUITE_KNOWN"]).read_text())
    config.pluginmanager.register(Recorder(Path(os.environ["SUITE_RESULTS"]), frozenset(known)))

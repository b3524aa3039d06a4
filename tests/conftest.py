"""What tests of several folders share: figures that they measured, printed below a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator

import pytest

FIGURE = "measured"
_NOTED: list[str] = []
_FIGURES: list[str] = []


@pytest.fixture(scope="session")
def measured() -> Callable[[str], None]:
    """Notes one line of what was seen; a run prints them all, in whichever process they were."""

    def note(line: str) -> None:
        test = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0].rpartition("::")[2]
        _NOTED.append(f"{test}: {line}")

    return note


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "teardown":
        report.user_properties += [(FIGURE, line) for line in _NOTED]
        _NOTED.clear()
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "teardown":
        _FIGURES.extend(str(line) for name, line in report.user_properties if name == FIGURE)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _FIGURES:
        terminalreporter.section("measured")
    for line in _FIGURES:
        terminalreporter.write_line(line)

"""What tests of several folders share: figures that they measured, printed below a run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

FIGURE = "measured"
_FIGURES: list[str] = []


@pytest.fixture
def measured(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Notes one line of what was seen; a run prints them all, in whichever process they were."""
    properties, name = request.node.user_properties, request.node.name
    return lambda line: properties.append((FIGURE, f"{name}: {line}"))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "teardown":  # which has those of all phases
        _FIGURES.extend(str(line) for name, line in report.user_properties if name == FIGURE)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _FIGURES:
        terminalreporter.section("measured")
    for line in _FIGURES:
        terminalreporter.write_line(line)

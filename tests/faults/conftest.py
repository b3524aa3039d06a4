"""What the tests of faults share: a place for figures that they measured, printed below a run."""

from collections.abc import Callable
from pathlib import Path

import pytest

FIGURES = pytest.StashKey[list[str]]()
HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # First, so that `-m` already sees the marks: `make faults` asks for them and for long ones.
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.faults)


def pytest_configure(config: pytest.Config) -> None:
    config.stash[FIGURES] = []


@pytest.fixture
def measured(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Notes one line of what was seen; `make faults` prints them all, for docs/reliability.md."""
    figures = request.config.stash[FIGURES]
    name = request.node.name
    return lambda line: figures.append(f"{name}: {line}")


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    figures = config.stash.get(FIGURES, [])
    if figures:
        terminalreporter.section("measured")
    for line in figures:
        terminalreporter.write_line(line)

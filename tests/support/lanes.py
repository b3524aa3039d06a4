"""Plugin of pytest: which tests stand in one lane when there are several (`make test`).

Modules stay whole, since they share brokers. Those of Spark are one lane's: two Sparks at a time on
two cores start Python workers so slowly that Spark gives them up (its own ten seconds).
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

ONE_LANE = "tests/spark/"


class Lanes(LoadFileScheduling):  # type: ignore[misc]
    """By module, but for those of Spark."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(ONE_LANE):
            return ONE_LANE
        scope: str = super()._split_scope(nodeid)
        return scope


@pytest.hookimpl
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Lanes:
    """Asked by xdist, whatever `--dist` says."""
    return Lanes(config, log)

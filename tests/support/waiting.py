"""Waiting for a condition, with an end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

WITHIN_S = 30.0
STEP_S = 0.02


def wait_until(
    condition: Callable[[], object], what: str | Callable[[], str], within_s: float = WITHIN_S
) -> None:
    """Return when `condition` holds; fail with `what` was waited for when it does not in time."""
    deadline = time.monotonic() + within_s
    while not condition():
        told = what if isinstance(what, str) else what()
        assert time.monotonic() < deadline, f"not within {within_s:.0f} s: {told}"
        time.sleep(STEP_S)


def eventually(
    look: Callable[[], T], wanted: T, within_s: float = WITHIN_S, step_s: float = STEP_S
) -> T:
    """What `look` finds: as soon as it is `wanted`, or else the last that it found in time."""
    deadline = time.monotonic() + within_s
    while (found := look()) != wanted and time.monotonic() < deadline:
        time.sleep(step_s)
    return found

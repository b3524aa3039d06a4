"""How long to wait after a failure: 1 s, doubling to 5 min, with jitter from outside."""

from collections.abc import Callable
from typing import Final, TypeAlias

PAUSE_S_MIN: Final = 1.0
PAUSE_S_MAX: Final = 300.0
_JITTER: Final = 0.2  # the last fifth of a pause is left to chance
_DOUBLINGS_MAX: Final = 16  # far beyond PAUSE_S_MAX

Chance: TypeAlias = Callable[[], float]
"""A number from 0 to 1, as `random.random` gives."""


def pause_s(failures: int, chance: Chance) -> float:
    """The pause after so many failures in a row; counts from 1. Never above PAUSE_S_MAX."""
    assert failures >= 1, "nothing failed"
    doubled = PAUSE_S_MIN * 2.0 ** min(failures - 1, _DOUBLINGS_MAX)
    return min(PAUSE_S_MAX, doubled) * (1 - _JITTER * chance())

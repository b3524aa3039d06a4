"""A target that does not answer is asked again for a while. It is never taken for a bad message."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeVar, get_args

from iggy_spark.errors import SinkError

T = TypeVar("T")

Cause = Literal["busy", "conflict", "held", "unreachable"]
"""What kept a target: it puts the call off, another writer was first, nothing was sent because it
has failed too often (`sinks.circuit`), there is no way to it.
"""
CAUSES: Final[tuple[Cause, ...]] = get_args(Cause)
DOUBLINGS_MAX: Final = 64  # of a pause
AWAY_FAILURES: Final = 2  # in a row; a single one is no news


class TransientError(Exception):
    """A target cannot just now: not reached, too busy, a conflict with another writer.

    `after_s` is how long it wants to be left alone, if it has said so.
    """

    def __init__(self, reason: str, *, after_s: float | None = None, cause: Cause = "busy") -> None:
        """`reason` is a clause for a person, without secrets."""
        super().__init__(reason)
        self.after_s, self.cause = after_s, cause


@dataclass(frozen=True, slots=True)
class Policy:
    """How long from the first failure on, and with which pauses. Each pause is drawn between 0
    and a bound that doubles.
    """

    timeout_s: float = 600.0
    initial_s: float = 0.5
    max_s: float = 30.0


def nobody(reason: str | None) -> None:
    """Tells nobody."""


class Retry:
    """Carries calls out again while they are transient; `counts` says how often that was so."""

    def __init__(
        self,
        policy: Policy,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        draw: Callable[[], float] = random.random,
        away: Callable[[str | None], None] = nobody,
    ) -> None:
        """`draw` gives numbers from 0 to 1. `away` is told why a target has not answered twice in a
        row, and None when it has, well or not; of one that is given up it hears no more.
        """
        self._clock, self._sleep, self._draw = clock, sleep, draw
        self._away = away
        self.policy = policy
        self.counts: Counter[Cause] = Counter()

    def call(self, work: Callable[[], T], *, what: str) -> T:
        """The result of `work`, which may raise `TransientError`; `what` names the target.

        Raises:
            SinkError: it was transient for as long as the policy allows.
        """
        failures = 0
        try:
            while True:
                try:
                    return work()
                except TransientError as error:
                    failures += 1
                    if failures == 1:  # what went before was no trouble, however long it took
                        deadline = self._clock() + self.policy.timeout_s
                    elif failures == AWAY_FAILURES:
                        self._away(f"{what}: {error}")
                    pause = self._pause(error, failures)
                    if self._clock() + pause > deadline:
                        failures = 0  # nobody has answered: it is not back
                        raise SinkError(
                            f"{what}: {error}; tried for {self.policy.timeout_s:g} s (errors.retry)"
                        ) from error
                    self.counts[error.cause] += 1
                    self._sleep(pause)
        finally:
            if failures >= AWAY_FAILURES:
                self._away(None)

    def _pause(self, error: TransientError, failures: int) -> float:
        # Not all at once again, when many tasks have lost the same target.
        growth = 2.0 ** min(failures - 1, DOUBLINGS_MAX)
        bound = min(self.policy.initial_s * growth, self.policy.max_s)
        return self._draw() * bound if error.after_s is None else error.after_s

"""A target that does not answer is asked again for a while. It is never taken for a bad message."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from iggy_spark.errors import SinkError

T = TypeVar("T")


class TransientError(Exception):
    """A target cannot just now: not reached, too busy, a conflict with another writer.

    `after_s` is how long it wants to be left alone, if it has said so.
    """

    def __init__(self, reason: str, *, after_s: float | None = None) -> None:
        """`reason` is a clause for a person, without secrets."""
        super().__init__(reason)
        self.after_s = after_s


@dataclass(frozen=True, slots=True)
class Policy:
    """How long, and with which pauses. Each pause is drawn between 0 and a bound that doubles."""

    timeout_s: float = 600.0
    initial_s: float = 0.5
    max_s: float = 30.0


class Retry:
    """Carries calls out again while they are transient; `count` says how often that was so."""

    def __init__(
        self,
        policy: Policy,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        draw: Callable[[], float] = random.random,
    ) -> None:
        """`draw` gives numbers from 0 to 1."""
        self._policy, self._clock, self._sleep, self._draw = policy, clock, sleep, draw
        self.count = 0

    def call(self, work: Callable[[], T], *, what: str) -> T:
        """The result of `work`, which may raise `TransientError`; `what` names the target.

        Raises:
            SinkError: it was transient for as long as the policy allows.
        """
        deadline = self._clock() + self._policy.timeout_s
        bound = self._policy.initial_s
        while True:
            try:
                return work()
            except TransientError as error:
                # Not all at once again, when many tasks have lost the same target.
                pause = self._draw() * bound if error.after_s is None else error.after_s
                if self._clock() + pause > deadline:
                    raise SinkError(
                        f"{what}: {error}; tried for {self._policy.timeout_s:g} s (errors.retry)"
                    ) from error
            self.count += 1
            self._sleep(pause)
            bound = min(2 * bound, self._policy.max_s)

"""How many bad messages are too many. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from iggy_spark.errors import TooManyBadRecords
from iggy_spark.job_config import JobConfig
from iggy_spark.sinks.base import Written

RATIO_FROM: Final = 20  # bad messages; a share of fewer says little about the others


@dataclass(frozen=True, slots=True)
class BadLimits:
    """Bounds for one batch, so that a wrong schema does not empty a topic into its dead letters."""

    per_batch_max: int
    ratio_max: float

    def check_count(self, bad: int) -> None:
        """Raise TooManyBadRecords if that is too many, whatever the rest is like."""
        if bad > self.per_batch_max:
            raise TooManyBadRecords(
                f"{bad} bad messages in one batch, errors.deadLetter.maxPerBatch allows "
                f"{self.per_batch_max}: correct schema or messages, or raise it"
            )

    def check(self, bad: int, seen: int) -> None:
        """The same for the share of `bad` in the messages `seen`."""
        self.check_count(bad)
        if bad >= RATIO_FROM and bad > self.ratio_max * seen:
            raise TooManyBadRecords(
                f"{bad} of {seen} messages in one batch are bad, errors.deadLetter.maxRatio allows "
                f"a share of {self.ratio_max:g}: correct schema or messages, or raise it"
            )

    def check_batch(self, results: Iterable[Written]) -> None:
        """The same for all tasks of a batch together. Skipped messages were not looked at."""
        results = tuple(results)
        seen = sum(one.end - one.first - one.skipped - one.lost for one in results)
        self.check(sum(one.rejected for one in results), seen)


def bad_limits(config: JobConfig) -> BadLimits | None:
    """The bounds of a job; None where nothing is tolerated, or Files keeps what is refused."""
    block = config.sink.errors.dead_letter
    return None if block is None else BadLimits(block.max_per_batch, block.max_ratio)

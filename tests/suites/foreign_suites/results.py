"""What a suite's tests came to, and how that compares with what is known to fail. Pure."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path


class Outcome(Enum):
    """How one test ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Result:
    """One test of a suite; `detail` says why it failed or was skipped."""

    test: str
    outcome: Outcome
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Judged:
    """A suite's results beside the list of known failures."""

    suite: str
    results: Sequence[Result]
    expected: Sequence[tuple[str, str]]  # test and its reason: failed as the list says
    unexpected: Sequence[Result]  # failed and are not in the list
    surprises: Sequence[str]  # are in the list and passed
    stale: Sequence[str]  # are in the list and did not run

    @property
    def is_good(self) -> bool:
        """Whether everything went as the list says."""
        return bool(self.results) and not (self.unexpected or self.surprises or self.stale)

    def count(self, outcome: Outcome) -> int:
        """How many tests ended so."""
        return sum(result.outcome is outcome for result in self.results)


def judge(
    suite: str, results: Sequence[Result], known: Mapping[str, str], *, is_whole: bool
) -> Judged:
    """Compare results with the known failures; a suite that ran in part has no stale entries."""
    failed = [result for result in results if result.outcome is Outcome.FAILED]
    passed = {result.test for result in results if result.outcome is Outcome.PASSED}
    ran = {result.test for result in results}
    return Judged(
        suite=suite,
        results=results,
        expected=[(one.test, known[one.test]) for one in failed if one.test in known],
        unexpected=[one for one in failed if one.test not in known],
        surprises=[test for test in known if test in passed],
        stale=[test for test in known if is_whole and test not in ran],
    )


def known_failures(path: Path, suite: str) -> dict[str, str]:
    """Tests of `suite` that are known to fail, each with its reason.

    The file is TOML with `[[group]]` tables of `suite`, `reason` and `tests`. ValueError: a group
    lacks one of them or says nothing in it, or names a test that another group has.
    """
    reasons: dict[str, str] = {}
    for number, group in enumerate(tomllib.loads(path.read_text())["group"], 1):
        if set(group) != {"suite", "reason", "tests"} or not all(group.values()):
            raise ValueError(f"{path}, group {number}: write suite, reason and tests")
        for test in group["tests"] if group["suite"] == suite else ():
            if test in reasons:
                raise ValueError(f"{path}, group {number}: {test} is in another group too")
            reasons[test] = group["reason"]
    return reasons

"""The text that `make interop` prints. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from foreign_suites.results import Judged, Outcome

_COLUMNS = ("suite", "passed", "failed", "skipped", "verdict")
_DETAIL_MAX = 160


def lines(judged: Sequence[Judged], left_out: Mapping[str, str]) -> Iterator[str]:
    """Every failure with its reason, suite by suite, then the table."""
    for one in judged:
        yield from _failures(one)
    rows = [_COLUMNS, *(_row(one) for one in judged)]
    rows += [(suite, "-", "-", "-", f"not run: {reason}") for suite, reason in left_out.items()]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    for row in rows:
        numbers = (cell.rjust(width) for cell, width in zip(row[1:4], widths[1:4], strict=True))
        yield "  ".join((row[0].ljust(widths[0]), *numbers, row[4]))


def _row(judged: Judged) -> tuple[str, ...]:
    counts = (str(judged.count(outcome)) for outcome in Outcome)
    return (judged.suite, *counts, "as known" if judged.is_good else "NOT as known")


def _failures(judged: Judged) -> Iterator[str]:
    by_reason: dict[str, list[str]] = {}
    for test, reason in judged.expected:
        by_reason.setdefault(reason, []).append(test)
    for reason, tests in by_reason.items():
        yield f"{judged.suite}: known to fail, {reason} ({len(tests)}):"
        yield from (f"  {test}" for test in tests)
    for result in judged.unexpected:
        yield f"{judged.suite}: FAILED {result.test}: {result.detail[:_DETAIL_MAX]}"
    for test in judged.surprises:
        yield f"{judged.suite}: PASSED, take it out of known_failures.toml: {test}"
    for test in judged.stale:
        yield f"{judged.suite}: DID NOT RUN, is in known_failures.toml: {test}"
    if not judged.results:
        yield f"{judged.suite}: FAILED: no test ran"

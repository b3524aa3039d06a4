"""The text that `make interop` prints. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from foreign_suites.results import Judged, Outcome

_COLUMNS = ("suite", "passed", "failed", "skipped", "verdict")
_DETAIL_MAX = 160
_TESTS_SHOWN_MAX = 40


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
    name = judged.suite
    yield from _grouped(f"{name}: known to fail, ", judged.expected)
    found = [(one.test, one.detail[:_DETAIL_MAX]) for one in judged.unexpected]
    yield from _grouped(f"{name}: FAILED, ", found)
    for test in judged.surprises:
        yield f"{name}: PASSED, take it out of known_failures.toml: {test}"
    for test in judged.stale:
        yield f"{name}: DID NOT RUN, is in known_failures.toml: {test}"
    if not judged.results:
        yield f"{name}: FAILED, no test ran"


def _grouped(title: str, tests: Sequence[tuple[str, str]]) -> Iterator[str]:
    by_reason: dict[str, list[str]] = {}
    for test, reason in tests:
        by_reason.setdefault(reason, []).append(test)
    for reason, names in by_reason.items():
        yield f"{title}{reason} ({len(names)}):"
        yield from (f"  {test}" for test in names[:_TESTS_SHOWN_MAX])
        if len(names) > _TESTS_SHOWN_MAX:
            yield f"  and {len(names) - _TESTS_SHOWN_MAX} more"

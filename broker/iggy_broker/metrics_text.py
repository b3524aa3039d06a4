"""Metrics as text: Prometheus' own format and OpenMetrics. Knows no broker, only families.

The two differ in the name of a counter's family (with and without `_total`), and in the end mark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})

Sample = tuple[str, str, float]  # what follows the name, labels without braces, value


@dataclass(frozen=True, slots=True)
class Family:
    """One metric with all its series."""

    name: str  # a counter's ends in `_total`
    kind: str  # gauge, counter or histogram
    description: str
    samples: Sequence[Sample]


def single(name: str, kind: str, description: str, value: float) -> Family:
    """A metric without labels."""
    return Family(name, kind, description, [("", "", value)])


def labels(**values: str | int) -> str:
    """The labels of a series, without braces; any text may be a value."""
    return ",".join(f'{name}="{str(value).translate(_ESCAPES)}"' for name, value in values.items())


def histogram(
    bounds: Sequence[float], counts: Sequence[int], total: float, label: str
) -> list[Sample]:
    """The samples of one histogram. `counts`: by bucket, not summed up; the last has no bound."""
    samples: list[Sample] = []
    running = 0
    for bound, count in zip((*bounds, "+Inf"), counts, strict=True):
        running += count
        samples.append(("_bucket", f'{label},le="{bound}"', running))
    return [*samples, ("_sum", label, total), ("_count", label, running)]


def lines(family: Family, *, is_open: bool) -> Iterator[str]:
    """The lines of one family; `is_open`: for OpenMetrics."""
    name = family.name
    title = name.removesuffix("_total") if is_open and family.kind == "counter" else name
    yield f"# HELP {title} {family.description}"
    yield f"# TYPE {title} {family.kind}"
    for suffix, label, value in family.samples:
        yield f"{name}{suffix}{{{label}}} {value}" if label else f"{name}{suffix} {value}"


def end(*, is_open: bool) -> Iterable[str]:
    """What stands behind the last family."""
    return ("# EOF",) if is_open else ()

"""What metrics say: a broker's about its archive, a sink's driver's about where it began.

Whoever reads them is handed in.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

PREFIX: Final = "iggy_archiver_"
"""What the wanted lines of a broker's metrics begin with."""
START_PREFIX: Final = "iggy_sink_start_partitions"
"""The same of a driver's."""
START_SOURCES: Final = ("checkpoint", "target", "group", "settings")
"""What can say where a sink begins in a partition, as its job names it."""
_BY: Final = re.compile(r'[{,]by="([a-z]+)"')


class FiguresError(Exception):
    """The metrics do not come, or are none."""


ReadMetrics: TypeAlias = Callable[[str, str], Awaitable[Iterable[str]]]
"""The lines that begin with a prefix (the second one) at `HOST:PORT`. Raises FiguresError."""


async def no_metrics(address: str, _prefix: str) -> Iterable[str]:
    """Where nobody reads them."""
    raise FiguresError(f"nobody reads the metrics at {address}")


@dataclass(frozen=True, slots=True)
class ArchiveFigures:
    """Of all shards of a broker."""

    is_failing: bool
    pending_segments: int
    failures: int
    behind_s: int
    """With continuous: age of the oldest message that may not be there."""
    last_copy_s: float
    """Since 1970; 0 before the first one."""


def archive_figures(lines: Iterable[str]) -> ArchiveFigures:
    """From lines in Prometheus' format. Raises FiguresError where it has no archiver."""
    found: dict[str, list[float]] = {}
    for line in lines:
        if not line.startswith(PREFIX):
            continue
        name, value = _sample(line)
        found.setdefault(name, []).append(value)
    if "failing" not in found:
        raise FiguresError("its metrics know no archiver: it is an older release")
    return ArchiveFigures(
        is_failing=max(found["failing"]) > 0,
        pending_segments=int(sum(found.get("pending_segments", ()))),
        failures=int(sum(found.get("failures_total", ()))),
        behind_s=int(_most(found, "behind_seconds")),
        last_copy_s=_most(found, "last_copy_seconds"),
    )


def start_sources(lines: Iterable[str]) -> list[str]:
    """Those of `START_SOURCES` that said where a driver began in any partition.

    Empty as long as it has not begun. Raises FiguresError.
    """
    found = set()
    for line in lines:
        head, value = _parts(line)
        if head.startswith(START_PREFIX) and value > 0 and (by := _BY.search(head)):
            found.add(by[1])
    return [source for source in START_SOURCES if source in found]


def _sample(line: str) -> tuple[str, float]:
    head, value = _parts(line)
    return head.partition("{")[0].removeprefix(PREFIX), value


def _parts(line: str) -> tuple[str, float]:
    """Name with labels, and value."""
    head, _, value = line.rstrip().rpartition(" ")
    try:
        return head, float(value)
    except ValueError:
        raise FiguresError(f"this is no line of metrics: {line[:80]!r}") from None


def _most(found: Mapping[str, list[float]], name: str) -> float:
    return max(found.get(name, ()), default=0.0)

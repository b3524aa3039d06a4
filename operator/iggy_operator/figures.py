"""What a broker's metrics say about its archive. Whoever reads them is handed in."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

PREFIX: Final = "iggy_archiver_"
"""What the wanted lines of the metrics begin with."""


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


def _sample(line: str) -> tuple[str, float]:
    head, _, value = line.rstrip().rpartition(" ")
    try:
        return head.partition("{")[0].removeprefix(PREFIX), float(value)
    except ValueError:
        raise FiguresError(f"this is no line of metrics: {line[:80]!r}") from None


def _most(found: Mapping[str, list[float]], name: str) -> float:
    return max(found.get(name, ()), default=0.0)

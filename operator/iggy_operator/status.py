"""The status of an object: what to write after a pass, and whether to write at all."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from iggy_operator import conditions
from iggy_operator.cluster import Object
from iggy_operator.conditions import Condition
from iggy_operator.objects import generation_of, status_of
from iggy_operator.units import time_of, time_text

COUNTERS: Final = frozenset({"progress", "messages", "sizeBytes", "counts", "storage", "archive"})
"""Fields that move by themselves."""
COUNTERS_PAUSE_S: Final = 30.0
"""A status in which nothing but counters moved is not written more often."""
_SYNC_TIME: Final = "lastSyncTime"


@dataclass(frozen=True, slots=True)
class Report:
    """What a pass has found."""

    conditions: tuple[Condition, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the status besides the conditions; None takes one away, others stay."""

    def joined(self, other: "Report") -> "Report":
        """Both; of what both say, `other` counts."""
        fields = {**self.fields, **other.fields}
        return Report((*self.conditions, *other.conditions), fields)


def wanted_status(value: Object, report: Report, *, now_s: float) -> dict[str, Any] | None:
    """The whole status to apply; None if it would say nothing new."""
    old = status_of(value)
    now = time_text(now_s)
    generation = generation_of(value)
    new: dict[str, Any] = {**old, **report.fields, "observedGeneration": generation}
    new["conditions"] = conditions.merged(
        old.get("conditions", ()), report.conditions, generation=generation, now=now
    )
    new = {name: item for name, item in new.items() if item is not None}
    if _without(new, _SYNC_TIME) == _without(old, _SYNC_TIME):
        return None
    if _without(new, _SYNC_TIME, *COUNTERS) == _without(old, _SYNC_TIME, *COUNTERS):
        last = old.get(_SYNC_TIME)
        if last is not None and 0 <= now_s - time_of(last) < COUNTERS_PAUSE_S:
            return None
    return new | {_SYNC_TIME: now}


def transitions(
    old: Iterable[Mapping[str, Any]], new: Iterable[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """The conditions whose status or reason is another than before."""
    before = {item["type"]: (item["status"], item["reason"]) for item in old}
    return [item for item in new if before.get(item["type"]) != (item["status"], item["reason"])]


def _without(status: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """To be compared: a list that is a map by type has no order, the API server keeps its own."""
    kept = {name: item for name, item in status.items() if name not in names}
    if "conditions" in kept:
        kept["conditions"] = {item["type"]: item for item in kept["conditions"]}
    return kept

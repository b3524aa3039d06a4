"""What a managed broker's status says about its archive. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from iggy_operator import units
from iggy_operator.blocked import Blocked
from iggy_operator.cluster import Object
from iggy_operator.conditions import ARCHIVE_HEALTHY, Condition, condition
from iggy_operator.decide.archives import ArchiveVolume
from iggy_operator.desired.archive import ENABLED, Place
from iggy_operator.desired.broker_pod import CONTAINER
from iggy_operator.figures import ArchiveFigures
from iggy_operator.reasons import Reason

INTERVALS_MAX: Final = 20
BEHIND_S_MIN: Final = 120
"""With continuous an archive that is so far behind, and so many intervals, is not well."""
_US: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class ArchiveFacts:
    """What a pass has found."""

    spec: Mapping[str, Any]
    """`spec.archiver`."""
    place: Place | None
    """None: the archiver is off."""
    volume: ArchiveVolume
    login_problem: Blocked | None = None
    """What is wrong with the Secret of the bucket."""
    figures: ArchiveFigures | None = None
    silence: str = ""
    """Why there are none, of a broker that serves."""


def archive_condition(
    facts: ArchiveFacts, pod: Object | None, *, rests: Reason | None
) -> Condition:
    """`rests`: why the broker does not serve; None if it does."""
    if facts.place is None:
        return condition(ARCHIVE_HEALTHY, True, Reason.ARCHIVER_OFF, "archiver.kind is None")
    if (bad := _not_working(facts, facts.place, pod, rests)) is not None:
        return bad
    if facts.figures is None:
        return Condition(ARCHIVE_HEALTHY, "Unknown", Reason.BROKER_UNREACHABLE, facts.silence)
    return _by_figures(facts, facts.place, facts.figures)


def _not_working(
    facts: ArchiveFacts, place: Place, pod: Object | None, rests: Reason | None
) -> Condition | None:
    """What is the matter before any figure counts."""
    if facts.volume.problem:
        return condition(ARCHIVE_HEALTHY, False, facts.volume.reason, facts.volume.problem)
    if (told := facts.login_problem) is not None:
        return condition(ARCHIVE_HEALTHY, False, told.reason, told.message)
    if rests is not None:
        text = f"the broker does not serve, and so copies nothing to {place}"
        return Condition(ARCHIVE_HEALTHY, "Unknown", rests, text)
    if pod is not None and not archives(pod):
        text = f"the running pod does not copy to {place} yet: it needs a restart"
        return condition(ARCHIVE_HEALTHY, False, Reason.RESTART_PENDING, text)
    return None


def _by_figures(facts: ArchiveFacts, place: Place, figures: ArchiveFigures) -> Condition:
    if figures.is_failing:
        text = (
            f"{place} does not take copies, and no segment is removed meanwhile: the broker's log "
            "says why (archive_failed)"
        )
        return condition(ARCHIVE_HEALTHY, False, Reason.ARCHIVE_FAILING, text)
    if figures.behind_s > behind_s_max(facts.spec):
        text = (
            f"{place} is too slow: what was written in the last {figures.behind_s} s may not be "
            "there"
        )
        return condition(ARCHIVE_HEALTHY, False, Reason.ARCHIVE_FAILING, text)
    return condition(ARCHIVE_HEALTHY, True, Reason.SYNCED, f"copies go to {place}")


def behind_s_max(archiver: Mapping[str, Any]) -> float:
    """How far an archive may be behind that is well."""
    return max(BEHIND_S_MIN, INTERVALS_MAX * units.duration_us(archiver["interval"]) / _US)


def archives(pod: Object) -> bool:
    """Whether a running pod was told to archive."""
    for container in pod["spec"]["containers"]:
        if container["name"] == CONTAINER:
            return any(entry["name"] == ENABLED for entry in container.get("env", ()))
    return False


def archive_fields(facts: ArchiveFacts) -> dict[str, Any]:
    """`status.archive`; taken away where the archiver is off, else kept while nobody can tell."""
    if facts.place is None:
        return {"archive": None}
    if (figures := facts.figures) is None:
        return {}
    fields: dict[str, Any] = {
        "pendingSegments": figures.pending_segments,
        "failures": figures.failures,
    }
    if figures.last_copy_s:
        fields["lastArchiveTime"] = units.time_text(figures.last_copy_s)
    if facts.spec["continuous"]:
        fields["behindSeconds"] = figures.behind_s
    return {"archive": fields}

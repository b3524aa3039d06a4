"""What one seed came to, and whether it was hard enough."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from simulation.endings import ENDINGS
from simulation.faults import TROUBLES
from simulation.settings import POLICIES

OPERATIONS_MIN = 500
CRASHES_MIN = 3
ROT = ("rot in .log", "rot in .index", "rot while running")

# What a large run must have seen, as the disk and the oracle count it.
DISK_FAULTS = (
    "torn writes",
    "writes in part, sector by sector",
    "files that lost writes",
    "folder changes lost",
    "writes without space",
    "files without space",
    "syncs failed",
    "folder syncs failed",
    "reads failed",
    "slow syncs",
    "bits that rotted",
)
SEEN = (
    "recoveries: tail cut",
    "starts that a failing disk stopped",
    "lost connections",
    "commits of members",
    "commits of members, refused",
    "polls of members",
    "polls of members, refused",
    "segment deletions",
    "purges",
    "users deleted",
    "tokens deleted",
    "requests of users, denied",
    "requests of users, over",
    "archive: away",
    "archive: slow",
    "archive: request failed",
    "archive: answer lost",
    "archive: damaged object",
    "archive: misread",
    "archive: segments removed",
    "archive: had all",
    "archive: volumes restored",
    *POLICIES,
)


@dataclass
class Outcome:
    """What one seed came to."""

    seed: int
    digest: str = ""
    operations: int = 0
    lives: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    happened: dict[str, int] = field(default_factory=dict)  # faults, as the disk counted them
    violation: str = ""
    why: str = ""  # where it was found
    trace: list[str] = field(default_factory=list)

    @property
    def crashes(self) -> int:
        """Ends that nobody was prepared for."""
        return self.counts.get("power cuts", 0) + self.counts.get("kills", 0)


def shortfall(outcome: Outcome) -> str:
    """What a whole seed lacks; "" if nothing."""
    lacks = [what for what in (*ENDINGS, *TROUBLES) if not outcome.counts.get(what)]
    if outcome.operations < OPERATIONS_MIN:
        lacks.append(f"operations: {outcome.operations}, not {OPERATIONS_MIN}")
    if outcome.crashes < CRASHES_MIN:
        lacks.append(f"crashes: {outcome.crashes}, not {CRASHES_MIN}")
    return f"it lacks {'; '.join(lacks)}" if lacks else ""


def missing_faults(happened: Mapping[str, int], counts: Mapping[str, int]) -> list[str]:
    """Kinds of faults and answers that a large run never saw."""
    return [what for what in DISK_FAULTS if not happened.get(what)] + [
        what for what in (*ENDINGS, *TROUBLES, *ROT, *SEEN) if not counts.get(what)
    ]

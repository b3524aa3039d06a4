"""The whole broker on a simulated disk, network and clock; `make sim` is the long run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from simulation.faults import TROUBLES
from simulation.planted import PLANTS
from simulation.scenario import ENDINGS, run_seed

SUPPORT = Path(__file__).parents[1] / "support"
SHORT = 16  # operations of a life; a long run has more
BUDGET_SEEDS = 4  # within so many, each planted bug is found

# What these seeds found once, with all their operations.
FOUND = {
    1: "a new offset file lay in a folder whose name a kill had kept from the disk",
    2: "a shard whose sync failed while it stopped left the markers of a clean stop",
    9: "an offset file made shortly before a kill lost its name in a later power cut",
    125: "a deleted partition, half removed at a power cut, became the next of its number",
    12: "a journal record whose sync failed was built upon after a restart",
}


@pytest.mark.parametrize("seed", range(20))
def test_a_seed_is_clean_and_always_the_same(seed: int) -> None:
    first = run_seed(seed, operations_a_life=SHORT)
    assert first.violation == ""
    assert first.lives > len(ENDINGS)

    again = run_seed(seed, operations_a_life=SHORT)

    assert (again.digest, again.operations) == (first.digest, first.operations)


@pytest.mark.parametrize("seed", FOUND)
def test_what_was_found_stays_away(seed: int) -> None:
    outcome = run_seed(seed)

    assert outcome.violation == ""
    assert outcome.operations >= 500
    assert outcome.counts["power cuts"] + outcome.counts["kills"] >= 3
    happened = [*ENDINGS, *TROUBLES, "rot in .log", "rot in .index"]
    assert all(outcome.counts[what] for what in happened)


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_bug_is_found(name: str) -> None:
    outcomes = (
        run_seed(seed, operations_a_life=40, plant=PLANTS[name]) for seed in range(BUDGET_SEEDS)
    )

    assert any(outcome.violation for outcome in outcomes)


def test_another_process_with_other_hashes_has_the_same_trace() -> None:
    command = [
        sys.executable, "-c",
        "from simulation.scenario import run_seed\n"
        f"print(run_seed(4, operations_a_life={SHORT}).digest)",
    ]  # fmt: skip
    paths = [str(SUPPORT), *filter(None, sys.path)]
    digests = {
        subprocess.run(
            command,
            env={**os.environ, "PYTHONHASHSEED": hashes, "PYTHONPATH": os.pathsep.join(paths)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hashes in ("1", "2")
    }

    assert len(digests) == 1

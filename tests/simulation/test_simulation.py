"""The whole broker on a simulated disk, network and clock; `make sim` is the long run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from simulation.endings import ENDINGS
from simulation.outcome import missing_faults, shortfall
from simulation.planted import PLANTS
from simulation.scenario import Scenario, run_seed

SUPPORT = Path(__file__).parents[1] / "support"
SHORT = 16  # operations of a life; a long run has more
PLANTED_SEEDS = 40  # within so many, each planted bug is found


@pytest.mark.parametrize("seed", range(8))
def test_a_seed_is_clean_and_always_the_same(seed: int) -> None:
    first = run_seed(seed, operations_a_life=SHORT)
    assert first.violation == "", first.why
    assert first.lives > len(ENDINGS)

    again = run_seed(seed, operations_a_life=SHORT)

    assert (again.digest, again.operations) == (first.digest, first.operations)


def test_whole_seeds_have_every_kind_of_fault() -> None:
    happened: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for seed in range(20, 40):
        outcome = run_seed(seed)
        assert outcome.violation == "", outcome.why
        assert shortfall(outcome) == ""
        happened.update(outcome.happened)
        counts.update(outcome.counts)
        if not missing_faults(happened, counts):
            break

    assert missing_faults(happened, counts) == []


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_bug_is_found(name: str) -> None:
    outcomes = (run_seed(seed, plant=PLANTS[name]) for seed in range(PLANTED_SEEDS))

    assert any(outcome.violation for outcome in outcomes)


def test_a_bug_of_the_simulation_itself_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Scenario) -> None:
        os._exit(70)

    monkeypatch.setattr(Scenario, "run", broken)

    outcome = run_seed(5)

    assert "os._exit(70)" in outcome.violation
    assert "in broken" in outcome.why


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

"""`make sim`: one seed with its trace hash, many seeds, or the planted bugs and who finds them."""

from __future__ import annotations

import argparse
import collections
import faulthandler
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool

from simulation.outcome import Outcome, missing_faults, shortfall
from simulation.planted import PLANTS
from simulation.scenario import run_seed

TRACE_SHOWN = 40  # last events of a seed that went wrong
SEEDS_TO_JUDGE = 50  # from so many on, every kind of fault must have happened
PLANTED_SEEDS_MAX = 200  # within so many, each planted bug must be found


def main() -> int:
    faulthandler.enable()
    options = _options()
    if options.planted:
        return _planted(options.first)
    if options.seed is not None:
        return _one(options.seed, options.trace)
    return _many(range(options.first, options.first + options.seeds), options.jobs)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make sim")
    parser.add_argument("--seed", type=int, help="replay this one")
    parser.add_argument("--trace", type=int, default=0, help="show so many of its last events")
    parser.add_argument("--seeds", type=int, default=100, help="how many to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="at the same time")
    parser.add_argument("--planted", action="store_true", help="which seed finds which planted bug")
    return parser.parse_args()


def _one(seed: int, kept: int) -> int:
    outcome = run_seed(seed, kept=kept)
    for line in outcome.trace:
        _say(line)
    _say(_line(outcome))
    _say_counts(outcome.counts, outcome.happened)
    if outcome.violation:
        _say(outcome.why)
    return 1 if outcome.violation else 0


def _many(seeds: range, jobs: int) -> int:
    began = time.monotonic()
    counts: collections.Counter[str] = collections.Counter()
    happened: collections.Counter[str] = collections.Counter()
    operations = lives = crashes = fewest = 0
    bad = []
    for done, outcome in enumerate(_outcomes(seeds, jobs), 1):
        counts.update(outcome.counts)
        happened.update(outcome.happened)
        operations += outcome.operations
        fewest = min(fewest or outcome.operations, outcome.operations)
        lives += outcome.lives
        crashes += outcome.crashes
        wrong = outcome.violation or shortfall(outcome)
        if wrong:
            bad.append(outcome.seed)
            _explain(outcome, wrong)
        if done % 50 == 0:
            _say(f"{done} seeds, {time.monotonic() - began:.0f} s")
    _say_counts(counts, happened)
    _say(
        f"{len(seeds)} seeds, {operations} operations (no seed less than {fewest}), "
        f"{lives} lives, {crashes} crashes, {len(bad)} violations"
    )
    _say(f"took {time.monotonic() - began:.0f} s with {jobs} processes")
    missing = missing_faults(happened, counts) if len(seeds) >= SEEDS_TO_JUDGE else []
    if missing:
        _say(f"never happened: {', '.join(missing)}")
    return 1 if bad or missing else 0


def _outcomes(seeds: range, jobs: int) -> Iterator[Outcome]:
    """As they come. A process that dies is an outcome, too."""
    if jobs == 1:
        yield from map(run_seed, seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        futures = {pool.submit(run_seed, seed): seed for seed in seeds}
        for future in as_completed(futures):
            seed = futures[future]
            try:
                yield future.result()
            except BrokenProcessPool as error:
                yield Outcome(seed, violation=f"its process died, or one beside it: {error}")


def _explain(outcome: Outcome, wrong: str) -> None:
    """All that is known of a seed that went wrong: where, and what happened just before."""
    _say(f"{_line(outcome)}: {wrong}\n{outcome.why}")
    again = run_seed(outcome.seed, kept=TRACE_SHOWN)
    for line in again.trace:
        _say(f"  {line}")
    if (again.digest, again.violation) != (outcome.digest, outcome.violation):
        _say(f"  NOT THE SAME when run again: {_line(again)}")
    _say(f"  replay: make sim SEED={outcome.seed}")


def _planted(first: int) -> int:
    """For each planted bug the first seed that finds it."""
    lost = 0
    for name, plant in PLANTS.items():
        for seed in range(first, first + PLANTED_SEEDS_MAX):
            outcome = run_seed(seed, plant=plant)
            if outcome.violation:
                _say(f"{name:32} seed {seed:3}  {outcome.violation[:140]}")
                break
        else:
            lost += 1
            _say(f"{name:32} not found within {PLANTED_SEEDS_MAX} seeds")
    return 1 if lost else 0


def _say_counts(*tables: dict[str, int]) -> None:
    for table in tables:
        for what, count in sorted(table.items()):
            _say(f"  {count:8} {what}")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _line(outcome: Outcome) -> str:
    told = outcome.violation or "clean"
    return (
        f"seed {outcome.seed}: trace {outcome.digest}, {outcome.operations} operations, "
        f"{outcome.lives} lives: {told}"
    )


if __name__ == "__main__":
    sys.exit(main())

"""`make sim`: one seed with its trace hash, or many seeds over all cores."""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import os
import sys
import time

from simulation.scenario import Outcome, run_seed


def main() -> int:
    options = _options()
    if options.seed is not None:
        return _one(options.seed, options.trace)
    return _many(range(options.first, options.first + options.seeds), options.jobs)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make sim")
    parser.add_argument("--seed", type=int, help="replay this one")
    parser.add_argument("--trace", type=int, default=0, help="show so many of its last events")
    parser.add_argument("--seeds", type=int, default=100, help="how many to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    return parser.parse_args()


def _one(seed: int, kept: int) -> int:
    outcome = run_seed(seed, kept=kept)
    for line in outcome.trace:
        _say(line)
    _say(_line(outcome))
    for what, count in sorted(outcome.counts.items()):
        _say(f"  {count:6} {what}")
    return 1 if outcome.violation else 0


def _many(seeds: range, jobs: int) -> int:
    began = time.monotonic()
    counts: collections.Counter[str] = collections.Counter()
    operations = lives = 0
    bad = []
    with multiprocessing.get_context("fork").Pool(jobs, maxtasksperchild=50) as pool:
        for done, outcome in enumerate(pool.imap_unordered(run_seed, seeds), 1):
            counts.update(outcome.counts)
            operations += outcome.operations
            lives += outcome.lives
            if outcome.violation:
                bad.append(outcome.seed)
                _say(f"{_line(outcome)}\n  replay: make sim SEED={outcome.seed}")
            if done % 50 == 0:
                _say(f"{done} seeds, {time.monotonic() - began:.0f} s")
    _say(f"{len(seeds)} seeds, {operations} operations, {lives} lives, {len(bad)} violations")
    for what, count in sorted(counts.items()):
        _say(f"  {count:8} {what}")
    _say(f"took {time.monotonic() - began:.0f} s with {jobs} processes")
    return 1 if bad else 0


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

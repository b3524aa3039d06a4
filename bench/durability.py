"""What each level of durability costs: one message of 100 B a request, one producer and sixteen.

    .venv/bin/python bench/durability.py [--rounds N] [--folder DISK]

Beside it, in the same rounds, what the disk does without a broker: append, and append with
fdatasync. Prints the table of docs/reliability.md; every figure is the median of the rounds.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from iggy_bench.durable import PRODUCERS, bare_loop, produce, requests_per_s
from iggy_bench.load import Done
from iggy_bench.processes import start_broker
from iggy_bench.report import machine_facts, middle, percentile, progress
from iggy_bench.throughput import create_topics

SAVER = "IGGY_SYSTEM_PARTITION_MESSAGE_SAVER_INTERVAL"


@dataclass(frozen=True, slots=True)
class Level:
    """A level by its name in documents."""

    name: str
    options: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)


LEVELS = (
    Level("Strict", {"durability": "persisted"}),
    Level(
        "Balanced",
        {"enforce_fsync": "true", "messages_required_to_save": "100"},
        {SAVER: "1 s"},
    ),
    Level("Relaxed"),
)


@dataclass(frozen=True, slots=True)
class Sample:
    """Of one round."""

    per_s: float
    p50_ms: float
    p99_ms: float


def of_loop(turns_s: list[float]) -> Sample:
    """What a loop without a broker did."""
    return _sample(len(turns_s) / sum(turns_s), turns_s)


def of_producers(done: Done) -> Sample:
    """What producers had."""
    return _sample(requests_per_s(done), done.latencies_s)


def _sample(per_s: float, latencies_s: list[float]) -> Sample:
    p50_s, p99_s = percentile(latencies_s, 50), percentile(latencies_s, 99)
    return Sample(per_s, p50_s * 1e3, p99_s * 1e3)


def one_round(folder: Path, found: dict[str, list[Sample]]) -> None:
    """Everything once."""
    found["append"].append(of_loop(bare_loop(folder / "loop", sync=False)))
    found["append + fdatasync"].append(of_loop(bare_loop(folder / "loop")))
    for level in LEVELS:
        with start_broker(folder / level.name, shards=1, settings=level.settings) as server:
            create_topics(server, ["t"], level.options)
            for producers in (1, PRODUCERS):
                done = produce(server.port, "t", producers)
                found[f"{level.name} {producers}"].append(of_producers(done))
    shutil.rmtree(folder)


def table(found: dict[str, list[Sample]]) -> str:
    """As the page has it."""
    lines = [
        f"| level | one producer | {PRODUCERS} producers |",
        "|---|---|---|",
        *(
            f"| {level.name} | {_cell(found[f'{level.name} 1'])} "
            f"| {_cell(found[f'{level.name} {PRODUCERS}'])} |"
            for level in LEVELS
        ),
        *(f"| {name}, no broker | {_cell(found[name])} | |" for name in list(found)[:2]),
    ]
    return "\n".join(lines)


def _cell(samples: list[Sample]) -> str:
    per_s, p50_ms, p99_ms = (
        middle([getattr(sample, name) for sample in samples])
        for name in ("per_s", "p50_ms", "p99_ms")
    )
    return f"{p50_ms:.2f} / {p99_ms:.2f} ms, {per_s:,.0f} /s"


def main() -> int:
    """Exit code 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where the data goes: a disk, not memory")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="iggykube-durability-", dir=options.folder))
    found: dict[str, list[Sample]] = defaultdict(list)
    try:
        facts = machine_facts(folder)
        for number in range(options.rounds):
            one_round(folder / "round", found)
            progress(f"  round {number + 1} of {options.rounds}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{facts.cpu}, {facts.cores} cores, {facts.file_system}, commit {facts.commit}")
    print(f"load before: {facts.load_average_before:.1f}{', busy' if facts.is_busy else ''}")
    print(table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())

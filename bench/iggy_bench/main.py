"""`make bench`: measures, prints one table, keeps every sample."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from iggy_bench import durable, encrypted, starting, throughput
from iggy_bench.report import Report, machine_facts, progress

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench" / "results"
PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"

Part = Callable[[Path, Report, int], None]

PARTS: dict[str, Part] = {
    "one-shard": lambda folder, report, rounds: throughput.broker_against_bare(
        folder, report, rounds=rounds, shards=1
    ),
    "two-shards": lambda folder, report, rounds: throughput.broker_against_bare(
        folder, report, rounds=rounds, shards=2
    ),
    "persisted": lambda folder, report, rounds: durable.persisted_against_bare(
        folder, report, rounds=rounds
    ),
    "opening": lambda folder, report, rounds: starting.opening(
        folder, report, rounds=max(1, (rounds + 1) // 2)
    ),
    "memory": lambda folder, report, _rounds: starting.memory(folder, report),
    "encrypted": lambda folder, report, rounds: encrypted.encrypted_against_plain(
        folder, report, rounds=rounds
    ),
    "official": lambda folder, report, _rounds: throughput.official_client(folder, report),
}


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0; with --strict 1 if an aim is not met."""
    options = _options(arguments)
    folder = Path(tempfile.mkdtemp(prefix="iggykube-bench-", dir=options.folder))
    report = Report(machine_facts(folder))
    try:
        for name in options.only or PARTS:
            progress(f"{name}:")
            PARTS[name](folder / name, report, options.rounds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    report.save(RESULTS / "last.json")
    print(report.markdown())
    if options.publish:
        publish(report)
    believed = [row for row in report.rows if not (row.by_clock and report.machine.is_busy)]
    missed = [row.what for row in believed if row.met is False]
    return 1 if missed and options.strict else 0


def publish(report: Report) -> None:
    """Keep this run, and put its table into docs/performance.md."""
    report.save(RESULTS / f"{report.made_at[:10]}.json")
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{report.markdown()}\n{END}{after}")


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench ARGS=...", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="alternating pairs (default 5)")
    parser.add_argument("--only", choices=list(PARTS), action="append", help="just this part")
    parser.add_argument("--folder", type=Path, help="where the data goes: a disk, not memory")
    parser.add_argument("--publish", action="store_true", help="write docs/performance.md too")
    parser.add_argument("--strict", action="store_true", help="exit 1 if an aim is not met")
    return parser.parse_args(arguments)

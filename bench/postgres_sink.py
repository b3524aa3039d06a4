"""How many rows a second the sink Jdbc brings into a PostgreSQL of this machine, and at what cost.

    python bench/postgres_sink.py [--rows 200000] [--rounds 3] [--job]

Documents of 1 KB become tables with and without a primary key, and one with mode Upsert, by one
task and by two; `--job` adds a whole sink job with a broker and Spark. The server is Debian's, with
its defaults, fsync among them, but for the size of its log. CPU seconds of server and tasks stand
beside the rates, which swing with what else the machine does.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from dataclasses import dataclass, field
from multiprocessing.synchronize import Barrier
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "spark")]

from iggy_bench import processes, sink_runs  # noqa: E402
from iggy_bench.sink_runs import PORTION_ROWS, SCHEMA, document  # noqa: E402
from jdbc_cases import Scene, ready  # noqa: E402
from postgres import Postgres, running_postgres  # noqa: E402
from sink_cases import PlayedTask, declare, portions, wanted  # noqa: E402

UPSERT = {"mode": "Upsert", "keyColumns": ["number"]}
KINDS: dict[str, dict[str, Any]] = {"Append": {}, "Append, primary key": {}, "Upsert": UPSERT}


@dataclass
class Samples:
    """Figures of one way, a run each."""

    rows_per_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)

    def line(self, name: str, rows: int) -> str:
        """A row of the table."""
        best, cost = max(self.rows_per_s), median(self.cpu_s) / rows * 1e6
        return f"| {name} | {median(self.rows_per_s):,.0f} | {best:,.0f} | {cost:.0f} |"


def carry(scene: Scene, block: dict[str, Any], span: tuple[int, int, int], gate: Barrier) -> None:
    """One task, in a process of its own: what it writes is there before it begins."""
    partition, first, end = span
    payload = declare(text=SCHEMA)
    wanted_range = wanted(0, end - first, partition)
    found = list(
        portions(
            wanted_range, payload=payload, made=lambda n: document(first + n), size=PORTION_ROWS
        )
    )
    sink = scene.sink(SCHEMA, **block)
    gate.wait()
    sink.write_task(wanted_range, iter(found), PlayedTask())
    gate.wait()
    gate.wait()


def used_s(server: Postgres) -> float:
    """CPU seconds of this program, its tasks and the server, with connections that are over."""
    assert server.process is not None, "started"
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(") ")[2].split()
    over = (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")  # proc(5): cutime, cstime
    return processes.cpu_s(os.getpid()) + over


def run_tasks(server: Postgres, kind: str, tasks: int, rows: int, into: Samples) -> None:
    """One run."""
    scene, block = Scene(server), KINDS[kind]
    ready(scene.sink(SCHEMA, **block))
    if kind == "Append, primary key":
        scene.run(f"alter table {scene.table} add primary key (number)")
    scene.run("checkpoint")
    share = rows // tasks
    spans = [(number, number * share, (number + 1) * share) for number in range(tasks)]
    each = [(scene, block, span) for span in spans]
    used = sink_runs.at_once(carry, each, lambda: used_s(server))
    into.rows_per_s.append(rows / used.seconds)
    into.cpu_s.append(used.cpu_s)
    assert scene.run(f"select count(*) from {scene.table}") == [(share * tasks,)]
    scene.run(f"drop table {scene.table}")


def run_job(server: Postgres, rows: int) -> None:
    """Print the rate of the batches of a job, which decodes as well."""
    sink = {
        "type": "Jdbc", "payload": {"format": "Json", "schema": SCHEMA},
        "jdbc": {"url": server.url, "table": Scene(server).table,
                 "credentialsPath": str(server.login)},
    }  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="iggykube-bench-") as name:
        for event in sink_runs.job_batches(sink, document, rows, Path(name)):
            print(f"job, batch {event['batch']}: {event['rows'] / event['seconds']:,.0f} rows/s")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--job", action="store_true")
    given = parser.parse_args()
    with running_postgres(max_wal_size="4GB") as server:
        if given.job:
            run_job(server, given.rows)
            return
        print("| way | rows/s, median | best | CPU \u00b5s per row |\n|---|---|---|---|")
        for kind in KINDS:
            for tasks in (1, 2):
                samples = Samples()
                for _ in range(given.rounds):
                    run_tasks(server, kind, tasks, given.rows, samples)
                name = f"{kind}, {tasks} task{'s' if tasks > 1 else ''}"
                print(samples.line(name, given.rows), flush=True)
        print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")


if __name__ == "__main__":
    main()

"""How many rows a second the sink Jdbc brings into a PostgreSQL of this machine, and at what cost.

    python bench/postgres_sink.py [--rows 200000] [--rounds 3] [--job]

Documents of 1 KB become tables with and without a primary key, and one with mode Upsert, by one
task and by two; `--job` adds a whole sink job with a broker and Spark. The server is Debian's, with
its defaults, fsync among them, but for the size of its log. CPU seconds of server and tasks stand
beside the rates, which swing with what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from multiprocessing.synchronize import Barrier
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "spark")]

from iggy_bench import processes  # noqa: E402
from iggy_client import Client  # noqa: E402
from iggy_spark import job_config  # noqa: E402
from iggy_spark.job import Job  # noqa: E402
from iggy_spark.progress import Reporter  # noqa: E402
from iggy_spark.stop import Stop  # noqa: E402
from iggy_wire.batch import Message, build  # noqa: E402
from jdbc_cases import Scene, ready  # noqa: E402
from postgres import Postgres, running_postgres  # noqa: E402
from sink_cases import PlayedTask, declare, portions, wanted  # noqa: E402

SCHEMA = (
    "number BIGINT NOT NULL, month INT, customer STRING, amount DECIMAL(18,2), at TIMESTAMP, "
    "note STRING"
)
PORTION_ROWS = 4000  # about 4 MiB, as a fetch brings them
UPSERT = {"mode": "Upsert", "keyColumns": ["number"]}
KINDS: dict[str, dict[str, Any]] = {"Append": {}, "Append, primary key": {}, "Upsert": UPSERT}


def document(number: int) -> bytes:
    """1 KB of JSON."""
    value = {
        "number": number, "month": number % 12 + 1, "customer": f"c{number}",
        "amount": f"{number}.25", "at": "2026-03-29T00:59:59.999999Z",
        "note": f"some words, and {number} of them " * 27,
    }  # fmt: skip
    return json.dumps(value).encode()


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
    gate = multiprocessing.Barrier(tasks + 1)
    share = rows // tasks
    spans = [(number, number * share, (number + 1) * share) for number in range(tasks)]
    crowd = [multiprocessing.Process(target=carry, args=(scene, block, s, gate)) for s in spans]
    for one in crowd:
        one.start()
    gate.wait()
    before, began = used_s(server), time.perf_counter()
    gate.wait()
    into.rows_per_s.append(rows / (time.perf_counter() - began))
    into.cpu_s.append(used_s(server) - before)
    gate.wait()
    for one in crowd:
        one.join()
    assert scene.run(f"select count(*) from {scene.table}") == [(share * tasks,)]
    scene.run(f"drop table {scene.table}")


def fill(client: Client, rows: int) -> None:
    """A topic of two partitions with the documents."""
    client.create_stream("bench")
    client.create_topic("bench", "rows", 2)
    for first in range(0, rows, 1000):
        messages = [Message(document(n)) for n in range(first, first + 1000)]
        batch = build(messages, origin_timestamp_us=1)
        client.send_batch("bench", "rows", first // 1000 % 2, batch)


def run_job(server: Postgres, rows: int) -> None:
    """Print the rate of the batches of a job, which decodes as well."""
    scene = Scene(server)
    with tempfile.TemporaryDirectory(prefix="iggykube-bench-") as name:
        folder = Path(name)
        with processes.start_broker(folder / "broker", shards=1) as broker:
            login = (processes.USERNAME, processes.PASSWORD)
            with Client.connect(broker.address, *login) as client:
                fill(client, rows)
            value = {
                "name": "bench", "broker": {"address": broker.address}, "stream": "bench",
                "topic": "rows", "checkpoint": str(folder / "checkpoint"), "once": True,
                "sink": {
                    "type": "Jdbc", "payload": {"format": "Json", "schema": SCHEMA},
                    "jdbc": {"url": server.url, "table": scene.table,
                             "credentialsPath": str(server.login)},
                    "maxOffsetsPerTrigger": max(rows // 4, 1),
                },
            }  # fmt: skip
            file, out = folder / "job.json", folder / "events"
            file.write_text(json.dumps(value))
            environ = {"IGGY_USERNAME": login[0], "IGGY_PASSWORD": login[1]}
            with closing(out.open("w")) as told:
                job = Job(job_config.load(file), environ, Reporter(told), stop=Stop(signals=False))
                job.run()
            for event in batches(out):
                print(
                    f"job, batch {event['batch']}: {event['rows'] / event['seconds']:,.0f} rows/s"
                )


def batches(out: Path) -> Iterator[dict[str, Any]]:
    """Those that the job told of."""
    events = map(json.loads, out.read_text().splitlines())
    return (event for event in events if event["event"] == "progress")


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

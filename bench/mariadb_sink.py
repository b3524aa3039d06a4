"""How many rows a second the sink Jdbc brings into a MariaDB of this machine, through Spark's Java.

    python bench/mariadb_sink.py [--rows 40000]

A whole job with a broker and Spark, documents of 1 KB in six columns and three of ours, once as the
driver is by itself and once with rows joined into few statements. The server is Debian's, with its
defaults, fsync among them. Rates are those of the batches after the first, in which Java warms up.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / "support")]

from iggy_bench import sink_runs  # noqa: E402
from mariadb import DRIVER_JAR, MariaDb, running_mariadb  # noqa: E402

WAYS = ("", "?rewriteBatchedStatements=true")


def run_job(server: MariaDb, way: str, rows: int) -> list[float]:
    """Rows a second of each batch."""
    server.run("drop table if exists orders")
    sink = {
        "type": "Jdbc", "payload": {"format": "Json", "schema": sink_runs.SCHEMA},
        "jdbc": {"url": server.url + way, "table": "orders",
                 "credentialsPath": str(server.login())},
        "spark": {"conf": {"spark.driver.extraClassPath": str(DRIVER_JAR)}},
    }  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="iggykube-bench-") as name:
        events = sink_runs.job_batches(sink, sink_runs.document, rows, Path(name))
    assert server.run("select count(*) from orders") == [[str(rows)]]
    return [event["rows"] / event["seconds"] for event in events]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=40_000)
    given = parser.parse_args()
    print("| parameters | rows/s, median of later batches | best | first batch |")
    print("|---|---|---|---|")
    with running_mariadb(settings=()) as server:
        for way in WAYS:
            first, *later = run_job(server, way, given.rows)
            print(
                f"| `{way}` | {median(later):,.0f} | {max(later):,.0f} | {first:,.0f} |", flush=True
            )
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")


if __name__ == "__main__":
    main()

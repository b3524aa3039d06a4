"""The sink job: one topic into one sink. `python -m iggy_spark.sink_job --config FILE.json`.

With `check` or `explain-offsets` in front, it says what it would find, and carries nothing.

The process is Python and Spark's JVM its child, so that SIGTERM reaches us: the running batch is
finished, its end told to the broker, exit 0. Every other end has a code of `errors`, one line
on standard error, and never a secret. Events go to standard output, one JSON line each.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from iggy_spark.stop import Stop


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; the exit code is one of `errors`."""
    parser = argparse.ArgumentParser(
        prog="iggy_spark.sink_job", description="Carry one Iggy topic into one sink."
    )
    parser.add_argument(
        "command",
        nargs="?",
        choices=("run", "check", "explain-offsets"),
        default="run",
        help="check: whether the job could run, and where it would begin. explain-offsets: how far "
        "checkpoint, broker and target are, side by side. Without: run it",
    )
    parser.add_argument("--config", required=True, type=Path, help="the job's JSON file")
    parser.add_argument(
        "--output",
        choices=("text", "json"),
        default="text",
        help="of check and explain-offsets; the job itself tells events in JSON",
    )
    given = parser.parse_args(arguments)
    if given.command != "run":
        from iggy_spark import job_check

        return job_check.run(given.command, given.config, os.environ, output=given.output)
    stop = Stop(signals=True)
    # A container's first process gets only signals that it listens for, and the imports of Spark
    # and Arrow take many seconds on a fraction of a core.
    stop.install()
    from iggy_spark import job_run

    return job_run.run(given.config, stop, os.environ)


if __name__ == "__main__":
    sys.exit(main())

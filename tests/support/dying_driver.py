"""A driver of a table sink in a process of its own: it writes one batch and dies where it is told.

    python dying_driver.py '{"type": "Delta", "block": {}, "first": 0, "end": 6, "dies": "after"}'

It kills itself by SIGKILL: `files` before a task writes its file, `between` when files are written
and nothing is committed, `after` when the commit is made and nobody was told; `never` ends well.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

DIES_S = 120.0


def run(kind: str, block: dict[str, Any], *, first: int, end: int, dies: str) -> int:
    """The exit code of such a process, once it is gone."""
    case = {"type": kind, "block": block, "first": first, "end": end, "dies": dies}
    done = subprocess.run(
        [sys.executable, __file__, json.dumps(case)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=DIES_S,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


def die() -> None:
    """SIGKILL."""
    os.kill(os.getpid(), signal.SIGKILL)


def main(case: dict[str, Any]) -> None:
    """One batch, as a job that has just started writes it."""
    from sink_cases import PlayedTask, portions, wanted

    sink = _sink(case["type"], case["block"])
    sink.check()
    span = wanted(case["first"], case["end"])
    covered = sink.prepare(span.incarnation)

    from iggy_spark.sinks.base import Written, without

    at: dict[str, Callable[[], None]] = {case["dies"]: die}
    parts = []
    for part in without(span, covered.get(0, ())):
        task = PlayedTask(confirm=at.get("files", lambda: None))
        parts += sink.write_task(part, portions(part), task).details
    at.get("between", lambda: None)()
    sink.commit([Written(0, span.first, span.end, details=tuple(parts))])
    at.get("after", lambda: None)()


def _sink(kind: str, block: dict[str, Any]) -> Any:
    import msgspec

    from iggy_spark import blocks
    from iggy_spark.retry import Policy, Retry
    from iggy_spark.sinks.rows import table_fields
    from sink_cases import declare

    retry = Retry(Policy(timeout_s=20))
    if kind == "Delta":
        from iggy_spark.sinks.delta import DeltaSink

        made = msgspec.convert(block, blocks.Delta)
        return DeltaSink(made, table_fields(declare()), name="lake", retry=retry)
    from iggy_spark.sinks.iceberg import IcebergSink

    iceberg = msgspec.convert(block, blocks.Iceberg)
    return IcebergSink(iceberg, table_fields(declare()), name="lake", retry=retry)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main(json.loads(sys.argv[1]))

"""A source's job in a process of its own that kills itself, by SIGKILL, at a moment of one batch.

    python dying_source_job.py JOB.json sent 1

The moments: `planned`, Spark has the batch's plan and no task has run; `sent`, everything is in the
topic and Spark does not know it yet; `committed`, Spark has written it down and the other system
was not told; `told`, it was.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sink_jobs import LOGIN, JobSetup, run_to_death

MOMENTS = ("planned", "sent", "committed", "told")


def run(setup: JobSetup, moment: str, batch: int) -> None:
    """Start such a job, and wait until it has died there."""
    run_to_death(
        lambda: subprocess.Popen(
            [sys.executable, __file__, str(setup.write()), moment, str(batch)],
            env={**os.environ, **LOGIN, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    )


def die() -> None:
    """SIGKILL."""
    os.kill(os.getpid(), signal.SIGKILL)


def arm(moment: str, batch: int) -> None:
    """Change the job's own parts so that it dies there."""
    from iggy_spark.checkpoint import SOURCE_LIFE
    from iggy_spark.source_progress import SourceListener, SourceProgress
    from iggy_spark.source_task import Carried

    reading, remember, tell = SourceProgress.reading, SourceListener.remember, SourceProgress._tell

    @contextmanager
    def dying_reading(self: SourceProgress, number: int) -> Iterator[None]:
        if moment == "planned" and number == batch:
            die()
        with reading(self, number):
            yield

    def dying_remember(self: SourceListener, number: int, result: Carried) -> None:
        if moment == "sent" and number == batch:
            die()
        remember(self, number, result)

    def dying_tell(self: SourceProgress, number: int) -> None:
        is_over = number >= batch and self._checkpoint.has_committed(SOURCE_LIFE, batch)
        if moment == "committed" and is_over:
            die()
        tell(self, number)
        if moment == "told" and is_over:
            die()

    SourceProgress.reading = dying_reading  # type: ignore[assignment,method-assign]
    SourceListener.remember = dying_remember  # type: ignore[assignment,method-assign]
    SourceProgress._tell = dying_tell  # type: ignore[assignment,method-assign]


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    arm(sys.argv[2], int(sys.argv[3]))
    from iggy_spark import sink_job

    sys.exit(sink_job.main(["--config", sys.argv[1]]))

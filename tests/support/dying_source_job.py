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

from iggy_spark.errors import EXIT_FAILED
from sink_jobs import LOGIN, PROCESS_S, JobSetup

MOMENTS = ("planned", "sent", "committed", "told")


STARTS_MAX = 3  # on a machine that is so busy that Spark waits for its own workers in vain


def run(setup: JobSetup, moment: str, batch: int) -> None:
    """Start such a job, and wait until it has died there. One that has failed before is started
    again, as whoever runs jobs does.
    """
    for _ in range(STARTS_MAX):
        done = subprocess.run(
            [sys.executable, __file__, str(setup.write()), moment, str(batch)],
            env={**os.environ, **LOGIN, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            timeout=PROCESS_S,
            check=False,
        )
        if done.returncode != EXIT_FAILED or "failed to connect back" not in done.stderr:
            break
    assert done.returncode == -signal.SIGKILL, (done.returncode, done.stdout, done.stderr)


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

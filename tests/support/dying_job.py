"""A sink job that ends by SIGKILL at one step of its first batch, with Java and its tasks.

    python dying_job.py FILE STEP

What it does before is said by a file beside its configuration, `FILE.died`, with the step in it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final
from unittest import mock

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from iggy_spark import carriers, sink_job, sink_source
from iggy_spark.dead_letters import DeadLetters
from iggy_spark.job_mirror import JobMirror
from iggy_spark.sink_task import SinkReader
from iggy_spark.sinks.base import Written

BEFORE_LETTERS: Final = "before dead letters are acknowledged"
AFTER_LETTERS: Final = "after them, before the target's commit"
BEFORE_COMMIT: Final = "after all tasks, before the driver's commit"
AFTER_COMMIT: Final = "after the target's commit, before Spark's commit log"
AFTER_LOG: Final = "after the commit log, before the mirror"
STEPS: Final = (BEFORE_LETTERS, AFTER_LETTERS, BEFORE_COMMIT, AFTER_COMMIT, AFTER_LOG)

# Tasks are processes of their own, which get it from here.
_STEP, _GROUP, _MARK = "DYING_JOB_STEP", "DYING_JOB_GROUP", "DYING_JOB_MARK"


def start(file: Path, step: str, environ: Mapping[str, str]) -> subprocess.Popen[str]:
    """Such a process; `environ` goes on top of ours."""
    found = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environ}
    return subprocess.Popen(
        [sys.executable, __file__, str(file), step],
        env=found,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def mark_of(file: Path) -> Path:
    """Where the process says at which step it died."""
    return file.with_suffix(".died")


def die() -> None:
    """SIGKILL for the job and its Java, from wherever we are."""
    Path(os.environ[_MARK]).write_text(os.environ[_STEP])
    os.killpg(int(os.environ[_GROUP]), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)  # tasks are in a group of their own


class DyingSource(sink_source.SinkSource):
    """The job's data source, with tasks that may die."""

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """The job's own reader, but for its class."""
        reader = super().streamReader(schema)
        reader.__class__ = DyingReader
        return reader


class DyingReader(SinkReader):
    """Dies in a task that has letters to send, if that is its step."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """As the job's own."""
        real = DeadLetters.send

        def send(letters: DeadLetters) -> None:
            if not letters._held:
                return
            _at(BEFORE_LETTERS)
            real(letters)
            _at(AFTER_LETTERS)

        with mock.patch.object(DeadLetters, "send", send):
            yield from super().read(partition)


def _at(step: str) -> None:
    if os.environ[_STEP] == step:
        die()


def _commit(real: Callable[[carriers.Tasks, Sequence[Written]], None]) -> Callable[..., None]:
    def commit(tasks: carriers.Tasks, results: Sequence[Written]) -> None:
        _at(BEFORE_COMMIT)
        real(tasks, results)
        _at(AFTER_COMMIT)

    return commit


def _look_at(real: Callable[[JobMirror, int], None]) -> Callable[..., None]:
    def look_at(mirror: JobMirror, batch: int) -> None:
        real(mirror, batch)
        if mirror._told == batch:  # Spark has committed it, and the broker is told next
            _at(AFTER_LOG)

    return look_at


def _finish(real: Callable[..., None]) -> Callable[..., None]:
    def finish(mirror: JobMirror, *, contact_s: float) -> None:
        # The query may be over before anybody has looked at its last batch.
        if mirror._checkpoint.committed(mirror._incarnation) != mirror._done:
            _at(AFTER_LOG)
        real(mirror, contact_s=contact_s)

    return finish


def main(file: str, step: str) -> int:
    """Run the job; it does not return."""
    os.environ[_STEP], os.environ[_GROUP] = step, str(os.getpid())
    os.environ[_MARK] = str(mark_of(Path(file)))
    with (
        mock.patch.object(sink_source, "SinkSource", DyingSource),
        mock.patch.object(carriers.Tasks, "commit", _commit(carriers.Tasks.commit)),
        mock.patch.object(JobMirror, "_look_at", _look_at(JobMirror._look_at)),
        mock.patch.object(JobMirror, "finish", _finish(JobMirror.finish)),
    ):
        return sink_job.main(["--config", file])


if __name__ == "__main__":
    import dying_job  # under this name Spark's processes find the classes, too

    sys.exit(dying_job.main(*sys.argv[1:]))

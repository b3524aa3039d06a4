"""A job at a test's topic: in this process on the tests' Spark, or in one of its own."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from broker_process import PASSWORD, USERNAME
from iggy_spark import job_file, job_run
from iggy_spark.errors import EXIT_FAILED
from iggy_spark.progress import Reporter
from iggy_spark.stop import Stop
from lakes import FolderLake, rows_of

if TYPE_CHECKING:
    from conftest import Topic

LOGIN = {"IGGY_USERNAME": USERNAME, "IGGY_PASSWORD": PASSWORD}
SCHEMA = "number BIGINT NOT NULL, month INT, delay DOUBLE, at TIMESTAMP"
PROCESS_S = 400.0  # a Java and a Spark start in it, perhaps on a busy machine
STARTS_MAX = 3  # on a machine that is so busy


def documents(first: int, end: int) -> list[bytes]:
    return [
        json.dumps(
            {
                "number": n,
                "month": n % 12 + 1,
                "delay": None if n % 3 == 0 else n / 2,
                "at": "2026-03-29T00:59:59.999999Z",
            }
        ).encode()
        for n in range(first, end)
    ]


class Heard(io.StringIO):
    """Standard output of a job; `hear` gets each event at once."""

    def __init__(self, hear: Callable[[dict[str, Any]], None]) -> None:
        super().__init__()
        self._hear = hear

    def write(self, text: str) -> int:
        done = super().write(text)
        self._hear(json.loads(text))
        return done


class JobSetup:
    """A job at a test's topic, run inside this process on the shared Spark."""

    def __init__(self, topic: Topic, folder: Path, name: str, **carries: Any) -> None:
        """`carries`: the field of the file that says what it carries."""
        self.checkpoint = folder / "checkpoint"
        self.value = {
            "name": name,
            "broker": {"address": topic.address},
            "stream": topic.stream,
            "topic": topic.name,
            "checkpoint": str(self.checkpoint),
            "once": True,
            **carries,
        }
        self.file = folder / "job.json"
        self.login = LOGIN
        self.stop = Stop(signals=False)
        self.events: list[dict[str, Any]] = []

    def write(self) -> Path:
        self.file.write_text(json.dumps(self.value))
        return self.file

    def run(
        self, spark: SparkSession, *, hear: Callable[[dict[str, Any]], None] = lambda event: None
    ) -> list[dict[str, Any]]:
        """The events of one run to its end; `hear` gets each when it happens."""
        out = Heard(hear)

        @contextmanager
        def running(*args: Any, **settings: Any) -> Iterator[SparkSession]:
            yield spark

        try:
            config = job_file.load(self.write())
            reporter = Reporter(out)
            job_run.job_of(config, self.login, reporter, stop=self.stop, running=running).run()
        finally:
            self.events = [json.loads(line) for line in out.getvalue().splitlines()]
        return self.events

    def forget_last_commit(self) -> None:
        """As after a crash between the target's commit and Spark's: the newest file of Spark's
        commit log is gone.
        """
        (commits,) = self.checkpoint.glob("*/spark/commits")
        newest = max(int(file.name) for file in commits.glob("[0-9]*"))
        (commits / f"{newest}").unlink()
        (commits / f".{newest}.crc").unlink(missing_ok=True)

    def progress(self) -> list[dict[str, Any]]:
        """The events of batches."""
        return [event for event in self.events if event["event"] == "progress"]


class Setup(JobSetup):
    """A job that carries the topic into a lake."""

    def __init__(self, topic: Topic, folder: Path, **sink: Any) -> None:
        self.lake = folder / "lake"
        given = {
            "type": "Files",
            "files": {"path": str(self.lake), "partitionBy": ["month"]},
            "payload": {"format": "Json", "schema": SCHEMA},
            "trigger": {"interval": "100ms"},
            **sink,
        }
        super().__init__(topic, folder, "lake", sink=given)

    def rows_if_any(self) -> list[tuple[int, int]]:
        """The same where the sink may have written nothing."""
        return self.rows() if FolderLake(self.lake).files() else []

    def rows(self) -> list[tuple[int, int]]:
        """(partition, offset) of every row in the lake."""
        return rows_of(FolderLake(self.lake))


def every(**counts: int) -> list[tuple[int, int]]:
    return [(int(p[1:]), n) for p, count in sorted(counts.items()) for n in range(count)]


def start(setup: JobSetup, **environ: str) -> subprocess.Popen[str]:
    """The job as whoever runs it starts it; `environ` goes on top of the login."""
    return subprocess.Popen(
        [sys.executable, "-m", "iggy_spark.sink_job", "--config", str(setup.write())],
        env={**os.environ, **LOGIN, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def kill_while_it_writes(setup: JobSetup, **environ: str) -> int:
    """Start the job, let four batches be, and kill it in the fifth. The number of its processes'
    group: what Spark has started lives on for a moment.
    """
    process = start(setup, **environ)
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line).get("batch") == 3:  # the next one is being written
            process.kill()
    process.communicate(timeout=PROCESS_S)
    assert process.returncode == -signal.SIGKILL
    return process.pid


def run_to_death(start: Callable[[], subprocess.Popen[str]]) -> int:
    """Start a job that kills itself by SIGKILL, and wait for that; the number of its process.

    One whose Spark waited in vain for its own workers is started again, as whoever runs jobs does.
    """
    for _ in range(STARTS_MAX):
        process = start()
        out, told = process.communicate(timeout=PROCESS_S)
        if process.returncode != EXIT_FAILED or "failed to connect back" not in told:
            break
    assert process.returncode == -signal.SIGKILL, (process.returncode, out, told)
    return process.pid


def is_over(group: int) -> bool:
    """Whether no process of a group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False

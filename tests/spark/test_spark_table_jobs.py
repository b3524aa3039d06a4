"""Whole sink jobs into Iceberg and Delta tables in an object store, killed and repeated."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession

from delta_tables import bucket_place
from iceberg_tables import bucket_tables, new_name, rest_tables
from object_store import ObjectStore
from sink_jobs import LOGIN, PROCESS_S, Setup, documents, every

if TYPE_CHECKING:
    from conftest import Topic

KINDS = ("iceberg sql", "iceberg rest", "delta", "delta upsert")
TWO = ("iceberg sql", "delta")


@dataclass(frozen=True)
class Lake:
    """A table of a test's own, as a job's file has it, and what is in it."""

    sink: dict[str, Any]
    rows: Callable[[], list[tuple[int, int]]]


@pytest.fixture(params=KINDS)
def lake(request: pytest.FixtureRequest, store: ObjectStore, tmp_path: Path) -> Lake:
    kind: str = request.param
    if kind.startswith("delta"):
        place = bucket_place(store)
        keys = ["iggy_partition_id", "number"]
        more = {"mode": "Upsert", "keyColumns": keys} if "upsert" in kind else {}
        block = place.settings(partitionBy=["month"], **more)
        return Lake({"type": "Delta", "delta": block}, place.rows)
    tables = rest_tables(store) if "rest" in kind else bucket_tables(store, tmp_path / "catalog")
    name = new_name()
    block = tables.settings(name, partitionBy=["month", "iggy_date"])
    return Lake({"type": "Iceberg", "iceberg": block}, lambda: tables.rows(name))


@pytest.fixture
def setup(topic: Topic, lake: Lake, tmp_path: Path) -> Setup:
    return Setup(topic, tmp_path, files=None, maxOffsetsPerTrigger=60, **lake.sink)


def test_a_table_is_filled_once_whatever_is_repeated_or_lost(
    spark: SparkSession, topic: Topic, setup: Setup, lake: Lake
) -> None:
    topic.send(0, documents(0, 100))
    topic.send(1, documents(0, 20))
    setup.run(spark)
    first = lake.rows()
    setup.forget_last_commit()

    events = setup.run(spark)
    (progress,) = (event for event in events if event["event"] == "progress")
    shutil.rmtree(setup.checkpoint)
    topic.send(1, documents(20, 30))
    setup.value["sink"]["maxOffsetsPerTrigger"] = 7  # other ranges than before
    events = setup.run(spark)

    assert first == every(p0=100, p1=20)
    assert (progress["rows"], progress["skipped"]) == (0, 60)
    assert sum(event["rows"] for event in events if event["event"] == "progress") == 10
    assert lake.rows() == every(p0=100, p1=30)
    assert topic.stored("lake", 1) == 29


# The program of the job, but its first commit to the target is where it dies.
DIES = """
import os, signal, sys
from iggy_spark.sinks.{module} import {sink}
real = {sink}.commit
def commit(self, results):
    if "{point}" == "after":
        real(self, results)
    os.kill(os.getpid(), signal.SIGKILL)
{sink}.commit = commit
from iggy_spark import sink_job
sys.exit(sink_job.main(["--config", {file!r}]))
"""


def run_until_it_dies(setup: Setup, point: str) -> int:
    """The exit code of a job of its own, with Java and Spark."""
    kind = setup.value["sink"]["type"]
    names = {"module": kind.lower(), "sink": f"{kind}Sink", "point": point}
    program = DIES.format(file=str(setup.write()), **names)
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **LOGIN},
        capture_output=True,
        timeout=PROCESS_S,
        check=False,
    ).returncode


@pytest.mark.timeout(900)  # a Java and a Spark start for each
@pytest.mark.parametrize(
    ("lake", "point"),
    [
        ("delta", "between"),
        ("iceberg sql", "after"),
        pytest.param("delta", "after", marks=pytest.mark.long),
        pytest.param("iceberg sql", "between", marks=pytest.mark.long),
    ],
    indirect=["lake"],
)
def test_a_job_that_is_killed_around_its_commit_makes_no_double_and_no_gap(
    spark: SparkSession, topic: Topic, setup: Setup, lake: Lake, point: str
) -> None:
    topic.send(0, documents(0, 100))
    topic.send(1, documents(0, 20))

    assert run_until_it_dies(setup, point) == -signal.SIGKILL
    assert len(lake.rows()) == (60 if point == "after" else 0)
    setup.run(spark)

    assert lake.rows() == every(p0=100, p1=20)
    assert topic.stored("lake", 0) == 99


@pytest.mark.parametrize("lake", TWO, indirect=True)
def test_a_bad_message_is_set_aside_and_its_batch_goes_on(
    spark: SparkSession, topic: Topic, setup: Setup, lake: Lake
) -> None:
    topic.send(0, [*documents(0, 3), b'{"number": "three"}', *documents(4, 6)])
    setup.value["sink"]["errors"] = {"tolerance": "Data", "deadLetter": {"topic": "dead"}}

    events = setup.run(spark)

    assert lake.rows() == [(0, n) for n in (0, 1, 2, 4, 5)]
    (progress,) = (event for event in events if event["event"] == "progress")
    assert (progress["rows"], progress["rejected"]) == (5, 1)

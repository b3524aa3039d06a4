"""The sample with two targets: an Iceberg table in a bucket and PostgreSQL, fed from one topic.

Jobs are killed at every step, checkpoints are lost, the broker comes back from a copy that has all,
or from an older one: each message that was acknowledged is in both targets once.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import broker_copies
import dying_job
from broker_process import running_broker
from iggy_spark import connections
from iggy_spark.errors import DataLoss
from object_store import ObjectStore
from page_samples import ROOT
from postgres import Postgres
from sink_jobs import LOGIN, PROCESS_S, is_over, run_to_death
from twin_jobs import TwinJobs
from twin_targets import Targets
from waiting import wait_until

pytestmark = pytest.mark.timeout(1200)  # Javas of their own, on a busy machine

PAGE = (ROOT / "docs" / "lake-and-postgres.md").read_text()
GIVEN_TWICE = r"were read, and other messages have them now"
LOST = r"the target holds offsets up to \d+, but the partition ends at \d+"


@pytest.fixture(scope="module")
def scene(
    store: ObjectStore, tmp_path_factory: pytest.TempPathFactory, postgres: Postgres
) -> Iterator[TwinJobs]:
    """One for all: every test leaves both targets with all that was acknowledged."""
    folder = tmp_path_factory.mktemp("twins")
    with running_broker(folder / "broker", shards=1) as broker:
        yield TwinJobs(broker, Targets(store, postgres), folder)
        connections.close_all()


def check(scene: TwinJobs) -> None:
    """Each message that was acknowledged is in both targets once, or set aside by both."""
    assert scene.differences() == {"lake": "", "table": ""}
    assert scene.letters() == {"lake": scene.bad(), "table": scene.bad()}


@pytest.mark.parametrize("step", dying_job.STEPS)  # each takes two Javas and two Sparks
def test_jobs_that_are_killed_at_a_step_make_no_double_and_no_gap(
    spark: SparkSession, scene: TwinJobs, step: str
) -> None:
    scene.send()
    for job in scene.jobs.values():  # in turn: two that start at once keep Spark waiting
        pid = run_to_death(lambda job=job: dying_job.start(job.write(), step, LOGIN))  # type: ignore[misc]
        assert dying_job.mark_of(job.file).read_text() == step
        wait_until(lambda pid=pid: is_over(pid), "its processes end")  # type: ignore[misc]

    scene.send()
    scene.run(spark)

    check(scene)


def test_lost_checkpoints_go_on_where_the_targets_are(spark: SparkSession, scene: TwinJobs) -> None:
    scene.send()
    scene.run(spark)
    for job in scene.jobs.values():
        shutil.rmtree(job.checkpoint)
    scene.send()

    scene.run(spark)

    check(scene)


def test_a_broker_that_is_back_from_a_copy_of_everything_is_as_before(
    spark: SparkSession, scene: TwinJobs
) -> None:
    scene.send()
    scene.run(spark)
    scene.send()
    scene.broker.stop()
    copy = scene.copy()

    broker_copies.put_back(scene.broker, copy)
    scene.send()
    scene.run(spark)

    check(scene)


def refused(spark: SparkSession, scene: TwinJobs, reason: str) -> None:
    """Neither job does anything, and both say why."""
    before = (scene.targets.lake(), scene.targets.table())
    for job in scene.jobs.values():
        with pytest.raises(DataLoss, match=reason):
            job.run(spark)
    assert (scene.targets.lake(), scene.targets.table()) == before


def test_a_broker_that_is_back_from_an_older_copy_stops_the_jobs_until_it_has_all(
    spark: SparkSession, scene: TwinJobs
) -> None:
    scene.send()
    older = scene.copy()  # while it runs
    scene.send()
    scene.run(spark)
    scene.broker.stop()
    newer = scene.copy()

    broker_copies.put_back(scene.broker, older)
    refused(spark, scene, LOST)
    scene.send(200, is_kept=False)  # offsets are given again, and further ones
    refused(spark, scene, GIVEN_TWICE)

    broker_copies.put_back(scene.broker, newer)
    scene.send()
    scene.run(spark)
    check(scene)


def told(spark: SparkSession, scene: TwinJobs) -> dict[int, int]:
    """The first offset of each partition that was given again, as both jobs say it."""
    found = []
    for job in scene.jobs.values():
        with pytest.raises(DataLoss, match=GIVEN_TWICE) as caught:
            job.run(spark)
        places = re.findall(r"partition (\d+): offsets (\d+)", str(caught.value))
        found.append({int(number): int(first) for number, first in places})
    assert found[0] == found[1]
    return found[0]


def shown(kind: str) -> str:
    """The only block of this kind on the page."""
    (block,) = re.findall(rf"^ *```{kind}\n(.*?)^ *```", PAGE, re.MULTILINE | re.DOTALL)
    return textwrap.dedent(block)


def take_back(scene: TwinJobs, left: dict[int, int]) -> None:
    """Both targets, as the page says it."""
    program = shown("python")
    for old, new in (
        ("left = {0: 600}", f"left = {left}"),
        ('catalog = {"type": "sql", "uri": "…"}', f"catalog = {scene.targets.catalog}"),
    ):
        assert old in program
        program = program.replace(old, new)
    subprocess.run([sys.executable, "-c", program], check=True, timeout=PROCESS_S)
    for partition, first in left.items():
        statements = shown("sql").replace("= 0", f"= {partition}").replace("600", f"{first}")
        with scene.targets.postgres.connect() as connection, connection.transaction():
            for statement in filter(str.strip, statements.split(";")):
                assert connection.execute(statement.encode()).rowcount > 0


def test_targets_are_taken_back_to_a_broker_that_has_no_newer_copy(
    spark: SparkSession, scene: TwinJobs
) -> None:
    scene.send()
    scene.run(spark)
    older, ends = scene.copy(), scene.ends()
    scene.send()
    scene.run(spark)
    broker_copies.put_back(scene.broker, older)
    lost = {place: payload for place, payload in scene.wanted.items() if place[1] >= ends[place[0]]}
    scene.forget(lost)
    scene.send(200)
    left = told(spark, scene)
    assert left == ends

    take_back(scene, left)
    for job in scene.jobs.values():
        shutil.rmtree(job.checkpoint)
    scene.send_again(lost)
    scene.run(spark)

    check(scene)

"""A job that starts with other cores and other tasks than before: each message is there once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession

from delta_tables import bucket_place
from iceberg_tables import bucket_tables, new_name
from iggy_spark.offsets import RANGE_ROWS_MIN
from iggy_spark.sinks import file_names
from lakes import FolderLake
from object_store import ObjectStore
from sink_jobs import Setup, documents, every, is_over, kill_while_it_writes
from waiting import wait_until

if TYPE_CHECKING:
    from conftest import Topic

FLAT = {"payload": {"format": "Json", "schema": "number BIGINT NOT NULL"}}


def ranges(lake: Path) -> list[tuple[int, int, int]]:
    """(partition, first, end) of the files."""
    names = [file_names.parse(Path(name).name) for name in FolderLake(lake).files()]
    return sorted((name.partition, name.first, name.end) for name in names if name is not None)


@pytest.fixture
def setup(topic: Topic, tmp_path: Path) -> Setup:
    made = Setup(topic, tmp_path, **FLAT)
    made.value["sink"]["files"]["partitionBy"] = []
    return made


@pytest.mark.timeout(600)  # a Java of its own, on a busy machine
def test_a_killed_job_goes_on_with_other_cores_and_fewer_tasks(
    spark: SparkSession, topic: Topic, setup: Setup
) -> None:
    sink: dict[str, Any] = setup.value["sink"]
    for partition in (0, 1):
        topic.send(partition, documents(0, 30_000), batch=1_000)
    sink |= {"maxOffsetsPerTrigger": 6_000, "minPartitions": 6}
    sink["spark"] = {"driver": {"cores": 3}}

    group = kill_while_it_writes(setup)
    wait_until(lambda: is_over(group), "its tasks end")
    before = ranges(setup.lake)
    del sink["minPartitions"]
    sink["maxOffsetsPerTrigger"] = 30_000
    events = setup.run(spark)  # on two cores

    assert len([one for one in before if one[2] <= 12_000]) == 24  # six tasks in each of four
    assert events[-1]["lag"] == 0
    assert setup.rows() == every(p0=30_000, p1=30_000)
    assert set(before) < set(ranges(setup.lake))


def test_a_batch_of_which_some_tasks_had_ended_is_repeated_by_others(
    spark: SparkSession, topic: Topic, setup: Setup
) -> None:
    topic.send(0, documents(0, 7_000), batch=1_000)
    setup.value["sink"]["minPartitions"] = 6
    setup.run(spark)
    first = ranges(setup.lake)
    for name in FolderLake(setup.lake).files():  # as if these tasks had not come to their end
        found = file_names.parse(name)
        assert found is not None
        if found.first in (1_000, 4_000):
            os.remove(setup.lake / name)
    setup.forget_last_commit()
    setup.value["sink"]["minPartitions"] = 2
    setup.run(spark)
    (progress,) = setup.progress()

    assert first == [(0, at, at + RANGE_ROWS_MIN) for at in range(0, 7_000, RANGE_ROWS_MIN)]
    assert (progress["rows"], progress["skipped"]) == (2_000, 5_000)
    assert setup.rows() == every(p0=7_000)


@pytest.mark.parametrize("kind", [pytest.param("Iceberg", marks=pytest.mark.long), "Delta"])
def test_a_table_knows_what_it_has_whatever_the_tasks_are(
    spark: SparkSession, topic: Topic, store: ObjectStore, tmp_path: Path, kind: str
) -> None:
    name = new_name()
    if kind == "Delta":
        place = bucket_place(store)
        block, rows = place.settings(), place.rows
    else:
        tables = bucket_tables(store, tmp_path / "catalog")
        block, rows = tables.settings(name), lambda: tables.rows(name)
    given = {"type": kind, kind.lower(): block, "files": None, "minPartitions": 4}
    setup = Setup(topic, tmp_path, **FLAT, **given)
    topic.send(0, documents(0, 4_000), batch=1_000)
    setup.run(spark)
    setup.forget_last_commit()
    topic.send(0, documents(4_000, 5_000), batch=1_000)
    del setup.value["sink"]["minPartitions"]

    setup.run(spark)

    again, rest = setup.progress()
    assert (again["rows"], again["skipped"], rest["rows"]) == (0, 4_000, 1_000)
    assert rows() == every(p0=5_000)

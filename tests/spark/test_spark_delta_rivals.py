"""A Delta table in which others write meanwhile, or change it, and drivers that are killed."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import dying_driver
from delta_cases import UPSERT, Case
from delta_tables import bucket_place, folder_place
from iggy_spark.errors import Fenced, OptionError, SinkError
from iggy_spark.sinks import delta
from object_store import ObjectStore
from sink_contract import every


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(folder_place(tmp_path))


class Meanwhile:
    """Does something in the middle of the next commit, after the sink has read the table."""

    def __init__(self, patch: pytest.MonkeyPatch, work: Callable[[], object]) -> None:
        self.works = [work]
        real = delta.CommitProperties

        def between(**settings: Any) -> Any:
            while self.works:
                self.works.pop()()
            return real(**settings)

        patch.setattr(delta, "CommitProperties", between)


@pytest.mark.parametrize("block", [{}, UPSERT], ids=["Append", "Upsert"])
def test_another_writer_meanwhile_is_no_harm(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch, block: dict[str, Any]
) -> None:
    case = Case(bucket_place(store))
    case.write(0, 3, **block)
    row = case.place.read().slice(0, 1)
    row = row.set_column(0, row.schema.field(0), pa.array([99], pa.int64()))
    options = case.place.options
    Meanwhile(
        monkeypatch,
        lambda: write_deltalake(case.place.address, row, mode="append", storage_options=options),
    )

    case.write(3, 6, **block)

    assert len(case.place.rows()) == 7
    assert set(case.place.rows()) == set(every(0, 0, 6))
    assert case.held() == 6


def test_two_sinks_share_a_table(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    other = case.sink("other")
    Meanwhile(monkeypatch, lambda: case.write(0, 4, sink=other))

    case.write(0, 6)

    assert case.place.rows() == sorted(every(0, 0, 6) + every(0, 0, 4))
    assert (case.held(), case.held("other")) == (6, 4)


def test_sinks_that_run_at_the_same_time_share_a_table(case: Case) -> None:
    case.sink().check()
    names = ("one", "two", "three")

    def run(name: str) -> None:
        sink = case.sink(name, timeout_s=60)
        for first in range(0, 15, 3):
            sink.commit([case.task(sink, first, first + 3)])

    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(run, names))

    assert case.place.rows() == sorted(every(0, 0, 15) * 3)
    assert [case.held(name) for name in names] == [15] * 3


@pytest.mark.parametrize("block", [{}, UPSERT], ids=["Append", "Upsert"])
def test_a_second_driver_with_the_same_batch_adds_nothing(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch, block: dict[str, Any]
) -> None:
    case = Case(bucket_place(store))
    Meanwhile(monkeypatch, lambda: case.write(0, 6, **block))

    case.write(0, 6, **block)

    assert case.place.rows() == every(0, 0, 6)
    assert case.place.table().version() == 1


def test_a_second_driver_with_another_plan_stops(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    Meanwhile(monkeypatch, lambda: case.write(0, 4))

    with pytest.raises(Fenced, match=r"partition 0 up to offset 3, inside 0.5"):
        case.write(0, 6)

    assert case.place.rows() == every(0, 0, 4)


def test_an_older_driver_cannot_take_offsets_back(case: Case) -> None:
    old = case.sink()
    old.check()
    results = [case.task(old, 0, 6)]
    case.write(0, 6)
    case.write(6, 9)

    old.commit(results)

    assert case.held() == 9
    assert case.place.rows() == every(0, 0, 9)


@pytest.mark.parametrize("block", [{"partitionBy": ["month"]}, UPSERT], ids=["Append", "Upsert"])
@pytest.mark.parametrize("dies", ["files", "between", "after"])
def test_a_driver_that_is_killed_makes_no_double_and_no_gap(
    store: ObjectStore, dies: str, block: dict[str, Any]
) -> None:
    case = Case(bucket_place(store))
    settings = case.place.settings(**block)
    case.write(0, 2, **block)

    assert dying_driver.run("Delta", settings, first=2, end=8, dies=dies) == -signal.SIGKILL
    assert case.place.rows() == every(0, 0, 8 if dies == "after" else 2)
    assert dying_driver.run("Delta", settings, first=2, end=11, dies="never") == 0

    assert case.place.rows() == every(0, 0, 11)
    files = case.place.table().file_uris()
    assert len(files) == len(set(files))


def test_a_column_that_goes_meanwhile_stops_the_next_task(case: Case) -> None:
    sink = case.sink()
    sink.check()
    replaced(case, case.place.read().drop_columns(["amount"]))

    with pytest.raises(OptionError, match="the table has no column amount"):
        case.task(sink, 0, 6)


@pytest.mark.parametrize("partition_by", [[], ["month"]])
def test_a_table_that_is_replaced_meanwhile_stops_the_batch(
    case: Case, partition_by: list[str]
) -> None:
    sink = case.sink()
    sink.check()
    results = [case.task(sink, 0, 6)]
    replaced(case, case.place.read(), partition_by=partition_by)

    with pytest.raises(SinkError, match="made anew, or its partitions were changed, while"):
        sink.commit(results)

    assert case.place.rows() == []


def replaced(case: Case, rows: pa.Table, **more: Any) -> None:
    shutil.rmtree(case.place.path)
    write_deltalake(case.place.address, rows, **more)

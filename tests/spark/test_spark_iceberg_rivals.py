"""An Iceberg table in which others write meanwhile, or change it, and drivers that are killed."""

from __future__ import annotations

import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyiceberg import exceptions
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

import dying_driver
from iceberg_cases import Case
from iceberg_tables import bucket_tables, folder_tables, rest_tables
from iggy_spark.errors import Fenced, OptionError, SinkError
from iggy_spark.sinks import iceberg
from object_store import ObjectStore
from sink_contract import every


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(folder_tables(tmp_path))


class Meanwhile:
    """Does something in the middle of the next commit, after the sink has read the table."""

    def __init__(self, patch: pytest.MonkeyPatch, work: Callable[[], object]) -> None:
        self.works = [work]
        real = iceberg._make_light

        def between(table: Table) -> None:
            while self.works:
                self.works.pop()()
            real(table)

        patch.setattr(iceberg, "_make_light", between)


def test_another_writer_meanwhile_is_no_harm(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    case.write(0, 3)
    row = case.tables.read(case.name).slice(0, 1)
    Meanwhile(monkeypatch, lambda: case.tables.table(case.name).append(row))

    case.write(3, 6)

    assert case.rows() == sorted([*every(0, 0, 6), (0, 0)])
    assert case.held() == {0: 6}


def test_two_sinks_share_a_table(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    other = case.sink("other")
    Meanwhile(monkeypatch, lambda: case.write(0, 4, sink=other))

    case.write(0, 6)

    assert case.rows() == sorted(every(0, 0, 6) + every(0, 0, 4))
    assert (case.held(), case.held("other")) == ({0: 6}, {0: 4})


def test_sinks_that_run_at_the_same_time_share_a_table(case: Case) -> None:
    case.sink().check()
    names = ("one", "two", "three")

    def run(name: str) -> None:
        sink = case.sink(name, timeout_s=60)
        for first in range(0, 15, 3):
            sink.commit([case.task(sink, first, first + 3)])

    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(run, names))

    assert case.rows() == sorted(every(0, 0, 15) * 3)
    assert [case.held(name) for name in names] == [{0: 15}] * 3


def test_a_second_driver_with_the_same_batch_adds_nothing(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    Meanwhile(monkeypatch, lambda: case.write(0, 6))

    case.write(0, 6)

    assert case.rows() == every(0, 0, 6)
    assert len(case.tables.table(case.name).snapshots()) == 1


def test_a_second_driver_with_another_plan_stops(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    Meanwhile(monkeypatch, lambda: case.write(0, 4))

    with pytest.raises(Fenced, match=r"partition 0 up to offset 3, inside 0.5"):
        case.write(0, 6)

    assert case.rows() == every(0, 0, 4)


def test_an_older_driver_cannot_take_offsets_back(case: Case) -> None:
    old = case.sink()
    old.check()
    results = [case.task(old, 0, 6)]
    case.write(0, 6)
    case.write(6, 9)

    old.commit(results)

    assert case.held() == {0: 9}
    assert case.rows() == every(0, 0, 9)


@pytest.mark.parametrize("error", [exceptions.CommitStateUnknownException, ConnectionError])
def test_a_commit_whose_answer_is_lost_is_not_made_twice(
    case: Case, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    real = SqlCatalog.commit_table
    lost = [error("no answer")]

    def answer(self: SqlCatalog, *args: Any) -> Any:
        done = real(self, *args)
        if lost:
            raise lost.pop()
        return done

    monkeypatch.setattr(SqlCatalog, "commit_table", answer)

    case.write(0, 6)

    assert (lost, case.rows()) == ([], every(0, 0, 6))


def test_a_catalog_behind_rest_tells_drivers_apart(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(rest_tables(store))
    Meanwhile(monkeypatch, lambda: case.write(0, 6))
    case.write(0, 6)
    Meanwhile(monkeypatch, lambda: case.write(0, 4, sink=case.sink("other")))
    case.write(6, 9)

    assert case.rows() == sorted(every(0, 0, 9) + every(0, 0, 4))
    assert (case.held(), case.held("other")) == ({0: 9}, {0: 4})


def test_a_column_that_goes_meanwhile_stops_the_next_task(case: Case) -> None:
    sink = case.sink()
    sink.check()
    with case.tables.opened() as catalog, catalog.load_table(case.name).update_schema() as update:
        update.delete_column("amount")

    with pytest.raises(OptionError, match="the table has no column amount"):
        case.task(sink, 0, 6)


def test_a_table_that_is_made_anew_meanwhile_stops_the_batch(case: Case) -> None:
    sink = case.sink()
    sink.check()
    results = [case.task(sink, 0, 6)]
    with case.tables.opened() as catalog:
        catalog.drop_table(case.name)
    sink.check()

    with pytest.raises(SinkError, match="it was made anew"):
        sink.commit(results)

    assert case.rows() == []


def test_partitions_that_change_meanwhile_stop_the_batch(case: Case) -> None:
    sink = case.sink()
    sink.check()
    results = [case.task(sink, 0, 6)]
    with case.tables.opened() as catalog, catalog.load_table(case.name).update_spec() as update:
        update.add_identity("month")

    with pytest.raises(SinkError, match="its partitions were changed, while"):
        sink.commit(results)

    case.write(0, 6)
    assert case.rows() == every(0, 0, 6)


@pytest.mark.parametrize("dies", ["files", "between", "after"])
def test_a_driver_that_is_killed_makes_no_double_and_no_gap(
    store: ObjectStore, tmp_path: Path, dies: str
) -> None:
    case = Case(bucket_tables(store, tmp_path))
    block = case.tables.settings(case.name, partitionBy=["month"])
    case.write(0, 2, partition_by=["month"])

    assert dying_driver.run("Iceberg", block, first=2, end=8, dies=dies) == -signal.SIGKILL
    assert case.rows() == every(0, 0, 8 if dies == "after" else 2)
    assert dying_driver.run("Iceberg", block, first=2, end=11, dies="never") == 0

    assert case.rows() == every(0, 0, 11)
    files = case.tables.table(case.name).inspect.data_files().column("file_path").to_pylist()
    assert len(files) == len(set(files))

"""What is special to the Delta sink: types, partitions, conflicts, tables of others, upserts."""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable, write_deltalake

import dying_driver
from delta_tables import DeltaPlace, bucket_place, folder_place
from iggy_spark.errors import Fenced, OptionError, SinkError
from iggy_spark.retry import Policy, Retry
from iggy_spark.sinks import delta, delta_upsert
from iggy_spark.sinks.base import Written
from iggy_spark.sinks.delta import DeltaSink
from iggy_spark.sinks.rows import table_fields
from object_store import ObjectStore, running_object_store
from sink_cases import INCARNATION, PlayedTask, declare, portions, wanted
from sink_contract import every
from table_messages import NULLABLE, ODD, TYPES, odd, typed, wanted_row

UPSERT: dict[str, Any] = {"mode": "Upsert", "keyColumns": ["number"]}


class Case:
    """A table of a test's own, and sinks that write it."""

    def __init__(self, place: DeltaPlace, schema: str | None = None) -> None:
        self.place = place
        self.payload = declare() if schema is None else declare(text=schema)

    def sink(self, name: str = "lake", *, timeout_s: float = 5, **block: Any) -> DeltaSink:
        retry = Retry(Policy(timeout_s, initial_s=0.01, max_s=0.1))
        fields = table_fields(self.payload)
        return DeltaSink(self.place.block(**block), fields, name=name, retry=retry)

    def write(
        self,
        first: int,
        end: int,
        *,
        made: Callable[[int], bytes] | None = None,
        sink: DeltaSink | None = None,
        **block: Any,
    ) -> None:
        """One batch of one partition."""
        chosen = sink or self.sink(**block)
        chosen.check()
        chosen.commit([self.task(chosen, first, end, made=made)])

    def task(
        self,
        sink: DeltaSink,
        first: int,
        end: int,
        *,
        made: Callable[[int], bytes] | None = None,
        partition: int = 0,
    ) -> Written:
        """What a task of a batch does."""
        span = wanted(first, end, partition)
        more = {} if made is None else {"made": made}
        found = portions(span, payload=self.payload, **more)
        return sink.write_task(span, found, PlayedTask())

    def held(self, name: str = "lake") -> int | None:
        """The next offset of partition 0, as the table tells it."""
        return self.place.table().transaction_version(f"{name}/{INCARNATION}/0")


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(folder_place(tmp_path))


def test_every_type_comes_back(tmp_path: Path) -> None:
    case = Case(folder_place(tmp_path), TYPES)

    case.write(0, 2, made=typed)

    found = case.place.read().sort_by("n").to_pylist()
    assert found[0] == wanted_row()
    assert [found[1][name] for name in NULLABLE] == [None] * len(NULLABLE)


def test_partitions_of_odd_values_are_found(case: Case) -> None:
    case.write(0, 12, made=odd, partitionBy=["customer", "month", "iggy_date"])

    found = case.place.read()
    assert {row["customer"] for row in found.to_pylist()} == {value or None for value in ODD}
    dataset = case.place.table().to_pyarrow_dataset()
    for at, value in enumerate(ODD):
        rule = ds.field("customer") == value if value else ds.field("customer").is_null()
        numbers = dataset.to_table(filter=rule).column("number").to_pylist()
        # The protocol has no empty text as a partition: it is null.
        assert sorted(numbers) == ([at, at + 6] if value else [1, 4, 7, 10])
    assert {str(day) for day in found.column("iggy_date").to_pylist()} == {"2026-12-31"}


def test_bounds_let_readers_skip_files_and_miss_nothing(case: Case) -> None:
    for first in (0, 6):
        case.write(first, first + 6)

    entries = pa.table(case.place.table().get_add_actions(flatten=True)).to_pylist()
    assert sorted((row["min.number"], row["max.number"]) for row in entries) == [(0, 5), (6, 11)]
    assert [row["num_records"] for row in entries] == [6, 6]
    dataset = case.place.table().to_pyarrow_dataset()
    for number in range(12):
        assert dataset.count_rows(filter=ds.field("number") == number) == 1
        assert dataset.count_rows(filter=ds.field("customer") == f"c{number}") == 1
    late = pa.scalar(1_774_745_999_999_999, pa.timestamp("us", tz="UTC"))
    assert dataset.count_rows(filter=ds.field("at") == late) == 6


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ("number BIGINT NOT NULL, more STRING", "the table has no column more: add one of type"),
        ("number STRING NOT NULL", "column number is int64 in the table and string"),
        ("number BIGINT", "column number must not be null: declare it NOT NULL"),
        ("customer STRING", "column number must not be null, and messages have no such field"),
    ],
)
def test_columns_that_do_not_fit_are_named(case: Case, schema: str, told: str) -> None:
    case.write(0, 1)

    with pytest.raises(OptionError, match=rf"delta\.path: .*: {told}"):
        Case(case.place, schema).sink().check()


@pytest.mark.parametrize(
    ("configuration", "told"),
    [
        ({"delta.constraints.positive": "number > 0"}, "has CHECK constraints"),
        ({"delta.setTransactionRetentionDuration": "interval 1 days"}, "forgets transactions"),
    ],
)
def test_tables_that_ask_for_more_are_refused(
    case: Case, configuration: dict[str, str], told: str
) -> None:
    case.sink().check()
    DeltaTable.create(
        case.place.address,
        case.place.table().schema(),
        mode="overwrite",
        configuration=configuration,
        raise_if_key_not_exists=False,
    )

    with pytest.raises(OptionError, match=told):
        case.sink().check()


@pytest.mark.parametrize(
    ("block", "told"),
    [
        ({"mode": "Upsert"}, r"delta\.keyColumns: goes with mode Upsert"),
        ({"keyColumns": ["number"]}, r"delta\.keyColumns: goes with mode Upsert"),
        ({"mode": "Upsert", "keyColumns": ["none"]}, r"'none' is no column"),
        ({"mode": "Upsert", "keyColumns": ["month"]}, r"'month' may be null"),
        ({"partitionBy": ["at"]}, r"delta\.partitionBy: 'at' is TIMESTAMP"),
        ({"partitionBy": ["month", "month"]}, "twice"),
    ],
)
def test_settings_that_do_not_fit_are_named(case: Case, block: dict[str, Any], told: str) -> None:
    with pytest.raises(OptionError, match=told):
        case.sink(**block)


def test_a_batch_without_rows_moves_the_offsets(case: Case) -> None:
    for block in ({}, UPSERT):
        sink = case.sink(json.dumps(block), **block)
        sink.check()
        span = wanted(0, 6)

        sink.commit([sink.write_task(span, (), PlayedTask())])

        assert case.held(json.dumps(block)) == 6
    assert case.place.rows() == []


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


def test_a_store_that_is_away_for_a_while_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    with running_object_store(tmp_path / "store") as store:
        case = Case(bucket_place(store))
        case.write(0, 3)
        task, span = PlayedTask(), wanted(3, 6)
        store.kill()

        def back(pause_s: float) -> None:
            if store.process is not None and store.process.poll() is not None:
                store.start()

        retry = Retry(Policy(timeout_s=60), sleep=back)
        sink = DeltaSink(case.place.block(), table_fields(case.payload), name="lake", retry=retry)
        results = [sink.write_task(span, portions(span), task)]
        store.kill()
        sink.commit(results)

        assert retry.count >= 2
        assert task.refusals == []
        assert case.place.rows() == every(0, 0, 6)


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


def test_vacuum_removes_what_a_crash_left_and_nothing_else(case: Case) -> None:
    sink = case.sink()
    sink.check()
    case.task(sink, 0, 6)  # never committed
    case.write(0, 6)

    gone = case.place.table().vacuum(
        retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True
    )

    assert len(gone) == 1
    assert case.place.rows() == every(0, 0, 6)


def newest(number: int) -> bytes:
    """Three keys, each many times."""
    return json.dumps({"number": number % 3, "customer": f"c{number}"}).encode()


def test_the_last_row_of_a_key_wins(case: Case) -> None:
    for first in (0, 7):
        case.write(first, first + 7, made=newest, partitionBy=["customer"], **UPSERT)

    found = {row["number"]: row["customer"] for row in case.place.read().to_pylist()}
    assert found == {0: "c12", 1: "c13", 2: "c11"}
    assert len(case.place.rows()) == 3
    assert list(Path(case.place.path).glob("_iggy/lake/*")) == []


def test_the_last_row_is_that_of_the_later_partition_at_the_same_time(case: Case) -> None:
    sink = case.sink(**UPSERT)
    sink.check()
    results = [
        case.task(sink, 0, 2, partition=at, made=lambda n, at=at: keyed(at)) for at in (1, 0)
    ]

    sink.commit(results)

    assert [row["customer"] for row in case.place.read().to_pylist()] == ["p1"]


def keyed(partition: int) -> bytes:
    return json.dumps({"number": 7, "customer": f"p{partition}"}).encode()


def test_what_an_upsert_left_staged_goes_at_the_next_start(case: Case) -> None:
    sink = case.sink(**UPSERT)
    sink.check()
    results = [case.task(sink, 0, 6)]
    assert len(list(Path(case.place.path).glob("_iggy/lake/*"))) == 1

    case.sink(**UPSERT).prepare(INCARNATION)

    assert list(Path(case.place.path).glob("_iggy/lake/*")) == []
    with pytest.raises(SinkError):  # a driver that was replaced finds its rows gone
        sink.commit(results)
    assert case.place.rows() == []


def test_an_upsert_that_is_too_large_is_refused(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta_upsert, "BATCH_BYTES_MAX", 100)

    with pytest.raises(SinkError, match="set maxOffsetsPerTrigger lower"):
        case.write(0, 6, **UPSERT)


BATCHES = 300
CHECKPOINT = 100  # delta.checkpointInterval: what comes after one is read anew by each commit


def test_commits_stay_quick(case: Case) -> None:
    sink = case.sink()
    sink.check()
    took_s = []
    for number in range(BATCHES):
        began = time.process_time()
        sink.commit([case.task(sink, number, number + 1)])
        took_s.append(time.process_time() - began)

    assert median(took_s[-CHECKPOINT:]) < 2 * median(took_s[CHECKPOINT : 2 * CHECKPOINT])
    assert len(case.place.rows()) == BATCHES

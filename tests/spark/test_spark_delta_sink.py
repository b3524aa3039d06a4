"""What is special to the Delta sink: types, partitions, tables of others, upserts."""

from __future__ import annotations

import json
import time
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable

from delta_cases import UPSERT, Case
from delta_tables import bucket_place, folder_place
from iggy_spark.errors import OptionError, SinkError
from iggy_spark.retry import Policy, Retry
from iggy_spark.sinks import delta_upsert
from iggy_spark.sinks.delta import DeltaSink
from iggy_spark.sinks.rows import table_fields
from object_store import running_object_store
from sink_cases import INCARNATION, PlayedTask, portions, wanted
from sink_contract import every
from table_messages import NULLABLE, ODD, TYPES, odd, typed, wanted_row


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

        assert retry.counts.total() >= 2
        assert task.refusals == []
        assert case.place.rows() == every(0, 0, 6)


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

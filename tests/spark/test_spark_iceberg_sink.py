"""What is special to the Iceberg sink: types, partitions, layouts, and what offsets outlive."""

from __future__ import annotations

import json
import re
import time
from datetime import date
from pathlib import Path
from statistics import median

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import EqualTo, IsNull
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import (
    BucketTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
)
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

from iceberg_cases import Case
from iceberg_tables import IcebergTables, bucket_tables, folder_tables
from iggy_spark.errors import OptionError, SinkError
from iggy_spark.retry import Policy, Retry
from iggy_spark.sinks import iceberg_catalog, table_files
from iggy_spark.sinks.iceberg import IcebergSink
from iggy_spark.sinks.rows import table_fields
from object_store import running_object_store
from sink_cases import INCARNATION, PlayedTask, portions, wanted
from sink_contract import every
from table_messages import NULLABLE, ODD, TYPES, odd, typed, wanted_row

KEY = "iggy.lake.offsets"


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(folder_tables(tmp_path))


def test_every_type_comes_back(tmp_path: Path) -> None:
    case = Case(folder_tables(tmp_path), TYPES)

    case.write(0, 2, made=typed)

    found = case.tables.read(case.name).sort_by("n").to_pylist()
    assert found[0] == wanted_row()
    assert [found[1][name] for name in NULLABLE] == [None] * len(NULLABLE)


def test_files_have_the_tables_field_ids_and_small_decimals_are_integers(tmp_path: Path) -> None:
    case = Case(folder_tables(tmp_path), TYPES)
    case.write(0, 2, made=typed)

    (path,) = tmp_path.rglob("data/**/*.parquet")
    file = pq.ParquetFile(path)

    schema = case.tables.table(case.name).schema()
    for name, in_file in (("amount", "amount"), ("a b.c", "a_x20b_x2Ec")):
        number = file.schema_arrow.field(in_file).metadata[b"PARQUET:field_id"]
        assert int(number) == schema.find_field(name).field_id
    physical = {
        file.schema.column(at).name: file.schema.column(at).physical_type for at in range(8)
    }
    assert (physical["amount"], physical["big"]) == ("INT64", "FIXED_LEN_BYTE_ARRAY")


def test_partitions_of_odd_values_are_found(case: Case) -> None:
    case.write(0, 12, made=odd, partition_by=["customer", "iggy_date"])

    table = case.tables.table(case.name)
    for at, value in enumerate(ODD):
        rule = IsNull("customer") if value is None else EqualTo("customer", value)
        scan = table.scan(row_filter=rule)
        assert len(list(scan.plan_files())) == 1
        assert sorted(scan.to_arrow().column("number").to_pylist()) == [at, at + 6]
    partitions = table.inspect.partitions().column("partition").to_pylist()
    assert {part["iggy_date"] for part in partitions} == {date(2026, 12, 31)}


def foreign(tables: IcebergTables, name: str, *fields: PartitionField) -> None:
    """A table that somebody else has made, with columns in another order and one more."""
    schema = Schema(
        NestedField(1, "extra", StringType()),
        NestedField(2, "iggy_offset", LongType(), required=True),
        NestedField(3, "customer", StringType()),
        NestedField(4, "number", LongType()),
        NestedField(5, "at", TimestamptzType()),
        NestedField(6, "iggy_partition_id", LongType()),
        NestedField(7, "iggy_timestamp", TimestamptzType()),
    )
    with tables.opened() as catalog:
        catalog.create_namespace_if_not_exists("shop")
        catalog.create_table(
            name,
            schema,
            partition_spec=PartitionSpec(*fields),
            sort_order=SortOrder(SortField(4, IdentityTransform())),
        )


FOREIGN = "number BIGINT NOT NULL, customer STRING, at TIMESTAMP"


def dated(number: int) -> bytes:
    at = f"2026-{number % 3 + 1:02d}-01T0{number % 2}:30:00Z"
    return json.dumps({"number": number, "customer": f"c{number}", "at": at}).encode()


def test_a_table_with_partitions_of_others_is_written(tmp_path: Path) -> None:
    case = Case(folder_tables(tmp_path), FOREIGN)
    foreign(
        case.tables,
        case.name,
        PartitionField(4, 1000, BucketTransform(4), "number_bucket"),
        PartitionField(3, 1001, TruncateTransform(1), "customer_trunc"),
        PartitionField(5, 1002, MonthTransform(), "at_month"),
        PartitionField(5, 1003, HourTransform(), "at_hour"),
        PartitionField(1, 1004, IdentityTransform(), "extra"),
    )

    case.write(0, 12, made=dated)

    assert case.rows() == every(0, 0, 12)
    table = case.tables.table(case.name)
    for number in range(12):
        found = table.scan(row_filter=EqualTo("number", number)).to_arrow().to_pylist()
        assert [row["customer"] for row in found] == [f"c{number}"]
    march = table.scan(row_filter="at >= '2026-03-01T00:00:00+00:00'").to_arrow()
    assert sorted(march.column("number").to_pylist()) == [2, 5, 8, 11]


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ("number BIGINT NOT NULL, more STRING", "the table has no column more: add one of type"),
        (
            "number STRING NOT NULL, customer STRING",
            "column number is int64 in the table and string",
        ),
        ("number INT NOT NULL, at TIMESTAMP_NTZ", "column at is timestamp"),
    ],
)
def test_columns_that_do_not_fit_are_named(tmp_path: Path, schema: str, told: str) -> None:
    case = Case(folder_tables(tmp_path), schema)
    foreign(case.tables, case.name)

    with pytest.raises(OptionError, match=rf"iceberg\.table: shop\.orders\d+: {told}"):
        case.sink().check()


def test_the_layout_that_a_table_asks_for_is_kept(tmp_path: Path) -> None:
    case = Case(folder_tables(tmp_path), FOREIGN)
    foreign(case.tables, case.name, PartitionField(3, 1000, IdentityTransform(), "customer"))
    elsewhere = tmp_path / "elsewhere"
    with case.tables.opened() as catalog, catalog.load_table(case.name).transaction() as change:
        change.set_properties(
            {"write.data.path": f"file://{elsewhere}", "write.object-storage.enabled": "true"}
        )

    case.write(0, 3, made=dated)

    assert len(list(elsewhere.glob("*/*/*/*/customer=*/*.parquet"))) == 3
    assert case.rows() == every(0, 0, 3)


def test_a_store_that_is_away_for_a_while_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    with running_object_store(tmp_path / "store") as store:
        case = Case(bucket_tables(store, tmp_path))
        case.write(0, 3)
        sink, task = case.sink(), PlayedTask()
        span = wanted(3, 6)
        store.kill()

        def back(pause_s: float) -> None:
            if store.process is not None and store.process.poll() is not None:
                store.start()

        retry = Retry(Policy(timeout_s=60), sleep=back)
        again = IcebergSink(
            case.tables.block(case.name), table_fields(case.payload), name="lake", retry=retry
        )
        results = [again.write_task(span, portions(span), task)]
        store.kill()
        again.commit(results)
        store.kill()
        with pytest.raises(SinkError, match=r"the store does not answer.*errors\.retry"):
            sink.prepare(INCARNATION)
        store.start()

        assert retry.counts.total() >= 2
        assert task.refusals == []
        assert case.rows() == every(0, 0, 6)


def test_what_a_table_needs_must_be_there(tmp_path: Path) -> None:
    Case(folder_tables(tmp_path)).write(0, 1)
    case = Case(folder_tables(tmp_path), "month INT")
    case.write(0, 1)
    with case.tables.opened() as catalog:
        table = catalog.load_table(case.name)
        with table.update_schema(allow_incompatible_changes=True) as update:
            update.make_column_optional("iggy_offset")
            update.add_column("must", StringType(), required=True, default_value="x")

    with pytest.raises(OptionError, match="column must must not be null"):
        case.sink().check()


def test_a_missing_table_is_named(case: Case) -> None:
    with pytest.raises(OptionError, match=r"does not exist: make it, or set iceberg\.createTable"):
        case.sink(create_table=False).check()


def test_a_batch_without_rows_moves_the_offsets(case: Case) -> None:
    sink = case.sink()
    sink.check()
    span = wanted(0, 6)

    sink.commit([sink.write_task(span, (), PlayedTask())])

    assert case.held() == {0: 6}
    assert case.rows() == []
    assert len(case.tables.table(case.name).snapshots()) == 1


def test_offsets_outlive_the_snapshots_of_the_sink(case: Case) -> None:
    case.write(0, 6)
    table = case.tables.table(case.name)
    row = table.scan().to_arrow().slice(0, 1)
    table.append(row)  # another writer
    table.append(row)
    older = [item.snapshot_id for item in table.snapshots()][:-1]
    with case.tables.opened() as catalog:
        catalog.load_table(case.name).maintenance.expire_snapshots().by_ids(older).commit()

    assert KEY not in case.tables.table(case.name).snapshots()[0].summary.additional_properties
    assert case.held() == {0: 6}
    assert case.sink().prepare(INCARNATION) == {0: ((0, 6),)}


def test_a_table_that_was_taken_back_is_filled_again(case: Case) -> None:
    case.write(0, 6)
    first = case.tables.table(case.name).current_snapshot()
    assert first is not None
    case.write(6, 9)
    with case.tables.opened() as catalog:
        table = catalog.load_table(case.name)
        table.manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()

    assert case.held() == {0: 6}


def test_a_table_that_was_taken_back_to_before_the_sink_holds_nothing(case: Case) -> None:
    case.sink().check()
    table = case.tables.table(case.name)
    table.append(table.schema().as_arrow().empty_table())
    first = table.current_snapshot()
    assert first is not None
    case.write(0, 6)
    with case.tables.opened() as catalog:
        table = catalog.load_table(case.name)
        table.manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()

    assert case.held() == {}


def test_secrets_stay_out_of_messages(tmp_path: Path) -> None:
    login = tmp_path / "login"
    login.mkdir()
    (login / "uri").write_text(f"sqlite:////{tmp_path}/none/sesame/x.db\n")
    (login / "..data").mkdir()
    tables = IcebergTables({"type": "sql", "s3.secret-access-key": "pass-word"}, login)

    with pytest.raises(SinkError, match=r"iceberg\.table: shop\.\w+:") as caught:
        Case(tables).sink().check()

    assert "sesame" not in str(caught.value)
    text = iceberg_catalog.without_secrets(
        "key pass-word\n of rest", {"k": "pass-word", "type": "rest"}
    )
    assert text == "key <k> of rest"


def test_many_partitions_of_a_range_close_files_and_go_on(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_files, "OPEN_FILES_MAX", 2)
    monkeypatch.setattr(table_files, "BUFFERED_BYTES_MAX", 0)

    case.write(0, 24, partition_by=["month"])
    monkeypatch.setattr(table_files, "FILES_MAX", 3)
    with pytest.raises(SinkError, match="partition the table by a coarser column"):
        case.write(24, 48)

    assert case.rows() == every(0, 0, 24)


BATCHES = 150
SHARE = BATCHES // 5


def test_commits_stay_quick(case: Case) -> None:
    """A commit reads and writes the list of all snapshots: that grows, and nothing else does."""
    sink = case.sink()
    sink.check()
    took_s = []
    for number in range(BATCHES):
        results = [case.task(sink, number, number + 1)]
        began = time.process_time()
        sink.commit(results)
        took_s.append(time.process_time() - began)

    table = case.tables.table(case.name)
    head = table.current_snapshot()
    assert head is not None
    assert len(head.manifests(table.io)) <= 100 + 1  # commit.manifest.min-count-to-merge
    assert median(took_s[-SHARE:]) < 4 * median(took_s[:SHARE])
    assert len(case.rows()) == BATCHES


def test_the_files_of_a_range_say_what_they_were_for(tmp_path: Path, case: Case) -> None:
    case.write(0, 6)

    (path,) = tmp_path.rglob("data/**/*.parquet")
    assert path.name.startswith(f"{INCARNATION}-p00000-{0:020d}-{5:020d}-0-")
    assert pq.read_table(path).num_rows == 6
    assert isinstance(pq.read_schema(path).field("month").type, pa.DataType)


PAGE = Path(__file__).resolve().parents[2] / "docs" / "sinks" / "iceberg.md"


def test_snapshots_expire_as_the_page_says_and_the_sink_goes_on(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    for first in (0, 3):
        case.write(first, first + 3)
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    program = program.replace("shop.orders", case.name).replace("days=1", "days=0")

    with case.tables.opened() as catalog:
        monkeypatch.setattr("pyiceberg.catalog.load_catalog", lambda *args, **more: catalog)
        exec(program, {})
        monkeypatch.undo()

    assert len(case.tables.table(case.name).snapshots()) == 1
    case.write(6, 9)
    assert case.rows() == every(0, 0, 9)
    assert case.held() == {0: 9}

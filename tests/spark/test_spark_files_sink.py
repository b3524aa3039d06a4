"""The files sink: exactly once, whatever is interrupted, repeated or forgotten."""

import datetime as dt
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from iggy_spark import schema
from iggy_spark.errors import OptionError, SinkError
from iggy_spark.offsets import OffsetRange
from iggy_spark.sinks import file_names, parquet
from iggy_spark.sinks.base import Portion, merge, without
from iggy_spark.sinks.files import FilesSettings, FilesSink
from iggy_spark.sinks.rows import REJECTED_SCHEMA, table_fields

INCARNATION = "7-1795812995756186"
FIELDS = table_fields("json", schema.parse("month INT, carrier STRING, delay INT", name="x"))
FORM = pa.schema([schema.arrow_field(item) for item in FIELDS])
NOW = dt.datetime(2026, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC)
MONTHS = [1, 2, 1, None, 12]


def sink(root: Path, *partition_by: str) -> FilesSink:
    made = FilesSink(FilesSettings(str(root), FIELDS, partition_by))
    made.check()
    return made


def wanted(first: int, end: int, partition: int = 0) -> OffsetRange:
    return OffsetRange(INCARNATION, partition, first, end)


def portions(span: OffsetRange, size: int = 3, rejected: tuple[int, ...] = ()) -> Iterator[Portion]:
    for at in range(span.first, span.end, size):
        numbers = range(at, min(at + size, span.end))
        rows = [
            {
                "month": MONTHS[n % 5],
                "carrier": f"c{n}",
                "delay": None if n % 2 else n,
                "iggy_partition_id": span.partition,
                "iggy_offset": n,
                "iggy_timestamp": NOW,
            }
            for n in numbers
            if n not in rejected
        ]
        bad = [
            {
                "payload": b"?",
                "error_class": "MalformedJson",
                "error": "no",
                "iggy_partition_id": span.partition,
                "iggy_offset": n,
                "iggy_timestamp": NOW,
            }
            for n in numbers
            if n in rejected
        ]
        yield Portion(
            pa.RecordBatch.from_pylist(rows, FORM), pa.RecordBatch.from_pylist(bad, REJECTED_SCHEMA)
        )


def data_files(root: Path) -> list[str]:
    return sorted(
        str(path.relative_to(root))
        for path in root.rglob("*.parquet")
        if not path.is_relative_to(root / "_iggy")
    )


def offsets_of(root: Path) -> list[int]:
    table = ds.dataset(root, format="parquet", partitioning="hive").to_table(["iggy_offset"])
    return sorted(table.column(0).to_pylist())


def test_a_range_is_one_file_named_by_its_position(tmp_path: Path) -> None:
    written = sink(tmp_path).write_task(wanted(0, 10), portions(wanted(0, 10)))

    name = f"{INCARNATION}-p00000-00000000000000000000-00000000000000000009.parquet"
    assert data_files(tmp_path) == [name]
    assert (written.rows, written.rejected) == (10, 0)
    assert written.size_bytes == (tmp_path / name).stat().st_size
    table = pq.read_table(tmp_path / name)
    assert table.column("iggy_offset").to_pylist() == list(range(10))
    assert table.column("delay").to_pylist() == [0, None, 2, None, 4, None, 6, None, 8, None]
    assert table.schema.field("iggy_timestamp").type == pa.timestamp("us", tz="UTC")


def test_a_range_over_several_values_is_one_file_of_the_same_name_in_each_folder(
    tmp_path: Path,
) -> None:
    sink(tmp_path, "month").write_task(wanted(0, 10), portions(wanted(0, 10)))

    name = str(file_names.of_range(wanted(0, 10)))
    folders = ["month=1", "month=12", "month=2", "month=__HIVE_DEFAULT_PARTITION__"]
    assert data_files(tmp_path) == [f"{folder}/{name}" for folder in folders]
    assert pq.ParquetFile(tmp_path / "month=1" / name).schema_arrow.names == [
        "carrier", "delay", "iggy_partition_id", "iggy_offset", "iggy_timestamp",
    ]  # fmt: skip
    table = ds.dataset(tmp_path, format="parquet", partitioning="hive").to_table()
    found = {row["iggy_offset"]: row["month"] for row in table.to_pylist()}
    assert found == {n: MONTHS[n % 5] for n in range(10)}
    assert list((tmp_path / "_iggy" / "journal").iterdir()) == []
    assert list((tmp_path / "_iggy" / "temporary").iterdir()) == []


def test_writing_a_range_again_changes_nothing(tmp_path: Path) -> None:
    for size in (3, 4):
        sink(tmp_path, "month").write_task(wanted(0, 10), portions(wanted(0, 10), size))

    assert offsets_of(tmp_path) == list(range(10))


def test_what_is_there_is_read_from_the_names(tmp_path: Path) -> None:
    target = sink(tmp_path, "month")
    for span in (wanted(0, 10), wanted(10, 12), wanted(20, 30), wanted(5, 9, partition=3)):
        target.write_task(span, portions(span))
    other = OffsetRange("7-1", 0, 0, 99)
    target.write_task(other, portions(other))

    covered = sink(tmp_path, "month").prepare(INCARNATION)

    assert covered == {0: ((0, 12), (20, 30)), 3: ((5, 9),)}
    missing = without(wanted(4, 40), covered[0])
    assert [(part.first, part.end) for part in missing] == [(12, 20), (30, 40)]


class Killed(BaseException):
    """Stands for SIGKILL: nobody handles it, and nothing runs after it but the next start."""


@pytest.mark.parametrize("survived", range(5))
def test_a_crash_between_renames_is_completed_at_the_next_start(
    tmp_path: Path, survived: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, done = __import__("os").replace, []

    def replace(source: Path, target: Path) -> None:
        if len(done) == survived:
            raise Killed
        done.append(target)
        real(source, target)

    target = sink(tmp_path, "month")
    with monkeypatch.context() as patched:
        patched.setattr("os.replace", replace)
        if survived < 4:
            with pytest.raises(Killed):
                target.write_task(wanted(0, 10), portions(wanted(0, 10)))
        else:
            target.write_task(wanted(0, 10), portions(wanted(0, 10)))
    assert len(data_files(tmp_path)) == survived

    covered = sink(tmp_path, "month").prepare(INCARNATION)

    assert covered == {0: ((0, 10),)}
    assert offsets_of(tmp_path) == list(range(10))
    assert sink(tmp_path, "month").prepare(INCARNATION) == covered


def test_a_crash_before_the_journal_leaves_nothing(tmp_path: Path) -> None:
    def dies() -> Iterator[Portion]:
        yield from portions(wanted(0, 6))
        raise Killed

    with pytest.raises(Killed):
        sink(tmp_path, "month").write_task(wanted(0, 10), dies())
    (tmp_path / "_iggy" / "temporary" / "left").mkdir()
    (tmp_path / "_iggy" / "journal" / "x.unfinished").write_text("[")

    assert sink(tmp_path, "month").prepare(INCARNATION) == {}
    assert data_files(tmp_path) == []
    assert list((tmp_path / "_iggy").rglob("*.*")) == []


def test_files_that_a_user_removed_are_not_missed(tmp_path: Path) -> None:
    sink(tmp_path, "month").write_task(wanted(0, 10), portions(wanted(0, 10)))
    shutil.rmtree(tmp_path / "month=1")

    assert sink(tmp_path, "month").prepare(INCARNATION) == {0: ((0, 10),)}
    assert len(data_files(tmp_path)) == 3


def test_a_promise_that_cannot_be_kept_is_an_error(tmp_path: Path) -> None:
    target = sink(tmp_path)
    entry = tmp_path / "_iggy" / "journal" / "abc.json"
    entry.write_text(json.dumps({"0.parquet": "month=1/x.parquet"}))

    with pytest.raises(SinkError, match=r"neither exists.*abc\.json"):
        target.prepare(INCARNATION)


def test_rejected_messages_lie_beside_the_data_and_count_as_done(tmp_path: Path) -> None:
    span = wanted(0, 10)
    written = sink(tmp_path, "month").write_task(span, portions(span, rejected=(2, 7)))

    assert (written.rows, written.rejected) == (8, 2)
    assert offsets_of(tmp_path) == [0, 1, 3, 4, 5, 6, 8, 9]
    rejected = pq.read_table(tmp_path / "_rejected" / str(file_names.of_range(span)))
    assert rejected.column("iggy_offset").to_pylist() == [2, 7]
    assert rejected.column("payload").to_pylist() == [b"?", b"?"]
    only_rejected = wanted(10, 12)
    sink(tmp_path).write_task(only_rejected, portions(only_rejected, rejected=(10, 11)))
    assert sink(tmp_path).prepare(INCARNATION) == {0: ((0, 12),)}


def test_day_folders_are_utc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    __import__("time").tzset()
    try:
        sink(tmp_path, "iggy_date").write_task(wanted(0, 3), portions(wanted(0, 3)))
    finally:
        monkeypatch.undo()
        __import__("time").tzset()

    assert [path.name for path in tmp_path.glob("iggy_date=*")] == ["iggy_date=2026-12-31"]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(SinkError, match=r"files\.path: .*/file/lake cannot be written"):
        sink(tmp_path / "file" / "lake")


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (["nothing"], "'nothing' is no column"),
        (["iggy_timestamp"], "'iggy_timestamp' is TIMESTAMP"),
        (["month", "month"], "twice"),
        ([item.name for item in FIELDS if item.name != "iggy_timestamp"], None),
    ],
)
def test_partition_columns_are_checked(columns: list[str], told: str | None) -> None:
    if told is None:
        parquet.check_partition_by(FIELDS, columns)
        return
    with pytest.raises(OptionError, match=rf"files\.partitionBy: .*{told}"):
        parquet.check_partition_by(FIELDS, columns)


def test_too_many_folders_are_refused_and_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "FOLDERS_MAX", 8)

    with pytest.raises(SinkError, match="coarser column"):
        sink(tmp_path, "carrier").write_task(wanted(0, 20), portions(wanted(0, 20)))

    assert data_files(tmp_path) == []
    assert list((tmp_path / "_iggy" / "temporary").iterdir()) == []


def test_folder_names_are_hives() -> None:
    assert file_names.folder("a", "x=1/2%:\u00fc \n") == "a=x%3D1%2F2%25%3A\u00fc %0A"
    assert (
        file_names.folder("a", None) == file_names.folder("a", "") == "a=__HIVE_DEFAULT_PARTITION__"
    )
    with pytest.raises(ValueError, match="more than 200 bytes"):
        file_names.folder("a", "x" * 300)


def test_names_come_back() -> None:
    span = wanted(5, 9, partition=123_456)

    found = file_names.parse(str(file_names.of_range(span)))

    assert found == file_names.FileName(INCARNATION, 123_456, 5, 9)
    assert file_names.parse("part-0000.parquet") is None


def test_spans_join_where_they_touch() -> None:
    assert merge([(5, 9), (0, 3), (3, 5), (20, 30), (22, 25)]) == ((0, 9), (20, 30))

"""The files sink: exactly once, whatever is interrupted, repeated or forgotten."""

import datetime
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import zoned_files
from files_cases import FIELDS, INCARNATION, MONTHS, PlayedTask, offsets_of, portions, sink, wanted
from iggy_spark.errors import OptionError, SinkError
from iggy_spark.offsets import OffsetRange
from iggy_spark.sinks import file_names, range_files
from iggy_spark.sinks.base import Portion, merge, without
from lakes import FolderLake, Lake, table_of


def test_a_range_is_one_file_named_by_its_position(lake: Lake) -> None:
    written = sink(lake).write_task(wanted(0, 10), portions(wanted(0, 10)), PlayedTask())

    name = f"{INCARNATION}-p00000-00000000000000000000-00000000000000000009.parquet"
    assert lake.files() == [name]
    assert (written.rows, written.rejected) == (10, 0)
    assert written.size_bytes == (lake.local() / name).stat().st_size
    table = pq.read_table(lake.local() / name)
    assert table.column("iggy_offset").to_pylist() == list(range(10))
    assert table.column("delay").to_pylist() == [0, None, 2, None, 4, None, 6, None, 8, None]
    assert table.schema.field("iggy_timestamp").type == pa.timestamp("us", tz="UTC")


def test_a_range_over_several_values_is_one_file_of_the_same_name_in_each_folder(
    lake: Lake,
) -> None:
    sink(lake, "month").write_task(wanted(0, 10), portions(wanted(0, 10)), PlayedTask())

    name = f"{file_names.of_range(wanted(0, 10))}.parquet"
    folders = ["month=1", "month=12", "month=2", "month=__HIVE_DEFAULT_PARTITION__"]
    assert lake.files() == [f"{folder}/{name}" for folder in folders]
    assert pq.ParquetFile(lake.local() / "month=1" / name).schema_arrow.names == [
        "carrier", "delay", "iggy_partition_id", "iggy_offset", "iggy_timestamp",
    ]  # fmt: skip
    table = table_of(lake)
    found = {row["iggy_offset"]: row["month"] for row in table.to_pylist()}
    assert found == {n: MONTHS[n % 5] for n in range(10)}
    assert lake.left() == []


def test_writing_a_range_again_changes_nothing(lake: Lake) -> None:
    for size in (3, 4):
        sink(lake, "month").write_task(wanted(0, 10), portions(wanted(0, 10), size), PlayedTask())

    assert offsets_of(lake) == list(range(10))


def test_what_is_there_is_read_from_the_names(lake: Lake) -> None:
    target = sink(lake, "month")
    for span in (wanted(0, 10), wanted(10, 12), wanted(20, 30), wanted(5, 9, partition=3)):
        target.write_task(span, portions(span), PlayedTask())
    other = OffsetRange("7-1", 0, 0, 99)
    target.write_task(other, portions(other), PlayedTask())

    covered = sink(lake, "month").prepare(INCARNATION)

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

    target = sink(FolderLake(tmp_path), "month")
    with monkeypatch.context() as patched:
        patched.setattr("os.replace", replace)
        if survived < 4:
            with pytest.raises(Killed):
                target.write_task(wanted(0, 10), portions(wanted(0, 10)), PlayedTask())
        else:
            target.write_task(wanted(0, 10), portions(wanted(0, 10)), PlayedTask())
    assert len(FolderLake(tmp_path).files()) == survived

    covered = sink(FolderLake(tmp_path), "month").prepare(INCARNATION)

    assert covered == {0: ((0, 10),)}
    assert offsets_of(FolderLake(tmp_path)) == list(range(10))
    assert sink(FolderLake(tmp_path), "month").prepare(INCARNATION) == covered


def test_a_crash_before_the_journal_leaves_nothing(tmp_path: Path) -> None:
    def dies() -> Iterator[Portion]:
        yield from portions(wanted(0, 6))
        raise Killed

    with pytest.raises(Killed):
        sink(FolderLake(tmp_path), "month").write_task(wanted(0, 10), dies(), PlayedTask())
    (tmp_path / "_iggy" / "temporary" / "left").mkdir()
    (tmp_path / "_iggy" / "journal" / "x.unfinished").write_text("[")

    assert sink(FolderLake(tmp_path), "month").prepare(INCARNATION) == {}
    assert FolderLake(tmp_path).files() == []
    assert list((tmp_path / "_iggy").rglob("*.*")) == []


def test_files_that_a_user_removed_are_not_missed(lake: Lake) -> None:
    sink(lake, "month").write_task(wanted(0, 10), portions(wanted(0, 10)), PlayedTask())
    lake.remove(next(name for name in lake.files() if name.startswith("month=1/")))

    assert sink(lake, "month").prepare(INCARNATION) == {0: ((0, 10),)}
    assert len(lake.files()) == 3


def test_a_promise_that_cannot_be_kept_is_an_error(tmp_path: Path) -> None:
    target = sink(FolderLake(tmp_path))
    entry = tmp_path / "_iggy" / "journal" / "abc.json"
    entry.write_text(json.dumps({"0.parquet": "month=1/x.parquet"}))

    with pytest.raises(SinkError, match=r"neither exists.*abc\.json"):
        target.prepare(INCARNATION)


def test_rejected_messages_lie_beside_the_data_and_count_as_done(lake: Lake) -> None:
    span = wanted(0, 10)
    written = sink(lake, "month").write_task(span, portions(span, rejected=(2, 7)), PlayedTask())

    assert written.rows == 8
    assert offsets_of(lake) == [0, 1, 3, 4, 5, 6, 8, 9]
    rejected = pq.read_table(lake.local() / "_rejected" / f"{file_names.of_range(span)}.parquet")
    assert rejected.column("iggy_offset").to_pylist() == [2, 7]
    assert rejected.column("payload").to_pylist() == [b"bad", b"bad"]
    only_rejected = wanted(10, 12)
    sink(lake).write_task(only_rejected, portions(only_rejected, rejected=(10, 11)), PlayedTask())
    assert sink(lake).prepare(INCARNATION) == {0: ((0, 12),)}


def test_day_folders_and_times_are_those_of_utc_in_every_zone(tmp_path: Path) -> None:
    zones = {"America/New_York": -4.0, "Asia/Kolkata": 5.5, "Asia/Tokyo": 9.0, "UTC": 0.0}
    program = [sys.executable, str(Path(zoned_files.__file__))]
    path = os.pathsep.join(sys.path)
    processes = {
        zone: subprocess.Popen(
            [*program, str(tmp_path / zone)],
            env=os.environ | {"TZ": zone, "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            text=True,
        )
        for zone in zones
    }
    ahead = {zone: process.communicate()[0].strip() for zone, process in processes.items()}

    assert ahead == {zone: f"{hours * 3600:.0f}" for zone, hours in zones.items()}
    for zone in zones:
        lake = FolderLake(tmp_path / zone)
        assert [path.name for path in lake.root.glob("iggy_date=*")] == ["iggy_date=2026-12-31"]
        rows = table_of(lake).sort_by("iggy_offset").to_pylist()
        assert [row["at"].timestamp() for row in rows] == [
            datetime.datetime.fromisoformat(text).timestamp() for text in zoned_files.TIMES
        ]
        assert {row["at"].utcoffset() for row in rows} == {datetime.timedelta()}


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(SinkError, match=r"files\.path: .*/file/lake cannot be written"):
        sink(FolderLake(tmp_path / "file" / "lake"))


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
        range_files.check_partition_by(FIELDS, columns)
        return
    with pytest.raises(OptionError, match=rf"files\.partitionBy: .*{told}"):
        range_files.check_partition_by(FIELDS, columns)


def test_too_many_folders_are_refused_and_leave_nothing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_files, "FOLDERS_MAX", 8)

    with pytest.raises(SinkError, match="coarser column"):
        sink(lake, "carrier").write_task(wanted(0, 20), portions(wanted(0, 20)), PlayedTask())

    assert lake.files() == []
    assert lake.left() == []


def test_folder_names_are_hives() -> None:
    assert file_names.folder("a", "x=1/2%:\u00fc \n") == "a=x%3D1%2F2%25%3A\u00fc %0A"
    assert (
        file_names.folder("a", None) == file_names.folder("a", "") == "a=__HIVE_DEFAULT_PARTITION__"
    )
    with pytest.raises(ValueError, match="more than 200 bytes"):
        file_names.folder("a", "x" * 300)


def test_names_come_back() -> None:
    span = wanted(5, 9, partition=123_456)

    found = file_names.parse(f"{file_names.of_range(span)}.csv")

    assert found == file_names.FileName(INCARNATION, 123_456, 5, 9)
    assert file_names.parse("part-0000.parquet") is None


def test_spans_join_where_they_touch() -> None:
    assert merge([(5, 9), (0, 3), (3, 5), (20, 30), (22, 25)]) == ((0, 9), (20, 30))

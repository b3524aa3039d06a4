"""Lists of the files of a batch: who reads what they list sees whole batches, each once."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from files_cases import INCARNATION, PlayedTask, portions, sink, wanted
from iggy_spark.errors import SinkError
from iggy_spark.offsets import OffsetRange
from iggy_spark.sinks import batch_lists, file_names
from iggy_spark.sinks.base import Written, without
from iggy_spark.sinks.batch_lists import BatchList, BatchLists
from iggy_spark.sinks.files import FilesSink
from killed_writes import killed_at
from lakes import BucketLake, FolderLake, Lake
from sink_jobs import Setup, documents, every

if TYPE_CHECKING:
    from conftest import Topic

Lists = dict[str, bytes]
Batch = tuple[OffsetRange, ...]

FIRST: Batch = (wanted(0, 6), wanted(0, 4, 1))
SECOND: Batch = (wanted(6, 9), wanted(4, 8, 1))
THIRD: Batch = (wanted(9, 12),)


class Driver:
    """A driver that has just started, with its tasks."""

    def __init__(self, lake: Lake, *columns: str) -> None:
        self.lake, self.columns = lake, columns
        self.sink = self._sink()
        self.covered = self.sink.prepare(INCARNATION)

    def _sink(self) -> FilesSink:
        return sink(self.lake, *self.columns, list_batches=True)

    def carry(self, batch: Batch, *, rejected: tuple[int, ...] = ()) -> None:
        results = []
        for span in batch:
            done = Written(span.partition, span.first, span.end)
            for part in without(span, self.covered.get(span.partition, ())):
                rows = portions(part, rejected=rejected)
                done = self._sink().write_task(part, rows, PlayedTask())
            results.append(Written.from_json(done.to_json()))
        self.sink.commit(results)


def lists_in(lake: Lake) -> Lists:
    """Name → content, in the order of their names."""
    folder = lake.local() / "_batches"
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*"))}


def files_in(lists: Lists) -> list[str]:
    return [name for data in lists.values() for name in json.loads(data)["files"]]


def listed(lake: Lake) -> list[tuple[int, int]]:
    """(partition, offset) of every row that a reader of the lists finds."""
    files = [str(lake.local() / name) for name in files_in(lists_in(lake))]
    if not files:
        return []
    table = ds.dataset(files, format="parquet").to_table()
    columns = (table.column(f"iggy_{name}").to_pylist() for name in ("partition_id", "offset"))
    return sorted(zip(*columns, strict=True))


def test_every_batch_has_a_list_of_its_files_with_data(lake: Lake) -> None:
    driver = Driver(lake, "month")

    driver.carry(FIRST, rejected=(2,))
    driver.carry((wanted(6, 8),), rejected=(6, 7))  # nothing but bad messages
    driver.carry((wanted(8, 9), wanted(4, 5, 1)))

    names = [f"{INCARNATION}-{done:020d}.json" for done in (10, 12, 14)]
    found = lists_in(lake)
    assert list(found) == names
    assert json.loads(found[names[1]]) == {"files": [], "next": {"0": 8, "1": 4}}
    last = json.loads(found[names[2]])
    assert last["next"] == {"0": 9, "1": 5}
    assert last["files"] == [
        f"month=12/{file_names.of_range(wanted(4, 5, 1))}.parquet",
        f"month=__HIVE_DEFAULT_PARTITION__/{file_names.of_range(wanted(8, 9))}.parquet",
    ]
    data = [name for name in lake.files() if not name.startswith("_")]
    assert sorted(files_in(found)) == data


def test_without_the_field_there_is_no_list(lake: Lake) -> None:
    target = sink(lake)
    target.prepare(INCARNATION)
    target.commit([target.write_task(FIRST[0], portions(FIRST[0]), PlayedTask())])

    assert lists_in(lake) == {}


def test_a_driver_killed_anywhere_in_a_batch_lists_it_whole_the_next_time(
    lake: Lake, tmp_path: Path
) -> None:
    """The batch comes again, as Spark has planned it, and its list is what it would have been."""

    def another(name: str) -> Lake:
        if isinstance(lake, BucketLake):
            return BucketLake(lake.store, tmp_path / name)
        return FolderLake(tmp_path / name)

    sound = another("sound")
    driver = Driver(sound)
    for batch in (FIRST, SECOND, THIRD):
        driver.carry(batch)
    whole = [spans_of(FIRST), spans_of(FIRST + SECOND)]
    outcomes = []
    for number in itertools.count():
        troubled = another(str(number))
        driver = Driver(troubled)
        driver.carry(FIRST)
        is_folder = isinstance(troubled, FolderLake)
        if not killed_at(number, lambda driver=driver: driver.carry(SECOND), renames=is_folder):  # type: ignore[misc]
            break
        outcomes.append(whole.index(listed(troubled)))

        driver = Driver(troubled)
        driver.carry(SECOND)
        assert listed(troubled) == whole[1], f"killed at {number}"
        driver.carry(THIRD)

        assert lists_in(troubled) == lists_in(sound), f"killed at {number}"
    assert len(outcomes) >= 3
    assert set(outcomes) == {0}  # its list is the last thing that is made of a batch


def spans_of(batch: Batch) -> list[tuple[int, int]]:
    return sorted((span.partition, n) for span in batch for n in range(span.first, span.end))


def test_a_batch_that_is_repeated_after_its_list_changes_nothing(lake: Lake) -> None:
    driver = Driver(lake)
    driver.carry(FIRST)
    driver.carry(SECOND)
    before = lists_in(lake)

    Driver(lake).carry(SECOND)

    assert lists_in(lake) == before
    assert listed(lake) == spans_of(FIRST + SECOND)


def test_a_batch_whose_list_and_checkpoint_are_lost_is_in_the_next_list(lake: Lake) -> None:
    driver = Driver(lake)
    driver.carry(FIRST)
    killed = Driver(lake)
    for span in SECOND:
        killed.sink.write_task(span, portions(span), PlayedTask())

    again = Driver(lake)  # goes on where the target stands, with one partition
    again.carry(THIRD)
    again.carry((wanted(8, 9, 1),))

    assert listed(lake) == spans_of((*FIRST, *SECOND, *THIRD, wanted(8, 9, 1)))
    assert len(files_in(lists_in(lake))) == 6


def test_what_was_there_before_lists_were_wanted_is_in_the_first_one(lake: Lake) -> None:
    target = sink(lake)
    target.prepare(INCARNATION)
    for span in (*FIRST, *SECOND):
        target.write_task(span, portions(span), PlayedTask())

    Driver(lake).carry(THIRD)

    assert len(lists_in(lake)) == 1
    assert listed(lake) == spans_of(FIRST + SECOND + THIRD)


def test_too_many_files_without_a_list_are_refused(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_lists, "UNLISTED_MAX", 1)
    for span in FIRST:
        sink(lake).write_task(span, portions(span), PlayedTask())

    with pytest.raises(SinkError, match=r"files\.listBatches: more than 1 files"):
        Driver(lake)


@pytest.mark.parametrize("data", [b"", b"[]", b'{"files": []}', b'{"next": {"a": 1}, "files": []}'])
def test_a_list_that_is_none_is_an_error(tmp_path: Path, data: bytes) -> None:
    lake = FolderLake(tmp_path)
    Driver(lake).carry(FIRST)
    (name,) = lists_in(lake)
    (tmp_path / "_batches" / name).write_bytes(data)

    with pytest.raises(SinkError, match="cannot be read"):
        Driver(lake)


def test_the_name_and_the_bytes_of_a_list_are_those_of_the_batch() -> None:
    one, other = BatchLists(None), BatchLists(None)
    results = [Written(0, 0, 6, details=("b", "a")), Written(11, 0, 4)]

    first, second = one.of(results), other.of(results[::-1])

    assert first is not None
    assert second is not None
    assert first.name("7-1") == second.name("7-1") == "_batches/7-1-00000000000000000010.json"
    assert first.encode() == second.encode()
    assert BatchList.decode(first.encode()) == BatchList(("a", "b"), {0: 6, 11: 4})
    one.written(first)
    assert one.of(results) is None


def test_a_job_lists_its_batches_also_those_that_come_again(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    errors = {"tolerance": "Data", "deadLetter": {"topic": "dead"}}
    setup = Setup(topic, tmp_path, maxOffsetsPerTrigger=8, errors=errors)
    setup.value["sink"]["files"]["listBatches"] = True
    topic.send(0, documents(0, 20))
    topic.send(1, [*documents(0, 8), b"no json"])
    setup.run(spark)
    before = names_and_bytes(setup)

    max(setup.lake.glob("_batches/*")).unlink()  # as after a crash between tasks and list
    setup.forget_last_commit()
    setup.value["redrive"] = {"request": "a"}  # lists of another topic, in between
    setup.run(spark)

    assert len(before) == 4
    assert {name: data for name, data in names_and_bytes(setup).items() if name in before} == before
    assert setup.rows() == every(p0=20, p1=8)
    found = {name for data in before.values() for name in json.loads(data)["files"]}
    assert found == {str(path.relative_to(setup.lake)) for path in setup.lake.glob("month=*/*")}


def names_and_bytes(setup: Setup) -> dict[str, Any]:
    return lists_in(FolderLake(setup.lake))


def test_files_behind_a_gap_are_listed_when_it_is_filled(tmp_path: Path) -> None:
    """Several tasks at one partition were killed, and the checkpoint is lost: smaller batches."""
    lake = FolderLake(tmp_path)
    Driver(lake).carry((wanted(0, 3),))
    sink(lake).write_task(wanted(6, 9), portions(wanted(6, 9)), PlayedTask())
    driver, seen = Driver(lake), []

    for span in (wanted(3, 5), wanted(5, 6), wanted(6, 8), wanted(8, 10)):
        driver.carry((span,))
        seen.append(len(listed(lake)))

    assert seen == [5, 6, 9, 10]
    assert listed(lake) == [(0, n) for n in range(10)]
    assert len(files_in(lists_in(lake))) == 5


def test_so_are_those_of_a_partition_that_the_next_batch_has_nothing_of(tmp_path: Path) -> None:
    lake = FolderLake(tmp_path)
    Driver(lake).carry((wanted(0, 3), wanted(0, 3, 1)))
    for part in (wanted(3, 4, 1), wanted(6, 9, 1)):
        sink(lake).write_task(part, portions(part), PlayedTask())
    driver, seen = Driver(lake), []

    for span in (wanted(3, 5), wanted(3, 6, 1), wanted(5, 6), wanted(9, 10, 1)):
        driver.carry((span,))
        seen.append([number for number in range(10) if (1, number) in listed(lake)])

    assert seen == [[*range(4)], [*range(6)], [*range(9)], [*range(10)]]
    assert len(files_in(lists_in(lake))) == 8

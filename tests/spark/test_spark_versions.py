"""What is done on Spark 4.1, on the Spark that is there: the reader that bounds itself is called as
Spark 4.1 calls it, over a real broker. `test_spark_older.py` has the real Spark 4.1.
"""

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from iggy_spark import job_run, options, spark_versions
from iggy_spark.bounded_reader import BoundedStreamReader
from iggy_spark.errors import DataLoss, OffsetFormatError, OptionError
from iggy_spark.offsets import Offsets
from iggy_spark.readers import IggyStreamReader, RangePartition
from iggy_spark.source import IggyDataSource

if TYPE_CHECKING:
    from conftest import Topic

MODULE = "pyspark.sql.streaming.datasource"


@pytest.fixture
def older(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """`spark_versions` as it is where Spark has no such module."""
    monkeypatch.setitem(sys.modules, MODULE, None)
    assert spark_versions.__spec__ is not None
    spec = importlib.util.spec_from_file_location("older_versions", spark_versions.__file__)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "older_versions", made)
    spec.loader.exec_module(made)
    return made


Bounded = Callable[..., BoundedStreamReader]


@pytest.fixture
def bounded(topic: "Topic") -> Iterator[Bounded]:
    """Makes readers that are stopped at the end."""
    with ExitStack() as stack:

        def make(**more: str) -> BoundedStreamReader:
            given = {"startingOffsets": "earliest", "pollIntervalMs": "0", **more}
            made = BoundedStreamReader(options.parse(topic.options(**given), mode="stream"))
            stack.callback(made.stop)
            return made

        yield make


def payloads(count: int) -> list[bytes]:
    return [b"m%d" % number for number in range(count)]


def positions(offset: dict[str, Any]) -> list[int]:
    return list(Offsets.from_json(offset).positions.values())


def carry(reader: BoundedStreamReader, start: dict[str, Any], end: dict[str, Any]) -> int:
    """One micro-batch: how many messages it has."""
    tasks = reader.partitions(start, end)
    return sum(task.wanted.count for task in tasks if isinstance(task, RangePartition))


def test_without_sparks_module_its_names_are_there(older: ModuleType) -> None:
    assert not older.HAS_READ_LIMITS
    assert older.ReadMaxRows(3).max_rows == 3
    assert older.ReadMaxBytes(3).max_bytes == 3
    assert isinstance(older.ReadAllAvailable(), older.ReadLimit)
    with pytest.raises(OptionError, match=f"need Spark 4.2 or newer, and this is {older.VERSION}"):
        older.check_job()


def test_with_it_they_are_sparks_own() -> None:
    assert spark_versions.HAS_READ_LIMITS
    assert spark_versions.ReadLimit.__module__ == MODULE
    assert pyspark.__version__ == spark_versions.VERSION
    spark_versions.check_job()


def test_the_source_takes_the_reader_that_this_spark_can_call(
    topic: "Topic", monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = StructType([StructField("payload", BinaryType())])
    source = IggyDataSource(topic.options())

    assert type(source.streamReader(schema)) is IggyStreamReader
    monkeypatch.setattr(spark_versions, "HAS_READ_LIMITS", False)
    assert type(source.streamReader(schema)) is BoundedStreamReader


def test_a_job_is_refused_before_anything_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_versions, "HAS_READ_LIMITS", False)
    nothing: Any = None

    with pytest.raises(OptionError, match="use the image iggykube/spark"):
        job_run.job_of(nothing, {}, nothing, stop=nothing)


def test_a_new_query_reads_on_from_where_the_last_batch_ended(
    topic: "Topic", bounded: Bounded
) -> None:
    topic.send(0, payloads(20))
    topic.send(1, payloads(10))
    reader = bounded(maxOffsetsPerTrigger="12", consumerGroup="g")

    first = reader.latestOffset()
    start = reader.initialOffset()
    assert topic.stored("g", 0) is None, "nothing is done yet"
    assert (positions(start), positions(first), carry(reader, start, first)) == ([0, 0], [8, 4], 12)

    second = reader.latestOffset()
    assert topic.stored("g", 0) == 7, "the first batch is: Spark asks for the next one"
    assert carry(reader, first, second) == 12
    third = reader.latestOffset()
    assert (positions(third), carry(reader, second, third)) == ([20, 10], 6)
    assert reader.latestOffset() == third, "there is no more"
    assert (topic.stored("g", 0), topic.stored("g", 1)) == (19, 9)


def test_bytes_bound_a_batch_too(topic: "Topic", bounded: Bounded) -> None:
    topic.send(0, [bytes(1000)] * 5000)
    reader = bounded(maxBytesPerTrigger="1MiB")

    (first, _), (second, _) = positions(reader.latestOffset()), positions(reader.latestOffset())

    assert 900 < first < 1200
    assert 900 < second - first < 1200


def test_a_batch_that_nobody_looks_at_is_done_too(topic: "Topic", bounded: Bounded) -> None:
    # foreachBatch need not touch its frame: Spark asks for no tasks then.
    topic.send(0, payloads(20))
    reader = bounded(maxOffsetsPerTrigger="12", consumerGroup="g")

    first, second = reader.latestOffset(), reader.latestOffset()

    assert (positions(first), positions(second)) == ([12, 0], [20, 0])
    reader.commit(first)
    assert topic.stored("g", 0) == 11


def test_a_query_that_goes_on_is_told_where_it_stands(topic: "Topic", bounded: Bounded) -> None:
    topic.send(0, payloads(20))
    reader = bounded(maxOffsetsPerTrigger="12", consumerGroup="g")
    done = topic.at(5, 0)

    assert carry(reader, done, done) == 0

    assert positions(reader.latestOffset()) == [17, 0]
    assert topic.stored("g", 0) == 4


def test_a_query_that_goes_on_notices_that_its_messages_were_replaced(
    topic: "Topic", bounded: Bounded
) -> None:
    topic.send(0, payloads(10))
    end = bounded().latestOffset()
    times = end["last_us"][f"{topic.stream}/{topic.name}"]
    times["0"] -= 1  # so the last message that was read is another one than the broker has

    with pytest.raises(DataLoss, match="were read, and other messages have them now"):
        bounded().partitions(end, end)


def test_a_batch_that_failed_is_repeated_and_the_next_begins_behind_it(
    topic: "Topic", bounded: Bounded
) -> None:
    topic.send(0, payloads(20))
    reader = bounded(maxOffsetsPerTrigger="12")
    start, end = topic.at(5, 0), topic.at(9, 0)

    assert (carry(reader, end, end), carry(reader, start, end)) == (0, 4)

    assert positions(reader.latestOffset()) == [20, 0]


def test_a_first_batch_whose_start_is_gone_is_not_repeated(
    topic: "Topic", bounded: Bounded, state: str
) -> None:
    topic.send(0, payloads(20))
    reader = bounded(startingOffsets="latest", stateLocation=state)
    end = topic.at(20, 0)

    reader.partitions(end, end)
    start = reader.initialOffset()

    with pytest.raises(OffsetFormatError, match="where it began is gone"):
        reader.partitions(start, end)


def test_an_end_that_was_fixed_too_early_is_refused(topic: "Topic", bounded: Bounded) -> None:
    topic.send(0, payloads(20))
    reader = bounded(maxOffsetsPerTrigger="12")
    reader.latestOffset()
    stands = topic.at(15, 0)

    with pytest.raises(OptionError, match=r"triggerAvailableNowWrapper\.enabled cannot be used"):
        reader.partitions(stands, stands)


def test_an_empty_first_batch_is_none_of_that(topic: "Topic", bounded: Bounded) -> None:
    reader = bounded()
    end = reader.latestOffset()

    assert carry(reader, reader.initialOffset(), end) == 0
    topic.send(0, payloads(3))
    assert positions(reader.latestOffset()) == [3, 0]


def test_an_option_that_needs_a_newer_spark_is_refused(bounded: Bounded) -> None:
    with pytest.raises(OptionError, match=f"and this is {pyspark.__version__}"):
        bounded(minOffsetsPerTrigger="10")

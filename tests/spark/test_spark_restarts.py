"""Queries that fail and are started again, with a real Spark and its checkpoint."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from iggy_spark import errors, options, readers
from iggy_spark.errors import OffsetFormatError

if TYPE_CHECKING:
    from conftest import Topic

GROUP = "restarts"


def payloads(count: int) -> list[bytes]:
    return [b"m%d" % number for number in range(count)]


class Runs:
    """Runs of one query that ends when everything is read."""

    def __init__(self, spark: SparkSession, topic: "Topic", folder: Path) -> None:
        self.spark, self.topic, self.folder = spark, topic, folder
        self.state = folder / "state"
        self.fails = False
        self.tasks: list[int] = []
        """How many each batch had."""

    def run(self, checkpoint: str = "checkpoint", **more: str) -> list[tuple[int, int]]:
        """(partition, offset) of every row, sorted."""
        seen: list[tuple[int, int]] = []
        given = {"startingOffsets": "latest", "stateLocation": str(self.state), **more}
        given |= {"consumerGroup": GROUP, "columns": "partition,offset"}
        frame = self.spark.readStream.format("iggy").options(**self.topic.options(**given)).load()

        def write(rows: DataFrame, number: int) -> None:
            self.tasks.append(rows.rdd.getNumPartitions())
            if self.fails:
                raise RuntimeError("the target is away")
            seen.extend((row.partition, row.offset) for row in rows.collect())

        query = (
            frame.writeStream.foreachBatch(write)
            .option("checkpointLocation", str(self.folder / checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return sorted(seen)


def test_a_checkpoint_goes_on_with_another_number_of_tasks(
    spark: SparkSession, topic: "Topic", tmp_path: Path
) -> None:
    topic.send(0, payloads(5_000), batch=1_000)
    runs = Runs(spark, topic, tmp_path)
    runs.fails = True
    with pytest.raises(PySparkException, match="the target is away"):
        runs.run(startingOffsets="earliest", minPartitions="4")
    runs.fails = False

    repeated = runs.run(startingOffsets="earliest", minPartitions="2")
    topic.send(0, payloads(3_000), batch=1_000)
    rest = runs.run(startingOffsets="earliest")

    assert repeated == [(0, n) for n in range(5_000)]
    assert rest == [(0, n) for n in range(5_000, 8_000)]
    assert runs.tasks == [5, 3, 1]  # cut at round numbers


def test_a_failed_batch_is_repeated_whatever_has_changed(
    spark: SparkSession, topic: "Topic", tmp_path: Path
) -> None:
    topic.send(0, payloads(3))
    runs = Runs(spark, topic, tmp_path)
    given = topic.options(startingOffsets="latest", stateLocation=str(runs.state))
    readers.IggyStreamReader(options.parse(given, mode="stream")).initialOffset()
    topic.send(0, payloads(4))
    runs.fails = True
    with pytest.raises(PySparkException, match="the target is away"):
        runs.run()
    runs.fails = False

    # Where the first batch began is gone before it is done: nothing is guessed.
    shutil.move(runs.state, tmp_path / "away")
    with pytest.raises(PySparkException) as caught:
        runs.run()
    found = errors.find_in_text(str(caught.value))
    assert isinstance(found, OffsetFormatError)
    assert "where it began is gone from" in str(found)
    shutil.rmtree(runs.state)
    shutil.move(tmp_path / "away", runs.state)

    # A partition was added while a batch waited: the run ends, and has everything.
    topic.client.create_partitions(topic.stream, topic.name, 1)
    topic.send(2, payloads(2))
    topic.send(0, payloads(1))
    assert runs.run() == [*((0, n) for n in range(3, 8)), (2, 0), (2, 1)]

    # The first batch is done: its start is not needed any more. The checkpoint says where to go on,
    # however far behind the option it is.
    shutil.rmtree(runs.state)
    topic.send(1, payloads(2))
    assert runs.run(startingOffsets='{"0": 8, "1": 2, "2": 2}') == [(1, 0), (1, 1)]

    # The broker shows all of it, and another query goes on exactly there.
    assert [topic.stored(GROUP, n) for n in range(3)] == [7, 1, 1]
    topic.send(2, payloads(1))
    shutil.rmtree(runs.state, ignore_errors=True)
    assert runs.run("another", startingOffsets="committed") == [(2, 2)]


def test_a_start_that_was_kept_at_the_broker_and_is_gone_is_told(topic: "Topic") -> None:
    def reader() -> readers.IggyStreamReader:
        given = topic.options(consumerGroup="g", offsetMirror="off", pollIntervalMs="0")
        return readers.IggyStreamReader(options.parse(given, mode="stream"))

    topic.send(0, payloads(3))
    first = reader()
    start = first.initialOffset()
    topic.send(0, payloads(3))
    end = first.latestOffset(start, ReadAllAvailable())
    again = reader()
    assert [part.wanted.count for part in again.partitions(again.initialOffset(), end)] == [3]

    topic.client.delete_group(topic.stream, topic.name, "g.start")

    late = reader()
    with pytest.raises(OffsetFormatError, match=r"gone from consumer g\.start"):
        late.partitions(late.initialOffset(), end)

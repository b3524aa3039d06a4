"""Topics that are read from an archive: with their broker, and without one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from archived_rows import Row, batch, rows_of
from archived_shop import BATCH, SEGMENTS, ArchivedShop
from iggy_spark import archived, connections, options, readers
from iggy_spark.batches import record_batches
from iggy_spark.errors import OptionError
from iggy_spark.offsets import OffsetRange
from iggy_spark.spark_versions import ReadAllAvailable
from iggy_wire.primitives import PollingStrategy
from iggy_wire.replies import Polled
from stored import logs, partition_folder
from waiting import wait_until

PAGE = (Path(__file__).parents[2] / "docs" / "spark-reading.md").read_text()


@pytest.fixture(params=["folder", "bucket"])
def shop(request: pytest.FixtureRequest) -> ArchivedShop:
    found: ArchivedShop = request.getfixturevalue(f"in_{request.param}")
    return found


def test_spark_reads_what_was_sent(spark: SparkSession, shop: ArchivedShop) -> None:
    assert shop.local > 0.9 * len(shop.sent[0])
    assert len(logs(partition_folder(shop.broker))) == 1, "the broker has the rest only"
    for given in (shop.options(), shop.only()):
        frame = spark.read.format("iggy").options(**given).load()
        found = [tuple(row) for row in frame.select("partition", "offset", "payload").collect()]
        assert found == shop.rows(), given
    only_old = shop.options(endingOffsets=json.dumps({"0": shop.local - 1, "1": 0}))
    assert rows_of(only_old) == shop.rows()[: shop.local - 1]


def test_the_program_of_the_page_runs(spark: SparkSession, in_bucket: ArchivedShop) -> None:
    (program,) = re.findall(r"## An archive\n.*?```python\n(.*?)```", PAGE, re.DOTALL)
    where = in_bucket.where
    for shown, here in (
        ("s3://backup/broker-1", where["archivePath"]),
        ('"archive.region", "eu-central-1"', f'"archive.endpoint", "{where["archive.endpoint"]}"'),
        ("/etc/archive", where["archive.credentialsPath"]),
    ):
        assert shown in program
        program = program.replace(shown, here)
    names: dict[str, Any] = {"spark": spark}
    exec(program, names)
    assert names["orders"].where("partition = 1").count() == len(in_bucket.sent[1])


class Failing(Exception):
    """Ends a query in the middle."""


class Target:
    """What a query's batches held; one that is carried out again replaces its first attempt."""

    def __init__(self) -> None:
        self.batches: dict[int, list[Row]] = {}
        self.fails_at: int | None = None

    def take(self, frame: DataFrame, number: int) -> None:
        found = frame.select("partition", "offset", "payload").collect()
        self.batches[number] = [(row[0], row[1], bytes(row[2])) for row in found]
        if number == self.fails_at:
            raise Failing

    def rows(self) -> list[Row]:
        return sorted(row for rows in self.batches.values() for row in rows)


@pytest.mark.parametrize("mode", ["auto", "only"])
def test_a_stream_goes_from_the_archive_to_the_broker(
    spark: SparkSession, in_folder: ArchivedShop, tmp_path: Path, mode: str
) -> None:
    shop, target = in_folder, Target()
    given = shop.options() if mode == "auto" else shop.only()
    limits = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "700"}

    def run() -> None:
        query = (
            spark.readStream.format("iggy").options(**given, **limits).load()
            .writeStream.foreachBatch(target.take)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True).start()
        )  # fmt: skip
        query.awaitTermination()

    target.fails_at = 1
    with pytest.raises(StreamingQueryException, match="Failing"):
        run()
    assert len(target.rows()) == 1400
    target.fails_at = None
    run()
    assert target.rows() == shop.rows()
    assert [len(rows) for _, rows in sorted(target.batches.items())][:2] == [700, 700]

    with shop.broker.client() as client:
        shop.send(client, 1, BATCH)
    shop.catch_up()
    run()
    assert target.rows() == shop.rows()


def test_a_part_of_a_segment_is_read_by_itself(
    shop: ArchivedShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_bytes = 0
    of_archive = archived.Archive.read

    def counted(self: archived.Archive, key: str, first: int, size: int) -> bytes:
        nonlocal read_bytes
        read_bytes += 0 if key.endswith(".index") else size
        return of_archive(self, key, first, size)

    monkeypatch.setattr(archived.Archive, "read", counted)
    given = options.parse(shop.only(fetchBytes="200000"), mode="batch")
    (whole, *_) = batch(shop.only()).partitions()
    for first, count in ((0, 1), (333, 50), (1, 300), (shop.local - 5, 20), (shop.local + 25, 30)):
        read_bytes = 0
        wanted = OffsetRange(whole.wanted.incarnation, 0, first, first + count)
        found = [
            (0, *row)
            for rows in record_batches(given, wanted)
            for row in zip(rows["offset"].to_pylist(), rows["payload"].to_pylist(), strict=True)
        ]
        assert found == shop.rows()[first : first + count]
        batches = count // BATCH + 2  # of which the first and the last are needed in part
        assert read_bytes < (batches + 4) * BATCH * 5_100 + 3 * 256


def test_tasks_are_segments(in_folder: ArchivedShop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = in_folder
    monkeypatch.setattr("iggy_spark.archive_plan.JOIN_BYTES", 0)
    monkeypatch.setattr("iggy_spark.archive_plan.SPLIT_BYTES", 600_000)

    for given in (shop.only(), shop.options()):
        parts = batch(given).partitions()
        assert len([part for part in parts if part.wanted.partition == 0]) > 2 * (SEGMENTS - 1)
        assert rows_of(given, parts) == shop.rows()


def test_a_broker_that_reads_its_archive_is_not_asked(
    in_folder: ArchivedShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, polled = in_folder, []
    of_broker = connections.Connection.poll

    def poll(self: Any, partition: int, strategy: PollingStrategy, *, count: int) -> Polled:
        polled.append((partition, strategy.value, count))
        return of_broker(self, partition, strategy, count=count)

    shop.restart(archiver=True)
    monkeypatch.setattr(connections.Connection, "poll", poll)
    start = {"startingOffsets": '{"0": 5, "1": 0}'}
    found = rows_of(shop.options(**start))
    stream = readers.IggyStreamReader(options.parse(shop.options(**start), mode="stream"))
    first = stream.initialOffset()
    (part, _) = stream.partitions(first, stream.latestOffset(first, ReadAllAvailable()))
    in_stream = [n for rows in stream.read(part) for n in rows["offset"].to_pylist()]
    shop.restart(archiver=False)

    assert found == shop.rows()[5:]
    assert in_stream == list(range(5, len(shop.sent[0])))
    old = [value for partition, value, _ in polled if not partition and value < shop.local]
    assert old == [], "one task asks for what the broker has itself, the rest is the archive's"


def test_topics_of_an_archive_match_a_pattern(in_bucket: ArchivedShop) -> None:
    given = in_bucket.only(subscribePattern="sh.p/.*", startingOffsets="earliest")
    for name in ("stream", "topic"):
        del given[name]
    assert rows_of(given) == in_bucket.rows()
    with pytest.raises(OptionError, match="there are no topics that match 'none'"):
        rows_of({**given, "subscribePattern": "none"})


@pytest.mark.parametrize("mode", ["auto", "only"])
def test_a_time_is_a_place_in_the_archive(in_folder: ArchivedShop, mode: str) -> None:
    shop = in_folder
    given = shop.options() if mode == "auto" else shop.only()
    reader = batch({**given, "columns": "partition,offset,timestamp"})
    times = [
        (row["offset"], row["timestamp"])
        for part in reader.partitions()
        for found in reader.read(part)
        for row in found.to_pylist()
        if row["partition"] == 0
    ]
    for number in (0, 500, shop.local - 1, shop.local + 1):
        wanted = times[number][1]
        first = next(offset for offset, taken in times if taken >= wanted)
        places = json.dumps({"0": wanted.isoformat(), "1": "1970-01-01T00:00:00Z"})
        starts = batch({**given, "startingOffsetsByTimestamp": places}).partitions()
        assert starts[0].wanted.first == first
        ends = batch({**given, "endingOffsetsByTimestamp": places}).partitions()
        assert max((part.wanted.end for part in ends), default=0) == first


def test_pieces_that_go_while_they_are_read(in_folder: ArchivedShop) -> None:
    shop = in_folder
    given = shop.only()
    (tail,) = [one for one in shop.manifests().values() if one.pieces and not one.partition_id]
    assert len(tail.pieces) > 1
    expected, parts = shop.rows(), batch(given).partitions()

    shop.restart(archiver=True)
    with shop.broker.client() as client:
        shop.send(client, 0, 15 * BATCH)
    wait_until(lambda: is_sealed(shop, tail.first_offset), "the tail is sealed", 60)
    shop.wait()
    shop.restart(archiver=False)

    assert rows_of(given, parts) == expected
    assert rows_of(given) == shop.rows()


def is_sealed(shop: ArchivedShop, first_offset: int) -> bool:
    keys = [entry.key for entry in shop.store.entries("")]
    return not any(f"{first_offset:020d}." in key and key.endswith(".part") for key in keys)

"""What a user does with an older Spark and the jars of table formats, as one program.

    python older_spark_program.py BROKER JARS FOLDER

It is run by an interpreter that has that Spark (`older_spark.py`), with the project's packages on
the path and a broker at BROKER. What it has seen is printed as one line of JSON at the end.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from broker_process import PASSWORD, USERNAME
from iggy_client import Client
from iggy_spark import errors
from iggy_spark.spark_versions import HAS_READ_LIMITS, VERSION
from iggy_wire.batch import Message
from iggy_wire.primitives import Consumer, Partitioning
from waiting import wait_until

STREAM, TOPIC, COPY = "shop", "orders", "copy"
PARTITIONS, LIMIT = 2, 60
WITHIN_S = 120.0
ICEBERG = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
DELTA = "io.delta.sql.DeltaSparkSessionExtension"
SCHEMA = "id BIGINT, name STRING"


class Failing(Exception):
    """A batch that is cut off on purpose."""


class Program:
    """One run: a topic, a Spark, and what they showed."""

    def __init__(self, broker: str, jars: str, folder: Path) -> None:
        self.broker, self.folder = broker, folder
        self.client = Client(broker)
        self.client.login(USERNAME, PASSWORD)
        self.client.create_stream(STREAM)
        for name in (TOPIC, COPY):
            self.client.create_topic(STREAM, name, PARTITIONS)
        self.sent = 0
        self.spark = session(jars, folder)

    def send(self, count: int) -> None:
        """So many more orders, in turns."""
        numbers = range(self.sent, self.sent + count)
        for partition in range(PARTITIONS):
            messages = [
                Message(json.dumps({"id": n, "name": f"order {n}"}).encode(), id=n + 1)
                for n in numbers
                if n % PARTITIONS == partition
            ]
            self.client.send(STREAM, TOPIC, Partitioning.partition(partition), messages)
        self.sent += count

    def options(self, **more: str) -> dict[str, str]:
        login = {"servers": self.broker, "username": USERNAME, "password": PASSWORD}
        payload = {"payloadFormat": "json", "payloadSchema": SCHEMA}
        return {**login, "stream": STREAM, "topic": TOPIC, **payload, **more}

    def stream(self, **more: str) -> DataFrame:
        given = self.options(**{"startingOffsets": "earliest", **more})
        return self.spark.readStream.format("iggy").options(**given).load()

    def stored(self, group: str) -> list[int | None]:
        """The last offset of each partition that the group is done with."""
        found = [
            self.client.get_offset(Consumer.group(group), STREAM, TOPIC, number)
            for number in range(PARTITIONS)
        ]
        return [None if one is None else one.stored_offset for one in found]

    def batch_read(self) -> Any:
        rows = self.spark.read.format("iggy").options(**self.options()).load()
        ids = [row.id for row in rows.select("value.id").orderBy("partition", "offset").collect()]
        wanted = self.options(columns="partition,offset", filterPushdown="true")
        few = self.spark.read.format("iggy").options(**wanted).load()
        pushed = few.where("partition = 1 AND offset < 5").orderBy("offset").collect()
        return {"ids": ids, "pushed": [list(row) for row in pushed]}

    def limited(self) -> Any:
        """Two lives of a query with a limit, each told to stop when it has everything."""
        lives = []
        for more in (100, 50):
            self.send(more)
            batches: list[int] = []

            def keep(rows: DataFrame, number: int, batches: list[int] = batches) -> None:
                batches.append(rows.count())

            query = self.begin("limited", keep, self.stream(**limit(), consumerGroup="mirrored"))
            self.wait_for_the_end("mirrored", query)
            query.stop()
            lives.append(batches)
        return {"lives": lives, "stored": self.stored("mirrored"), "last": self.at_end()}

    def wait_for_the_end(self, group: str, query: StreamingQuery) -> None:
        """Until the broker was told that all is done; or the query has failed."""
        wait_until(
            lambda: self.stored(group) == self.at_end() or not query.isActive,
            lambda: f"{self.at_end()}, not {self.stored(group)}",
            WITHIN_S,
        )
        assert query.isActive, query.exception()

    def at_end(self) -> list[int]:
        """The last offset of each partition."""
        return [(self.sent - partition - 1) // PARTITIONS for partition in range(PARTITIONS)]

    def begin(
        self, name: str, keep: Callable[[DataFrame, int], None], frame: DataFrame, **trigger: Any
    ) -> StreamingQuery:
        writer = frame.writeStream.foreachBatch(keep)
        writer = writer.option("checkpointLocation", str(self.folder / name))
        return writer.trigger(**trigger or {"processingTime": "100 milliseconds"}).start()

    def available_now(self) -> Any:
        """A batch fails; then runs that end by themselves, as many as it takes."""
        runs: list[list[tuple[int, int]]] = []

        def fail(rows: DataFrame, number: int) -> None:
            raise Failing

        try:
            self.begin("now", fail, self.stream(**limit())).awaitTermination()
        except PySparkException as error:
            assert "Failing" in str(error), error
        while not runs or runs[-1]:
            runs.append([])
            query = self.begin(
                "now", self.counting(runs[-1]), self.stream(**limit()), availableNow=True
            )
            query.awaitTermination()
        rest: list[tuple[int, int]] = []
        free = {"maxOffsetsPerTrigger": "0", "maxBytesPerTrigger": "0"}
        query = self.begin("free", self.counting(rest), self.stream(**free), availableNow=True)
        query.awaitTermination()
        return {"runs": runs, "unlimited": rest}

    def counting(self, into: list[tuple[int, int]]) -> Callable[[DataFrame, int], None]:
        def keep(rows: DataFrame, number: int) -> None:
            if count := rows.count():
                into.append((number, count))

        return keep

    def write(self) -> Any:
        """A stream that goes into a topic, and a frame that does."""
        given = self.options() | {"topic": COPY, "ids": "column", "partitioning": "partition"}
        del given["payloadFormat"], given["payloadSchema"]
        columns = ("payload", "partition", "id")
        query = (
            self.stream().select(*columns).writeStream.format("iggy").options(**given)
            .option("checkpointLocation", str(self.folder / "copying"))
            .trigger(availableNow=True).start()
        )  # fmt: skip
        query.awaitTermination()
        copied = self.copies()
        whole = self.spark.read.format("iggy").options(**self.options()).load().select(*columns)
        whole.write.format("iggy").options(**given).mode("append").save()
        given |= {"ids": "deterministic"}
        self.stream().select("payload", "partition").writeStream.format("iggy").options(
            **given
        ).option("checkpointLocation", str(self.folder / "copying-again")).trigger(
            availableNow=True
        ).start().awaitTermination()
        return {"streamed": copied, "all": len(self.copies()), "sent": self.sent}

    def copies(self) -> list[int]:
        given = self.options(topic=COPY)
        rows = self.spark.read.format("iggy").options(**given).load().select("value.id").collect()
        return sorted(row.id for row in rows)

    def iceberg(self) -> Any:
        self.spark.sql(f"CREATE TABLE lake.shop.streamed ({SCHEMA}) USING iceberg")
        self.into("iceberg").toTable("lake.shop.streamed").awaitTermination()
        return [self.ids("lake.shop.streamed"), self.merged("iceberg", "lake.shop.selected")]

    def delta(self) -> Any:
        at = self.folder / "tables"
        self.into("delta").start(str(at / "streamed")).awaitTermination()
        return [self.ids(f"delta.`{at}/streamed`"), self.merged("delta", f"delta.`{at}/selected`")]

    def merged(self, form: str, table: str) -> dict[str, int]:
        """Append and merge by SQL: how many rows there are, and how many of them were changed."""
        rows = self.spark.read.format("iggy").options(**self.options()).load()
        rows.select("value.*").createOrReplaceTempView("orders")
        for words in (
            f"CREATE TABLE {table} ({SCHEMA}) USING {form}",
            f"INSERT INTO {table} SELECT * FROM orders WHERE id >= 10",
            f"MERGE INTO {table} t USING orders s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET name = 'seen' WHEN NOT MATCHED THEN INSERT *",
        ):
            self.spark.sql(words)
        query = f"SELECT count(*) n, count_if(name = 'seen') seen FROM {table}"
        (row,) = self.spark.sql(query).collect()
        return {"rows": row.n, "seen": row.seen}

    def into(self, form: str) -> Any:
        frame = self.stream().select("value.*")
        writer = frame.writeStream.format(form).trigger(availableNow=True)
        return writer.option("checkpointLocation", str(self.folder / f"into-{form}"))

    def ids(self, table: str) -> list[int]:
        return [row.id for row in self.spark.sql(f"SELECT id FROM {table} ORDER BY id").collect()]

    def refused(self) -> Any:
        """What this Spark makes impossible, with the sentences that say so."""
        seen: list[tuple[int, int]] = []
        said = []
        wrapper = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"
        for name, value, more in (
            ("held", "false", {"minOffsetsPerTrigger": "10"}),
            ("now", "true", limit()),  # a query that has read something before
        ):
            self.spark.conf.set(wrapper, value)
            query = self.begin(name, self.counting(seen), self.stream(**more), availableNow=True)
            try:
                query.awaitTermination()
            except PySparkException as error:
                said.append(str(errors.find_in_text(str(error)) or error))
        self.spark.conf.set(wrapper, "false")
        return {"said": said, "read": seen}


def limit() -> dict[str, str]:
    return {"maxOffsetsPerTrigger": str(LIMIT)}


def session(jars: str, folder: Path) -> SparkSession:
    """With the table formats whose jars are there, as docs/images.md has it."""
    builder = SparkSession.builder.master("local[2]").appName("older-spark")
    conf = {
        "spark.jars": jars,
        "spark.sql.extensions": DELTA,
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
    }
    if has_iceberg(jars):
        conf |= {
            "spark.sql.extensions": f"{ICEBERG},{DELTA}",
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "hadoop",
            "spark.sql.catalog.lake.warehouse": str(folder / "lake"),
        }
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def has_iceberg(jars: str) -> bool:
    return "/iceberg-spark-runtime-" in jars


def parts(jars: str) -> Iterator[str]:
    """What can be done with this Spark and these jars."""
    yield from ("limited", "batch_read", "available_now", "write", "delta")
    if has_iceberg(jars):
        yield "iceberg"
    if not HAS_READ_LIMITS:
        yield "refused"


def main(broker: str, jars: str, folder: str) -> None:
    program = Program(broker, jars, Path(folder))
    seen = {part: getattr(program, part)() for part in parts(jars)}
    program.spark.stop()
    sys.stdout.write(json.dumps({"version": VERSION, **seen}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

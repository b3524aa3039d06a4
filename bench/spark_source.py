"""What `format("iggy")` costs, beside a source that hands Spark the same rows ready-made.

Alternating pairs in one run: the dummy yields one Arrow batch of the same columns and sizes again
and again, which is the most that Spark takes from any Python source. CPU seconds are those of
Spark's Java and Python processes together; the broker's stand apart.

    python bench/spark_source.py [--rounds N] [--megabytes N]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from iggy_bench import processes
from iggy_client import Client
from iggy_spark import session
from iggy_wire.batch import Message, build

PARTITIONS = 2
PAYLOAD_BYTES = 1000
BATCH_MESSAGES = 1000
ARROW_ROWS = 4000  # about 4 MiB, as the source's own batches
# The sink job starts Spark for a quick start; here rows pass through Java, as in a user's program.
SETTINGS = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=4",
}


class DummySource(DataSource):
    """Rows of the default columns that cost nothing to make."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "dummy"

    def schema(self) -> str:
        """The columns of format("iggy")."""
        return (
            "stream STRING, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
            "origin_timestamp TIMESTAMP, id BINARY, payload BINARY"
        )

    def reader(self, schema: StructType) -> DataSourceReader:
        """One task per partition."""
        return DummyReader(int(self.options["batches"]))


class DummyReader(DataSourceReader):
    """Yields the same batch again and again."""

    def __init__(self, batches: int) -> None:
        """`batches` for each partition."""
        self._batches = batches

    def partitions(self) -> list[InputPartition]:
        """As many as the topic has."""
        return [InputPartition(number) for number in range(PARTITIONS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Ready batches."""
        now = pa.array([0] * ARROW_ROWS, pa.timestamp("us", tz="UTC"))
        columns = {
            "stream": pa.repeat("bench", ARROW_ROWS),
            "topic": pa.repeat("source", ARROW_ROWS),
            "partition": pa.repeat(pa.scalar(0, pa.int32()), ARROW_ROWS),
            "offset": pa.array(range(ARROW_ROWS), pa.int64()),
            "timestamp": now,
            "origin_timestamp": now,
            "id": pa.array([bytes(16)] * ARROW_ROWS, pa.binary()),
            "payload": pa.array([os.urandom(PAYLOAD_BYTES)] * ARROW_ROWS, pa.binary()),
        }
        batch = pa.RecordBatch.from_pydict(columns)
        for _ in range(self._batches):
            yield batch


@dataclass
class Samples:
    """Figures of one side, a run each."""

    gb_per_s: list[float] = field(default_factory=list)
    cpu_s_per_gb: list[float] = field(default_factory=list)

    def line(self, name: str) -> str:
        """A row of the table."""
        best, cost = max(self.gb_per_s), median(self.cpu_s_per_gb)
        return f"| {name} | {median(self.gb_per_s):.2f} | {best:.2f} | {cost:.2f} |"


def measure(make: Callable[[], DataFrame], into: Samples, gigabytes: float) -> None:
    """Read everything once and throw it away."""
    cpu, began = processes.cpu_s(os.getpid()), time.perf_counter()
    make().write.format("noop").mode("overwrite").save()
    into.gb_per_s.append(gigabytes / (time.perf_counter() - began))
    into.cpu_s_per_gb.append((processes.cpu_s(os.getpid()) - cpu) / gigabytes)


def fill(client: Client, batches: int) -> None:
    """The topic, with `batches` in each partition."""
    client.create_stream("bench")
    client.create_topic("bench", "source", PARTITIONS)
    messages = [Message(os.urandom(PAYLOAD_BYTES)) for _ in range(BATCH_MESSAGES)]
    batch = build(messages, origin_timestamp_us=1)
    for partition in range(PARTITIONS):
        for _ in range(batches):
            client.send_batch("bench", "source", partition, batch)


def compare(spark: SparkSession, address: str, *, batches: int, rounds: int) -> None:
    """Print the table."""
    rows = PARTITIONS * batches * BATCH_MESSAGES
    gigabytes = rows * PAYLOAD_BYTES / 1e9
    spark.dataSource.register(DummySource)
    dummy = spark.read.format("dummy").option("batches", rows // PARTITIONS // ARROW_ROWS)
    options = {"servers": address, "username": processes.USERNAME, "stream": "bench"}
    options |= {"password": processes.PASSWORD, "topic": "source"}
    iggy = spark.read.format("iggy").options(**options)
    assert iggy.load().count() == rows, "every message is read"
    ours, floor = Samples(), Samples()
    for number in range(rounds + 1):
        pair = (Samples(), Samples()) if number == 0 else (ours, floor)  # the first is a warm-up
        measure(iggy.load, pair[0], gigabytes)
        measure(dummy.load, pair[1], gigabytes)
    print("| source | GB/s, median | best | CPU s per GB |\n|---|---|---|---|")
    print(ours.line('format("iggy")'))
    print(floor.line("dummy"))
    speed = median(ours.gb_per_s) / median(floor.gb_per_s)
    cost = median(ours.cpu_s_per_gb) / median(floor.cpu_s_per_gb)
    print(f"| ratio | {speed:.2f} | {max(ours.gb_per_s) / max(floor.gb_per_s):.2f} | {cost:.2f} |")


def main() -> None:
    """Broker and Spark on a folder of their own, gone afterwards."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=1000)
    given = parser.parse_args()
    batches = given.megabytes * 1_000_000 // (PARTITIONS * BATCH_MESSAGES * PAYLOAD_BYTES)
    batches -= batches % (ARROW_ROWS // BATCH_MESSAGES)
    with tempfile.TemporaryDirectory(prefix="iggykube-bench-") as name:
        folder = Path(name)
        (folder / "logs").mkdir()
        with processes.start_broker(folder / "broker", shards=1) as server:
            login = (processes.USERNAME, processes.PASSWORD)
            with Client.connect(server.address, *login) as client:
                fill(client, batches)
            logs = folder / "logs"
            with session.running("bench", cores=2, memory="1g", logs=logs, conf=SETTINGS) as spark:
                compare(spark, server.address, batches=batches, rounds=given.rounds)


if __name__ == "__main__":
    main()

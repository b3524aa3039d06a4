"""What `format("iggy")` costs, beside a source that hands Spark the same rows ready-made.

In turns in one run, as batch reads and as streams (`availableNow`, two triggers a GB), beside two
dummies with the same columns. One reads ready Arrow batches of 4 MiB, as large as the broker's
replies, from a file that is mapped into memory: the least that a source can do which reads at all.
The other yields one batch again and again, from the processor's cache, of 4 MiB or as small as the
source's own: the latter is the most that Spark takes from anything in Python. CPU seconds are those
of Spark's Java and Python processes, in parts. The broker's stand apart, and those of the process
that Spark starts beside the driver for every stream: nearly all of them are its start, which has
nothing to do with how much is read.

    python bench/spark_source.py [--rounds N] [--megabytes N]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from pathlib import Path
from statistics import median

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from iggy_bench import processes
from iggy_client import Client
from iggy_spark import session
from iggy_wire.batch import Message, build

PARTITIONS = 2
PAYLOAD_BYTES = 1000
BATCH_MESSAGES = 1000
LARGE_ROWS = 4000  # about 4 MiB
SMALL_ROWS = 800  # as the source's own
HEAD = (
    "| read | GB/s, median | best | CPU s per GB | of it Java | Python | beside it: the broker's "
    "| the stream's own process |\n|---|---|---|---|---|---|---|---|"
)
NAMES = (
    'format("iggy")', "ready batches of a file", "one large batch again", "one small batch again"
)  # fmt: skip
PROCESS_END_S = 60.0  # of what Spark has started for one stream
TRIGGER_ROWS = 500_000
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
        return DummyReader(*self._what())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """The same in triggers."""
        return DummyStreamReader(*self._what())

    def _what(self) -> tuple[int, int, str]:
        options = self.options
        return int(options["batches"]), int(options["rows"]), options.get("file", "")


class Share(InputPartition):
    """One task: so many batches."""

    def __init__(self, first: int, batches: int) -> None:
        """Any partition of the topic, from batch `first` of the file on, if there is one."""
        super().__init__(first)
        self.first, self.batches = first, batches


class DummyReader(DataSourceReader):
    """Yields the batches of a file, or the same one again and again."""

    def __init__(self, batches: int, rows: int, file: str) -> None:
        """`batches` of so many rows for each partition."""
        self._batches, self._rows, self._file = batches, rows, file

    def partitions(self) -> list[InputPartition]:
        """As many as the topic has."""
        return shares(0, self._batches, self._batches)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Ready batches."""
        return ready_batches(partition, self._rows, self._file)


class DummyStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The same in triggers; an offset is a number of batches of each partition."""

    def __init__(self, batches: int, rows: int, file: str) -> None:
        """`batches` of so many rows for each partition."""
        self._batches, self._rows, self._file = batches, rows, file

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """As the source is given it."""
        return ReadMaxRows(TRIGGER_ROWS)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """The end is known."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Nothing is read."""
        return {"batches": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """One trigger further."""
        more = TRIGGER_ROWS // PARTITIONS // self._rows
        return {"batches": min(self._batches, start["batches"] + more)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """As many as the topic has."""
        return shares(start["batches"], end["batches"], self._batches)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Ready batches."""
        return ready_batches(partition, self._rows, self._file)


def shares(start: int, end: int, batches: int) -> list[InputPartition]:
    """A task for each partition: its batches from `start` to `end` of `batches`."""
    return [Share(batches * number + start, end - start) for number in range(PARTITIONS)]


def ready_batches(partition: InputPartition, rows: int, file: str) -> Iterator[pa.RecordBatch]:
    """Of the file, where there is one; else the same one."""
    assert isinstance(partition, Share)
    if not file:
        yield from repeat(made_batch(rows), partition.batches)
        return
    with pa.memory_map(file) as mapped, pa.ipc.open_file(mapped) as batches:
        for number in range(partition.first, partition.first + partition.batches):
            yield batches.get_batch(number)


def made_batch(rows: int) -> pa.RecordBatch:
    """One with the source's columns and sizes."""
    now = pa.array([0] * rows, pa.timestamp("us", tz="UTC"))
    columns = {
        "stream": pa.repeat("bench", rows),
        "topic": pa.repeat("source", rows),
        "partition": pa.repeat(pa.scalar(0, pa.int32()), rows),
        "offset": pa.array(range(rows), pa.int64()),
        "timestamp": now,
        "origin_timestamp": now,
        "id": pa.array([bytes(16)] * rows, pa.binary()),
        "payload": pa.array([os.urandom(PAYLOAD_BYTES)] * rows, pa.binary()),
    }
    return pa.RecordBatch.from_pydict(columns)


def write_ready(file: Path, batches: int) -> None:
    """A file with so many batches, no two of which have the same payloads."""
    with pa.ipc.new_file(file, made_batch(1).schema) as out:
        for _ in range(batches):
            out.write_batch(made_batch(LARGE_ROWS))


@dataclass
class Samples:
    """Figures of one side, a run each."""

    gb_per_s: list[float] = field(default_factory=list)
    cpu: list[dict[str, float]] = field(default_factory=list)  # seconds per GB, by who used them

    def cost(self, *who: str) -> float:
        """Median CPU s per GB of some processes together."""
        return median(sum(one[name] for name in who) for one in self.cpu)

    def line(self, name: str) -> str:
        """A row of the table."""
        costs = (SPARK, ("java",), ("python",), ("broker",), ("helper",))
        parts = " | ".join(f"{self.cost(*who):.2f}" for who in costs)
        return f"| {name} | {median(self.gb_per_s):.2f} | {max(self.gb_per_s):.2f} | {parts} |"


SPARK = ("java", "python")


def used(broker: int) -> dict[str, float]:
    """CPU seconds so far, by who used them, when no stream has a process any more."""
    theirs = set(processes.process_tree(broker))
    ours = [pid for pid in processes.process_tree(os.getpid()) if pid not in theirs]
    java = next(pid for pid in ours if _name(pid) == "java")
    end_s = time.monotonic() + PROCESS_END_S
    while any(not _is_kept(child) for child in processes.children(java)):
        if time.monotonic() > end_s:
            raise RuntimeError("the process of a stream does not end")
        time.sleep(0.01)
    found = {"java": 0.0, "python": 0.0, "helper": processes.ended_cpu_s(java)}
    for pid in ours:
        found["java" if pid == java else "python"] += processes.own_cpu_s(pid)
    return found | {"broker": processes.cpu_s(broker)}


def _is_kept(pid: int) -> bool:
    """Whether Spark keeps this child for the tasks of all queries. One that has ended is empty."""
    try:
        # Java takes the place of the shell that starts it, and may find a child of that one, ended.
        if _name(pid) == "bash":
            return True
        return b"pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return True  # gone since it was listed


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def measure(read: Callable[[], None], into: Samples, gigabytes: float, broker: int) -> None:
    """Read everything once and throw it away."""
    before, began = used(broker), time.perf_counter()
    read()
    into.gb_per_s.append(gigabytes / (time.perf_counter() - began))
    after = used(broker)
    into.cpu.append({who: (after[who] - before[who]) / gigabytes for who in after})


def batch_read(spark: SparkSession, name: str, options: dict[str, str]) -> None:
    """Everything by `read`."""
    spark.read.format(name).options(**options).load().write.format("noop").mode("overwrite").save()


def stream_read(spark: SparkSession, name: str, options: dict[str, str]) -> None:
    """Everything by `readStream`."""
    frame = spark.readStream.format(name).options(**options).load()
    with tempfile.TemporaryDirectory(prefix="iggykube-bench-") as folder:
        place = {"checkpointLocation": folder}
        query = frame.writeStream.format("noop").options(**place).trigger(availableNow=True).start()
        query.awaitTermination()


def fill(client: Client, batches: int) -> None:
    """The topic, with `batches` in each partition."""
    client.create_stream("bench")
    client.create_topic("bench", "source", PARTITIONS)
    messages = [Message(os.urandom(PAYLOAD_BYTES)) for _ in range(BATCH_MESSAGES)]
    batch = build(messages, origin_timestamp_us=1)
    for partition in range(PARTITIONS):
        for _ in range(batches):
            client.send_batch("bench", "source", partition, batch)


def dummy(rows: int, size: int) -> dict[str, str]:
    """Options of a dummy that has so many rows, in batches of `size` rows."""
    return {"batches": str(rows // PARTITIONS // size), "rows": str(size)}


def compare(
    spark: SparkSession, server: processes.Server, file: Path, *, batches: int, rounds: int
) -> None:
    """Print the table."""
    rows = PARTITIONS * batches * BATCH_MESSAGES
    gigabytes = rows * PAYLOAD_BYTES / 1e9
    spark.dataSource.register(DummySource)
    large, small = (dummy(rows, size) for size in (LARGE_ROWS, SMALL_ROWS))
    write_ready(file, PARTITIONS * int(large["batches"]))
    ready = large | {"file": str(file)}
    iggy = {"servers": server.address, "username": processes.USERNAME, "stream": "bench"}
    iggy |= {"password": processes.PASSWORD, "topic": "source"}
    assert spark.read.format("iggy").options(**iggy).load().count() == rows, "every message is read"
    print(HEAD)
    limit = {"maxOffsetsPerTrigger": str(TRIGGER_ROWS), "startingOffsets": "earliest"}
    for kind, read, more in (("batch", batch_read, {}), ("stream", stream_read, limit)):
        sides = [("iggy", iggy | more), *(("dummy", one) for one in (ready, large, small))]
        found = [Samples() for _ in sides]
        for number in range(rounds + 1):
            for (name, options), samples in zip(sides, found, strict=True):
                into = samples if number else Samples()  # the first round warms up
                broker = server.process.pid
                measure(partial(read, spark, name, options), into, gigabytes, broker)
        for name, samples in zip(NAMES, found, strict=True):
            print(samples.line(f"{kind}, {name}"), flush=True)
        for name, other in zip(NAMES[1:], found[1:], strict=True):
            speed = median(found[0].gb_per_s) / median(other.gb_per_s)
            best = max(found[0].gb_per_s) / max(other.gb_per_s)
            cost = other.cost(*SPARK) / found[0].cost(*SPARK)
            print(f"| {kind}, ratio to {name} | {speed:.2f} | {best:.2f} | {cost:.2f} | | | | |")
    print(f"\nload {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, {rounds} rounds")


def main() -> None:
    """Broker and Spark on a folder of their own, gone afterwards."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=1000)
    given = parser.parse_args()
    batches = given.megabytes * 1_000_000 // (PARTITIONS * BATCH_MESSAGES * PAYLOAD_BYTES)
    batches -= batches % (LARGE_ROWS // BATCH_MESSAGES)
    with tempfile.TemporaryDirectory(prefix="iggykube-bench-") as name:
        folder = Path(name)
        (folder / "logs").mkdir()
        with processes.start_broker(folder / "broker", shards=1) as server:
            login = (processes.USERNAME, processes.PASSWORD)
            with Client.connect(server.address, *login) as client:
                fill(client, batches)
            logs = folder / "logs"
            with session.running("bench", cores=2, memory="1g", logs=logs, conf=SETTINGS) as spark:
                ready = folder / "ready.arrow"
                compare(spark, server, ready, batches=batches, rounds=given.rounds)


if __name__ == "__main__":
    main()

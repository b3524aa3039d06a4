"""How much a second the sink Files writes, and at what cost, beside a bare writer of the same rows.

    python bench/files_sink.py [--megabytes 100] [--rounds 3] [--tasks 2] [--s3] [--job]

Messages of 1 KB, as a fetch brings them, become files by the sink's own `write_task`: decoded,
written, synced, renamed. Beside it stand decoding alone, and a bare writer that gets the decoded
rows: pyarrow's Parquet with the same compression, or a plain file for JSON lines; it syncs too.
The ways take turns. CPU is that of all tasks, per GB (10^9 bytes) of payload. `--s3` writes to an
object store of this machine, whose CPU is counted as well. `--job` adds whole jobs, with a broker
and Spark: there CPU is not measured, and the first batch is left out, since Java is cold.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from multiprocessing.synchronize import Barrier
from pathlib import Path
from statistics import median
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / "support")]

from batches import Body, make_batch  # noqa: E402
from iggy_bench import processes, sink_runs  # noqa: E402
from iggy_bench.sink_runs import PORTION_ROWS, Used  # noqa: E402
from iggy_spark import blocks, options  # noqa: E402
from iggy_spark.offsets import OffsetRange  # noqa: E402
from iggy_spark.payload import Payload  # noqa: E402
from iggy_spark.sinks import rows  # noqa: E402
from iggy_spark.sinks.base import Portion  # noqa: E402
from iggy_spark.sinks.file_formats import COMPRESSION  # noqa: E402
from iggy_spark.sinks.files import FilesSink  # noqa: E402
from iggy_wire import kernel  # noqa: E402
from iggy_wire.kernel import Columns  # noqa: E402
from lakes import connection_to, store_block  # noqa: E402
from object_store import running_object_store  # noqa: E402
from sink_cases import INCARNATION, TIMESTAMP_US, PlayedTask, declare  # noqa: E402

HEAD: Final = (
    "| way | sink, GB/s (best) | CPU s/GB | of it decoding | bare writer, GB/s (best) | CPU s/GB | "
    "sink : decoding + bare |\n|---|---|---|---|---|---|---|"
)
PAYLOAD_BYTES: Final = 1000
SCHEMA: Final = (
    "number BIGINT NOT NULL, month INT, customer STRING, amount DECIMAL(18,2), at TIMESTAMP, "
    "note STRING"
)
_random = random.Random(1)
WORDS: Final = [
    "".join(_random.choices("etaoinshrdlu", k=_random.randint(2, 11))) for _ in range(5000)
]


@dataclass(frozen=True)
class Way:
    """What messages hold, how they are declared, and the files they become."""

    name: str
    payload_format: str
    schema: str | None
    file_format: str

    def payload(self) -> Payload:
        """As a job's file declares it."""
        return declare(self.payload_format, self.schema)

    def declared(self) -> dict[str, Any]:
        """The same in the words of that file."""
        schema = {} if self.schema is None else {"schema": self.schema}
        return {"format": self.payload_format, **schema}


WAYS: Final = (
    Way("JSON with a schema to Parquet", "Json", SCHEMA, "Parquet"),
    Way("JSON with a schema to JSON lines", "Json", SCHEMA, "Json"),
    Way("JSON without a schema to Parquet", "Json", None, "Parquet"),
    Way("JSON without a schema to JSON lines", "Json", None, "Json"),
    Way("random bytes to Parquet", "Raw", None, "Parquet"),
)


def message(number: int, payload_format: str) -> bytes:
    """1 KB: random bytes, or a document whose words zstd packs to about four tenths."""
    if payload_format == "Raw":
        return os.urandom(PAYLOAD_BYTES)
    value = {
        "number": number, "month": number % 12 + 1, "customer": f"c{number * 7919 % 100_000}",
        "amount": f"{number}.25", "at": "2026-03-29T00:59:59.999999Z", "note": "",
    }  # fmt: skip
    room = PAYLOAD_BYTES - len(json.dumps(value))
    value["note"] = " ".join(_random.choices(WORDS, k=room // 3))[:room]
    return json.dumps(value).encode()


def fetched(payload_format: str, count: int) -> list[Columns]:
    """Messages as a fetch lays them out."""
    found = []
    for first in range(0, count, PORTION_ROWS):
        numbers = range(first, first + PORTION_ROWS)
        bodies = [Body(message(number, payload_format), id=number + 1) for number in numbers]
        region = make_batch(bodies, offset=first, timestamp_us=TIMESTAMP_US)
        found.append(kernel.columns(region, first, first + PORTION_ROWS))
    return found


@dataclass(frozen=True)
class Fetched:
    """Stands for `RangeFetch`."""

    wanted: OffsetRange
    columns: list[Columns]

    def __iter__(self) -> Iterator[Columns]:
        """In order."""
        return iter(self.columns)


@dataclass(frozen=True)
class Scene:
    """What a task needs."""

    way: Way
    block: blocks.Files
    columns: list[Columns]
    folder: Path

    def wanted(self, partition: int) -> OffsetRange:
        """The range of a task."""
        return OffsetRange(INCARNATION, partition, 0, sum(one.count for one in self.columns))

    def portions(self, partition: int) -> Iterator[Portion]:
        """Decoded while they are taken."""
        login = {"servers": "127.0.0.1:1", "username": "u", "password": "p"}
        given = options.parse({**login, "stream": "bench", "topic": "rows"}, mode="stream")
        found = Fetched(self.wanted(partition), self.columns)
        return rows.portions(replace(given, payload=self.way.payload()), found)  # type: ignore[arg-type]


def through_sink(scene: Scene, partition: int, gate: Barrier) -> None:
    """One task of the sink."""
    sink = FilesSink(scene.block, scene.way.payload())
    gate.wait()
    written = sink.write_task(scene.wanted(partition), scene.portions(partition), PlayedTask())
    gate.wait()
    assert written.rows == scene.wanted(partition).count
    gate.wait()


def decode_only(scene: Scene, partition: int, gate: Barrier) -> None:
    """What the sink is given, and nothing done with it."""
    gate.wait()
    for _ in scene.portions(partition):
        pass
    gate.wait()
    gate.wait()


def bare_writer(scene: Scene, partition: int, gate: Barrier) -> None:
    """The same rows, decoded before, into one file."""
    table = pa.Table.from_batches([portion.rows for portion in scene.portions(partition)])
    payloads = [_lines(columns) for columns in scene.columns]
    path = scene.folder / f"bare-{partition}"
    gate.wait()
    with path.open("wb") as file:
        if scene.way.file_format == "Parquet":
            pq.write_table(table, file, compression=COMPRESSION)
        else:
            for lines in payloads:
                file.write(b"\n".join([*lines, b""]))
        file.flush()
        os.fsync(file.fileno())
    gate.wait()
    gate.wait()


def _lines(columns: Columns) -> list[bytes]:
    ends = memoryview(columns.payload_offsets).cast("i")
    return [columns.payloads[ends[row] : ends[row + 1]] for row in range(columns.count)]


@dataclass
class Samples:
    """Figures of one kind of run."""

    gb_per_s: list[float] = field(default_factory=list)
    cpu_s_per_gb: list[float] = field(default_factory=list)

    def add(self, used: Used, gigabytes: float) -> None:
        """One run."""
        self.gb_per_s.append(gigabytes / used.seconds)
        self.cpu_s_per_gb.append(used.cpu_s / gigabytes)

    def cells(self) -> str:
        """Two of the table."""
        return f"{median(self.gb_per_s):.2f} ({max(self.gb_per_s):.2f}) | {self.cost():.2f}"

    def cost(self) -> float:
        """Median."""
        return median(self.cpu_s_per_gb)


RUNS: Final[dict[str, Callable[..., None]]] = {
    "sink": through_sink, "decode": decode_only, "bare": bare_writer,
}  # fmt: skip


def measure(scene: Scene, *, tasks: int, rounds: int) -> None:
    """Print a row of the table."""
    samples = {name: Samples() for name in RUNS}
    gigabytes = tasks * scene.wanted(0).count * PAYLOAD_BYTES / 1e9
    each = [(scene, partition) for partition in range(tasks)]
    for _ in range(rounds):
        for name, carry in RUNS.items():
            FilesSink(scene.block, scene.way.payload()).check()
            used = sink_runs.at_once(carry, each, lambda: processes.cpu_s(os.getpid()))
            samples[name].add(used, gigabytes)
    sink, decode, bare = samples.values()
    ratio = sink.cost() / (decode.cost() + bare.cost())
    ours = f"{sink.cells()} | {decode.cost():.2f}"
    print(f"| {scene.way.name} | {ours} | {bare.cells()} | {ratio:.2f} |", flush=True)


def run_job(way: Way, place: dict[str, Any], megabytes: int) -> None:
    """Print a row: what the batches of a whole job did, but the first."""
    count = megabytes * 1_000_000 // PAYLOAD_BYTES
    sink = {
        "type": "Files",
        "payload": way.declared(),
        "files": {**place, "format": way.file_format},
    }
    with tempfile.TemporaryDirectory(prefix="iggykube-bench-") as name:
        found = sink_runs.job_batches(
            sink, lambda number: message(number, way.payload_format), count, Path(name)
        )
    rates = [event["rows"] * PAYLOAD_BYTES / event["seconds"] / 1e9 for event in found[1:]]
    print(f"| {way.name} | {median(rates):.2f} ({max(rates):.2f}) |", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=100, help="of payload, for each task")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tasks", type=int, default=2)
    parser.add_argument("--s3", action="store_true")
    parser.add_argument("--job", action="store_true")
    given = parser.parse_args()
    count = given.megabytes * 1_000_000 // PAYLOAD_BYTES
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="iggykube-bench-")))
        place: dict[str, Any] = {"path": str(folder / "lake")}
        if given.s3:
            store = stack.enter_context(running_object_store(folder / "store"))
            store.client.create_bucket(Bucket="bench")
            place = {"path": "s3://bench/lake", "s3": store_block(connection_to(store))}
        inputs = {name: fetched(name, count - count % PORTION_ROWS) for name in ("Json", "Raw")}
        print(HEAD)
        for way in WAYS:
            block = msgspec.convert({**place, "format": way.file_format}, blocks.Files)
            scene = Scene(way, block, inputs[way.payload_format], folder)
            measure(scene, tasks=given.tasks, rounds=given.rounds)
        if given.job:
            print("\n| whole job | GB/s, median of its batches (best) |\n|---|---|")
            for number, way in enumerate(WAYS):
                own = {**place, "path": f"{place['path']}-job-{number}"}
                run_job(way, own, given.tasks * given.megabytes)
        print(f"\nload {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, {given.tasks} tasks")


if __name__ == "__main__":
    main()

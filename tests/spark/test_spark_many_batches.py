"""What a batch costs does not depend on how many came before it: no log of a sink's own grows."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from botocore.client import BaseClient
from pyspark.sql import SparkSession

from files_cases import INCARNATION, PlayedTask, portions, sink, wanted
from iggy_spark.offsets import OffsetRange
from iggy_spark.sinks import file_names
from iggy_spark.sinks.files import FilesSink
from lakes import BucketLake, FolderLake
from remote_checkpoint import RemoteCheckpoint
from sink_jobs import Setup, documents, every

if TYPE_CHECKING:
    from conftest import Topic

RETAIN = "spark.sql.streaming.minBatchesToRetain"


class FileCalls:
    """Counts what this process asks of the file system. A hook of Python can never be taken back:
    there is one for all tests.
    """

    def __init__(self) -> None:
        self._found: Counter[str] | None = None
        sys.addaudithook(self._hear)

    def _hear(self, name: str, args: object) -> None:
        if self._found is not None and (name == "open" or name.startswith(("os.", "shutil."))):
            self._found[name] += 1

    @contextmanager
    def counted(self) -> Iterator[Counter[str]]:
        self._found = found = Counter[str]()
        try:
            yield found
        finally:
            self._found = None


@pytest.fixture(scope="module")
def file_calls() -> FileCalls:
    return FileCalls()


@contextmanager
def requests_counted() -> Iterator[Counter[str]]:
    """The same of requests to a store."""
    real, found = BaseClient._make_api_call, Counter[str]()

    def call(client: BaseClient, name: str, values: dict[str, Any]) -> Any:
        found[name] += 1
        return real(client, name, values)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(BaseClient, "_make_api_call", call)
        yield found


def carry(target: FilesSink, batch: int) -> None:
    """The batch of one message of each of two partitions."""
    results = []
    for partition in (0, 1):
        span = wanted(batch, batch + 1, partition=partition)
        results.append(target.write_task(span, portions(span), PlayedTask()))
    target.commit(results)


@pytest.mark.parametrize("lists", [False, True], ids=["no-lists", "lists"])
def test_batch_10_000_asks_as_much_of_a_folder_as_batch_100(
    tmp_path: Path, file_calls: FileCalls, lists: bool
) -> None:
    target = sink(FolderLake(tmp_path), list_batches=lists)
    target.prepare(INCARNATION)
    asked = {}
    for batch in [*range(110), 10_000]:
        if batch == 10_000:  # what thousands of others have left: their files, and nothing else
            for name in (file_names.of_range(span) for span in ranges(110, 10_000)):
                (tmp_path / f"{name}.parquet").touch()
        with file_calls.counted() as found:
            carry(target, batch)
        asked[batch] = found
        assert work_files(tmp_path) == [], batch

    assert asked[10_000] == asked[109] == asked[100]
    assert not any("listdir" in name or "scandir" in name for name in asked[10_000])
    # Another start: what it hands to each task is as short.
    assert sink(FolderLake(tmp_path)).prepare(INCARNATION) == dict.fromkeys((0, 1), ((0, 10_001),))


def ranges(first: int, end: int) -> Iterator[OffsetRange]:
    for at in range(first, end):
        yield from (wanted(at, at + 1, partition=partition) for partition in (0, 1))


def work_files(root: Path) -> list[Path]:
    return [path for path in (root / "_iggy").rglob("*") if path.is_file()]


def test_a_store_is_asked_as_often_for_a_late_batch_as_for_an_early_one(bucket: BucketLake) -> None:
    target = sink(bucket)
    target.prepare(INCARNATION)
    asked = []
    for batch in range(30):
        with requests_counted() as found:
            carry(target, batch)
        asked.append(found)

    assert asked[29] == asked[1]
    assert not any(name.startswith("List") for name in asked[29])
    assert bucket.left() == []


def test_what_spark_keeps_of_its_batches_does_not_grow(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    assert spark.conf.get(RETAIN) == "20"
    setup = Setup(topic, tmp_path, maxOffsetsPerTrigger=1)
    spark.conf.set(RETAIN, "1")
    try:
        topic.send(0, documents(0, 6))
        setup.run(spark)
        earlier = kept(setup.checkpoint)
        topic.send(0, documents(6, 12))
        setup.run(spark)
    finally:
        spark.conf.set(RETAIN, "20")

    assert len(setup.progress()) == 6
    assert setup.rows() == every(p0=12)
    later = kept(setup.checkpoint)
    assert later.keys() == earlier.keys()
    assert all(count < 6 for count in later.values()), later  # Spark removes old ones meanwhile


def kept(checkpoint: Path) -> Counter[str]:
    """How many files there are of each name, whatever their numbers. Logs have their own limit."""
    files = (path.relative_to(checkpoint) for path in checkpoint.rglob("*") if path.is_file())
    names = (path for path in files if path.parts[0] != "logs")
    return Counter(str(path.parent / path.name.strip(".0123456789")) for path in names)


def test_a_checkpoint_in_a_store_asks_as_often_for_a_late_batch(remote: RemoteCheckpoint) -> None:
    asked = []
    with closing(remote.open()) as checkpoint:
        checkpoint.committed(INCARNATION)
        for batch in range(60):
            for kind in ("offsets", "commits"):
                folder = checkpoint.spark(INCARNATION) / kind
                folder.mkdir(parents=True, exist_ok=True)
                (folder / f"{batch}").write_text("v1")
                (folder / f"{batch - 20}").unlink(missing_ok=True)
            with requests_counted() as found:
                checkpoint.keep(INCARNATION)
            asked.append(found)

    assert asked[59] == asked[30]
    assert len(remote.names()) == 40

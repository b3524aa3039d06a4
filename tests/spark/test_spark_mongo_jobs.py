"""A whole sink job on a real broker and a real Spark, with a played MongoDB as the target."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from played_mongo import CLOSED, LOST, PlayedMongo
from sink_jobs import Setup, documents, every

if TYPE_CHECKING:
    from conftest import Topic

ERRORS = {"retry": {"timeout": "20s", "initialDelay": "50ms", "maxDelay": "100ms"}}


def test_what_is_repeated_changes_nothing(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    """Lost answers, a batch whose commit is lost, and a lost checkpoint."""
    topic.send(0, documents(0, 100))
    topic.send(1, documents(0, 20))
    with PlayedMongo() as server:
        server.faults += [LOST, CLOSED]
        block = {"url": server.url, "database": "shop", "collection": "orders"}
        setup = Setup(
            topic,
            tmp_path,
            type="Mongo",
            files=None,
            mongo=block,
            delivery="ExactlyOnce",
            errors=ERRORS,
            maxOffsetsPerTrigger=60,
        )
        setup.run(spark)
        first = _rows(server)
        setup.forget_last_commit()

        events = setup.run(spark)
        repeated = [event["rows"] for event in events if event["event"] == "progress"]
        shutil.rmtree(setup.checkpoint)
        topic.send(1, documents(20, 30))
        setup.run(spark)

        assert first == every(p0=100, p1=20)
        assert repeated == [60]
        assert _rows(server) == every(p0=100, p1=30)
        assert topic.stored("lake", 1) == 29
        assert {one["number"] for one in server.documents()} == set(range(100))


def _rows(server: PlayedMongo) -> list[tuple[int, int]]:
    return sorted((one["iggy_partition_id"], one["iggy_offset"]) for one in server.documents())

"""A listener of one query in a session that has others: it takes no event of theirs for its own."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from iggy_spark.query_listener import QueryListener

WAIT_S = 60


class Listener(QueryListener[str]):
    def __init__(self, name: str) -> None:
        self.moves = 0
        self.told: list[tuple[int, str]] = []
        super().__init__(name, moved=self._count)

    def _count(self) -> None:
        self.moves += 1

    def tell(self, progress: StreamingQueryProgress, result: str) -> None:
        self.told.append((progress.batchId, result))


def start(spark: SparkSession, name: str, folder: Path) -> StreamingQuery:
    texts = folder / "texts"
    texts.mkdir(exist_ok=True)
    (texts / "one.txt").write_text("a line\n")
    rows = spark.readStream.text(str(texts))
    writing = rows.writeStream.queryName(name).foreachBatch(lambda frame, batch: None)
    writing = writing.option("checkpointLocation", str(folder / name))
    return writing.trigger(availableNow=True).start()


def test_a_query_that_ends_is_not_the_end_of_another(spark: SparkSession, tmp_path: Path) -> None:
    mine, others = Listener("mine"), Listener("other")
    for listener in (mine, others):
        listener.remember(0, f"batch of {listener._name}")
        spark.streams.addListener(listener)
    try:
        assert start(spark, "other", tmp_path).awaitTermination(WAIT_S)
        assert others.ended.wait(WAIT_S)
        assert others.told == [(0, "batch of other")]
        assert others.moves > 0
        assert (mine.moves, mine.told, mine.ended.is_set()) == (0, [], False)

        assert start(spark, "mine", tmp_path).awaitTermination(WAIT_S)
        assert mine.ended.wait(WAIT_S)
        assert mine.told == [(0, "batch of mine")]
    finally:
        for listener in (mine, others):
            spark.streams.removeListener(listener)

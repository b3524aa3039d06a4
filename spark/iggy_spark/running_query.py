"""A job's query in Spark, from its start to its end between two batches."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from iggy_spark import errors
from iggy_spark.batch_writer import BatchWriter
from iggy_spark.errors import IggySparkError, SinkError
from iggy_spark.stop import Stop

COMMIT_WAIT_S = 10.0  # for Spark to write down a batch that is already where it belongs
LOOK_S = 0.1


def start(
    frame: DataFrame, writer: BatchWriter, *, name: str, place: Path, interval_ms: int | None
) -> StreamingQuery:
    """Begin. `place` is Spark's checkpoint; `interval_ms` is the time between the starts of two
    batches, None for a query that ends when it has what was there.
    """
    trigger = frame.writeStream.queryName(name).foreachBatch(writer)
    trigger = trigger.option("checkpointLocation", str(place))
    if interval_ms is None:
        return trigger.trigger(availableNow=True).start()
    return trigger.trigger(processingTime=f"{interval_ms} milliseconds").start()


def watch(
    query: StreamingQuery,
    writer: BatchWriter,
    stop: Stop,
    *,
    look: Callable[[], None],
    has_committed: Callable[[int], bool],
) -> None:
    """Wait for the query's end, and end it between two batches when asked to. `look` is called all
    the time; `has_committed` tells whether Spark has written down a batch.

    Raises:
        IggySparkError: why the query has ended, or what `look` has raised.
    """
    while query.isActive:
        if stop.asked and not writer.running:
            _wait_for_commit(query, writer, has_committed)
            query.stop()
            return
        try:
            look()
        except IggySparkError:
            query.stop()
            raise
        time.sleep(LOOK_S)
    failure = query.exception()
    if failure is None or writer.refused:
        return
    if writer.failure is not None:
        raise writer.failure
    raise errors.find_in_text(str(failure)) or SinkError(
        f"Spark stopped the query: {reason(str(failure))}; see spark.log in the checkpoint's "
        "folder logs"
    )


def _wait_for_commit(
    query: StreamingQuery, writer: BatchWriter, has_committed: Callable[[int], bool]
) -> None:
    """Let Spark write down the batch that was carried; without it the batch is repeated, which
    changes nothing but takes time.
    """
    if writer.last_batch is None:
        return
    deadline = time.monotonic() + COMMIT_WAIT_S
    while query.isActive and time.monotonic() < deadline:
        if has_committed(writer.last_batch):
            return
        time.sleep(LOOK_S)


_EXCEPTION = re.compile(r"^[\w.]+(?:Error|Exception|Interrupt|Exit)\b.*$", re.MULTILINE)


def reason(text: str) -> str:
    """The one line of a Spark error that says most: the first Python exception in it, if any."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    hit = _EXCEPTION.search(text)
    return hit[0] if hit else lines[0] if lines else "no reason given"

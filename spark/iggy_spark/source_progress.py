"""How far a source's job is: told to the other system, to Prometheus and to who runs the job."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from pyspark.sql.streaming.listener import StreamingQueryProgress

from iggy_spark.checkpoint import SOURCE_LIFE, Checkpoint
from iggy_spark.errors import SinkError
from iggy_spark.progress import Reporter
from iggy_spark.query_listener import QueryListener
from iggy_spark.retry import Retry
from iggy_spark.source_metrics import SourceMetrics
from iggy_spark.source_task import Carried
from iggy_spark.sources.base import Position, Source

AGAIN_S: Final = 10.0  # after the other system could not be told
LOOK_S: Final = 10.0  # between two looks how much waits there
TOLD_BYTES_MAX: Final = 4096  # of a position in an event; a longer one is left out


class SourceProgress:
    """Tells the other system what Spark has committed, and never while a batch is read."""

    def __init__(
        self,
        source: Source,
        retry: Retry,
        checkpoint: Checkpoint,
        metrics: SourceMetrics,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`source` is asked from here alone, with a `retry` that gives up soon: somebody waits."""
        self._source, self._retry = source, retry
        self._checkpoint, self._metrics, self._clock = checkpoint, metrics, clock
        self._reading = threading.Lock()
        self._told: int | None = None  # the batch whose end the other system knows
        self._tell_due_s = self._look_due_s = 0.0
        self.behind: int | None = None

    @contextmanager
    def reading(self, batch: int) -> Iterator[None]:
        """The block of a batch. The one before is told first: where one follows another at once,
        there is no time for it else.
        """
        with self._reading:
            self._tell(batch - 1)
            yield

    def tell(self, batch: int | None) -> None:
        """Say that `batch`, the last one that was carried, is done, once Spark has committed it. A
        system that is away is told later; if it stays away, the query fails by itself.
        """
        if batch is not None and self._reading.acquire(blocking=False):
            try:
                self._tell(batch)
            finally:
                self._reading.release()

    def _tell(self, batch: int) -> None:
        if batch == self._told or self._clock() < self._tell_due_s:
            return
        if not self._checkpoint.has_committed(SOURCE_LIFE, batch):
            return
        if self.tell_committed():
            self._told = batch
        else:
            self._tell_due_s = self._clock() + AGAIN_S

    def tell_committed(self) -> bool:
        """Say that all is done that Spark has committed, if there is any. False: not possible."""
        position = self._checkpoint.position(SOURCE_LIFE)
        try:
            if position is not None:
                self._source.done(position)
        except SinkError:
            self._metrics.done_failed()
            return False
        finally:
            self._count_retries()
        return True

    def look(self, start: Position) -> bool:
        """Look now and then how much waits beyond what is committed, `start` before the first.
        True: it is not what the look before has found.
        """
        if self._clock() < self._look_due_s:
            return False
        before = self.behind
        self._look_due_s = self._clock() + LOOK_S
        committed = self._checkpoint.position(SOURCE_LIFE)
        self.behind = self.behind_now(start if committed is None else committed)
        if self.behind is not None:
            self._metrics.seen(self.behind)
        return self.behind != before

    def behind_now(self, at: Position) -> int | None:
        """How much waits beyond `at`; None if nobody can tell now."""
        try:
            return self._source.behind(at)
        except SinkError:
            return None  # the query says so itself, when it needs the system
        finally:
            self._count_retries()

    def _count_retries(self) -> None:
        counts = self._retry.counts
        self._metrics.retried({str(cause): times for cause, times in counts.items()})
        counts.clear()


class SourceListener(QueryListener[Carried]):
    """Turns Spark's progress events into ours, with what the tasks handed back."""

    def __init__(
        self,
        name: str,
        reporter: Reporter,
        metrics: SourceMetrics,
        progress: SourceProgress,
        *,
        moved: Callable[[], None],
    ) -> None:
        """`progress` knows how much waits; the rest as for `QueryListener`."""
        super().__init__(name, moved=moved)
        self._reporter, self._metrics, self._progress = reporter, metrics, progress

    def tell(self, progress: StreamingQueryProgress, result: Carried) -> None:
        """A batch is done."""
        seconds = progress.batchDuration / 1000
        self._metrics.batch_done(result, seconds=seconds, now=time.time())
        self._reporter.event(
            "progress",
            batch=progress.batchId,
            messages=result.messages,
            size_bytes=result.size_bytes,
            retries=sum(result.retries.values()),
            seconds=seconds,
            committed=told(json.loads(progress.sources[0].endOffset)),
            behind=self._progress.behind,
        )


def told(position: Any) -> Any:
    """A position in an event."""
    return None if len(json.dumps(position)) > TOLD_BYTES_MAX else position

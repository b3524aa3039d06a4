"""Hears from Spark that a batch is done, and knows what its tasks have handed back."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import Generic, TypeVar

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

T = TypeVar("T")

BATCHES_WAITING_MAX = 64  # results of batches whose progress event has not come; the oldest go


class QueryListener(StreamingQueryListener, Generic[T]):
    """For one query. What a batch has done comes first, and then Spark's word that it is over.

    Spark tells a listener of all queries of its session, also of one that has ended before it.
    """

    def __init__(self, name: str, *, moved: Callable[[], None] = lambda: None) -> None:
        """`name` is that of the query, which is yet to start. `moved` is called when a batch has
        ended, or when there was nothing to do.
        """
        self._name, self._moved = name, moved
        self._run: uuid.UUID | None = None
        self._lock = threading.Lock()
        self._results: dict[int, T] = {}
        self.ended = threading.Event()

    def tell(self, progress: StreamingQueryProgress, result: T) -> None:
        """A batch is done, with the result that was remembered for it."""
        raise NotImplementedError

    def remember(self, batch: int, result: T) -> None:
        """What a batch did, until Spark says that it is done."""
        with self._lock:
            self._results[batch] = result
            while len(self._results) > BATCHES_WAITING_MAX:
                del self._results[min(self._results)]

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Which run it is: Spark says so before it hands out the query."""
        if event.name == self._name:
            self._run = event.runId

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """A batch is done, or there was nothing to do."""
        progress = event.progress
        if progress.runId != self._run:
            return
        self._moved()
        with self._lock:
            if progress.batchId not in self._results:
                return
            result = self._results.pop(progress.batchId)
        self.tell(progress, result)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing new."""
        if event.runId == self._run:
            self._moved()

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """All events of the query have been handled."""
        if event.runId == self._run:
            self.ended.set()

"""Figures of a job that carries a source, for Prometheus to fetch from a port of the job's own."""

from __future__ import annotations

import math

from iggy_spark.figures import Figures
from iggy_spark.source_task import Carried


class SourceMetrics(Figures):
    """All figures of one job."""

    def __init__(self, name: str) -> None:
        """`name` is the source's, with its namespace in front if it has one: `shop/orders.in`."""
        super().__init__("source", name, other="other system")
        self._behind = self.gauge(
            "behind_messages", "Messages that wait in the other system; NaN where it cannot tell."
        )
        self._behind.set(math.nan)
        self._messages = self.counter("messages", "Messages sent to the topic.")
        self._bytes = self.counter("bytes", "Bytes of their payloads.")
        self._batches = self.counter("batches", "Batches that were finished.")
        self._done_failures = self.counter(
            "done_failures", "Times that the other system could not be told how far the job is."
        )

    def batch_done(self, done: Carried, *, seconds: float, now: float) -> None:
        """A batch is committed; `now` in seconds since 1970."""
        self._messages.inc(done.messages)
        self._bytes.inc(done.size_bytes)
        self.retried(done.retries)
        self._batches.inc()
        self.batch_ended(seconds=seconds, now=now)

    def done_failed(self) -> None:
        """The other system could not be told."""
        self._done_failures.inc()

    def seen(self, behind: int) -> None:
        """A look at the other system."""
        self._behind.set(behind)

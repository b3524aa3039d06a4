"""Figures of a sink job, for Prometheus to fetch from a port of the job's own.

Executors report through the results of their tasks, so this one port has all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from time import monotonic
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    start_http_server,
)

from iggy_spark.outlook import Outlook
from iggy_spark.retry import CAUSES

LABELS: Final = ("namespace", "sink")
SECONDS: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
RESULTS: Final = {"rows": "written", "filtered": "filtered", "dead": "dead"}
"""Counts of a batch, and what they are called in `iggy_sink_rows_total`."""


class JobMetrics:
    """All figures of one job."""

    def __init__(self, name: str, *, clock: Callable[[], float] = monotonic) -> None:
        """`name` is the sink's, with its namespace in front if it has one: `shop/orders.lake`."""
        self.registry = CollectorRegistry()
        namespace, _, sink = name.rpartition("/")
        self._of = {"namespace": namespace, "sink": sink}
        self._clock = clock
        self._lag = self._gauge("lag_messages", "Messages that are there but not done.")
        self._lag_s = self._gauge("lag_seconds", "Age of the oldest message that is not done.")
        self._headroom = self._gauge(
            "retention_headroom_ratio",
            "Share of the topic's expiry that the oldest message that is not done still has.",
        )
        self._committed = self._gauge(
            "committed_timestamp_seconds", "When the last batch was finished, since 1970."
        )
        self._up = self._gauge("up", "1 while the query runs and its target answers.")
        self._batch_rows = self._gauge("batch_rows", "Rows of the last batch.")
        self._rows = Counter(
            "iggy_sink_rows",
            "Messages by what became of them.",
            (*LABELS, "result"),
            registry=self.registry,
        )
        for result in (*RESULTS.values(), "rejected", "skipped_replay"):
            self._rows.labels(**self._of, result=result)
        self._bytes = self._counter("bytes", "Bytes written.")
        self._lost = self._counter("lost_messages", "Messages that were gone unread.")
        self._retries = Counter(
            "iggy_sink_retries",
            "Calls that the target could not answer, by what kept it.",
            (*LABELS, "reason"),
            registry=self.registry,
        )
        for cause in CAUSES:
            self._retries.labels(**self._of, reason=cause)
        self._mirror_failures = self._counter(
            "mirror_failures", "Times that the broker could not be told how far the job is."
        )
        self._batch_s = self._histogram("batch_seconds", "Time of a batch from plan to commit.")
        self._write_s = self._histogram("write_seconds", "Time of a batch in the target.")
        info = Info("iggy_sink", "What runs here.", LABELS, registry=self.registry)
        found = {"version": version("iggykube"), "spark": version("pyspark")}
        info.labels(**self._of).info(found)

    def _gauge(self, name: str, text: str) -> Gauge:
        found = Gauge(f"iggy_sink_{name}", text, LABELS, registry=self.registry)
        return found.labels(**self._of)

    def _counter(self, name: str, text: str) -> Counter:
        found = Counter(f"iggy_sink_{name}", text, LABELS, registry=self.registry)
        return found.labels(**self._of)

    def _histogram(self, name: str, text: str) -> Histogram:
        found = Histogram(
            f"iggy_sink_{name}", text, LABELS, buckets=SECONDS, registry=self.registry
        )
        return found.labels(**self._of)

    def serve(self, port: int) -> None:
        """Answer requests until the process ends. Raises OSError: the port is taken."""
        start_http_server(port, registry=self.registry)

    @contextmanager
    def running(self) -> Iterator[None]:
        """A query's block."""
        self.answers(True)
        try:
            yield
        finally:
            self.answers(False)

    def answers(self, is_so: bool) -> None:
        """Of a running query: whether its target does not leave it waiting."""
        self._up.set(is_so)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A batch's block in the target, counted if it ends well."""
        began = self._clock()
        yield
        self._write_s.observe(self._clock() - began)

    def batch_done(
        self, counts: Mapping[str, int], *, retries: Mapping[str, int], seconds: float, now: float
    ) -> None:
        """A batch is committed. `counts` as `progress.COUNTS`, `retries` by `retry.Cause`, `now` in
        seconds since 1970.
        """
        for count, result in RESULTS.items():
            self._rows.labels(**self._of, result=result).inc(counts[count])
        kept = counts["rejected"] - counts["dead"]
        self._rows.labels(**self._of, result="rejected").inc(kept)
        self._rows.labels(**self._of, result="skipped_replay").inc(counts["skipped"])
        self._bytes.inc(counts["size_bytes"])
        self._lost.inc(counts["lost"])
        for reason, times in retries.items():
            self._retries.labels(**self._of, reason=reason).inc(times)
        self._batch_rows.set(counts["rows"])
        self._batch_s.observe(seconds)
        self._committed.set(now)

    def mirror_failed(self) -> None:
        """The broker could not be told."""
        self._mirror_failures.inc()

    def seen(self, outlook: Outlook) -> None:
        """A look at the broker."""
        self._lag.set(outlook.lag_messages)
        self._lag_s.set(outlook.lag_seconds)
        if outlook.headroom_ratio is not None:
            self._headroom.set(outlook.headroom_ratio)

"""A job's figures for Prometheus, all with the name of what the job carries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    start_http_server,
)

from iggy_spark.retry import CAUSES

SECONDS: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class Figures:
    """What the figures of all jobs have in common."""

    def __init__(self, kind: str, name: str, *, other: str) -> None:
        """`kind` is sink or source, as in `iggy_sink_up`. `name` is its own, with its namespace in
        front if it has one: `shop/orders.lake`. `other` is the other side of the topic, in words.
        """
        self.registry = CollectorRegistry()
        namespace, _, own = name.rpartition("/")
        self._prefix = f"iggy_{kind}"
        self.labels: Final = ("namespace", kind)
        self.of: Final = {"namespace": namespace, kind: own}
        self._up = self.gauge("up", f"1 while the query runs and its {other} answers.")
        self._committed = self.gauge(
            "committed_timestamp_seconds", "When the last batch was finished, since 1970."
        )
        self._batch_s = self.histogram("batch_seconds", "Time of a batch from plan to commit.")
        self._retries = Counter(
            f"{self._prefix}_retries",
            f"Calls that the {other} could not answer, by what kept it.",
            (*self.labels, "reason"),
            registry=self.registry,
        )
        for cause in CAUSES:
            self._retries.labels(**self.of, reason=cause)
        info = Info(self._prefix, "What runs here.", self.labels, registry=self.registry)
        found = {"version": version("iggykube"), "spark": version("pyspark")}
        info.labels(**self.of).info(found)

    def gauge(self, name: str, text: str) -> Gauge:
        """One that goes up and down."""
        found = Gauge(f"{self._prefix}_{name}", text, self.labels, registry=self.registry)
        return found.labels(**self.of)

    def counter(self, name: str, text: str) -> Counter:
        """One that only grows; `_total` is added to its name."""
        found = Counter(f"{self._prefix}_{name}", text, self.labels, registry=self.registry)
        return found.labels(**self.of)

    def histogram(self, name: str, text: str) -> Histogram:
        """Times in seconds."""
        found = Histogram(
            f"{self._prefix}_{name}", text, self.labels, buckets=SECONDS, registry=self.registry
        )
        return found.labels(**self.of)

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
        """Of a running query: whether the other side does not leave it waiting."""
        self._up.set(is_so)

    def retried(self, retries: Mapping[str, int]) -> None:
        """Calls were made again, by `retry.Cause`."""
        for reason, times in retries.items():
            self._retries.labels(**self.of, reason=reason).inc(times)

    def batch_ended(self, *, seconds: float, now: float) -> None:
        """A batch is committed; `now` in seconds since 1970."""
        self._batch_s.observe(seconds)
        self._committed.set(now)

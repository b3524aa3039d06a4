"""Figures of a sink job, for Prometheus to fetch from a port of the job's own.

Executors report through the results of their tasks, so this one port has all of it.
"""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import Final

from prometheus_client import Counter, Gauge

from iggy_spark.figures import Figures
from iggy_spark.job_starts import SOURCES, Start
from iggy_spark.outlook import Outlook, Standing

RESULTS: Final = {"rows": "written", "filtered": "filtered", "dead": "dead"}
"""Counts of a batch, and what they are called in `iggy_sink_rows_total`."""


PARTITIONS_MAX: Final = 1000
"""That have figures of their own, by number: each is two series more for Prometheus to keep."""


class JobMetrics(Figures):
    """All figures of one job."""

    def __init__(
        self,
        name: str,
        *,
        per_partition: bool = False,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """`name` is the sink's, with its namespace in front if it has one: `shop/orders.lake`.
        `per_partition`: partitions have figures of their own, too.
        """
        super().__init__("sink", name, other="target")
        self._clock = clock
        self._lag = self.gauge("lag_messages", "Messages that are there but not done.")
        self._lag_s = self.gauge("lag_seconds", "Age of the oldest message that is not done.")
        self._headroom = self.gauge(
            "retention_headroom_ratio",
            "Share of the topic's expiry that the oldest message that is not done still has.",
        )
        self._batch_rows = self.gauge("batch_rows", "Rows of the last batch.")
        self._rows = Counter(
            "iggy_sink_rows",
            "Messages by what became of them.",
            (*self.labels, "result"),
            registry=self.registry,
        )
        for result in (*RESULTS.values(), "rejected", "skipped_replay"):
            self._rows.labels(**self.of, result=result)
        self._start = Gauge(
            "iggy_sink_start_partitions",
            "Partitions by what said where this run begins in them.",
            (*self.labels, "by"),
            registry=self.registry,
        )
        self._bytes = self.counter("bytes", "Bytes written.")
        self._lost = self.counter("lost_messages", "Messages that were gone unread.")
        self._mirror_failures = self.counter(
            "mirror_failures", "Times that the broker could not be told how far the job is."
        )
        self._write_s = self.histogram("write_seconds", "Time of a batch in the target.")
        self._partitions = _Partitions(self) if per_partition else None
        self.started(())

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A batch's block in the target, counted if it ends well."""
        began = self._clock()
        yield
        self._write_s.observe(self._clock() - began)

    def started(self, starts: Iterable[Start]) -> None:
        """The query that carries the topic begins there."""
        sources = Counts(start.source for start in starts)
        for source in SOURCES:
            self._start.labels(**self.of, by=source).set(sources[source])

    def batch_done(
        self, counts: Mapping[str, int], *, retries: Mapping[str, int], seconds: float, now: float
    ) -> None:
        """A batch is committed. `counts` as `progress.COUNTS`, `retries` by `retry.Cause`, `now` in
        seconds since 1970.
        """
        for count, result in RESULTS.items():
            self._rows.labels(**self.of, result=result).inc(counts[count])
        kept = counts["rejected"] - counts["dead"]
        self._rows.labels(**self.of, result="rejected").inc(kept)
        self._rows.labels(**self.of, result="skipped_replay").inc(counts["skipped"])
        self._bytes.inc(counts["size_bytes"])
        self._lost.inc(counts["lost"])
        self.retried(retries)
        self._batch_rows.set(counts["rows"])
        self.batch_ended(seconds=seconds, now=now)

    def mirror_failed(self) -> None:
        """The broker could not be told."""
        self._mirror_failures.inc()

    def seen(self, outlook: Outlook) -> None:
        """A look at the broker."""
        self._lag.set(outlook.lag_messages)
        self._lag_s.set(outlook.lag_seconds)
        if outlook.headroom_ratio is not None:
            self._headroom.set(outlook.headroom_ratio)
        if self._partitions is not None:
            self._partitions.seen(outlook.partitions)


class _Partitions:
    """The figures of single partitions."""

    def __init__(self, of: Figures) -> None:
        self._of = of.of
        labels = (*of.labels, "partition")
        self._lag = Gauge(
            "iggy_sink_partition_lag_messages",
            "Messages of a partition that are there but not done.",
            labels,
            registry=of.registry,
        )
        self._next = Gauge(
            "iggy_sink_partition_next_offset",
            "First offset of a partition that is not done.",
            labels,
            registry=of.registry,
        )
        self._shown: set[int] = set()

    def seen(self, partitions: Mapping[int, Standing]) -> None:
        """Show these, and no others any more."""
        shown = sorted(partitions)[:PARTITIONS_MAX]
        for number in self._shown.difference(shown):
            for gauge in (self._lag, self._next):
                gauge.remove(*self._of.values(), str(number))
        for number in shown:
            where = {**self._of, "partition": str(number)}
            self._lag.labels(**where).set(partitions[number].lag_messages)
            self._next.labels(**where).set(partitions[number].next_offset)
        self._shown = set(shown)

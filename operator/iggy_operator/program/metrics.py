"""The operator's own metrics: a meter that Prometheus reads. The table of all is `FAMILIES`.

Labels are names of objects, kinds and small closed sets, never partitions or texts. Numbers about
objects are made from what is known at the moment of the scrape, so those of an object that is gone
are gone, too.
"""

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as OPENMETRICS
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics_text
from prometheus_client.registry import Collector

from iggy_operator.cache import KINDS, ObjectCache
from iggy_operator.cluster import Ref
from iggy_operator.conditions import READY, found
from iggy_operator.meter import Meter
from iggy_operator.objects import status_of
from iggy_operator.reasons import Reason

PREFIX: Final = "iggy_operator_"
_SECONDS: Final = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0)


@dataclass(frozen=True, slots=True)
class Family:
    """One metric."""

    short_name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    meaning: str

    @property
    def name(self) -> str:
        """As Prometheus knows it."""
        return PREFIX + self.short_name


_SINK: Final = ("namespace", "topic", "sink")
FAMILIES: Final[tuple[Family, ...]] = (
    Family(
        "reconcile_total",
        "counter",
        ("kind", "result"),
        "Passes over objects: done, again (waits for something), failed.",
    ),
    Family("reconcile_seconds", "histogram", ("kind",), "How long passes take."),
    Family("queue_depth", "gauge", ("kind",), "Objects that are due for a pass, or have one."),
    Family(
        "queue_oldest_seconds", "gauge", (), "How long the longest due object has been waiting."
    ),
    Family(
        "broker_request_seconds",
        "histogram",
        ("broker", "command", "result"),
        "Requests to brokers: ok, refused, lost.",
    ),
    Family(
        "watch_last_event_seconds",
        "gauge",
        ("kind",),
        "Since a watch last brought anything; a quiet one brings a bookmark each minute.",
    ),
    Family("resync_age_seconds", "gauge", (), "Since all objects were last listed."),
    Family("loop_lag_seconds", "gauge", (), "How late the program's loop is at worst, of late."),
    Family("leader", "gauge", (), "1 while this replica holds the Lease."),
    Family(
        "objects", "gauge", ("kind", "ready"), "Objects by the status of their condition Ready."
    ),
    Family("topic_recreated_total", "counter", (), "Topics that were found to be other ones."),
    Family("drift_reverted_total", "counter", (), "Changes behind our back that were undone."),
    Family("sink_lag_messages", "gauge", _SINK, "Messages that a sink has not carried over yet."),
    Family("sink_lag_seconds", "gauge", _SINK, "Age of the first message that waits."),
    Family(
        "sink_restarts_total",
        "counter",
        _SINK,
        "Failed starts of a sink's job; ten minutes of running begin anew.",
    ),
)
"""Every metric, in the order in which they are shown."""
_FAMILY: Final = {family.short_name: family for family in FAMILIES}


class Gauges(Protocol):
    """What is looked up at the moment of a scrape."""

    def due(self) -> Iterable[Ref]:
        """Objects that are due for a pass, or have one."""
        ...

    def oldest_s(self) -> float:
        """How long the longest due object has been waiting."""
        ...

    def resync_age_s(self) -> float:
        """Since the last resync."""
        ...

    @property
    def cache(self) -> ObjectCache:
        """All objects."""
        ...


class Metrics(Meter):
    """All of them, of one process."""

    def __init__(self) -> None:
        """Everything is 0."""
        self._registry = CollectorRegistry()
        self._passes = self._counter("reconcile_total")
        self._pass_seconds = self._histogram("reconcile_seconds")
        self._request_seconds = self._histogram("broker_request_seconds")
        self._recreated = self._counter("topic_recreated_total")
        self._reverted = self._counter("drift_reverted_total")
        self._asked: dict[str, set[tuple[str, str]]] = {}
        self.is_leader = False
        self.loop_lag_s: Callable[[], float] = lambda: 0.0
        self.silences_s: Callable[[], dict[str, float]] = dict
        self.gauges: Gauges | None = None
        self._registry.register(_Live(self))

    def _counter(self, name: str) -> Counter:
        family = _FAMILY[name]
        return Counter(family.name, family.meaning, family.labels, registry=self._registry)

    def _histogram(self, name: str) -> Histogram:
        family = _FAMILY[name]
        return Histogram(
            family.name, family.meaning, family.labels, registry=self._registry, buckets=_SECONDS
        )

    def passed(self, kind: str, result: str, seconds: float) -> None:
        """As `Meter.passed`."""
        self._passes.labels(kind, result).inc()
        self._pass_seconds.labels(kind).observe(seconds)

    def told(self, kind: str, reason: str) -> None:
        """As `Meter.told`."""
        if kind == "IggyTopic" and reason == Reason.RECREATED:
            self._recreated.inc()
        if reason == "DriftReverted":
            self._reverted.inc()

    def asked(self, broker: Ref, command: str, result: str, seconds: float) -> None:
        """As `Meter.asked`."""
        name = str(broker.key)
        self._asked.setdefault(name, set()).add((command, result))
        self._request_seconds.labels(name, command, result).observe(seconds)

    def forget_broker(self, broker: Ref) -> None:
        """As `Meter.forget_broker`."""
        name = str(broker.key)
        for command, result in self._asked.pop(name, ()):
            self._request_seconds.remove(name, command, result)

    def text(self) -> tuple[bytes, str]:
        """What Prometheus reads, and its content type."""
        text: bytes = openmetrics_text(self._registry)
        return text, OPENMETRICS


class _Live(Collector):
    """Values of this moment."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """All families that are not counted along the way."""
        metrics, gauges = self._metrics, self._metrics.gauges
        yield _gauge("leader", [((), float(metrics.is_leader))])
        yield _gauge("loop_lag_seconds", [((), metrics.loop_lag_s())])
        silences = sorted(metrics.silences_s().items())
        yield _gauge("watch_last_event_seconds", [((kind,), age_s) for kind, age_s in silences])
        if gauges is None:
            return
        depths = Tally(ref.kind for ref in gauges.due())
        yield _gauge("queue_depth", [((kind,), float(depths[kind])) for kind in KINDS])
        yield _gauge("queue_oldest_seconds", [((), gauges.oldest_s())])
        yield _gauge("resync_age_seconds", [((), gauges.resync_age_s())])
        yield _objects(gauges.cache)
        yield from _sinks(gauges.cache)


def _gauge(name: str, values: Iterable[tuple[tuple[str, ...], float]]) -> Metric:
    family = _FAMILY[name]
    gauge = GaugeMetricFamily(family.name, family.meaning, labels=family.labels)
    for labels, value in values:
        gauge.add_metric(labels, value)
    return gauge


def _objects(cache: ObjectCache) -> Metric:
    counts = {(kind, ready): 0 for kind in KINDS for ready in ("True", "False", "Unknown")}
    for kind in KINDS:
        for entry in cache.of_kind(kind):
            ready = found(status_of(entry.value).get("conditions", ()), READY)
            counts[kind, ready["status"] if ready else "Unknown"] += 1
    return _gauge("objects", [(labels, float(count)) for labels, count in counts.items()])


def _sinks(cache: ObjectCache) -> Iterator[Metric]:
    lags, ages = [], []
    family = _FAMILY["sink_restarts_total"]
    restarts = CounterMetricFamily(family.name, family.meaning, labels=family.labels)
    for entry in cache.of_kind("IggySink"):
        status = status_of(entry.value)
        topic = entry.points_at.name if entry.points_at is not None else ""
        labels = (entry.ref.namespace, topic, entry.ref.name)
        progress = status.get("progress", {})
        if "lagMessages" in progress:
            lags.append((labels, float(progress["lagMessages"])))
            ages.append((labels, float(progress.get("lagSeconds", 0))))
        restarts.add_metric(labels, float(status.get("application", {}).get("attempts", 0)))
    yield _gauge("sink_lag_messages", lags)
    yield _gauge("sink_lag_seconds", ages)
    yield restarts

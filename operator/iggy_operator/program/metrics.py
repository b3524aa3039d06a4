"""The operator's own metrics: a meter that Prometheus reads. The table of all is `FAMILIES`.

Labels are names of objects, kinds and small closed sets, never partitions or texts. Numbers about
objects are made from what is known at the moment of the scrape, so those of an object that is gone
are gone, too.
"""

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as OPENMETRICS
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics_text
from prometheus_client.registry import Collector

from iggy_operator.cache import KINDS, Entry, ObjectCache
from iggy_operator.cluster import Ref
from iggy_operator.conditions import AVAILABLE, PAUSED, READY, found
from iggy_operator.meter import Meter
from iggy_operator.objects import status_of, uid_of
from iggy_operator.reasons import Reason
from iggy_operator.resources import CONNECTORS, Connector

PREFIX: Final = "iggy_operator_"
_SECONDS: Final = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0)
_RESTING: Final = (Reason.HIBERNATED, Reason.SUSPENDED, Reason.PAUSED)
"""What an object is on purpose: nobody is to be woken for it."""
_STATES: Final = ("True", "False", "Unknown", *_RESTING)


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
_SOURCE: Final = ("namespace", "topic", "source")
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
        "objects",
        "gauge",
        ("kind", "ready"),
        "Objects by the status of their condition Ready: True, False, Unknown; instead of that "
        "Hibernated (the object or its broker), Suspended or Paused, where that was asked for.",
    ),
    Family("topic_recreated_total", "counter", (), "Topics that were found to be other ones."),
    Family("drift_reverted_total", "counter", (), "Changes behind our back that were undone."),
    Family("sink_lag_messages", "gauge", _SINK, "Messages that a sink has not carried over yet."),
    Family("sink_lag_seconds", "gauge", _SINK, "Age of the first message that waits."),
    Family(
        "sink_wanted",
        "gauge",
        _SINK,
        "1 if a sink is to carry messages; 0 while it is Hibernated, Suspended or Paused.",
    ),
    Family(
        "sink_restarts_total",
        "counter",
        _SINK,
        "How often a sink's job was started again after it ended, since the operator's own start; "
        "0 for one that never failed. A start that people asked for does not count.",
    ),
    Family("source_wanted", "gauge", _SOURCE, "As `sink_wanted`, of a source."),
    Family("source_restarts_total", "counter", _SOURCE, "As `sink_restarts_total`, of a source."),
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
        self._restarts: dict[str, int] = {}
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

    def restarted(self, uid: str, count: int) -> None:
        """As `Meter.restarted`."""
        self._restarts[uid] = self._restarts.get(uid, 0) + count

    def restarts_of(self, uids: Iterable[str]) -> dict[str, int]:
        """How often each of the jobs that are there was restarted; all others are forgotten."""
        self._restarts = {uid: self._restarts.get(uid, 0) for uid in uids}
        return self._restarts

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
        yield _lags(gauges.cache, "sink_lag_messages", "lagMessages")
        yield _lags(gauges.cache, "sink_lag_seconds", "lagSeconds")
        counts = metrics.restarts_of(
            uid_of(entry.value) for kind in CONNECTORS for entry in gauges.cache.of_kind(kind.kind)
        )
        for kind in CONNECTORS:
            yield from _jobs(gauges.cache, kind, counts)


def _gauge(name: str, values: Iterable[tuple[tuple[str, ...], float]]) -> Metric:
    family = _FAMILY[name]
    gauge = GaugeMetricFamily(family.name, family.meaning, labels=family.labels)
    for labels, value in values:
        gauge.add_metric(labels, value)
    return gauge


def _objects(cache: ObjectCache) -> Metric:
    counts = {(kind, state): 0 for kind in KINDS for state in _STATES}
    for kind in KINDS:
        for entry in cache.of_kind(kind):
            counts[kind, _state(cache, entry)] += 1
    return _gauge("objects", [(labels, float(count)) for labels, count in counts.items()])


def _state(cache: ObjectCache, entry: Entry) -> str:
    """The status of Ready, or in which way the object rests because somebody wanted it so."""
    rows = status_of(entry.value).get("conditions", ())
    paused = found(rows, PAUSED)
    if paused is not None and paused["status"] == "True":
        return Reason.PAUSED
    ready = found(rows, READY)
    # A suspended sink whose topic is gone is not Ready for that reason, and rests all the same.
    for row in (ready, found(rows, AVAILABLE)):
        if row is not None and row["reason"] in _RESTING:
            return str(row["reason"])
    broker = cache.broker_of(entry)
    if broker is not None and broker is not entry and _is_hibernated(broker):
        return Reason.HIBERNATED
    return "Unknown" if ready is None else str(ready["status"])


def _is_hibernated(broker: Entry) -> bool:
    ready = found(status_of(broker.value).get("conditions", ()), READY)
    return ready is not None and ready["reason"] == Reason.HIBERNATED


def _is_wanted(cache: ObjectCache, entry: Entry) -> bool:
    """Whether the job of a sink or source is to carry messages now."""
    ready = found(status_of(entry.value).get("conditions", ()), READY)
    is_done = ready is not None and ready["reason"] == Reason.COMPLETED
    return not is_done and _state(cache, entry) not in _RESTING


def _labels(entry: Entry) -> tuple[str, ...]:
    """Of a sink or source."""
    topic = entry.points_at.name if entry.points_at is not None else ""
    return (entry.ref.namespace, topic, entry.ref.name)


def _lags(cache: ObjectCache, name: str, field: str) -> Metric:
    """How far sinks are behind, of those of which it is known."""
    progress = (
        (entry, status_of(entry.value).get("progress", {})) for entry in cache.of_kind("IggySink")
    )
    known = ((entry, found) for entry, found in progress if "lagMessages" in found)
    return _gauge(name, [(_labels(entry), float(found.get(field, 0))) for entry, found in known])


def _jobs(cache: ObjectCache, kind: type[Connector], counts: Mapping[str, int]) -> Iterator[Metric]:
    entries = cache.of_kind(kind.kind)
    wanted = [(_labels(entry), float(_is_wanted(cache, entry))) for entry in entries]
    yield _gauge(f"{kind.word}_wanted", wanted)
    family = _FAMILY[f"{kind.word}_restarts_total"]
    restarts = CounterMetricFamily(family.name, family.meaning, labels=family.labels)
    for entry in entries:
        restarts.add_metric(_labels(entry), float(counts[uid_of(entry.value)]))
    yield restarts

"""The operator's own metrics: as OpenMetrics wants them, and gone with their objects."""

import asyncio
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from desired_cases import RELEASE
from iggy_client import ClientError, calls
from iggy_operator.cache import ObjectCache
from iggy_operator.clock import SystemClock
from iggy_operator.cluster import Ref
from iggy_operator.core import Core, Tuning
from iggy_operator.metered import Metered
from iggy_operator.objects import uid_of
from iggy_operator.program.metrics import FAMILIES, Metrics
from operator_world import OperatorWorld
from resource_documents import document, source


class StillGauges:
    """A moment of an operator."""

    def __init__(self) -> None:
        self.cache = ObjectCache()

    def due(self) -> list[Ref]:
        return [Ref("IggyTopic", "shop", "orders"), Ref("IggyTopic", "shop", "bills")]

    def oldest_s(self) -> float:
        return 2.5

    def resync_age_s(self) -> float:
        return 30.0


CONSOLE = {"topicRef": {"name": "orders"}, "type": "Console"}


def scraped(metrics: Metrics) -> dict[tuple[str, tuple[str, ...]], float]:
    """Every sample, as Prometheus' own parser reads it; values of labels by the labels' names."""
    text, content_type = metrics.text()
    assert content_type.startswith("application/openmetrics-text")
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def sink_object(name: str, **status: Any) -> dict[str, Any]:
    return placed(document("IggySink", CONSOLE, name=name), **status)


def placed(value: dict[str, Any], **status: Any) -> dict[str, Any]:
    name = value["metadata"]["name"]
    value["metadata"] |= {"namespace": "shop", "uid": f"uid-{name}", "resourceVersion": "1"}
    return value | {"status": status}


def test_every_family_of_the_table_is_shown_and_no_other() -> None:
    metrics = Metrics()
    gauges = StillGauges()
    ready = [{"type": "Ready", "status": "True", "reason": "Running"}]
    progress = {"lagMessages": 3, "lagSeconds": 7}
    entry = gauges.cache.put(sink_object("orders.lake", progress=progress, conditions=ready))
    gauges.cache.put(placed(source(), conditions=ready))
    metrics.gauges = gauges
    metrics.restarted(uid_of(entry.value), 2)
    metrics.restarted("uid-orders.made", 4)
    metrics.silences_s = lambda: {"IggyTopic": 12.0}
    metrics.passed("IggyTopic", "done", 0.1)
    metrics.asked(Ref("IggyBroker", "shop", "main"), "get_streams", "ok", 0.1)

    text, _ = metrics.text()
    shown = {
        family.name + ("_total" if family.type == "counter" else ""): (family.type, family)
        for family in text_string_to_metric_families(text.decode())
    }

    assert sorted(shown) == sorted(family.name for family in FAMILIES)
    for family in FAMILIES:
        kind, found = shown[family.name]
        assert kind == family.kind
        assert found.documentation == family.meaning
        for sample in found.samples:
            assert set(sample.labels) - {"le"} == set(family.labels)

    found = scraped(metrics)
    assert found["iggy_operator_sink_lag_messages", ("shop", "orders.lake", "orders")] == 3
    assert found["iggy_operator_sink_lag_seconds", ("shop", "orders.lake", "orders")] == 7
    assert found["iggy_operator_sink_restarts_total", ("shop", "orders.lake", "orders")] == 2
    assert found["iggy_operator_sink_wanted", ("shop", "orders.lake", "orders")] == 1
    assert found["iggy_operator_source_restarts_total", ("shop", "orders.made", "orders")] == 4
    assert found["iggy_operator_source_wanted", ("shop", "orders.made", "orders")] == 1
    assert found["iggy_operator_queue_depth", ("IggyTopic",)] == 2
    assert found["iggy_operator_objects", ("IggySink", "True")] == 1
    assert found["iggy_operator_watch_last_event_seconds", ("IggyTopic",)] == 12


def test_what_is_gone_has_no_series() -> None:
    metrics, gauges = Metrics(), StillGauges()
    metrics.gauges = gauges
    entry = gauges.cache.put(sink_object("orders.lake", progress={"lagMessages": 3}))
    broker = Ref("IggyBroker", "shop", "main")
    metrics.asked(broker, "get_streams", "ok", 0.1)
    metrics.asked(broker, "get_topics", "lost", 0.1)
    assert "orders.lake" in str(scraped(metrics))
    assert "shop/main" in str(scraped(metrics))

    gauges.cache.remove(entry.ref)
    metrics.forget_broker(broker)
    metrics.forget_broker(broker)

    assert "orders.lake" not in str(scraped(metrics))
    assert "shop/main" not in str(scraped(metrics))


def condition(kind: str, status: str, reason: str) -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason}


def given(cache: ObjectCache, kind: str, spec: dict[str, Any], *conditions: Any) -> None:
    name = {"IggyBroker": "main", "IggyStream": "shop", "IggyTopic": "orders"}.get(kind, "lake")
    value = document(kind, spec, name=name)
    value["metadata"] |= {"namespace": "shop", "uid": f"uid-{kind}", "resourceVersion": "1"}
    cache.put(value | {"status": {"conditions": list(conditions)}})


READY = condition("Ready", "True", "Synced")
BROKEN = condition("Ready", "False", "BrokerNotReady")
PAUSED = condition("Paused", "True", "Paused")
GOES_ON = condition("Paused", "False", "Reconciling")
HIBERNATES = condition("Ready", "False", "Hibernated")


@pytest.mark.parametrize(
    ("broker", "sink", "ready_of_broker", "ready_of_sink"),
    [
        ([READY], [READY], "True", "True"),
        ([BROKEN], [], "False", "Unknown"),
        ([HIBERNATES], [BROKEN], "Hibernated", "Hibernated"),
        ([READY], [condition("Ready", "False", "Suspended")], "True", "Suspended"),
        ([READY, PAUSED], [BROKEN, PAUSED], "Paused", "Paused"),
        ([HIBERNATES, GOES_ON], [READY, GOES_ON], "Hibernated", "Hibernated"),
        ([BROKEN, GOES_ON], [BROKEN, GOES_ON], "False", "False"),
        ([READY], [condition("Ready", "False", "TopicRecreated")], "True", "False"),
        ([READY], [BROKEN, condition("Available", "False", "Suspended")], "True", "Suspended"),
        ([READY], [condition("Ready", "True", "Completed")], "True", "True"),
    ],
)
def test_what_rests_because_it_was_asked_for_is_told_apart(
    broker: list[Any], sink: list[Any], ready_of_broker: str, ready_of_sink: str
) -> None:
    metrics, gauges = Metrics(), StillGauges()
    metrics.gauges = gauges
    given(gauges.cache, "IggyBroker", {}, *broker)
    given(gauges.cache, "IggyStream", {"brokerRef": {"name": "main"}}, READY)
    given(gauges.cache, "IggyTopic", {"streamRef": {"name": "shop"}}, READY)
    given(gauges.cache, "IggySink", {"topicRef": {"name": "orders"}, "type": "Console"}, *sink)

    found = scraped(metrics)

    counts = {
        labels: value for (name, labels), value in found.items() if name == "iggy_operator_objects"
    }
    assert counts["IggyBroker", ready_of_broker] == counts["IggySink", ready_of_sink] == 1
    assert sum(counts.values()) == 4
    assert len(counts) == 6 * 6, "every value is always there, so that none is ever missed"
    is_done = any(row["reason"] == "Completed" for row in sink)
    is_wanted = ready_of_sink in ("True", "False", "Unknown") and not is_done
    assert found["iggy_operator_sink_wanted", ("shop", "lake", "orders")] == is_wanted


def test_restarts_of_a_sink_are_counted_from_none_and_go_with_it() -> None:
    metrics, gauges = Metrics(), StillGauges()
    metrics.gauges = gauges
    series = ("iggy_operator_sink_restarts_total", ("shop", "orders.lake", "orders"))
    entry = gauges.cache.put(sink_object("orders.lake", application={"attempts": 1}))
    assert scraped(metrics)[series] == 0

    metrics.restarted(uid_of(entry.value), 1)
    metrics.restarted(uid_of(entry.value), 2)
    assert scraped(metrics)[series] == 3

    gauges.cache.remove(entry.ref)
    assert series not in scraped(metrics)
    gauges.cache.put(entry.value)
    assert scraped(metrics)[series] == 0


def test_a_standby_shows_what_it_knows() -> None:
    found = scraped(Metrics())

    assert found["iggy_operator_leader", ()] == 0
    assert not any(name == "iggy_operator_objects" for name, _ in found)


def test_a_core_counts_its_passes_requests_and_drift() -> None:
    async def main() -> dict[tuple[str, tuple[str, ...]], float]:
        world, metrics = OperatorWorld(), Metrics()
        world.give_broker()
        stream = world.give_stream()
        topic = world.give_topic(retention={"messageExpiry": "7d"})
        tuning = Tuning(resync_s=0.05, meter=metrics)
        core = Core(
            world.cluster, world.broker.connect, SystemClock(), lambda: 0.5, RELEASE, tuning
        )
        metrics.gauges = core
        running = asyncio.create_task(core.run())
        async with asyncio.timeout(30):
            wanted = ("iggy_operator_objects", ("IggyTopic", "True"))
            while scraped(metrics).get(wanted) != 1:  # noqa: ASYNC110 -- a scrape tells nobody
                await asyncio.sleep(0.01)
        core.stop()
        await running
        assert world.says(stream) == world.says(topic) == ("True", "Synced")
        return scraped(metrics)

    found = asyncio.run(main())

    assert found["iggy_operator_reconcile_total", ("IggyTopic", "done")] >= 1
    assert found["iggy_operator_reconcile_seconds_count", ("IggyStream",)] >= 1
    # Connections are closed at the end, and their series with them.
    assert not any(name.startswith("iggy_operator_broker_request") for name, _ in found)


def test_told_of_recreation_and_drift_the_counters_move() -> None:
    metrics = Metrics()

    metrics.told("IggyTopic", "Recreated")
    metrics.told("IggyStream", "Recreated")
    metrics.told("IggyTopic", "DriftReverted")

    found = scraped(metrics)
    assert found["iggy_operator_topic_recreated_total", ()] == 1
    assert found["iggy_operator_drift_reverted_total", ()] == 1


class ScriptedConnection:
    """Answers 7, or fails as told."""

    error: Exception | None = None

    async def call(self, call: Any) -> Any:
        if self.error is not None:
            raise self.error
        return 7

    async def close(self) -> None:
        return


def test_every_request_to_a_broker_has_a_result() -> None:
    connection, metrics = ScriptedConnection(), Metrics()

    async def connect(address: str, username: str, password: str, *, tls: object) -> Any:
        return connection

    async def main() -> None:
        broker = Ref("IggyBroker", "shop", "main")
        found = await Metered(connect, broker, SystemClock(), metrics)("a:1", "u", "p", tls=None)
        assert await found.call(calls.get_streams()) == 7
        for error in (ClientError(5, "no"), ConnectionError("gone")):
            connection.error = error
            with pytest.raises(type(error)):
                await found.call(calls.get_streams())

    asyncio.run(main())

    name = "iggy_operator_broker_request_seconds_count"
    wanted = [("login", "ok"), *(("get_streams", result) for result in ("ok", "lost", "refused"))]
    found = scraped(metrics)
    assert {labels for sample, labels in found if sample == name} == {
        ("shop/main", command, result) for command, result in wanted
    }

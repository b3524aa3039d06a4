"""The alerts of the chart: as the documents list them, sound, and raised when they should be."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from alert_rules import RULES, needs_promtool, rules_of, scene, sink_metrics, source_metrics
from e2e_prometheus import complaints
from iggy_operator.program.metrics import FAMILIES
from marked_tables import rows

BROKER, OPERATOR, SINKS, SOURCES = RULES
ALERTS = [pytest.param(rule, id=rule["alert"]) for path in RULES for rule in rules_of(path)]
BY = re.compile(r"\bby \(([^)]*)\)")
MATCHED = re.compile(r'(\w+)(?:=|!=|=~|!~)"')
METRIC = re.compile(r"\biggy_[a-z0-9_]+")
SHOWN = re.compile(r"\$labels\.(\w+)")
# Prometheus gives each series the place where it was read; a label of ours of that name is renamed.
OF_THE_TARGET = frozenset({"namespace", "pod"})


def test_the_alerts_are_those_of_the_documents() -> None:
    documented = [
        ("Iggy" + "".join(word.capitalize() for word in name.split()), when, waits.replace(" ", ""))
        for name, when, waits, _ in rows("alerts")
    ]

    found = [
        (rule["alert"], one_broker(rule["expr"]), rule.get("for", "0m"))
        for rule in rules_of(BROKER)
    ]

    assert found == documented


def one_broker(expression: str) -> str:
    """A rule for many brokers, as the documents write it for one."""
    return expression.replace(" by (namespace, pod) ", "").replace("namespace, pod, le", "le")


@pytest.mark.parametrize("rule", ALERTS)
def test_every_alert_says_how_bad_it_is_and_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    for text in ("summary", "description"):
        assert rule["annotations"][text].endswith(".")


@pytest.mark.parametrize("rule", ALERTS)
def test_an_alert_names_only_labels_that_its_expression_keeps(rule: dict[str, Any]) -> None:
    shown = {name for text in rule["annotations"].values() for name in SHOWN.findall(text)}

    kept = {name for names in BY.findall(rule["expr"]) for name in names.split(", ")}

    assert not kept or shown <= kept


@pytest.mark.parametrize("rule", rules_of(OPERATOR), ids=lambda rule: str(rule["alert"]))
def test_the_operators_alerts_ask_for_labels_that_its_metrics_have(rule: dict[str, Any]) -> None:
    families = [family for family in FAMILIES if family.name in rule["expr"]]
    ours = {label for family in families for label in family.labels}
    known = OF_THE_TARGET | {
        f"exported_{label}" if label in OF_THE_TARGET else label for label in ours
    }

    asked = {name for names in BY.findall(rule["expr"]) for name in names.split(", ")}
    asked |= set(MATCHED.findall(rule["expr"]))

    assert families
    assert asked <= known


@pytest.mark.parametrize(
    "rule", [*rules_of(SINKS), *rules_of(SOURCES)], ids=lambda rule: str(rule["alert"])
)
def test_the_alerts_of_jobs_ask_for_labels_that_their_metrics_have(rule: dict[str, Any]) -> None:
    asked = {name for names in BY.findall(rule["expr"]) for name in names.split(", ")}
    asked |= set(MATCHED.findall(rule["expr"]))
    (metric,) = set(METRIC.findall(rule["expr"]))

    assert asked <= set((sink_metrics() | source_metrics())[metric])


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.name)
@needs_promtool
def test_prometheus_understands_the_alerts(path: Path) -> None:
    assert complaints("check", "rules", path) == ""


def objects(kind: str, ready: str) -> str:
    return f'iggy_operator_objects{{namespace="a",pod="p",kind="{kind}",ready="{ready}"}}'


def of_sink(metric: str, pod: str = "p") -> str:
    place = f'namespace="a",pod="{pod}",exported_namespace="shop"'
    return f'iggy_operator_sink_{metric}{{{place},topic="orders",sink="orders.lake"}}'


def of_source(metric: str) -> str:
    place = 'namespace="a",pod="p",exported_namespace="shop"'
    return f'iggy_operator_source_{metric}{{{place},topic="orders",source="orders.made"}}'


def passes(result: str) -> str:
    labels = f'namespace="a",pod="p",kind="IggyTopic",result="{result}"'
    return f"iggy_operator_reconcile_total{{{labels}}}"


def driver(metric: str, **more: str) -> str:
    labels = {"namespace": "shop", "pod": "lake-0", "sink": "orders.lake", **more}
    shown = ",".join(f'{name}="{value}"' for name, value in labels.items())
    return f"iggy_sink_{metric}{{{shown}}}"


def source_driver(metric: str) -> str:
    return f'iggy_source_{metric}{{namespace="shop",pod="made-0",source="orders.made"}}'


OF_MADE = '{namespace="shop", source="orders.made"}'
OF_LAKE = '{namespace="shop", sink="orders.lake"}'
LAKE = '{exported_namespace="shop", topic="orders", sink="orders.lake"}'
DEAF = 'iggy_operator_watch_last_event_seconds{namespace="a",pod="p",kind="Pod"}'
LEADER = 'iggy_operator_leader{namespace="a",pod="%s"}'
# What an alert sees, minute by minute, and with which labels it is raised in the end.
SCENES: list[tuple[str, dict[str, str], str | None]] = [
    ("IggyOperatorWithoutLeader", {LEADER % "p": "0x20"}, '{namespace="a"}'),
    ("IggyOperatorWithoutLeader", {"up": "0x20"}, "{}"),
    ("IggyOperatorWithoutLeader", {LEADER % "p": "0x20", LEADER % "q": "1x20"}, None),
    ("IggyOperatorDeaf", {DEAF: "0+60x20"}, '{namespace="a", pod="p", kind="Pod"}'),
    ("IggyOperatorDeaf", {DEAF: "60x20"}, None),
    ("IggyTopicRecreated", {"iggy_operator_topic_recreated_total": "0x10 1x10"}, "{}"),
    ("IggyTopicRecreated", {"iggy_operator_topic_recreated_total": "1x20"}, None),
    ("IggyBrokerNotReady", {objects("IggyBroker", "Unknown"): "1x20"}, '{namespace="a"}'),
    ("IggyBrokerNotReady", {objects("IggyBroker", "False"): "1x20"}, '{namespace="a"}'),
    (
        "IggyBrokerNotReady",
        {objects("IggyBroker", "True"): "1x20", objects("IggyBroker", "False"): "0x20"},
        None,
    ),
    ("IggyBrokerNotReady", {objects("IggyBroker", "Hibernated"): "1x20"}, None),
    ("IggyBrokerNotReady", {objects("IggyBroker", "Paused"): "1x20"}, None),
    (
        "IggyObjectsNotReady",
        {objects("IggySink", "False"): "1x20", objects("IggySink", "Unknown"): "1x20"},
        '{namespace="a", kind="IggySink"}',
    ),
    ("IggyObjectsNotReady", {objects("IggyTopic", "True"): "1x20"}, None),
    ("IggyObjectsNotReady", {objects("IggyTopic", "False"): "0x7 1x12"}, None),
    *(
        ("IggyObjectsNotReady", {objects("IggySink", state): "1x20"}, None)
        for state in ("Hibernated", "Suspended", "Paused")
    ),
    ("IggySinkLags", {of_sink("lag_seconds"): "700x20", of_sink("wanted"): "1x20"}, LAKE),
    (
        "IggySinkLags",
        {
            of_sink("lag_seconds", "p"): "700x20",
            of_sink("lag_seconds", "q"): "700x20",
            of_sink("wanted", "p"): "1x20",
            of_sink("wanted", "q"): "1x20",
        },
        LAKE,
    ),
    ("IggySinkLags", {of_sink("lag_seconds"): "500x20", of_sink("wanted"): "1x20"}, None),
    ("IggySinkLags", {of_sink("lag_seconds"): "0+60x20", of_sink("wanted"): "1x20"}, None),
    ("IggySinkLags", {of_sink("lag_seconds"): "700x20", of_sink("wanted"): "0x20"}, None),
    ("IggySinkRestarts", {of_sink("restarts_total"): "0+1x20"}, LAKE),
    (
        "IggySinkRestarts",  # the other pod has taken over in between
        {
            of_sink("restarts_total", "p"): "0+1x10 _x10",
            of_sink("restarts_total", "q"): "_x10 0+1x10",
        },
        LAKE,
    ),
    ("IggySinkRestarts", {of_sink("restarts_total"): "7x20"}, None),
    (
        "IggySourceRestarts",
        {of_source("restarts_total"): "0+1x20"},
        '{exported_namespace="shop", topic="orders", source="orders.made"}',
    ),
    ("IggySourceRestarts", {of_source("restarts_total"): "7x20"}, None),
    ("IggySinkRestarts", {of_sink("restarts_total"): "0x15 1x5"}, None),
    ("IggySinkTargetAway", {driver("up"): "0x20"}, OF_LAKE),
    ("IggySinkTargetAway", {driver("up"): "0x15 1x5"}, None),
    ("IggySinkDeadLetters", {driver("rows_total", result="dead"): "0x10 3x10"}, OF_LAKE),
    ("IggySinkDeadLetters", {driver("rows_total", result="written"): "0+9x20"}, None),
    ("IggySinkLosesMessages", {driver("lost_messages_total"): "0x10 1x10"}, OF_LAKE),
    ("IggySinkLosesMessages", {driver("lost_messages_total"): "5x20"}, None),
    ("IggySinkNearRetention", {driver("retention_headroom_ratio"): "0.1x20"}, OF_LAKE),
    ("IggySinkNearRetention", {driver("retention_headroom_ratio"): "0.3x20"}, None),
    ("IggySinkProgressUntold", {driver("mirror_failures_total"): "0+60x20"}, OF_LAKE),
    ("IggySinkProgressUntold", {driver("mirror_failures_total"): "0x5 9x15"}, None),
    ("IggySourceSystemAway", {source_driver("up"): "0x20"}, OF_MADE),
    ("IggySourceSystemAway", {source_driver("up"): "0x15 1x5"}, None),
    ("IggySourceFallsBehind", {source_driver("behind_messages"): "1+60x20"}, OF_MADE),
    ("IggySourceFallsBehind", {source_driver("behind_messages"): "900-3x20"}, None),
    ("IggySourceFallsBehind", {source_driver("behind_messages"): "0+60x18 0x2"}, None),
    ("IggySourceProgressUntold", {source_driver("done_failures_total"): "0+60x20"}, OF_MADE),
    ("IggySourceProgressUntold", {source_driver("done_failures_total"): "0x5 9x15"}, None),
    ("IggyOperatorPassesFail", {passes("failed"): "0+60x20"}, '{namespace="a", kind="IggyTopic"}'),
    ("IggyOperatorPassesFail", {passes("failed"): "0+3x20"}, None),
    ("IggyOperatorPassesFail", {passes("again"): "0+60x20", passes("done"): "0+60x20"}, None),
    (
        "IggyNotReady",
        {'iggy_ready{namespace="a",pod="p",shard="1"}': "0x20"},
        '{namespace="a", pod="p"}',
    ),
    (
        "IggyDiskNearlyFull",
        {'iggy_disk_free_bytes{pod="p"}': "14x20", 'iggy_disk_usage_bytes{pod="p"}': "86x20"},
        '{pod="p"}',
    ),
]


@needs_promtool
@pytest.mark.parametrize(("alert", "series", "raised"), SCENES)
def test_alerts_are_raised_when_they_should(
    alert: str, series: dict[str, str], raised: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "scene.yaml"
    path.write_text(yaml.safe_dump(scene(alert, series, raised)))

    assert complaints("test", "rules", path) == ""


def test_alerts_of_operator_and_sinks_have_scenes_with_and_without_them() -> None:
    raised = {alert for alert, _, labels in SCENES if labels is not None}
    quiet = {alert for alert, _, labels in SCENES if labels is None}

    ours = {rule["alert"] for path in (OPERATOR, SINKS) for rule in rules_of(path)}
    assert ours <= raised & quiet

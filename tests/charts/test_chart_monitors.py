"""PodMonitors find the pods that are made beside them: by labels, at a port that they have."""

from __future__ import annotations

from typing import Any

import pytest

from chart_values import CHARTS
from desired_cases import broker_of, children_of
from helm_program import Manifest, of_kind, parsed
from iggy_operator.desired.metadata import Manifest as Child
from iggy_operator.desired.transports import MONITORING_PORT
from iggy_operator.launchers.job import METRICS_PORT
from iggy_operator.launchers.pods import driver_template, executor_template
from launcher_cases import job_of, source_of

GOLDEN = CHARTS.parent / "helm" / "golden"


def check_monitor(monitor: Any, template: Any, *, port: int) -> None:
    """Prometheus reads this pod, and finds its metrics at that port."""
    labels = template["metadata"]["labels"]
    selector = monitor["spec"]["selector"]["matchLabels"]
    assert selector, "an empty selector takes every pod of the namespace"
    assert selector.items() <= labels.items()
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    ports = {
        item["name"]: item["containerPort"]
        for container in template["spec"]["containers"]
        for item in container.get("ports", ())
    }
    assert ports[endpoint["port"]] == port
    assert endpoint["path"] == "/metrics"
    # What reads pods by their annotations finds the same.
    annotations = template["metadata"]["annotations"]
    assert annotations["prometheus.io/path"] == endpoint["path"]
    assert annotations["prometheus.io/port"] == str(port)


def test_the_charts_monitor_finds_the_operators_pods() -> None:
    manifests: list[Manifest] = parsed((GOLDEN / "production-operator.yaml").read_text())
    (monitor, _), (deployment,) = (
        of_kind(manifests, kind) for kind in ("PodMonitor", "Deployment")
    )
    template = deployment["spec"]["template"]
    (container,) = template["spec"]["containers"]
    environment = {item["name"]: item.get("value") for item in container["env"]}

    check_monitor(monitor, template, port=int(environment["IGGY_OPERATOR_HTTP_PORT"]))

    assert monitor["metadata"]["namespace"] == deployment["metadata"]["namespace"]


def test_the_charts_monitor_finds_the_drivers_of_sinks_and_sources_alone() -> None:
    manifests: list[Manifest] = parsed((GOLDEN / "production-operator.yaml").read_text())
    _, monitor = of_kind(manifests, "PodMonitor")
    driver, executor = driver_template(job_of()), executor_template(job_of())
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    (container,) = driver["spec"]["containers"]

    assert is_found(monitor, driver)
    assert is_found(monitor, driver_template(job_of(source_of())))
    assert container["ports"] == [
        {"name": endpoint["port"], "containerPort": METRICS_PORT, "protocol": "TCP"}
    ]
    assert endpoint["path"] == "/metrics"
    assert "ports" not in executor["spec"]["containers"][0]
    assert monitor["spec"]["namespaceSelector"] == {"any": True}
    assert not is_found(monitor, children_of(broker_of("main"))["StatefulSet"]["spec"]["template"])


@pytest.mark.parametrize("name", ["main", "b" * 40])
def test_the_monitor_of_a_broker_finds_its_pod_and_no_other_broker(name: str) -> None:
    spec = {"monitoring": {"podMonitor": True}}
    children, others = children_of(broker_of(name, **spec)), children_of(broker_of("other", **spec))
    monitor, pod = children["PodMonitor"], children["StatefulSet"]["spec"]["template"]

    check_monitor(monitor, pod, port=MONITORING_PORT)

    assert monitor["metadata"]["namespace"] == children["StatefulSet"]["metadata"]["namespace"]
    assert not is_found(monitor, others["StatefulSet"]["spec"]["template"])


def is_found(monitor: Child, template: Any) -> bool:
    selector, labels = monitor["spec"]["selector"], template["metadata"]["labels"]
    rules = selector.get("matchExpressions", [])
    assert all(rule["operator"] == "In" for rule in rules)
    is_one = all(labels.get(rule["key"]) in rule["values"] for rule in rules)
    return bool(selector["matchLabels"].items() <= labels.items()) and is_one

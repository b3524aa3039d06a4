"""Every value of the operator's chart shows in what is rendered; wrong ones are refused by name."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from chart_values import CHARTS, Value, values_of
from helm_program import (
    HelmRefused,
    helm,
    needs_helm,
    of_kind,
    parsed,
    rendered,
    template,
    with_monitoring,
    without_crds,
)

pytestmark = needs_helm
OPERATOR = "iggy-operator"
VALUES = {value.name: value for value in values_of(OPERATOR)}
# Everything that is off by default is on, so that what belongs to it can be found.
ALL_ON: dict[str, Any] = {
    "crds": {"install": False},
    "spark": {"namespaces": ["lake"]},
    "metrics": {"podMonitor": {"enabled": True}},
    "dashboards": {"enabled": True},
    "alerts": {"enabled": True},
    "networkPolicy": {"enabled": True},
}
DIGEST = "sha256:" + "5" * 64
# Another value, and the text by which it is found. A word without a row becomes `found-NAME`.
OTHER: dict[str, tuple[Any, str]] = {
    "replicas": (3, "  replicas: 3"),
    "imagePullSecrets": ([{"name": "found-it"}], "- name: found-it"),
    "image.digest": (DIGEST, f'image: "iggykube/operator@{DIGEST}"'),
    "broker.image.digest": (DIGEST, f'value: "iggykube/broker@{DIGEST}"'),
    "spark.image.digest": (DIGEST, f'value: "iggykube/spark@{DIGEST}"'),
    "image.pullPolicy": ("Always", "imagePullPolicy: Always"),
    "watch.namespaces": (["one", "two"], 'value: "one,two"'),
    "children.imagePullPolicy": ("Never", 'value: "Never"'),
    "children.imagePullSecrets": (["key", "lock"], 'value: "key,lock"'),
    "broker.default": ({"storage": {"size": "7Gi"}}, r'value: "{\"storage\":{\"size\":\"7Gi\"}}"'),
    "spark.version": ("4.9.9", 'value: "4.9.9"'),
    "spark.namespaces": (["spark-here"], "  namespace: spark-here"),
    "workers": (21, 'value: "21"'),
    "resyncSeconds": (22, 'value: "22"'),
    "watchSilenceSeconds": (23, 'value: "23"'),
    "logLevel": ("debug", 'value: "debug"'),
    "lease.seconds": (24, 'value: "24"'),
    "metrics.port": (8125, "containerPort: 8125"),
    "metrics.podMonitor.interval": ("77s", "interval: 77s"),
    "metrics.podMonitor.scrapeTimeout": ("7s", "scrapeTimeout: 7s"),
    "networkPolicy.metricsFrom": (
        [{"podSelector": {"matchLabels": {"from": "here"}}}], "from: here"),
    "networkPolicy.egress": ([{"ports": [{"port": 6443}]}], "port: 6443"),
    "podDisruptionBudget.maxUnavailable": (2, "  maxUnavailable: 2"),
    "resources.requests.cpu": ("77m", "cpu: 77m"),
    "resources.requests.memory": ("77Mi", "memory: 77Mi"),
    "resources.limits.memory": ("777Mi", "memory: 777Mi"),
    "probes.liveness.periodSeconds": (31, "periodSeconds: 31"),
    "probes.liveness.timeoutSeconds": (32, "timeoutSeconds: 32"),
    "probes.liveness.failureThreshold": (33, "failureThreshold: 33"),
    "probes.readiness.periodSeconds": (34, "periodSeconds: 34"),
    "probes.readiness.timeoutSeconds": (35, "timeoutSeconds: 35"),
    "probes.readiness.failureThreshold": (36, "failureThreshold: 36"),
    "podSecurityContext.runAsUser": (20_001, "runAsUser: 20001"),
    "podSecurityContext.runAsGroup": (20_002, "runAsGroup: 20002"),
    "terminationGracePeriodSeconds": (37, "terminationGracePeriodSeconds: 37"),
    "revisionHistoryLimit": (38, "revisionHistoryLimit: 38"),
    "tolerations": ([{"key": "slow", "operator": "Exists"}], "- key: slow"),
    "affinity": ({"nodeAffinity": {"near": "it"}}, "near: it"),
    "topologySpreadConstraints": (
        [{"topologyKey": "rack", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
        "topologyKey: rack"),
    "extraEnv": ([{"name": "FURTHER", "value": "it"}], "- name: FURTHER"),
}  # fmt: skip
# A digest wins over the tag, so the two are not looked for in one output.
APART = ("image.digest", "broker.image.digest", "spark.image.digest")
SWITCHES = [value for value in VALUES.values() if isinstance(value.default, bool)]
OTHERS = [value for value in VALUES.values() if not isinstance(value.default, bool)]


def nested(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    for name in reversed(path):
        value = {name: value}
    result: dict[str, Any] = value
    return result


NEEDED: dict[str, dict[str, Any]] = {"rbac.outliveNamespaces": {"watch": {"all": False}}}
"""Switches that do something only beside other values."""


def merged(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    result = dict(first)
    for name, value in second.items():
        both = isinstance(value, dict) and isinstance(result.get(name), dict)
        result[name] = merged(result[name], value) if both else value
    return result


def changed(value: Value) -> tuple[Any, str]:
    if value.name in OTHER:
        return OTHER[value.name]
    word = "found-" + value.name.lower().replace(".", "-").replace("_", "-")
    if isinstance(value.default, dict):
        return {word: "it"}, f"{word}: it"
    assert isinstance(value.default, str), f"say in OTHER what {value.name} may be"
    return word, word


@pytest.fixture(scope="module")
def as_it_was() -> str:
    return template(OPERATOR, ALL_ON, arguments=with_monitoring())


@pytest.fixture(scope="module")
def all_changed() -> str:
    """All values but the digests have another value, in one output; then the digests."""
    outputs = []
    for names in ([v for v in OTHERS if v.name not in APART], [VALUES[name] for name in APART]):
        values = merged(ALL_ON, {"watch": {"all": False}})
        for value in names:
            values = merged(values, nested(value.path, changed(value)[0]))
        outputs.append(template(OPERATOR, values, arguments=with_monitoring()))
    return "\n".join(outputs)


@pytest.mark.parametrize("value", OTHERS, ids=lambda value: value.name)
def test_every_value_is_found_in_the_output(value: Value, as_it_was: str, all_changed: str) -> None:
    text = changed(value)[1]

    assert text not in as_it_was
    assert text in all_changed


@pytest.mark.parametrize("value", SWITCHES, ids=lambda value: value.name)
def test_every_switch_changes_the_output(value: Value, as_it_was: str) -> None:
    needed = NEEDED.get(value.name, {})
    switched = merged(merged(ALL_ON, needed), nested(value.path, not as_all_on(value)))

    found = template(OPERATOR, switched, arguments=with_monitoring())

    without = merged(ALL_ON, needed)
    before = template(OPERATOR, without, arguments=with_monitoring()) if needed else as_it_was
    assert found != before


def as_all_on(value: Value) -> bool:
    """What ALL_ON says of a switch, or its default."""
    node: Any = ALL_ON
    for name in value.path:
        node = node.get(name, {}) if isinstance(node, dict) else {}
    return node if isinstance(node, bool) else bool(value.default)


def test_the_charts_pass_lint() -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", *sorted(CHARTS.iterdir()))


def test_the_definitions_are_rendered_as_they_are_and_kept() -> None:
    definitions = of_kind(rendered(OPERATOR), "CustomResourceDefinition")

    for definition in definitions:
        annotations = definition["metadata"].pop("annotations")
        assert annotations == {"helm.sh/resource-policy": "keep"}
    sources = [yaml.safe_load(path.read_text()) for path in
               sorted((CHARTS.parent / "crds").glob("*.yaml"))]  # fmt: skip
    assert sorted(definitions, key=lambda item: str(item["metadata"]["name"])) == sources
    assert of_kind(rendered(OPERATOR, without_crds()), "CustomResourceDefinition") == []


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"broker": {"persistance": {"size": "1Gi"}}}, ("/broker", "persistance")),
        ({"replicaCount": 2}, ("replicaCount",)),
        ({"image": {"tga": "1"}}, ("/image", "tga")),
        ({"broker": {"default": {"storage": {"sise": "1Gi"}}}}, ("storage", "sise")),
        ({"replicas": "two"}, ("/replicas", "integer")),
        ({"watch": {"namespaces": "shop"}}, ("/watch/namespaces", "array")),
        ({"image": {"digest": "latest"}}, ("/image/digest",)),
        ({"extraEnv": [{"name": "IGGY_OPERATOR_WORKERS", "value": "1"}]}, ("/extraEnv/0/name",)),
        ({"watch": {"namespaces": ["shop"]}}, ("watch.namespaces", "watch.all")),
    ],
    ids=lambda item: str(item)[:40],
)
def test_what_is_wrong_is_refused_by_its_name(
    values: dict[str, Any], words: tuple[str, ...]
) -> None:
    with pytest.raises(HelmRefused) as refused:
        template(OPERATOR, values)

    text = re.sub(r"\.(?=\w)", "/", str(refused.value)) + str(refused.value)
    for word in words:
        assert word in text


def test_null_for_every_value_and_every_mapping_is_the_default() -> None:
    nulls = {value.path[0]: None for value in VALUES.values()}

    assert template(OPERATOR, nulls) == template(OPERATOR)


def test_a_null_deeper_down_is_the_default_too_but_for_what_may_be_left_out() -> None:
    nulls = {"image": {"repository": None, "tag": None}, "metrics": {"service": None}}

    assert template(OPERATOR, without_crds(nulls)) == template(OPERATOR, without_crds())

    without = {"resources": {"limits": None}, "podSecurityContext": {"runAsUser": None,
               "runAsGroup": None}}  # fmt: skip
    (deployment,) = of_kind(rendered(OPERATOR, without_crds(without)), "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    assert pod["containers"][0]["resources"] == {"requests": {"cpu": "100m", "memory": "128Mi"}}
    assert pod["securityContext"] == {
        "runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}  # fmt: skip


@pytest.mark.parametrize("chart", [OPERATOR, "iggy-topology"])
def test_an_empty_file_is_the_defaults(chart: str, tmp_path: Any) -> None:
    (tmp_path / "empty.yaml").write_text("")

    assert template(chart, files=[tmp_path / "empty.yaml"]) == template(chart)


def test_labels_and_annotations_of_pods_cannot_break_what_hangs_on_them() -> None:
    values = {
        "podLabels": {"app.kubernetes.io/name": "mine", "team": "shop"},
        "podAnnotations": {"prometheus.io/scrape": "false", "note": "it"},
    }

    (deployment,) = of_kind(rendered(OPERATOR, without_crds(values)), "Deployment")

    metadata = deployment["spec"]["template"]["metadata"]
    assert metadata["labels"]["app.kubernetes.io/name"] == OPERATOR
    assert metadata["labels"]["team"] == "shop"
    assert metadata["annotations"]["prometheus.io/scrape"] == "false"
    assert metadata["annotations"]["prometheus.io/path"] == "/metrics"
    assert metadata["annotations"]["note"] == "it"


BIG = 1_000_650_000
EXPONENT = re.compile(r"\b\d(\.\d+)?e[+-]?\d+\b", re.IGNORECASE)


@pytest.mark.parametrize("by", ["file", "--set"])
def test_no_number_has_an_exponent(by: str) -> None:
    values: dict[str, Any] = merged(
        ALL_ON,
        {
            "podSecurityContext": {"runAsUser": BIG, "runAsGroup": BIG},
            "resources": {"limits": {"memory": 1_073_741_824}},
            "broker": {"default": {"podTemplate": {"terminationGracePeriodSeconds": 3_600},
                       "shards": {"count": 256}}},
            "topologySpreadConstraints": [],
            "tolerations": [{"key": "slow", "tolerationSeconds": 21_600_000}],
        },
    )  # fmt: skip
    sets = [
        "--set", f"podSecurityContext.runAsUser={BIG},podSecurityContext.runAsGroup={BIG}",
        "--set", "resources.limits.memory=1073741824",
        "--set", "tolerations[0].key=slow,tolerations[0].tolerationSeconds=21600000",
    ]  # fmt: skip
    text = (
        template(OPERATOR, values, arguments=with_monitoring())
        if by == "file"
        else template(OPERATOR, ALL_ON, arguments=[*with_monitoring(), *sets])
    )

    manifests = [item for item in parsed(text) if item["kind"] != "PrometheusRule"]
    assert EXPONENT.findall(yaml.safe_dump([*without_texts(manifests)])) == []
    assert f"runAsUser: {BIG}" in text
    assert "memory: 1073741824" in text
    assert "tolerationSeconds: 21600000" in text


def without_texts(manifests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Dashboards are text of their own."""
    return [item for item in manifests if item["kind"] != "ConfigMap"]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"metrics": {"podMonitor": {"enabled": True}}}, "PodMonitor"),
        ({"alerts": {"enabled": True}}, "PrometheusRule"),
    ],
)
def test_a_kind_that_the_cluster_lacks_is_named(values: dict[str, Any], kind: str) -> None:
    with pytest.raises(HelmRefused, match=f"this cluster has no kind {kind} .*: install the"):
        template(OPERATOR, without_crds(values))

    made, *_ = of_kind(rendered(OPERATOR, without_crds(values), arguments=with_monitoring()), kind)
    assert made["spec"]


def test_rules_and_dashboards_are_rendered_as_they_are() -> None:
    files = CHARTS / OPERATOR / "files"
    manifests = rendered(OPERATOR, ALL_ON, arguments=with_monitoring())

    (rules,) = of_kind(manifests, "PrometheusRule")
    groups = [group for path in sorted((files / "alerts").iterdir())
              for group in yaml.safe_load(path.read_text())["groups"]]  # fmt: skip
    assert rules["spec"]["groups"] == groups
    (boards,) = of_kind(manifests, "ConfigMap")
    assert {name: json.loads(text) for name, text in boards["data"].items()} == {
        f"iggykube-{path.name}": json.loads(path.read_text())
        for path in (files / "dashboards").iterdir()
    }

"""Helm on a real API server: install, upgrade, remove, come back, with and without Prometheus.

What happens to the definitions is tried on copies of the chart whose definitions are of a group of
their own, so that no other scenario is disturbed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import e2e_findings
from chart_values import CHARTS
from e2e_helm import Helm
from e2e_kubectl import Kubectl, Refused
from waiting import wait_until

ROOT = CHARTS.parent
OPERATOR = CHARTS / "iggy-operator"
TOPOLOGY = CHARTS / "iggy-topology"
OWN_GROUP = f"helm-{e2e_findings.PART}.e2e.iggykube.dev"
KINDS = ("iggybrokers", "iggysinks", "iggysources", "iggystreams", "iggytopics", "iggyusers")
# No pod is started where only the objects matter: two operators must not watch one namespace.
IDLE = ("--set", "image.tag=none", "--set", "image.pullPolicy=Never")
ALONE = ("--set", "watch.all=false", *IDLE)
WITHOUT_CRDS = ("--set", "crds.install=false")
# An API server that is still setting a definition up puts its removal off by two minutes and more.
FINALIZED_S = 400.0
MONITORS = ("PodMonitor", "PrometheusRule")

Charted = Callable[..., Path]


def definition(kind: str) -> str:
    return f"crd/{kind}.{OWN_GROUP}"


@pytest.fixture
def charted(cluster: Kubectl, tmp_path: Path) -> Iterator[Charted]:
    """Makes a copy of the operator's chart, with definitions of a group of their own.

    `without` is a field of IggyTopic's spec that this release does not have yet; such a release
    lacks a value, too.
    """

    def make(version: str, *, without: str = "") -> Path:
        copy = tmp_path / version
        shutil.copytree(OPERATOR, copy)
        for path in (copy / "files" / "crds").iterdir():
            text = path.read_text().replace("iggykube.dev", OWN_GROUP)
            if without and path.name == "iggytopics.yaml":
                value = yaml.safe_load(text)
                (only,) = value["spec"]["versions"]
                del only["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"][without]
                text = "\n" + yaml.safe_dump(value)
            path.write_text(text)
        if without:
            values = copy / "values.yaml"
            values.write_text(values.read_text().replace("\nworkers: 8\n", "\n"))
        return copy

    yield make
    cluster.delete(*map(definition, KINDS), within_s=FINALIZED_S)


def topic(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{OWN_GROUP}/v1alpha1",
        "kind": "IggyTopic",
        "metadata": {"name": "orders"},
        "spec": {"streamRef": {"name": "shop"}, **spec},
    }


def test_an_upgrade_brings_new_fields_of_the_definitions(
    kubectl: Kubectl, helm: Helm, charted: Charted
) -> None:
    helm = helm.at(kubectl.namespace)
    helm("install", "operator", str(charted("old", without="missingPolicy")), *ALONE)
    kubectl.wait(definition("iggytopics"), "condition=Established")
    kubectl.apply(topic(partitions=2))
    assert "missingPolicy" in kubectl.apply_refusal(topic(partitions=2, missingPolicy="Report"))

    # The old values alone: what they lack is a default of the new chart.
    helm("upgrade", "operator", str(charted("new")), "--reuse-values")
    kubectl.wait(definition("iggytopics"), "condition=Established")
    kubectl.apply(topic(partitions=2, missingPolicy="Report"))

    found = kubectl.get(f"iggytopics.{OWN_GROUP}", "orders")["spec"]
    assert (found["partitions"], found["missingPolicy"]) == (2, "Report")
    (container,) = kubectl.get("deployment", "operator-iggy-operator")["spec"]["template"]["spec"][
        "containers"
    ]
    assert {"name": "IGGY_OPERATOR_WORKERS", "value": "8"} in container["env"]


def test_removal_keeps_definitions_and_objects_and_another_release_takes_them_over(
    make_namespace: Any, helm: Helm, charted: Charted
) -> None:
    here, there = make_namespace(), make_namespace()
    chart = str(charted("chart"))
    helm.at(here.namespace)("install", "operator", chart, *ALONE)
    here.wait(definition("iggytopics"), "condition=Established")
    here.apply(topic(partitions=2))
    uid = here.get(f"iggytopics.{OWN_GROUP}", "orders")["metadata"]["uid"]

    helm.at(here.namespace)("uninstall", "operator", "--wait")
    refused = helm.at(there.namespace).refusal("install", "other", chart, *ALONE)
    helm.at(there.namespace)("install", "other", chart, "--take-ownership", *ALONE)

    assert "invalid ownership metadata" in refused
    assert here.get(f"iggytopics.{OWN_GROUP}", "orders")["metadata"]["uid"] == uid
    assert not here.exists("deployment,serviceaccount,role", "-l", "app.kubernetes.io/part-of")
    owner = here.get(definition("iggytopics"))["metadata"]["annotations"]
    assert owner["meta.helm.sh/release-namespace"] == there.namespace
    assert owner["helm.sh/resource-policy"] == "keep"


def test_a_namespaced_installation_makes_nothing_cluster_wide(kubectl: Kubectl, helm: Helm) -> None:
    helm = helm.at(kubectl.namespace)

    notes = helm(
        "install", "operator", str(OPERATOR), *ALONE, *WITHOUT_CRDS,
        "--set", "networkPolicy.enabled=true", "--set", "dashboards.enabled=true",
        "--set", f"spark.namespaces={{{kubectl.namespace}}}",
    )  # fmt: skip

    for words in ("kubectl get iggy", "rollout status", "(Retain)", "--take-ownership"):
        assert words in notes
    made = list(yaml.safe_load_all(helm("get", "manifest", "operator")))
    assert len(made) > 10
    namespaced = kubectl("api-resources", "--namespaced=true", "--output=name")
    for item in made:
        plural = f"{item['kind'].lower()}s".replace("policys", "policies")
        assert any(line.split(".")[0] == plural for line in namespaced.split()), item["kind"]
        assert item["metadata"]["namespace"] == kubectl.namespace
        assert kubectl.exists(item["kind"], item["metadata"]["name"])


def may(kubectl: Kubectl, account: str, verb: str, what: str, *, namespace: str) -> bool:
    words = ("auth", "can-i", verb, *what.split(), "--as", f"system:serviceaccount:{account}")
    try:
        return kubectl(*words, "--namespace", namespace).strip() == "yes"
    except Refused:
        return False  # kubectl ends with an error code for "no"


def test_the_operator_may_do_its_work_in_its_namespace_and_nothing_else(
    kubectl: Kubectl, helm: Helm
) -> None:
    here = kubectl.namespace
    helm.at(here)("install", "operator", str(OPERATOR), *ALONE, *WITHOUT_CRDS)
    account = f"{here}:operator-iggy-operator"

    own = (
        ("get", "secrets"), ("patch", "iggytopics.iggykube.dev --subresource=status"),
        ("delete", "pods"), ("update", "leases/iggy-operator"),
    )  # fmt: skip
    for verb, what in own:
        assert may(kubectl, account, verb, what, namespace=here), (verb, what)
        assert not may(kubectl, account, verb, what, namespace="default"), (verb, what)
    foreign = (
        ("list", "secrets"), ("watch", "secrets"), ("delete", "pvc"), ("create", "roles"),
        ("update", "leases/another"), ("create", "pods --subresource=exec"), ("get", "nodes"),
    )  # fmt: skip
    for verb, what in foreign:
        assert not may(kubectl, account, verb, what, namespace=here), (verb, what)


def test_roles_for_people_join_those_of_kubernetes_but_for_sinks(
    kubectl: Kubectl, helm: Helm
) -> None:
    helm = helm.at(kubectl.namespace)
    helm("install", "operator", str(OPERATOR), *IDLE, *WITHOUT_CRDS,
         "--set", f"fullnameOverride={kubectl.namespace}")  # fmt: skip
    try:
        kubectl("create", "serviceaccount", "person")
        kubectl("create", "rolebinding", "person", "--clusterrole=edit",
                f"--serviceaccount={kubectl.namespace}:person")  # fmt: skip
        person = f"{kubectl.namespace}:person"

        def can(verb: str, what: str) -> bool:
            resource = f"{what}.iggykube.dev"
            return may(kubectl, person, verb, resource, namespace=kubectl.namespace)

        # The controller that joins roles takes a moment.
        wait_until(lambda: can("create", "iggytopics"), "edit has the resources")
        assert can("delete", "iggybrokers") and can("list", "iggysinks")
        assert not can("create", "iggysinks")
        kubectl("create", "rolebinding", "sinks", f"--clusterrole={kubectl.namespace}-sink-edit",
                f"--serviceaccount={person}")  # fmt: skip
        wait_until(lambda: can("create", "iggysinks"), "sink-edit allows it")
    finally:
        helm("uninstall", "operator")


@pytest.fixture
def monitors(cluster: Kubectl) -> Iterator[None]:
    """The kinds of the Prometheus operator, as far as a chart needs them."""
    before = [kind for kind in MONITORS if cluster.exists("crd", monitor_definition(kind))]
    made = [kind for kind in MONITORS if kind not in before]
    for kind in made:
        plural = f"{kind.lower()}s"
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {"name": "v1", "served": True, "storage": True,
                   "schema": {"openAPIV3Schema": schema}}  # fmt: skip
        cluster.apply({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": monitor_definition(kind)},
            "spec": {
                "group": "monitoring.coreos.com", "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
                "versions": [version],
            },
        })  # fmt: skip
        cluster.wait(f"crd/{monitor_definition(kind)}", "condition=Established")
    yield
    for kind in made:
        cluster.delete("crd", monitor_definition(kind))


def monitor_definition(kind: str) -> str:
    return f"{kind.lower()}s.monitoring.coreos.com"


MONITORED = ("--set", "metrics.podMonitor.enabled=true", "--set", "alerts.enabled=true")


def test_a_monitor_without_its_kind_is_refused_in_words(kubectl: Kubectl, helm: Helm) -> None:
    if kubectl.exists("crd", monitor_definition("PodMonitor")):
        pytest.skip("this cluster has the Prometheus operator's kinds")

    refused = helm.at(kubectl.namespace).refusal(
        "install", "operator", str(OPERATOR), *ALONE, *WITHOUT_CRDS, *MONITORED
    )

    assert "this cluster has no kind" in refused
    assert "install the Prometheus operator first" in refused
    assert helm.at(kubectl.namespace).releases() == []


@pytest.mark.usefixtures("monitors")
def test_a_monitor_with_its_kind_is_made(kubectl: Kubectl, helm: Helm) -> None:
    helm.at(kubectl.namespace)(
        "install", "operator", str(OPERATOR), *ALONE, *WITHOUT_CRDS, *MONITORED
    )

    assert kubectl.exists("podmonitors.monitoring.coreos.com", "operator-iggy-operator")
    assert kubectl.exists("prometheusrules.monitoring.coreos.com", "operator-iggy-operator")


def give_definitions(kubectl: Kubectl) -> None:
    """Those of crds/, whoever has applied others before."""
    words = ("apply", "--server-side", "--force-conflicts", "--filename")
    kubectl(*words, str(ROOT / "crds"))
    for kind in KINDS:
        kubectl.wait(f"crd/{kind}.iggykube.dev", "condition=Established")


@pytest.mark.usefixtures("monitors")
def test_the_api_server_takes_what_each_environment_renders(kubectl: Kubectl, helm: Helm) -> None:
    give_definitions(kubectl)
    for environment in ("laptop", "production", "s3"):
        for part, chart in (("operator", OPERATOR), ("topology", TOPOLOGY)):
            apart = (*WITHOUT_CRDS, "--set", f"spark.namespaces={{{kubectl.namespace}}}")
            text = helm.at(kubectl.namespace)(
                "template", "release", str(chart),
                "--values", str(ROOT / "helm" / environment / f"{part}.yaml"),
                *(f"--api-versions=monitoring.coreos.com/v1/{kind}" for kind in MONITORS),
                *(apart if part == "operator" else ()),
            )  # fmt: skip

            done = kubectl(
                "apply", "--server-side", "--dry-run=server", "--validate=strict", "--filename=-",
                stdin=text,
            )  # fmt: skip

            assert done.count("serverside-applied") == text.count("\nkind: "), environment


@pytest.mark.usefixtures("project_images")
@pytest.mark.timeout(900)
def test_the_root_password_outlives_upgrades_and_removal(restricted: Kubectl, helm: Helm) -> None:
    helm, kubectl = helm.at(restricted.namespace), restricted
    give_definitions(kubectl)
    helm("install", "operator", str(OPERATOR), "--wait", "--timeout=5m",
         "--set", "watch.all=false", *WITHOUT_CRDS)  # fmt: skip
    deployed = kubectl.get("deployment", "operator-iggy-operator")["status"]
    assert deployed["readyReplicas"] == 2
    values = json.dumps({"brokers": {"main": {}}, "streams": {"shop": {"brokerRef": {
        "name": "main"}}}})  # fmt: skip

    def installed(verb: str, *words: str) -> str:
        helm(verb, "shop", str(TOPOLOGY), "--values=-", *words, stdin=values)
        kubectl.wait("igb/main", "condition=Ready", within_s=240)
        kubectl.wait("igs/shop", "condition=Ready")
        return str(kubectl.get("secret", "main-root")["data"]["password"])

    password = installed("install")
    claim = kubectl.get("pvc", "data-main-0")["metadata"]["uid"]
    for number in range(3):
        assert installed("upgrade", "--set", f"labels.release=n{number}") == password
    helm("uninstall", "shop", "--wait")
    kubectl.wait("pod/main-0", "delete")

    assert installed("install") == password
    assert kubectl.get("pvc", "data-main-0")["metadata"]["uid"] == claim
    (leader,) = kubectl.items("leases", "--field-selector=metadata.name=iggy-operator")
    assert leader["spec"]["holderIdentity"]

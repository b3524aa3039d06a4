"""Values for three environments and what the charts make of them, also checked without Helm."""

from __future__ import annotations

import os
from typing import Any

import pytest
import yaml

from chart_values import CHARTS
from golden_files import UPDATE_VARIABLE
from helm_program import Manifest, needs_helm, of_kind, parsed, template, with_monitoring
from iggy_broker.config import KEYS
from iggy_operator.desired.broker_config import problems
from iggy_operator.launchers.children import problems as sink_problems
from iggy_operator.program.settings import SETTINGS, read_settings
from iggy_operator.resources import Resources, load
from launcher_cases import job_of
from operator_rights import granted, rights_of

HELM_FOLDER = CHARTS.parent / "helm"
GOLDEN = HELM_FOLDER / "golden"
ENVIRONMENTS = ("laptop", "production", "s3")
PARTS = ("operator", "topology")
# Of pods, by hand: the profile "restricted" of Kubernetes' pod security standards.
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}


def golden(environment: str, part: str) -> list[Manifest]:
    return parsed((GOLDEN / f"{environment}-{part}.yaml").read_text())


def operators() -> list[Any]:
    return [pytest.param(golden(name, "operator"), id=name) for name in ENVIRONMENTS]


def resources(environment: str) -> Resources:
    return load([GOLDEN / f"{environment}-topology.yaml"])


@needs_helm
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_what_is_rendered_is_golden(environment: str, part: str) -> None:
    arguments = with_monitoring()
    if part == "operator":
        # Long, and the files themselves, as another test shows.
        arguments += ["--set", "crds.install=false,dashboards.enabled=false"]
    text = template(
        f"iggy-{part}", files=[HELM_FOLDER / environment / f"{part}.yaml"], arguments=arguments
    )

    path = GOLDEN / f"{environment}-{part}.yaml"
    if os.environ.get(UPDATE_VARIABLE):
        path.write_text(text)
    assert path.read_text() == text, f"if it is meant: {UPDATE_VARIABLE}=1, read the difference"


def test_every_environment_has_its_files_and_none_is_left_over() -> None:
    wanted = {f"{name}-{part}.yaml" for name in ENVIRONMENTS for part in PARTS}

    assert {path.name for path in GOLDEN.iterdir()} == wanted
    folders = {path.name for path in HELM_FOLDER.iterdir() if path.is_dir()}
    assert folders - {"golden"} == set(ENVIRONMENTS)


@pytest.mark.parametrize("manifests", operators())
def test_the_variables_are_the_settings_of_the_program_and_it_can_read_them(
    manifests: list[Manifest],
) -> None:
    (deployment,) = of_kind(manifests, "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    environment = {item["name"]: item.get("value", "by-the-pod") for item in container["env"]}

    settings = read_settings(environment)

    assert sorted(environment) == sorted(setting.variable for setting in SETTINGS)
    assert settings.broker_image == "iggykube/broker:0.1.0"
    assert settings.http_port == container["ports"][0]["containerPort"]
    (lease,) = [item for item in of_kind(manifests, "Role")
                if item["metadata"]["name"].endswith("-lease")]  # fmt: skip
    assert lease["rules"][0]["resourceNames"] == [settings.lease_name]


@pytest.mark.parametrize("manifests", operators())
def test_the_pod_has_the_restricted_profile_and_probes(manifests: list[Manifest]) -> None:
    (deployment,) = of_kind(manifests, "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]

    assert pod["securityContext"] == {
        "runAsNonRoot": True, "runAsUser": 10_001, "runAsGroup": 10_001,
        "seccompProfile": {"type": "RuntimeDefault"}}  # fmt: skip
    assert container["securityContext"] == RESTRICTED
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "http"}
    start = container["startupProbe"]
    assert start["httpGet"] == container["livenessProbe"]["httpGet"]
    assert start["periodSeconds"] * start["failureThreshold"] >= 300, "a slow machine is no failure"
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}
    mounts = {mount["name"] for mount in container["volumeMounts"]}
    assert mounts == {volume["name"] for volume in pod["volumes"]}


@pytest.mark.parametrize("manifests", operators())
def test_names_that_are_used_are_there(manifests: list[Manifest]) -> None:
    (deployment,) = of_kind(manifests, "Deployment")
    template_ = deployment["spec"]["template"]
    accounts = {item["metadata"]["name"] for item in of_kind(manifests, "ServiceAccount")}
    roles = {(item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"])
             for item in manifests if item["kind"] in ("Role", "ClusterRole")}  # fmt: skip

    assert template_["spec"]["serviceAccountName"] in accounts
    for item in manifests:
        if item["kind"] in ("RoleBinding", "ClusterRoleBinding"):
            role = item["roleRef"]
            assert (role["kind"], item["metadata"].get("namespace"), role["name"]) in roles
            assert {subject["name"] for subject in item["subjects"]} <= accounts
    labels = template_["metadata"]["labels"].items()
    selectors = [deployment["spec"]["selector"]["matchLabels"]]
    selectors += [item["spec"]["selector"] for item in of_kind(manifests, "Service")]
    for kind in ("PodDisruptionBudget", "PodMonitor"):
        # That of the drivers of sinks has a test beside their pods.
        selectors += [item["spec"]["selector"]["matchLabels"] for item in of_kind(manifests, kind)
                      if not item["metadata"]["name"].endswith("-sinks")]  # fmt: skip
    for policy in of_kind(manifests, "NetworkPolicy"):
        selectors.append(policy["spec"]["podSelector"]["matchLabels"])
    assert all(selector.items() <= labels for selector in selectors)


@pytest.mark.parametrize("manifests", operators())
def test_a_disruption_budget_only_where_there_is_a_second_pod(manifests: list[Manifest]) -> None:
    (deployment,) = of_kind(manifests, "Deployment")
    replicas = deployment["spec"]["replicas"]

    assert len(of_kind(manifests, "PodDisruptionBudget")) == (1 if replicas > 1 else 0)
    strategy = "RollingUpdate" if replicas > 1 else "Recreate"
    assert deployment["spec"]["strategy"]["type"] == strategy


@pytest.mark.parametrize("manifests", operators())
def test_rights_are_those_of_the_template(manifests: list[Manifest]) -> None:
    (role,) = [item for item in of_kind(manifests, "ClusterRole")
               if item["metadata"]["name"] == "iggy-operator"]  # fmt: skip

    rights = rights_of(role["rules"])

    assert rights.pop(("storage.k8s.io", "storageclasses")) == {"get"}
    assert rights == granted()


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_topologies_pass_the_checks_of_the_resources(environment: str) -> None:
    found = resources(environment)

    assert found.skipped == ()
    values = yaml.safe_load((HELM_FOLDER / environment / "topology.yaml").read_text())
    assert {topic.key.name for topic in found.topics} == set(values["topics"])
    streams = {stream.key for stream in found.streams}
    assert {topic.stream for topic in found.topics} <= streams
    managed = {broker.key for broker in found.brokers} | {
        stream.broker for stream in found.streams if stream.broker.name == "iggy"
    }
    assert {stream.broker for stream in found.streams} <= managed


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_sinks_are_those_that_can_be_had(environment: str) -> None:
    sinks = [sink for topic in resources(environment).topics for sink in topic.sinks]

    assert [line for sink in sinks for line in sink_problems(job_of(sink), "Native")] == []


def test_the_broker_of_production_is_one_that_can_be_had() -> None:
    (broker,) = resources("production").brokers
    names = {key.path for key in KEYS}

    assert set(broker.config) <= names
    assert problems(broker) == ()

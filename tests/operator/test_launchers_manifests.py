"""What the launchers render, against golden files and the real schemas."""

import json
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from foreign_schemas import APACHE_FILE, KUBEFLOW_FILE, misfits, pod_schema, spec_schema
from golden_files import check_golden
from iggy_operator.desired.metadata import SINK_UID_LABEL, Manifest
from iggy_operator.launchers.children import connector_children, problems
from iggy_operator.launchers.choice import Launcher
from launcher_cases import LAKE_TEMPLATE, job_of, sink_of
from sink_blocks import DATABASE

LAUNCHERS: tuple[Launcher, ...] = get_args(Launcher)
FULL: dict[str, Any] = {
    "payload": {"format": "Json", "schema": "id BIGINT, amount DECIMAL(18,2)"},
    "checkpoint": {"volume": {"size": "2Gi", "storageClassName": "shared"}},
    "trigger": {"interval": "30s"},
    "restart": {"policy": "OnFailure", "maxRetries": 4, "backoffSeconds": 15},
    "spark": {
        "version": "4.3.0",
        "image": "registry.example/spark:7",
        "serviceAccountName": "theirs",
        "driver": {"cores": 2, "coreLimit": "2500m", "memory": "2g", "memoryOverhead": "700m"},
        "executor": {"cores": 2, "coreLimit": "2", "memory": "4g", "instances": 3},
        "conf": {"spark.sql.shuffle.partitions": "6"},
        "packages": ["org.postgresql:postgresql:42.7.14"],
        "pyFiles": ["local:///opt/app/helpers.zip"],
        "env": [{"name": "TZ", "value": "UTC"}],
        "podTemplate": {
            "metadata": {"labels": {"team": "data"}, "annotations": {"note": "x"}},
            "spec": {
                **LAKE_TEMPLATE["spec"],
                "nodeSelector": {"disk": "ssd"},
                "tolerations": [{"key": "dedicated", "operator": "Exists"}],
                "terminationGracePeriodSeconds": 120,
            },
        },
    },
}
SPECS: dict[str, dict[str, Any]] = {
    "smallest": {},
    "full": FULL,
    "bounded": {"trigger": {"mode": "AvailableNow"}, "restart": {"maxRetries": 2}},
    "console": {
        "type": "Console",
        "files": None,
        "checkpoint": None,
        "restart": {"policy": "Never"},
    },
}
STORE = {"endpoint": "http://minio:9000", "pathStyle": True, "credentialsSecretName": "lake-keys"}
SPECS["stored"] = {
    "files": {"path": "s3a://lake/orders", "s3": STORE},
    "checkpoint": {
        "location": "s3a://state/orders",
        "s3": {**STORE, "credentialsSecretName": "state-keys"},
    },
    "spark": {},
}
SPECS["database"] = DATABASE | {
    "errors": {"tolerance": "Data", "deadLetter": {"topic": "orders.dlq"}},
    "spark": {},
}
CASES = [(name, launcher) for name in SPECS for launcher in LAUNCHERS]
# What Kubeflow's API has and applies only by its mutating webhook.
NEEDS_WEBHOOK = frozenset(
    {
        "env", "envFrom", "volumeMounts", "configMaps", "affinity", "tolerations", "nodeSelector",
        "securityContext", "podSecurityContext", "sidecars", "initContainers", "hostNetwork",
        "dnsConfig", "terminationGracePeriodSeconds", "priorityClassName", "schedulerName",
        "lifecycle", "gpu", "ports", "shareProcessNamespace", "hostAliases", "memoryLimit",
    }
)  # fmt: skip
WEBHOOK_REFUSES = (
    "spark.master", "spark.kubernetes.driver.container.image", "spark.kubernetes.container.image",
    "spark.kubernetes.executor.container.image", "spark.kubernetes.authenticate.",
)  # fmt: skip


def rendered(name: str, launcher: Launcher) -> list[Manifest]:
    children = connector_children(job_of(sink_of(**SPECS[name])), launcher)
    found = (children.claim, children.account, children.file, children.application)
    return [manifest for manifest in found if manifest is not None]


def application_of(name: str, launcher: Launcher) -> Manifest:
    return rendered(name, launcher)[-1]


def templates(name: str, launcher: Launcher) -> list[Manifest]:
    spec = application_of(name, launcher)["spec"]
    if launcher == "Native":
        return [spec["template"]]
    if launcher == "Kubeflow":
        return [spec["driver"]["template"], spec["executor"]["template"]]
    return [spec["driverSpec"]["podTemplateSpec"], spec["executorSpec"]["podTemplateSpec"]]


@pytest.mark.parametrize(("name", "launcher"), CASES)
def test_children_are_those_of_the_golden_file(name: str, launcher: Launcher) -> None:
    check_golden(f"sink-{name}-{launcher.lower()}", rendered(name, launcher))


@pytest.mark.parametrize(("name", "launcher"), CASES)
def test_what_is_rendered_has_no_problems(name: str, launcher: Launcher) -> None:
    assert problems(job_of(sink_of(**SPECS[name])), launcher) == ()


@pytest.mark.parametrize("name", SPECS)
def test_kubeflows_schema_takes_it(name: str) -> None:
    schema = spec_schema(KUBEFLOW_FILE, "v1beta2")

    assert list(misfits(application_of(name, "Kubeflow")["spec"], schema)) == []


@pytest.mark.parametrize("name", SPECS)
def test_apaches_schema_takes_it(name: str) -> None:
    schema = spec_schema(APACHE_FILE, "v1")

    assert list(misfits(application_of(name, "Apache")["spec"], schema)) == []


@pytest.mark.parametrize(("name", "launcher"), CASES)
def test_pod_templates_are_some_for_kubernetes(name: str, launcher: Launcher) -> None:
    for template in templates(name, launcher):
        assert list(misfits(template, pod_schema())) == []


def test_a_schema_finds_what_does_not_fit() -> None:
    spec = application_of("full", "Kubeflow")["spec"]
    wrong = {**spec, "kind": "x", "type": "python", "executor": {"instances": 0, "cores": "2"}}
    del wrong["sparkVersion"]

    found = list(misfits(wrong, spec_schema(KUBEFLOW_FILE, "v1beta2")))

    assert sorted(line.partition(":")[0] for line in found) == [
        ".executor.cores", ".executor.instances", ".kind", ".sparkVersion", ".type",
    ]  # fmt: skip


@pytest.mark.parametrize("name", SPECS)
def test_nothing_needs_kubeflows_webhook(name: str) -> None:
    spec = application_of(name, "Kubeflow")["spec"]

    for role in ("driver", "executor"):
        assert not NEEDS_WEBHOOK & set(spec[role])
    assert "volumes" not in spec
    # What the webhook would fill in, and what it would refuse.
    assert {"type", "mode", "sparkVersion", "mainApplicationFile", "image"} <= set(spec)
    assert spec["executor"]["instances"] >= 1
    if spec["restartPolicy"]["type"] != "Never":
        assert spec["restartPolicy"]["onFailureRetryInterval"] >= 1
        assert spec["restartPolicy"]["onSubmissionFailureRetryInterval"] >= 1
    assert not [key for key in spec["sparkConf"] if key.startswith(WEBHOOK_REFUSES)]


@pytest.mark.parametrize("name", SPECS)
def test_the_three_envelopes_hold_one_configuration(name: str) -> None:
    kubeflow = application_of(name, "Kubeflow")["spec"]["sparkConf"]
    apache = application_of(name, "Apache")["spec"]["sparkConf"]
    file = {launcher: rendered(name, launcher)[-2]["data"] for launcher in LAUNCHERS}

    shared = {key: value for key, value in kubeflow.items() if "excludedFeatureSteps" not in key}

    assert shared.items() <= apache.items()
    assert file["Native"] == file["Kubeflow"] == file["Apache"]
    assert templates(name, "Kubeflow") == templates(name, "Apache")


@pytest.mark.parametrize(("name", "launcher"), CASES)
def test_the_driver_has_its_file_its_place_and_its_login(name: str, launcher: Launcher) -> None:
    driver = templates(name, launcher)[0]
    container = driver["spec"]["containers"][0]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in driver["spec"]["volumes"]}
    file = rendered(name, launcher)[-2]["metadata"]["name"]

    assert volumes["iggy-job"]["configMap"]["name"] == file
    assert mounts["iggy-job"] == "/etc/iggy-job"
    assert mounts.get("iggy-checkpoint") == (None if name == "stored" else "/checkpoint")
    assert set(mounts) == set(volumes)
    assert driver["metadata"]["labels"][SINK_UID_LABEL] == job_of().owner.uid
    assert driver["spec"]["enableServiceLinks"] is False


@pytest.mark.parametrize(("name", "launcher"), CASES)
def test_pods_have_the_restricted_profile(name: str, launcher: Launcher) -> None:
    for template in templates(name, launcher):
        pod = template["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "readOnlyRootFilesystem": True,
            }


def test_only_drivers_of_spark_operators_have_a_token() -> None:
    assert templates("smallest", "Native")[0]["spec"]["automountServiceAccountToken"] is False
    for launcher in ("Kubeflow", "Apache"):
        driver, executor = templates("smallest", launcher)
        assert "automountServiceAccountToken" not in driver["spec"]
        assert executor["spec"]["automountServiceAccountToken"] is False


def variables(value: Any) -> Iterator[dict[str, Any]]:
    """Every environment variable anywhere in a manifest."""
    if isinstance(value, dict):
        yield from value.get("env", ())
        for item in value.values():
            yield from variables(item)
    elif isinstance(value, list):
        for item in value:
            yield from variables(item)


@pytest.mark.parametrize(("name", "launcher"), CASES)
def test_there_is_no_secret_anywhere(name: str, launcher: Launcher) -> None:
    """The login is named, and its Secret is mounted: so a rotation restarts nothing."""
    manifests = rendered(name, launcher)

    for template in templates(name, launcher):
        (volume,) = (item for item in template["spec"]["volumes"] if item["name"] == "iggy-login")
        assert volume["secret"]["secretName"] == job_of().access.secret
        (container,) = template["spec"]["containers"]
        mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
        assert mounts["/etc/iggy"] == {
            "name": "iggy-login", "mountPath": "/etc/iggy", "readOnly": True,
        }  # fmt: skip
        assert not [entry for entry in container["env"] if "valueFrom" in entry]
    spec = application_of(name, launcher)["spec"]
    visible = json.dumps([spec.get(field) for field in ("arguments", "driverArgs", "sparkConf")])
    assert "password" not in visible.lower()
    assert job_of().access.secret not in visible
    assert not [manifest for manifest in manifests if manifest["kind"] == "Secret"]


def test_a_user_cannot_replace_the_variables_of_the_operator() -> None:
    names = ("HOME", "PYSPARK_SUBMIT_ARGS")
    mine = [{"name": name, "value": "p-of-tests"} for name in names]
    spark = {"podTemplate": LAKE_TEMPLATE, "env": mine}

    children = connector_children(job_of(sink_of(spark=spark)), "Native")

    assert "p-of-tests" not in json.dumps(children.application)


def test_packages_and_files_reach_spark() -> None:
    variables_of = {
        name: {
            entry["name"]: entry.get("value") for entry in variables(application_of(name, "Native"))
        }
        for name in ("full", "smallest")
    }
    conf = application_of("full", "Kubeflow")["spec"]["sparkConf"]

    assert variables_of["full"]["PYSPARK_SUBMIT_ARGS"] == (
        "--packages org.postgresql:postgresql:42.7.14 --py-files local:///opt/app/helpers.zip "
        "pyspark-shell"
    )
    assert "PYSPARK_SUBMIT_ARGS" not in variables_of["smallest"]
    assert conf["spark.jars.packages"] == "org.postgresql:postgresql:42.7.14"
    assert conf["spark.submit.pyFiles"] == "local:///opt/app/helpers.zip"


def test_streams_are_kept_and_bounded_jobs_end() -> None:
    stream, bounded = application_of("smallest", "Native"), application_of("bounded", "Native")

    assert (stream["kind"], stream["spec"]["replicas"]) == ("StatefulSet", 1)
    assert bounded["kind"] == "Job"
    assert bounded["spec"]["podReplacementPolicy"] == "Failed"
    assert bounded["spec"]["backoffLimit"] == 2
    assert application_of("console", "Native")["kind"] == "StatefulSet"
    assert application_of("bounded", "Kubeflow")["spec"]["restartPolicy"]["type"] == "OnFailure"
    tolerations = application_of("bounded", "Apache")["spec"]["applicationTolerations"]
    assert tolerations["restartConfig"]["restartPolicy"] == "OnFailure"

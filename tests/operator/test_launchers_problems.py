"""What a sink asks for and cannot have is said before anything is started."""

from typing import Any

import pytest

from iggy_operator.launchers import kubeflow
from iggy_operator.launchers.children import checkpoint_problems, problems
from launcher_cases import LAKE_TEMPLATE, job_of, sink_of


@pytest.mark.parametrize("mode", ["ReadWriteOnce", "ReadWriteOncePod"])
def test_a_volume_of_one_node_goes_with_a_driver_alone(mode: str) -> None:
    one_node = job_of(sink_of(checkpoint={"volume": {"accessMode": mode}}))

    assert checkpoint_problems(one_node, "Native") == ()
    for launcher in ("Kubeflow", "Apache"):
        (line,) = checkpoint_problems(one_node, launcher)
        assert line.startswith("checkpoint.volume.accessMode")
        assert "ReadWriteMany" in line
        assert checkpoint_problems(job_of(), launcher) == ()


DELTA: dict[str, Any] = {"type": "Delta", "files": None}


def with_template(spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    whole = {**LAKE_TEMPLATE["spec"], **spec}
    return {"spark": {"podTemplate": {"metadata": metadata, "spec": whole}}}


def with_mount(path: str) -> dict[str, Any]:
    mounts = [{"name": "lake", "mountPath": "/lake"}, {"name": "x", "mountPath": path}]
    return with_template({"containers": [{"volumeMounts": mounts}]})


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"checkpoint": {"location": "s3a://k@lake/x"}}, "checkpoint.location: s3a://k@lake/x is"),
        ({"checkpoint": {"location": "s3a://lake/../x"}}, "checkpoint.location"),
        ({"files": {"path": "lake/orders"}}, "files.path"),
        ({"files": {"path": "/elsewhere/orders"}}, "files.path"),
        ({"files": {"path": "/lake/../etc"}}, "files.path"),
        ({"files": {"path": "/lakes"}}, "files.path"),
        ({"files": {"path": "gs://lake/x"}}, "files.path"),
        ({"files": {"path": "s3a://lake/../x"}}, "files.path"),
        (DELTA | {"delta": {"path": "/elsewhere/orders"}}, "delta.path: /elsewhere/orders lies on"),
        (DELTA | {"delta": {"path": "gs://lake/x"}}, "delta.path"),
        (
            {"type": "Iggy", "files": None, "iggy": {"stream": "shop", "topic": "Orders.V2"}},
            "iggy: shop/Orders.V2 is the topic that is read",
        ),
        (
            {"errors": {"tolerance": "Data", "deadLetter": {"topic": "Orders.V2"}}},
            "errors.deadLetter: shop/Orders.V2 is the topic that is read",
        ),
        (
            {"type": "Custom", "files": None, "custom": {"mainApplicationFile": "s3a://x/job.py"}},
            "custom.mainApplicationFile",
        ),
        (with_template({"hostNetwork": True}), "podTemplate.spec.hostNetwork"),
        (with_template({"initContainers": []}), "podTemplate.spec.initContainers"),
        (with_template({"serviceAccountName": "admin"}), "podTemplate.spec.serviceAccountName"),
        (with_template({}, name="mine"), "podTemplate.metadata.name"),
        (
            with_template({"volumes": [{"name": "lake", "hostPath": {"path": "/"}}]}),
            "a node's own folder",
        ),
        (
            with_template({"volumes": [{"name": "iggy-job", "emptyDir": {}}]}),
            "name of the operator",
        ),
        (with_mount("/checkpoint/x"), "mountPath /checkpoint/x is taken"),
        (with_mount("/tmp/"), "mountPath /tmp is taken"),
        (with_mount("/etc/iggy"), "mountPath /etc/iggy is taken"),
        (with_mount("/etc/iggy-target"), "mountPath /etc/iggy-target is taken"),
        (with_mount("/"), "mountPath / is taken"),
    ],
)
def test_what_cannot_be_had_is_said(spec: dict[str, Any], words: str) -> None:
    found = problems(job_of(sink_of(**spec)), "Native")

    assert len(found) == 1
    assert words in found[0]


@pytest.mark.parametrize("field", ["image", "securityContext", "command"])
def test_a_container_of_the_users_only_mounts(field: str) -> None:
    template = with_template(
        {"containers": [{field: "x", **LAKE_TEMPLATE["spec"]["containers"][0]}]}
    )

    (line,) = problems(job_of(sink_of(**template)), "Native")

    assert f"containers.{field}" in line


@pytest.mark.parametrize(
    "key",
    [
        "spark.master",
        "spark.kubernetes.namespace",
        "spark.kubernetes.container.image",
        "spark.kubernetes.driver.podTemplateFile",
        "spark.kubernetes.driver.volumes.hostPath.x.mount.path",
        "spark.executor.instances",
    ],
)
def test_properties_of_the_operator_are_refused(key: str) -> None:
    desired = sink_of(spark={"podTemplate": LAKE_TEMPLATE, "conf": {key: "mine", "spark.x": "1"}})

    (line,) = problems(job_of(desired), "Kubeflow")
    conf = kubeflow.application(job_of(desired))["spec"]["sparkConf"]

    assert key in line
    assert conf.get(key) != "mine"
    assert conf["spark.x"] == "1"


def test_an_amount_that_is_none_is_named() -> None:
    spark = {"podTemplate": LAKE_TEMPLATE, "executor": {"memoryOverhead": "lots"}}

    (line,) = problems(job_of(sink_of(spark=spark)), "Native")

    assert "spark.executor.memoryOverhead" in line

"""The images under the strictest profile, as a user that they have never heard of."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from apache_iggy import Consumer, IggyClient, PollingStrategy, SendMessage

from e2e_kubectl import Document, Kubectl
from e2e_pods import CONTAINER_SECURITY, POD_SECURITY, STRANGER, as_pod, strict_spec, with_volume
from image_builder import inputs

pytestmark = pytest.mark.usefixtures("project_images")

ROOT = Path(__file__).parents[2]
BROKER, OPERATOR, SPARK = (inputs.name(ROOT, stage) for stage in inputs.STAGES)
ROOT_USER = {"IGGY_ROOT_USERNAME": "iggy", "IGGY_ROOT_PASSWORD": "iggy-e2e"}
MESSAGES = 1000
DATA = "/data"

# Run inside the pod: who owns what lies on the volume.
OWNERS = """
import json, os
paths = [os.path.join(folder, name)
         for folder, folders, files in os.walk("/data") for name in folders + files]
owners = {(os.lstat(path).st_uid, os.lstat(path).st_gid) for path in paths}
print(json.dumps({"owners": sorted(owners), "count": len(paths)}))
"""
WRITES = """
import os
for path in ("/", "/opt/iggykube", "/usr/bin", os.path.expanduser("~")):
    try:
        open(os.path.join(path, "written"), "w").close()
    except OSError:
        continue
    print(path)
"""
SOURCE_JOB = """
import os, sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
table = (spark.read.format("iggy").option("servers", sys.argv[1])
    .option("username", "iggy").option("password", "iggy-e2e")
    .option("stream", "s").option("topic", "t").load())
print("rows:", table.count(), "user:", os.getuid(), "home:", os.environ.get("HOME"))
spark.stop()
"""
EXECUTOR_JOB = """
import os, socket
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
hosts = spark.sparkContext.parallelize(range(4), 4).map(
    lambda _: (socket.gethostname(), os.getuid())).distinct().collect()
print("executors:", sorted(hosts), "driver:", socket.gethostname())
spark.stop()
"""


def broker_pod(kubectl: Kubectl) -> None:
    kubectl.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "100Mi"}},
            },
        },
        as_pod("broker", _broker_spec()),
    )
    kubectl.wait("pod/broker", "condition=Ready")


def _broker_spec() -> Document:
    source = {"persistentVolumeClaim": {"claimName": "data"}}
    spec = with_volume(strict_spec(BROKER, [], env=ROOT_USER), source, name="data", path=DATA)
    spec["containers"][0]["readinessProbe"] = {
        "httpGet": {"path": "/ready", "port": 9099},
        "periodSeconds": 1,
        "failureThreshold": 60,
    }
    return spec


async def send(address: str) -> None:
    client = IggyClient(address)
    await client.connect()
    await client.login_user("iggy", "iggy-e2e")
    await client.create_stream("s")
    await client.create_topic("s", "t", partitions_count=1)
    messages = [SendMessage(f"message {number}") for number in range(MESSAGES)]
    await client.send_messages("s", "t", 0, messages)


async def receive(address: str) -> list[str]:
    client = IggyClient(address)
    await client.connect()
    await client.login_user("iggy", "iggy-e2e")
    polled = await client.poll_messages(
        "s",
        "t",
        consumer=Consumer.Single("c"),
        polling_strategy=PollingStrategy.First(),
        count=MESSAGES,
        auto_commit=False,
        partition_id=0,
    )
    return [message.payload().decode() for message in polled]


def finished(kubectl: Kubectl, pod: str) -> str:
    kubectl.wait(f"pod/{pod}", "jsonpath={.status.phase}=Succeeded", within_s=180)
    return kubectl.logs(pod)


def test_a_broker_serves_and_keeps_what_it_has(restricted: Kubectl) -> None:
    broker_pod(restricted)

    with restricted.forwarded("pod/broker", 8090) as port:
        asyncio.run(send(f"127.0.0.1:{port}"))
    restricted.delete("pod", "broker")
    restricted.apply(as_pod("broker", _broker_spec()))
    restricted.wait("pod/broker", "condition=Ready")
    with restricted.forwarded("pod/broker", 8090) as port:
        received = asyncio.run(receive(f"127.0.0.1:{port}"))

    assert received == [f"message {number}" for number in range(MESSAGES)]


def test_a_broker_writes_to_its_volume_only_and_its_group_owns_it(restricted: Kubectl) -> None:
    broker_pod(restricted)

    with restricted.forwarded("pod/broker", 8090) as port:
        asyncio.run(send(f"127.0.0.1:{port}"))
    found = json.loads(restricted.execute("broker", "python3", "-c", OWNERS))
    written = restricted.execute("broker", "python3", "-c", WRITES)

    assert found["count"] > 3
    assert found["owners"] == [[STRANGER, STRANGER]]
    assert written == ""


def test_a_broker_stops_when_it_is_asked(restricted: Kubectl) -> None:
    broker_pod(restricted)

    # As the first process of its container: nobody else would pass the signal on.
    restricted("exec", "broker", "--", "python3", "-c", "import os; os.kill(1, 15)")
    restricted.wait("pod/broker", "jsonpath={.status.phase}=Succeeded")

    (status,) = restricted.get("pod", "broker")["status"]["containerStatuses"]
    assert status["state"]["terminated"]["exitCode"] == 0


def test_the_operators_program_starts(restricted: Kubectl) -> None:
    restricted.apply(
        as_pod("helps", strict_spec(OPERATOR, ["--help"])),
        as_pod("tells", strict_spec(OPERATOR, ["--version"])),
    )

    assert "usage: iggy-operator" in finished(restricted, "helps")
    assert inputs.version(ROOT) in finished(restricted, "tells")


def test_a_users_own_program_reads_a_topic(restricted: Kubectl) -> None:
    broker_pod(restricted)
    with restricted.forwarded("pod/broker", 8090) as port:
        asyncio.run(send(f"127.0.0.1:{port}"))
    address = restricted.get("pod", "broker")["status"]["podIP"]

    words = ["python", "-c", SOURCE_JOB, f"{address}:8090"]
    restricted.apply(as_pod("reads", strict_spec(SPARK, words)))

    assert f"rows: {MESSAGES} user: {STRANGER}" in finished(restricted, "reads")


def test_the_sink_job_is_there_in_both_ways(restricted: Kubectl) -> None:
    module = ["python", "-m", "iggy_spark.sink_job", "--help"]
    file = ["python", "/opt/iggykube/sink_job.py", "--help"]
    restricted.apply(
        as_pod("module", strict_spec(SPARK, module)), as_pod("file", strict_spec(SPARK, file))
    )

    for pod in ("module", "file"):
        assert "Carry one Iggy topic into one sink." in finished(restricted, pod)


def test_spark_runs_in_cluster_mode_with_executors(restricted: Kubectl) -> None:
    restricted.apply(*_cluster_mode(restricted.namespace))

    restricted.wait("pod/submits", "jsonpath={.status.phase}=Succeeded", within_s=240)
    (driver,) = restricted.items("pods", "--selector=spark-role=driver")
    name = driver["metadata"]["name"]
    said = finished(restricted, name)

    assert driver["spec"]["containers"][0]["args"][0] == "driver"
    assert "executors: [('images-exec-1', 12345)] driver: images-driver" in said


def _cluster_mode(namespace: str) -> list[Document]:
    """Account and rights, the program, and a pod that submits it."""
    template = json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "spec": {
                "securityContext": POD_SECURITY,
                "containers": [
                    {
                        "name": "main",
                        "securityContext": CONTAINER_SECURITY,
                        "volumeMounts": [
                            {"name": "tmp", "mountPath": "/tmp"},
                            {"name": "program", "mountPath": "/program"},
                        ],
                    }
                ],
                "volumes": [
                    {"name": "tmp", "emptyDir": {}},
                    {"name": "program", "configMap": {"name": "program"}},
                ],
            },
        }
    )
    conf = {
        "spark.app.name": "images",
        "spark.kubernetes.container.image": SPARK,
        "spark.kubernetes.namespace": namespace,
        "spark.kubernetes.authenticate.driver.serviceAccountName": "runs",
        "spark.kubernetes.driver.podTemplateFile": "/program/pod.json",
        "spark.kubernetes.executor.podTemplateFile": "/program/pod.json",
        "spark.kubernetes.driver.pod.name": "images-driver",
        "spark.kubernetes.executor.podNamePrefix": "images",
        "spark.executor.instances": "1",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.kubernetes.driver.request.cores": "100m",
        "spark.kubernetes.executor.request.cores": "100m",
        "spark.ui.enabled": "false",
    }
    submit = ["spark-submit", "--master", "k8s://https://kubernetes.default.svc"]
    submit += ["--deploy-mode", "cluster"]
    submit += [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    spec = strict_spec(SPARK, [*submit, "local:///program/job.py"])
    spec = with_volume(
        {**spec, "automountServiceAccountToken": True, "serviceAccountName": "runs"},
        {"configMap": {"name": "program"}},
        name="program",
        path="/program",
    )
    rights = [
        {
            "apiGroups": [""],
            "resources": ["pods", "services", "configmaps", "persistentvolumeclaims"],
            "verbs": ["*"],
        },
        {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": ["*"]},
    ]
    rbac = "rbac.authorization.k8s.io"
    subject = {"kind": "ServiceAccount", "name": "runs", "namespace": namespace}
    named = {"name": "runs"}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named},
        {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": named, "rules": rights},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": named,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "runs"},
            "subjects": [subject],
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "program"},
            "data": {"job.py": EXECUTOR_JOB, "pod.json": template},
        },
        as_pod("submits", spec),
    ]

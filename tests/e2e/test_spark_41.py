"""The image with Spark 4.1 in a cluster: a user's program fills tables of Iceberg and of Delta."""

from __future__ import annotations

import pytest

import e2e_store
import spark_tables
from e2e_broker import BROKER, broker, make, ours, root
from e2e_kubectl import Document, Kubectl
from e2e_operator import Operator
from e2e_pods import as_pod, strict_spec, with_volume
from iggy_client import Client
from iggy_wire.primitives import Partitioning
from object_store import ObjectStore
from page_samples import ROOT
from waiting import eventually

pytestmark = pytest.mark.timeout(3600)  # the image may have to be built

OPERATOR_VALUES = {"replicas": 1}
STREAM, TOPIC = "flights", "departures"
SAMPLES = ROOT / "docs/samples/spark-applications"
PROGRAM, SETTINGS = "tables.py", "tables.conf"
APP, LOGIN = "/opt/app", "/etc/iggy"
DONE_S, LOOK_S = 600.0, 1.0


def test_a_program_fills_tables_of_both_kinds(
    operator: Operator, store: ObjectStore, spark_41_image: str
) -> None:
    work = operator.work
    store.client().create_bucket(Bucket=spark_tables.BUCKET)
    e2e_store.serve(work, store)
    make(
        work,
        broker(),
        ours("IggyStream", STREAM, brokerRef={"name": BROKER}),
        ours("IggyTopic", TOPIC, streamRef={"name": STREAM}, partitions=spark_tables.PARTITIONS),
    )
    login = root(work)
    with Client.connect(login.address, login.username, login.password) as client:
        for number in range(spark_tables.PARTITIONS):
            where = Partitioning.partition(number)
            client.send(STREAM, TOPIC, where, spark_tables.flights(number))

    work.apply(program(), as_pod("tables", pod_spec(spark_41_image, store)))
    ended(work, "tables")

    assert spark_tables.in_iceberg(store) == spark_tables.rows()
    assert spark_tables.in_delta(store) == spark_tables.rows()


def program() -> Document:
    """The samples' files as pods have them."""
    data = {name: (SAMPLES / name).read_text() for name in (PROGRAM, SETTINGS)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tables"}, "data": data}


def pod_spec(image: str, store: ObjectStore) -> Document:
    """Spark in one pod, as a user whom the image has never heard of."""
    conf = spark_tables.settings(f"http://s3:{e2e_store.PORT}")
    words = ["spark-submit", "--master", "local[2]", "--driver-memory", "1g"]
    words += ["--properties-file", f"{APP}/{SETTINGS}"]
    words += [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    words += [f"{APP}/{PROGRAM}", f"--servers={BROKER}:8090", f"--credentials={LOGIN}"]
    words += [f"--delta={spark_tables.DELTA}", f"--checkpoint={spark_tables.CHECKPOINT}"]
    spec = strict_spec(image, words, env=store.environment)
    spec = with_volume(spec, {"configMap": {"name": "tables"}}, name="app", path=APP)
    secret = {"secret": {"secretName": f"{BROKER}-root"}}
    return with_volume(spec, secret, name="login", path=LOGIN)


def ended(kubectl: Kubectl, pod: str) -> None:
    """Wait for its end; a failure shows what it said last."""

    def look() -> bool:
        return str(kubectl.get("pod", pod)["status"].get("phase")) in ("Succeeded", "Failed")

    assert eventually(look, True, within_s=DONE_S, step_s=LOOK_S), "it goes on and on"
    phase = kubectl.get("pod", pod)["status"]["phase"]
    assert phase == "Succeeded", kubectl.logs(pod, "--tail=60")

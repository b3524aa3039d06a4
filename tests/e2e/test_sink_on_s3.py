"""Files and checkpoint of a sink in an object store: a driver that comes anew has nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import pytest

import e2e_store
from e2e_broker import (
    STREAM,
    TOPIC,
    broker,
    kill_container,
    make,
    ours,
    root,
    stream,
    topic,
)
from e2e_kubectl import Document, Kubectl
from e2e_operator import Operator
from e2e_producer import Batch, Producer, numbered, producing
from e2e_watch import condition, most_at_once, watching
from iggy_operator.launchers.pods import DRIVER
from object_store import ObjectStore
from waiting import eventually, wait_until

pytestmark = pytest.mark.timeout(900)

OPERATOR_VALUES = {"replicas": 1}
SINK = "orders.lake"
LAKE, STATE = "lake/orders", "lake-state"
SELECTOR = "iggykube.dev/sink=orders.lake"
BATCHES, ROWS = 60, 50
TRIGGER_ROWS = 300
READY_S, CARRIED_S, SHOWN_S, FAILED_S = 240.0, 240.0, 120.0, 240.0

Kill = Callable[[Kubectl, Document], None]


@pytest.fixture(scope="module")
def work(operator: Operator, store: ObjectStore) -> Kubectl:
    """With a sink that has nothing to do yet."""
    for bucket in ("lake", STATE):
        store.client().create_bucket(Bucket=bucket)
    e2e_store.serve(operator.work, store)
    make(operator.work, broker(), stream(), topic(sinks=[{"name": "lake", **lake()}]))
    operator.work.wait(f"igk/{SINK}", "condition=Ready", within_s=READY_S)
    return operator.work


def lake(location: str = f"s3a://{STATE}/orders") -> Document:
    """Small batches, so that a kill falls between them."""
    return {
        "type": "Files",
        "files": {"path": f"s3a://{LAKE}", "format": "Parquet", "s3": e2e_store.reached()},
        "payload": {"format": "Json", "schema": "id BIGINT"},
        "maxOffsetsPerTrigger": TRIGGER_ROWS,
        "trigger": {"interval": "500ms"},
        "checkpoint": {"location": location, "s3": e2e_store.reached()},
        "spark": {
            "launcher": "Native",
            # So little reserved that others have room beside it.
            "conf": {"spark.kubernetes.driver.request.cores": "50m"},
        },
    }


@pytest.fixture(scope="module")
def rows() -> Iterator[Batch]:
    """Each id once, over all tests."""
    return numbered(keys=8, rows=ROWS)


def by_deletion(kubectl: Kubectl, pod: Document) -> None:
    """The next pod has nothing of the first one: its `/tmp` goes with it."""
    kubectl("delete", "pod", pod["metadata"]["name"], "--wait=false")


def by_signal(_: Kubectl, pod: Document) -> None:
    kill_container(pod, DRIVER)


@pytest.mark.parametrize("kill", [by_deletion, by_signal])
def test_another_driver_goes_on_where_the_first_one_was(
    work: Kubectl, store: ObjectStore, rows: Iterator[Batch], kill: Kill
) -> None:
    before = len(carried(store))
    (old,) = work.items("pods", "--selector", SELECTOR)

    with watching(work, "pods", "--selector", SELECTOR) as drivers:
        with producing(Producer(root(work), STREAM, TOPIC, islice(rows, BATCHES))) as producer:
            wait_until(lambda: producer.is_done, "everything is sent")
        wait_until(lambda: len(carried(store)) > before, "the first of it is carried", CARRIED_S)
        kill(work, old)
        total = before + len(producer.acknowledged)
        wait_until(
            lambda: len(carried(store)) >= total,
            lambda: f"{total} rows, and not {len(carried(store))}",
            within_s=CARRIED_S,
        )

    assert sorted(carried(store)) == list(range(total))
    assert not producer.unanswered
    assert most_at_once(drivers) == 1
    assert progress_of(work, total) == (total, 0)


def test_nothing_of_the_job_lies_elsewhere(work: Kubectl, store: ObjectStore) -> None:
    keys = [item["Key"] for item in store.client().list_objects_v2(Bucket=STATE)["Contents"]]
    kinds = {tuple(key.split("/")[2:4]) for key in keys if "/spark/" in key}

    assert {("spark", "offsets"), ("spark", "commits"), ("spark", "metadata")} == kinds
    assert {"orders/driver", "orders/sink.json"} < set(keys)
    assert [one for one in work.items("pvc") if "lake" in one["metadata"]["name"]] == []
    status = work.get("igk", SINK)["status"]
    assert status["checkpoint"] == {"location": f"s3a://{STATE}/orders"}
    assert condition({"status": status}, "CheckpointReady")["status"] == "True"


def test_keys_that_the_store_refuses_are_told_in_a_sentence(work: Kubectl) -> None:
    secret = e2e_store.secret()
    wrong = {**secret["stringData"], "accessKeyId": "somebody"}
    work.apply({**secret, "metadata": {"name": "wrong-keys"}, "stringData": wrong})
    location = f"s3a://{STATE}/other"
    other = {**lake(location), "topicRef": {"name": TOPIC}}
    other["checkpoint"]["s3"]["credentialsSecretName"] = "wrong-keys"
    work.apply(ours("IggySink", "orders.other", **other))
    sentence = f"checkpoint: {location}: the store refuses the access key: correct the credentials"

    def told() -> str:
        return str(condition(work.get("igk", "orders.other")).get("message"))

    assert eventually(told, sentence, within_s=FAILED_S) == sentence


def progress_of(kubectl: Kubectl, total: int) -> tuple[int | None, int | None]:
    """Messages that the status says are carried, and are not."""

    def look() -> tuple[int | None, int | None]:
        found = kubectl.get("igk", SINK)["status"].get("progress", {})
        return found.get("committed"), found.get("lagMessages")

    return eventually(look, (total, 0), within_s=SHOWN_S)


def carried(store: ObjectStore) -> list[int]:
    """The ids of all rows in the lake."""
    keys = store.client().list_objects_v2(Bucket="lake").get("Contents", ())
    if not any(item["Key"].endswith(".parquet") for item in keys):
        return []  # the job's own keys come and go
    found: list[int] = e2e_store.read(store, LAKE)["id"].to_pylist()
    return found

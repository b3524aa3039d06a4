"""A sink is paused, taken out of its topic's list and put back: it goes on where it stopped."""

from __future__ import annotations

from itertools import islice

import pytest

import e2e_store
from e2e_broker import CLAIM, STREAM, TOPIC, broker, make, root, small_driver, stream, topic
from e2e_kubectl import Document, Kubectl
from e2e_operator import Operator
from e2e_producer import Batch, Producer, numbered, producing
from e2e_topics import says, status, users
from e2e_watch import GONE, watching
from object_store import ObjectStore
from waiting import eventually, wait_until

pytestmark = pytest.mark.timeout(600)

OPERATOR_VALUES = {"replicas": 1, "resyncSeconds": 5}
OPERATOR_DELETES = {"iggysinks", "statefulsets"}
LAKE, TAIL = f"{TOPIC}.lake", f"{TOPIC}.tail"
FOLDER = "lake/orders"
CHILDREN = "statefulsets,jobs,pods,serviceaccounts,configmaps,secrets,igu"
READY_S, CARRIED_S, GONE_S = 240.0, 180.0, 120.0
BATCHES, ROWS = 5, 40
STEP = BATCHES * ROWS


@pytest.fixture(scope="module")
def work(operator: Operator, store: ObjectStore) -> Kubectl:
    store.client().create_bucket(Bucket="lake")
    e2e_store.serve(operator.work, store)
    make(operator.work, broker(), stream(), topic(sinks=[lake(), tail()]))
    for name in (LAKE, TAIL):
        operator.work.wait(f"igk/{name}", "condition=Ready", within_s=READY_S)
    return operator.work


def lake(**more: object) -> Document:
    return {
        "name": "lake",
        "type": "Files",
        "files": {"path": f"s3a://{FOLDER}", "format": "Parquet", "s3": e2e_store.reached()},
        "payload": {"format": "Json", "schema": "id BIGINT"},
        "trigger": {"interval": "1s"},
        "checkpoint": {"volume": {"size": "1Gi", "accessMode": "ReadWriteOnce"}},
        "spark": small_driver(),
        **more,
    }


def tail() -> Document:
    return {
        "name": "tail",
        "type": "Console",
        "trigger": {"interval": "1s"},
        "spark": small_driver(),
    }


def test_a_sink_that_is_paused_removed_and_put_back_has_no_gap_and_nothing_twice(
    work: Kubectl, store: ObjectStore
) -> None:
    rows = numbered(keys=4, rows=ROWS)
    other = one_pod(work, TAIL)["metadata"]["uid"]
    produce(work, list(islice(rows, BATCHES)))
    check_carried(store, STEP)

    with watching(work, "pods", "--selector", selector(TAIL)) as tail_pods:
        # Paused.
        make(work, topic(sinks=[lake(suspend=True), tail()]))
        wait_until(lambda: says(work, f"igk/{LAKE}") == ("False", "Suspended"), LAKE, GONE_S)
        wait_until(lambda: not work.items("pods", "--selector", selector(LAKE)), "no pod", GONE_S)
        produce(work, list(islice(rows, BATCHES)))
        assert ids(store) == list(range(STEP))
        make(work, topic(sinks=[lake(), tail()]))
        check_carried(store, 2 * STEP)

        # Taken out.
        claim, application = claim_of(work), status(work, f"igk/{LAKE}")["application"]["name"]
        username = status(work, f"igk/{LAKE}")["userName"]
        assert username in users(root(work))
        make(work, topic(sinks=[tail()]))
        work.wait(f"igk/{LAKE}", "delete", within_s=GONE_S)
        work.wait(f"igu/{application}", "delete", within_s=GONE_S)
        wait_until(lambda: left(work, LAKE) == [], lambda: str(left(work, LAKE)), GONE_S)
        assert username not in users(root(work))
        assert claim_of(work) == claim
        assert not work.get("pvc", f"{LAKE}-checkpoint")["metadata"].get("ownerReferences")
        produce(work, list(islice(rows, BATCHES)))

        # Put back.
        make(work, topic(sinks=[lake(), tail()]))
        work.wait(f"igk/{LAKE}", "condition=Ready", within_s=READY_S)
        check_carried(store, 3 * STEP)
        assert claim_of(work) == claim

    assert {event.uid for event in tail_pods} == {other}
    assert not [event for event in tail_pods if event.kind == GONE]
    assert restarts(one_pod(work, TAIL)) == 0
    assert work.exists("pvc", CLAIM)


def test_the_topic_counts_its_sinks(work: Kubectl) -> None:
    def summary() -> tuple[object, object]:
        found = status(work, f"igt/{TOPIC}")
        return found.get("sinksSummary"), sorted(row["name"] for row in found.get("sinks", ()))

    wanted = ("2/2", ["lake", "tail"])
    assert eventually(summary, wanted, within_s=READY_S) == wanted


def produce(kubectl: Kubectl, batches: list[Batch]) -> None:
    with producing(Producer(root(kubectl), STREAM, TOPIC, batches)) as producer:
        wait_until(lambda: producer.is_done, "everything is sent")
    assert not producer.unanswered


def check_carried(store: ObjectStore, count: int) -> None:
    """The sink has all ids, each once."""
    wait_until(
        lambda: len(ids(store)) >= count, lambda: f"{count}, not {len(ids(store))}", CARRIED_S
    )
    assert ids(store) == list(range(count))


def ids(store: ObjectStore) -> list[int]:
    if not store.client().list_objects_v2(Bucket="lake").get("KeyCount"):
        return []
    found: list[int] = e2e_store.read(store, FOLDER)["id"].to_pylist()
    return sorted(found)


def selector(sink: str) -> str:
    return f"iggykube.dev/sink={sink}"


def one_pod(kubectl: Kubectl, sink: str) -> Document:
    (pod,) = kubectl.items("pods", "--selector", selector(sink))
    return pod


def claim_of(kubectl: Kubectl) -> str:
    return str(kubectl.get("pvc", f"{LAKE}-checkpoint")["metadata"]["uid"])


def left(kubectl: Kubectl, sink: str) -> list[str]:
    """What is still there of a sink, besides its claim."""
    return [
        f"{one['kind']} {one['metadata']['name']}"
        for one in kubectl.items(CHILDREN, "--selector", selector(sink))
    ]


def restarts(pod: Document) -> int:
    return sum(one["restartCount"] for one in pod["status"]["containerStatuses"])

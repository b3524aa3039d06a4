"""A node is drained: the broker lets go at once, and comes back with all that was acknowledged; so
does the driver of a sink, which goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import islice

import pytest

import e2e_store
from e2e_broker import (
    CLAIM,
    POD,
    STREAM,
    TOPIC,
    broker,
    check_kept,
    everything,
    make,
    root,
    stream,
    topic,
)
from e2e_drivers import driver, runs_anew
from e2e_kubectl import Document, Kubectl
from e2e_lake import BUCKET, carried, lake
from e2e_operator import Operator
from e2e_producer import Batch, Producer, numbered, producing
from e2e_topics import status
from e2e_watch import most_at_once, watching
from object_store import ObjectStore
from waiting import wait_until

pytestmark = pytest.mark.timeout(600)

OPERATOR_VALUES = {"replicas": 1}
LABEL = "example.com/drained"  # by which a drain spares all others on the node
ENOUGH = 500
DRAIN_S, BACK_S = 120, 180.0
CARRIED = "parcels"  # a topic with a sink
SINK = f"{CARRIED}.lake"
SELECTOR = f"iggykube.dev/sink={SINK}"
TAINT = "example.com/gone"
BATCHES, ROWS = 60, 50
READY_S, CARRIED_S = 240.0, 300.0

Left = Callable[[Kubectl, str], AbstractContextManager[None]]


@pytest.fixture(scope="module")
def work(operator: Operator) -> Kubectl:
    label = {LABEL: operator.work.namespace}
    make(operator.work, broker(podTemplate={"labels": label}), stream(), topic())
    return operator.work


@pytest.fixture(scope="module")
def sink(work: Kubectl, store: ObjectStore) -> Kubectl:
    """With a sink that has nothing to do yet."""
    store.make_bucket(BUCKET)
    e2e_store.serve(work, store)
    make(work, topic(CARRIED, sinks=[lake()]))
    work.wait(f"igk/{SINK}", "condition=Ready", within_s=READY_S)
    return work


@pytest.fixture(scope="module")
def rows() -> Iterator[Batch]:
    """Each id once, over all tests."""
    return numbered(keys=8, rows=ROWS)


def test_a_drain_ends_and_nothing_is_lost(work: Kubectl, cluster: Kubectl) -> None:
    old = work.get("pod", POD)
    node = old["spec"]["nodeName"]
    producer = Producer(root(work), STREAM, TOPIC, numbered(keys=8, rows=10))
    reached = acknowledged(producer)

    with producing(producer):
        wait_until(reached(ENOUGH), "messages are acknowledged")
        try:
            drain(cluster, node, f"{LABEL}={work.namespace}")
            assert uid(work) != old["metadata"]["uid"], "it is gone, and waits for a node"
            work.wait(f"pod/{POD}", "jsonpath={.status.phase}=Pending")
            work.wait("igb/main", "condition=Ready=false")
        finally:
            cluster("uncordon", node)
        work.wait("igb/main", "condition=Ready", within_s=BACK_S)
        wait_until(reached(len(producer.acknowledged) + ENOUGH), "more of them", BACK_S)

    check_kept(producer, everything(root(work)))
    assert not work.exists("poddisruptionbudgets")
    (volume,) = (one for one in work.get("pod", POD)["spec"]["volumes"] if one["name"] == "data")
    assert volume["persistentVolumeClaim"]["claimName"] == CLAIM


@contextmanager
def drained(cluster: Kubectl, node: str) -> Iterator[None]:
    """The driver is evicted, and no pod comes to its node."""
    try:
        drain(cluster, node, SELECTOR)
        yield
    finally:
        cluster("uncordon", node)


@contextmanager
def tainted(cluster: Kubectl, node: str) -> Iterator[None]:
    """Everything on the node goes at once: driver, broker and operator."""
    cluster("taint", "node", node, f"{TAINT}=now:NoExecute", "--overwrite")
    try:
        yield
    finally:
        cluster("taint", "node", node, f"{TAINT}-")


def test_a_drained_driver_goes_on_where_it_was_and_has_not_failed(
    sink: Kubectl, cluster: Kubectl, store: ObjectStore, rows: Iterator[Batch]
) -> None:
    check_it_goes_on((sink, cluster), store, rows, left=drained)

    assert "error" not in status(sink, f"igk/{SINK}")["application"]


def test_a_driver_that_is_evicted_with_its_broker_and_operator_goes_on(
    sink: Kubectl, cluster: Kubectl, store: ObjectStore, rows: Iterator[Batch]
) -> None:
    check_it_goes_on((sink, cluster), store, rows, left=tainted)


def check_it_goes_on(
    where: tuple[Kubectl, Kubectl], store: ObjectStore, rows: Iterator[Batch], *, left: Left
) -> None:
    """Its node is left in the middle of its work and comes back: no gap, no row twice."""
    sink, cluster = where
    before = len(carried(store))
    old = driver(sink, SELECTOR)

    with watching(sink, "pods", "--selector", SELECTOR) as drivers:
        with producing(Producer(root(sink), STREAM, CARRIED, islice(rows, BATCHES))) as producer:
            wait_until(lambda: producer.is_done, "everything is sent")
        wait_until(lambda: len(carried(store)) > before, "the first of it is carried", CARRIED_S)
        with left(cluster, old["spec"]["nodeName"]):
            wait_until(lambda: waits(sink, old), "a pod that waits for a node", BACK_S)
            at_the_end = len(carried(store))
        wait_until(lambda: runs_anew(sink, SELECTOR, old), "another driver", BACK_S)
        total = before + len(producer.acknowledged)
        wait_until(
            lambda: len(carried(store)) >= total,
            lambda: f"{total} rows, and not {len(carried(store))}",
            within_s=CARRIED_S,
        )

    assert before < at_the_end < total, "it was in the middle of its work"
    assert sorted(carried(store)) == list(range(total))
    assert most_at_once(drivers) == 1
    sink.wait("igb/main", "condition=Ready", within_s=BACK_S)
    sink.wait(f"igk/{SINK}", "condition=Ready", within_s=BACK_S)


def waits(kubectl: Kubectl, old: Document) -> bool:
    """A pod is there in place of `old`, and has no node."""
    pods = kubectl.items("pods", "--selector", SELECTOR)
    old_uid = old["metadata"]["uid"]
    return [pod["metadata"]["uid"] != old_uid and _is_pending(pod) for pod in pods] == [True]


def _is_pending(pod: Document) -> bool:
    return pod["status"]["phase"] == "Pending" and "nodeName" not in pod["spec"]


def drain(cluster: Kubectl, node: str, selector: str) -> None:
    """Of the pods with these labels alone, by the API for evictions."""
    words = (f"--pod-selector={selector}", "--delete-emptydir-data", f"--timeout={DRAIN_S}s")
    cluster("drain", node, *words, within_s=DRAIN_S + 10)


def acknowledged(producer: Producer) -> Callable[[int], Callable[[], bool]]:
    """Conditions that so many messages are, unless it gave up."""

    def reaches(count: int) -> Callable[[], bool]:
        return lambda: producer.is_done or len(producer.acknowledged) >= count

    return reaches


def uid(kubectl: Kubectl) -> str:
    """Of the pod that is there; an empty text if there is none."""
    pods = kubectl.items("pods", "--selector", f"{LABEL}={kubectl.namespace}")
    return str(pods[0]["metadata"]["uid"]) if pods else ""

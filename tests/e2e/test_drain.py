"""A node is drained: the broker lets go at once, and comes back with all that was acknowledged."""

from __future__ import annotations

from collections.abc import Callable

import pytest

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
from e2e_kubectl import Kubectl
from e2e_operator import Operator
from e2e_producer import Producer, numbered, producing
from waiting import wait_until

OPERATOR_VALUES = {"replicas": 1}
LABEL = "example.com/drained"  # by which a drain spares all others on the node
ENOUGH = 500
DRAIN_S, BACK_S = 120, 180.0


@pytest.fixture(scope="module")
def work(operator: Operator) -> Kubectl:
    label = {LABEL: operator.work.namespace}
    make(operator.work, broker(podTemplate={"labels": label}), stream(), topic())
    return operator.work


def test_a_drain_ends_and_nothing_is_lost(work: Kubectl, cluster: Kubectl) -> None:
    old = work.get("pod", POD)
    node = old["spec"]["nodeName"]
    producer = Producer(root(work), STREAM, TOPIC, numbered(keys=8, rows=10))
    selector = f"--pod-selector={LABEL}={work.namespace}"
    reached = acknowledged(producer)

    with producing(producer):
        wait_until(reached(ENOUGH), "messages are acknowledged")
        try:
            cluster(
                "drain", node, selector, "--delete-emptydir-data", f"--timeout={DRAIN_S}s",
                within_s=DRAIN_S + 10,
            )  # fmt: skip
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


def acknowledged(producer: Producer) -> Callable[[int], Callable[[], bool]]:
    """Conditions that so many messages are, unless it gave up."""

    def reaches(count: int) -> Callable[[], bool]:
        return lambda: producer.is_done or len(producer.acknowledged) >= count

    return reaches


def uid(kubectl: Kubectl) -> str:
    """Of the pod that is there; an empty text if there is none."""
    pods = kubectl.items("pods", "--selector", f"{LABEL}={kubectl.namespace}")
    return str(pods[0]["metadata"]["uid"]) if pods else ""

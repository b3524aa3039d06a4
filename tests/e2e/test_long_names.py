"""The longest names that are allowed: jobs start, stay apart, and tell whose they are."""

from __future__ import annotations

import pytest

from e2e_broker import BROKER, broker, make, ours, root, small_driver
from e2e_drivers import driver
from e2e_kubectl import Document, Kubectl
from e2e_operator import Operator
from e2e_topics import connected, status
from iggy_wire.batch import Message
from iggy_wire.primitives import Partitioning
from waiting import eventually, wait_until

pytestmark = pytest.mark.timeout(600)

OPERATOR_VALUES = {"replicas": 1, "resyncSeconds": 5}
NAMESPACE_CHARACTERS, NAME_CHARACTERS, ENTRY_CHARACTERS = 60, 63, 40
STREAM = "shop-".ljust(NAME_CHARACTERS, "s")
TOPIC = "orders-".ljust(NAME_CHARACTERS, "o")
ENTRIES = tuple("lake-".ljust(ENTRY_CHARACTERS - 1, "l") + end for end in "ab")
MESSAGES = 10
READY_S, SHOWN_S = 240.0, 120.0


@pytest.fixture(scope="module")
def work(operator: Operator) -> Kubectl:
    """A namespace with a long name, too, and two sinks that differ in their last letter."""
    kubectl = operator.work
    assert len(kubectl.namespace) == NAMESPACE_CHARACTERS
    stream = ours("IggyStream", STREAM, brokerRef={"name": BROKER})
    entries = [sink(one) for one in ENTRIES]
    topic = ours("IggyTopic", TOPIC, streamRef={"name": STREAM}, sinks=entries)
    make(kubectl, broker(), stream, topic)
    wait_until(lambda: len(kubectl.items("igk")) == len(ENTRIES), "both sinks", READY_S)
    for name in sinks(kubectl):
        kubectl.wait(f"igk/{name}", "condition=Ready", within_s=READY_S)
    return kubectl


def sink(name: str) -> Document:
    checkpoint = {"volume": {"size": "1Gi", "accessMode": "ReadWriteOnce"}}
    return {"name": name, "type": "Console", "checkpoint": checkpoint, "spark": small_driver()}


def sinks(kubectl: Kubectl) -> list[str]:
    """Their objects, whose names have a mark in place of the end of the topic's."""
    names = sorted(one["metadata"]["name"] for one in kubectl.items("igk"))
    assert [len(name) for name in names] == [NAME_CHARACTERS] * len(ENTRIES)
    assert [name.rpartition(".")[2] for name in names] == list(ENTRIES)
    return names


def test_both_sinks_carry_everything(work: Kubectl) -> None:
    with connected(root(work)) as client:
        payloads = [Message(b"%d" % number) for number in range(MESSAGES)]
        client.send(STREAM, TOPIC, Partitioning.partition(0), payloads)

    def progress() -> list[tuple[int | None, int | None]]:
        found = [status(work, f"igk/{name}").get("progress", {}) for name in sinks(work)]
        return [(one.get("committed"), one.get("lagMessages")) for one in found]

    wanted: list[tuple[int | None, int | None]] = [(MESSAGES, 0)] * len(ENTRIES)
    assert eventually(progress, wanted, within_s=SHOWN_S) == wanted


def test_what_is_shortened_tells_the_full_names(work: Kubectl) -> None:
    applications = set()
    for name in sinks(work):
        pod = driver(work, f"iggykube.dev/sink={name}")
        told = status(work, f"igk/{name}")
        application = told["application"]["name"]
        applications.add(application)

        assert len(application) < NAME_CHARACTERS, "Kubernetes and Spark append to it"
        assert pod["metadata"]["name"].startswith(application)
        assert pod["metadata"]["labels"]["iggykube.dev/topic"] == TOPIC
        assert work.get("igk", name)["spec"]["topicRef"]["name"] == TOPIC
        assert told["consumerGroup"] == f"{work.namespace}/{name}"
        assert told["application"]["driverPod"] == pod["metadata"]["name"]
    assert len(applications) == len(ENTRIES)
    shown = status(work, f"igt/{TOPIC}")["sinks"]
    assert [(row["name"], row["ready"]) for row in shown] == [(one, "True") for one in ENTRIES]

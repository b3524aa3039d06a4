"""Deleted objects, by each policy, also without broker or operator: what goes and what stays."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e_broker import (
    BROKER,
    CLAIM,
    POD,
    STREAM,
    TOPIC,
    broker,
    everything,
    make,
    ours,
    root,
    stream,
    topic,
)
from e2e_kubectl import Document, Kubectl
from e2e_operator import DEPLOYMENT, Operator
from e2e_topics import connected, says, topics, users
from e2e_watch import condition
from iggy_client import Client
from iggy_operator.objects import FINALIZER
from stored import send
from waiting import wait_until

pytestmark = pytest.mark.timeout(600)

OPERATOR_VALUES = {"replicas": 1, "resyncSeconds": 2}
PAGE = Path(__file__).parents[2] / "docs" / "operator.md"
BY_HAND = re.compile(r"`kubectl (patch igt NAME [^`]*)`")
POLICIES = ("Retain", "DeleteIfEmpty", "Delete")
GONE_S, READY_S = 60.0, 120.0


@pytest.fixture(scope="module")
def work(operator: Operator) -> Kubectl:
    make(operator.work, broker(), stream())
    return operator.work


@pytest.mark.parametrize("policy", POLICIES)
def test_a_topic_with_messages(work: Kubectl, policy: str) -> None:
    name = f"t-{policy.lower()}"
    make(work, topic(name, deletionPolicy=policy))
    with connected(root(work)) as client:
        send(client, STREAM, name, b"1", b"2")
    assert finalizers(work, f"igt/{name}") == ([] if policy == "Retain" else [FINALIZER])

    remove(work, "igt", name)
    if policy == "DeleteIfEmpty":
        wait_until(lambda: says_why(work, "igt", name) == "Deleting", "it waits", GONE_S)
        assert "holds 2 messages" in ready(work, "igt", name)["message"]
        with connected(root(work)) as client:
            client.purge_topic(STREAM, name)
    work.wait(f"igt/{name}", "delete", within_s=GONE_S)

    assert (name in topics(root(work))) == (policy == "Retain")


@pytest.mark.parametrize("policy", POLICIES)
def test_a_stream_with_a_topic_of_nobody(work: Kubectl, policy: str) -> None:
    name = f"s-{policy.lower()}"
    make(work, ours("IggyStream", name, brokerRef={"name": BROKER}, deletionPolicy=policy))
    with connected(root(work)) as client:
        client.create_topic(name, "theirs", 1)

    remove(work, "igs", name)
    if policy != "Retain":
        wait_until(lambda: says_why(work, "igs", name) == "Deleting", "it waits", GONE_S)
        assert "theirs" in ready(work, "igs", name)["message"]
        with connected(root(work)) as client:
            client.delete_topic(name, "theirs")
    work.wait(f"igs/{name}", "delete", within_s=GONE_S)

    assert (name in streams(work)) == (policy == "Retain")


@pytest.mark.parametrize("policy", ["Retain", "Delete"])
def test_a_user(work: Kubectl, policy: str) -> None:
    name = f"u-{policy.lower()}"
    make(work, ours("IggyUser", name, brokerRef={"name": BROKER}, deletionPolicy=policy))
    assert name in users(root(work))

    remove(work, "igu", name)
    work.wait(f"igu/{name}", "delete", within_s=GONE_S)

    assert (name in users(root(work))) == (policy == "Retain")
    work.wait(f"secret/{name}-iggy", "delete", within_s=GONE_S)


def test_stream_and_topics_deleted_together_are_all_gone(work: Kubectl) -> None:
    together = ours("IggyStream", "whole", brokerRef={"name": BROKER}, deletionPolicy="Delete")
    parts = [
        ours("IggyTopic", f"part-{number}", streamRef={"name": "whole"}, deletionPolicy="Delete")
        for number in range(3)
    ]
    make(work, together, *parts)

    work.delete("igs/whole", *(f"igt/part-{number}" for number in range(3)), within_s=GONE_S)

    assert "whole" not in streams(work)


def test_force_release_lets_an_object_go_that_waits_for_a_broker(work: Kubectl) -> None:
    make(work, topic("held", deletionPolicy="Delete"))
    work.apply(broker(hibernate=True))
    work.wait(f"pod/{POD}", "delete", within_s=GONE_S)

    remove(work, "igt", "held")
    wait_until(
        lambda: "force-release" in ready(work, "igt", "held").get("message", ""), "told", GONE_S
    )
    work("annotate", "igt", "held", "iggykube.dev/force-release=true")
    work.wait("igt/held", "delete", within_s=GONE_S)

    make(work, broker(hibernate=False))
    assert "held" in topics(root(work))


def test_without_an_operator_the_command_of_the_documents_lets_an_object_go(
    operator: Operator, work: Kubectl
) -> None:
    make(work, topic("alone", deletionPolicy="Delete"), topic("free"))
    (command,) = BY_HAND.findall(PAGE.read_text())
    operator.system("scale", DEPLOYMENT, "--replicas=0")
    wait_until(lambda: not operator.pods(), "the operator is away", READY_S)

    remove(work, "igt", "alone")
    work.delete("igt/free", within_s=GONE_S)
    assert work.get("igt", "alone")["metadata"]["finalizers"] == [FINALIZER]
    work(*(word.strip("'") for word in command.replace("NAME", "alone").split(" ", 5)))
    work.wait("igt/alone", "delete", within_s=GONE_S)

    operator.system("scale", DEPLOYMENT, "--replicas=1")
    operator.wait_until_ready()
    assert {"alone", "free"} <= topics(root(work))


def test_a_broker_goes_first_and_its_volume_is_found_again(work: Kubectl) -> None:
    make(work, topic(deletionPolicy="Delete"), topic("second", deletionPolicy="DeleteIfEmpty"))
    with connected(root(work)) as client:
        send(client, STREAM, TOPIC, b"kept")
    held, claim = everything(root(work)), work.get("pvc", CLAIM)
    secret = work.get("secret", f"{BROKER}-root")["data"]

    work.delete(f"igb/{BROKER}", within_s=GONE_S)
    work.delete(f"igt/{TOPIC}", "igt/second", f"igs/{STREAM}", within_s=GONE_S)
    work.wait(f"pod/{POD}", "delete", within_s=GONE_S)

    left = work.get("pvc", CLAIM)["metadata"]
    assert left["uid"] == claim["metadata"]["uid"]
    assert not left.get("ownerReferences")
    make(work, broker(), stream(), topic())
    assert work.get("pvc", CLAIM)["metadata"]["uid"] == claim["metadata"]["uid"]
    assert work.get("secret", f"{BROKER}-root")["data"] == secret
    assert everything(root(work)) == held
    assert says(work, f"igt/{TOPIC}", "DataContinuity") == ("True", "Synced")


def test_a_broker_takes_its_volume_along_where_that_is_asked_for(work: Kubectl) -> None:
    other = broker(storage={"size": "1Gi", "retentionPolicy": "Delete"})
    other["metadata"]["name"] = "other"
    make(work, other)
    assert work.exists("pvc", "data-other-0")

    work.delete("igb/other", within_s=GONE_S)

    work.wait("pvc/data-other-0", "delete", within_s=GONE_S)
    work.wait("secret/other-root", "delete", within_s=GONE_S)


def remove(kubectl: Kubectl, kind: str, name: str) -> None:
    """Ask for its deletion, and do not wait."""
    kubectl("delete", kind, name, "--wait=false")


def ready(kubectl: Kubectl, kind: str, name: str) -> Document:
    return condition(kubectl.get(kind, name))


def says_why(kubectl: Kubectl, kind: str, name: str) -> str:
    return str(ready(kubectl, kind, name).get("reason", ""))


def finalizers(kubectl: Kubectl, what: str) -> list[str]:
    return list(kubectl.get(*what.split("/"))["metadata"].get("finalizers", []))


def streams(kubectl: Kubectl) -> set[str]:
    return asked(kubectl, lambda client: {one.name for one in client.get_streams()})


def asked(kubectl: Kubectl, look: Callable[[Client], set[str]]) -> set[str]:
    with connected(root(kubectl)) as client:
        return look(client)

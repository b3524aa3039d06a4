"""A broker's pod is killed under load, in each way there is: nothing acknowledged is lost."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from e2e_broker import (
    BROKER,
    CLAIM,
    POD,
    TOPIC,
    broker,
    check_kept,
    everything,
    kill_container,
    logged,
    make,
    root,
    stream,
    topic,
)
from e2e_kubectl import Document, Kubectl
from e2e_operator import Operator
from e2e_producer import Producer, numbered, producing
from e2e_watch import GONE, Event, condition, said, watching
from waiting import wait_until

OPERATOR_VALUES = {"replicas": 1}
CONTAINER = "broker"
BEFORE, AFTER = 500, 500  # messages that are acknowledged around a kill, at least
ROWS = 10
BACK_S = 180.0

Note = Callable[[str], None]
Kill = Callable[[Kubectl, Document], None]


def by_force(kubectl: Kubectl, pod: Document) -> None:
    kubectl("delete", "pod", pod["metadata"]["name"], "--grace-period=0", "--force", "--wait=false")


def politely(kubectl: Kubectl, pod: Document) -> None:
    kubectl("delete", "pod", pod["metadata"]["name"], "--wait=false")


def by_signal(_: Kubectl, pod: Document) -> None:
    kill_container(pod, CONTAINER)


@pytest.fixture(scope="module")
def work(operator: Operator) -> Kubectl:
    make(operator.work, broker(), stream(), topic())
    return operator.work


@pytest.mark.parametrize("kill", [by_force, by_signal, politely])
def test_nothing_acknowledged_is_lost(work: Kubectl, kill: Kill, measured: Note) -> None:
    pod, claim = work.get("pod", POD), work.get("pvc", CLAIM)
    known = everything(root(work))
    producer = Producer(root(work), "shop", TOPIC, numbered(keys=8, rows=ROWS))

    with watching(work, "igb") as brokers, producing(producer):
        wait_for(producer, BEFORE)
        kill(work, pod)
        wait_until(lambda: is_another(work, pod), "another process", BACK_S)
        back = came_back(brokers)
        wait_for(producer, len(producer.acknowledged) + AFTER)

    found = everything(root(work))
    check_kept(producer, {place: found[place] for place in found.keys() - known.keys()})
    assert known.items() <= found.items()
    assert work.get("pvc", CLAIM)["metadata"]["uid"] == claim["metadata"]["uid"]
    assert volumes(work.get("pod", POD)) == volumes(pod) == {CLAIM}
    measured(
        f"broker killed {kill.__name__.replace('_', ' ')}: Ready again after {back:.1f} s, "
        f"{len(producer.acknowledged):,} acknowledged, {producer.unanswered.total():,} unanswered"
    )


def test_a_polite_stop_ends_well_and_leaves_nothing_to_repair(work: Kubectl) -> None:
    login = root(work)
    host, _, port = login.address.partition(":")
    old = work.get("pod", POD)
    producer = Producer(login, "shop", TOPIC, numbered(keys=8, rows=ROWS))

    with (
        watching(work, "pods") as pods,
        socket.create_connection((host, int(port)), timeout=BACK_S) as idle,
        producing(producer),
    ):
        wait_for(producer, BEFORE)
        politely(work, old)
        assert idle.recv(1) == b"", "whoever is connected is told the end"
        wait_until(lambda: end_of(pods, old) is not None, "the pod is gone", BACK_S)
        wait_for(producer, len(producer.acknowledged) + AFTER)

    ended = end_of(pods, old)
    assert ended is not None
    assert (ended["reason"], ended["exitCode"]) == ("Completed", 0)
    lines = logged(work)
    assert [line for line in lines if line["level"] in ("warning", "error")] == []
    for line in lines:
        if line["event"] == "recovered":
            assert (line["decisions"], line["cut_bytes"]) == ({}, 0)
            assert line["messages"] > 0


def test_a_topic_says_ready_only_when_it_is_there(work: Kubectl) -> None:
    work.apply(broker(hibernate=True))
    work.wait(f"pod/{POD}", "delete", BACK_S)

    with watching(work, "igt") as topics:
        work.apply(topic("late"))
        for name in ("late", TOPIC):
            waits = "jsonpath={.status.conditions[?(@.type=='Ready')].reason}=BrokerNotReady"
            work.wait(f"igt/{name}", waits)
        make(work, broker(hibernate=False), topic(), topic("late"))

    assert said(topics, "late")[:-1] == ["Unknown", "False"]
    assert said(topics, TOPIC)[-2:] == ["False", "True"]
    assert everything(root(work), "late") == {}


def wait_for(producer: Producer, count: int) -> None:
    wait_until(
        lambda: producer.is_done or len(producer.acknowledged) >= count,
        lambda: f"{count} acknowledged, and not {len(producer.acknowledged)}",
        within_s=BACK_S,
    )


def came_back(brokers: list[Event]) -> float:
    """Seconds from the first word that the broker is not Ready to the one that it is."""

    def states() -> list[bool]:
        return [value == "True" for value in said(brokers, BROKER)]

    wait_until(
        lambda: states()[-2:] == [False, True], lambda: f"Ready again: {states()}", within_s=BACK_S
    )
    events = [(condition(one.value).get("status"), one.at_s) for one in brokers]
    lost = next(at_s for status, at_s in events if status != "True")
    return events[-1][1] - lost


def is_another(kubectl: Kubectl, old: Document) -> bool:
    """Another process serves, and the pod says so."""
    if not kubectl.exists("pod", POD):
        return False
    pod = kubectl.get("pod", POD)
    # A pod that was just made has no conditions.
    return number(pod) != number(old) and condition(pod).get("status") == "True"


def number(pod: Document) -> str:
    (status,) = pod["status"].get("containerStatuses") or [{}]
    return str(status.get("containerID", ""))


def volumes(pod: Document) -> set[str]:
    return {
        volume["persistentVolumeClaim"]["claimName"]
        for volume in pod["spec"]["volumes"]
        if "persistentVolumeClaim" in volume
    }


def end_of(pods: list[Event], old: Document) -> Document | None:
    """How the container of a pod ended that is gone."""
    own = [event for event in pods if event.uid == old["metadata"]["uid"]]
    if not any(event.kind == GONE for event in own):
        return None
    ends = [event.value["status"]["containerStatuses"][0]["state"] for event in own]
    return next((one["terminated"] for one in reversed(ends) if "terminated" in one), {})

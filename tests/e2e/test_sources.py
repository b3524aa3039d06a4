"""A source of a topic: it is looked after as a sink is, and what it sends has no gap."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

import stored
from e2e_broker import (
    PARTITIONS,
    STREAM,
    TOPIC,
    broker,
    kill_container,
    make,
    root,
    small_driver,
    stream,
    topic,
)
from e2e_kubectl import Document, Kubectl
from e2e_operator import Operator
from e2e_producer import login_of, service_address
from e2e_topics import connected, says, status, users
from e2e_watch import most_at_once, watching
from iggy_client import ClientError
from iggy_operator.launchers.pods import DRIVER
from iggy_wire.batch import Message
from iggy_wire.errors import ErrorCode
from iggy_wire.primitives import Partitioning
from waiting import eventually, wait_until

pytestmark = pytest.mark.timeout(900)

OPERATOR_VALUES = {"replicas": 1, "resyncSeconds": 5}
OPERATOR_DELETES = {"iggysources", "statefulsets"}
SOURCE = f"{TOPIC}.made"
SELECTOR = f"iggykube.dev/source={SOURCE}"
CHILDREN = "statefulsets,jobs,pods,serviceaccounts,configmaps,secrets,igu"
RATE, MESSAGES = 30, 6000  # so many that both kills fall into it, also on a slow machine
READY_S, CARRIED_S, GONE_S = 240.0, 300.0, 120.0
ANOTHER_WITHIN_S = 60.0  # as for sinks

Note = Callable[[str], None]
Kill = Callable[[Kubectl, Document], None]


@pytest.fixture(scope="module")
def work(operator: Operator) -> Kubectl:
    make(operator.work, broker(), stream(), topic("other"), topic(sources=[made()]))
    operator.work.wait(f"igsrc/{SOURCE}", "condition=Ready", within_s=READY_S)
    return operator.work


def made(**more: Any) -> Document:
    """Small batches, so that a kill falls between them."""
    return {
        "name": "made",
        "type": "Random",
        "random": {"rate": RATE, "keys": 7, "messages": MESSAGES},
        "trigger": {"interval": "500ms"},
        "checkpoint": {"volume": {"size": "1Gi", "accessMode": "ReadWriteOnce"}},
        "spark": small_driver(),
        **more,
    }


def by_signal(_: Kubectl, pod: Document) -> None:
    kill_container(pod, DRIVER)


def by_deletion(kubectl: Kubectl, pod: Document) -> None:
    kubectl("delete", "pod", pod["metadata"]["name"], "--wait=false")


def test_messages_arrive_and_another_driver_goes_on_where_the_first_one_was(
    work: Kubectl, measured: Note
) -> None:
    kills: tuple[Kill, ...] = (by_signal, by_deletion)
    with watching(work, "pods", "--selector", SELECTOR) as drivers:
        for kill in kills:
            before = len(arrived(work))
            wait_until(lambda seen=before: len(arrived(work)) > seen, "more arrives", CARRIED_S)
            old, began = driver(work), time.monotonic()
            kill(work, old)
            at_the_kill = len(numbers(work))
            wait_until(lambda one=old: runs_anew(work, one), "another driver", ANOTHER_WITHIN_S)
            what = kill.__name__.replace("_", " ")
            measured(f"driver killed {what}: another runs after {time.monotonic() - began:.1f} s")
            assert at_the_kill < MESSAGES, "it was in the middle of its work"
        wait_until(
            lambda: len(numbers(work)) >= MESSAGES,
            lambda: f"{MESSAGES} messages, and not {len(numbers(work))}",
            CARRIED_S,
        )

    found = arrived(work)
    assert sorted(numbers(work)) == list(range(MESSAGES))
    assert len({message.id for message in found}) == MESSAGES
    assert len({(message.id, message.payload) for message in found}) == MESSAGES
    assert most_at_once(drivers) == 1
    measured(f"{len(found)} messages for {MESSAGES}: what came twice has its id")


def test_the_status_says_how_it_is(work: Kubectl) -> None:
    work.wait(f"igsrc/{SOURCE}", "condition=Ready", within_s=READY_S)
    found = status(work, f"igsrc/{SOURCE}")

    assert found["consumerGroup"] == f"{work.namespace}/{SOURCE}"
    assert found["checkpoint"]["claimName"] == f"{SOURCE}-checkpoint"
    assert found["application"]["driverPod"]
    assert "progress" not in found

    def summary() -> tuple[object, object]:
        seen = status(work, f"igt/{TOPIC}")
        return seen.get("sourcesSummary"), [row["name"] for row in seen.get("sources", ())]

    wanted: tuple[object, object] = ("1/1", ["made"])
    assert eventually(summary, wanted, within_s=READY_S) == wanted
    assert says(work, f"igt/{TOPIC}", "SourcesReady") == ("True", "Synced")


def test_its_user_may_send_to_this_topic_and_nothing_else(work: Kubectl) -> None:
    name = status(work, f"igsrc/{SOURCE}")["userName"]
    (row,) = work.get("igu", name)["spec"]["permissions"]["streams"]
    assert row == {
        "stream": STREAM,
        "topics": [{"topic": TOPIC, "allow": ["ReadTopic", "SendMessages"]}],
    }

    login = login_of(work, f"{name}-iggy", service_address(work, "main"))
    with connected(login) as client:
        assert client.get_topic(STREAM, TOPIC) is not None
        for refused in (
            lambda: client.send(STREAM, "other", Partitioning.balanced(), [Message(b"x")]),
            lambda: client.delete_topic(STREAM, TOPIC),
            lambda: client.get_users(),
        ):
            with pytest.raises(ClientError) as error:
                refused()
            assert error.value.code == ErrorCode.UNAUTHORIZED


def test_a_source_that_is_paused_goes_on(work: Kubectl) -> None:
    claim = claim_of(work)
    make(work, topic(sources=[made(suspend=True)]))
    wait_until(lambda: says(work, f"igsrc/{SOURCE}") == ("False", "Suspended"), SOURCE, GONE_S)
    wait_until(lambda: not work.items("pods", "--selector", SELECTOR), "no pod", GONE_S)

    more = {"rate": RATE, "keys": 7, "messages": MESSAGES + 100}
    make(work, topic(sources=[made(random=more)]))
    work.wait(f"igsrc/{SOURCE}", "condition=Ready", within_s=READY_S)
    wait_until(lambda: len(numbers(work)) >= MESSAGES + 100, "the rest", CARRIED_S)

    assert sorted(numbers(work)) == list(range(MESSAGES + 100))
    assert claim_of(work) == claim


def test_a_source_that_is_taken_out_takes_everything_along_but_its_claim(work: Kubectl) -> None:
    found = status(work, f"igsrc/{SOURCE}")
    username, application = found["userName"], found["application"]["name"]
    assert username in users(root(work))
    claim = claim_of(work)

    make(work, topic())
    work.wait(f"igsrc/{SOURCE}", "delete", within_s=GONE_S)
    work.wait(f"igu/{application}", "delete", within_s=GONE_S)
    wait_until(lambda: left(work) == [], lambda: str(left(work)), GONE_S)

    assert username not in users(root(work))
    assert claim_of(work) == claim
    assert status(work, f"igt/{TOPIC}")["sourcesTotal"] == 0
    assert len(numbers(work)) == MESSAGES + 100, "the topic keeps what it was sent"


def arrived(kubectl: Kubectl) -> list[Message]:
    with connected(root(kubectl)) as client:
        return [
            message
            for partition in range(PARTITIONS)
            for message in stored.read_messages(client, STREAM, TOPIC, partition)
        ]


def numbers(kubectl: Kubectl) -> set[int]:
    """The source's own, of all messages that are there."""
    return {json.loads(message.payload)["number"] for message in arrived(kubectl)}


def driver(kubectl: Kubectl) -> Document:
    (pod,) = kubectl.items("pods", "--selector", SELECTOR)
    return pod


def runs_anew(kubectl: Kubectl, old: Document) -> bool:
    """Another process, in this pod or in a new one."""
    pods = kubectl.items("pods", "--selector", SELECTOR)
    statuses = [one for pod in pods for one in pod["status"].get("containerStatuses", [])]
    running = {one.get("containerID") for one in statuses if "running" in one["state"]}
    return bool(running) and old["status"]["containerStatuses"][0]["containerID"] not in running


def claim_of(kubectl: Kubectl) -> str:
    return str(kubectl.get("pvc", f"{SOURCE}-checkpoint")["metadata"]["uid"])


def left(kubectl: Kubectl) -> list[str]:
    """What is still there of the source, besides its claim."""
    return [
        f"{one['kind']} {one['metadata']['name']}"
        for one in kubectl.items(CHILDREN, "--selector", SELECTOR)
    ]

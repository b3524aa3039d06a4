"""A managed broker with a topic, in a scenario: its objects, its pod, what clients were told."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import stored
from e2e_kubectl import Document, Kubectl
from e2e_producer import Login, Place, Producer, login_of, service_address
from iggy_client import Client
from iggy_operator import API_VERSION

BROKER, STREAM, TOPIC = "main", "shop", "orders"
POD, CLAIM = f"{BROKER}-0", f"data-{BROKER}-0"
PARTITIONS = 2
READY_S = 180.0


def ours(kind: str, name: str, **spec: Any) -> Document:
    """An object of one of our kinds."""
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def broker(**spec: Any) -> Document:
    """The IggyBroker; what it reserves is little, since others want the machine as well."""
    resources = {"requests": {"cpu": "50m", "memory": "128Mi"}}
    return ours("IggyBroker", BROKER, **{"resources": resources, **spec})


def stream() -> Document:
    return ours("IggyStream", STREAM, brokerRef={"name": BROKER})


def topic(name: str = TOPIC, **spec: Any) -> Document:
    reference = {"name": STREAM}
    return ours("IggyTopic", name, **{"streamRef": reference, "partitions": PARTITIONS, **spec})


def small_driver() -> Document:
    """`spark` of a sink: less reserved than by itself, so that others have room beside it."""
    return {"launcher": "Native", "conf": {"spark.kubernetes.driver.request.cores": "100m"}}


def make(kubectl: Kubectl, *documents: Document) -> None:
    """Apply objects of ours, and return when all are Ready with their present spec."""
    kubectl.apply(*documents)
    for one in documents:
        what = f"{one['kind'].lower()}/{one['metadata']['name']}"
        kubectl.wait(what, "condition=Ready", within_s=READY_S)


def root(kubectl: Kubectl) -> Login:
    return login_of(kubectl, f"{BROKER}-root", service_address(kubectl, BROKER))


def everything(login: Login, name: str = TOPIC) -> dict[Place, bytes]:
    """All that a topic holds; the offsets of a partition are dense."""
    with Client.connect(login.address, login.username, login.password) as client:
        details = client.get_topic(STREAM, name)
        assert details is not None, f"{name} is not there"
        return {
            (partition, offset): payload
            for partition in range(details.topic.partitions_count)
            for offset, payload in enumerate(stored.read_all(client, STREAM, name, partition))
        }


def check_kept(producer: Producer, found: dict[Place, bytes]) -> None:
    """What was acknowledged is where it was said to be, and nothing is there that nobody sent."""
    lost = [
        place for place, payload in producer.acknowledged.items() if found.get(place) != payload
    ]
    assert not lost, f"{len(lost)} of {len(producer.acknowledged)} are lost: {lost[:3]}"
    more = Counter(found.values()) - Counter(producer.acknowledged.values())
    assert more <= producer.unanswered


def logged(kubectl: Kubectl, pod: str = POD) -> list[Document]:
    """The lines of a pod's log."""
    return [json.loads(line) for line in kubectl.logs(pod).splitlines()]


def kill_container(pod: Document, container: str) -> None:
    """SIGKILL for its first process, as the kernel does when memory is out."""
    os.kill(_first_process(pod, container), signal.SIGKILL)


def _first_process(pod: Document, container: str) -> int:
    """Its number on this machine; skips where the pod is on another."""
    statuses = pod["status"]["containerStatuses"]
    (address,) = (one["containerID"] for one in statuses if one["name"] == container)
    number = address.partition("://")[2]
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if number in (folder / "cgroup").read_text() and _is_first(folder):
                return int(folder.name)
        except FileNotFoundError:
            continue  # it has ended
    pytest.skip("the pods' processes are on another machine")


def _is_first(folder: Path) -> bool:
    (line,) = (one for one in (folder / "status").read_text().splitlines() if "NSpid:" in one)
    return line.split()[-1] == "1"


def send(login: Login, name: str, payloads: list[bytes]) -> None:
    """All of them, in one batch, to the first partition."""
    with Client.connect(login.address, login.username, login.password) as client:
        stored.send(client, STREAM, name, *payloads)

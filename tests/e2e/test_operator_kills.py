"""The operator is killed at every single write, while everything comes to life and changes.

Each life does one write to the API server. Every other one gets no answer to it; the rest get it,
and die with their next write, which is not done any more.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path

import pytest

from e2e_backends import Backend
from e2e_broker import (
    BROKER,
    STREAM,
    TOPIC,
    broker,
    everything,
    ours,
    root,
    small_driver,
    stream,
    topic,
)
from e2e_cluster.api import Api, ApiError
from e2e_kubectl import Document, Kubectl
from e2e_producer import Producer, numbered, producing
from e2e_watch import condition, most_at_once, watching
from iggy_operator import API_VERSION
from killing_proxy import KillingProxy, killing_proxy
from operator_account import account
from operator_lives import Lives, lives
from waiting import wait_until

pytestmark = pytest.mark.timeout(900)

OPERATOR_DELETES = {"statefulsets"}
LIVES_MAX = 150
LIFE_S = 240.0  # one that waits for a pod ends with what it writes then
DRIVERS = "iggykube.dev/sink"
PLURALS = ("iggybrokers", "iggystreams", "iggytopics", "iggyusers", "iggysinks", "iggysources")
LEASE = "iggy-operator"
MESSAGES = 100
DEFINITIONS_CHANGE = 429  # what the server says for a moment, when somebody applies them anew

Note = Callable[[str], None]


class Scene:
    """A namespace, and the operators that live for it one after the other."""

    def __init__(self, kubectl: Kubectl, proxy: KillingProxy, operators: Lives) -> None:
        self.kubectl = kubectl
        self.proxy = proxy
        self.count = 0
        self._operators = operators
        self._api = Api(f"http://127.0.0.1:{proxy.target}")

    def live_until_all_is_right(self) -> None:
        """Lives that die at a write each, until everything is as the objects say."""
        while not self.is_right():
            assert self.count < LIVES_MAX, f"it does not end: {self.proxy.kills[-10:]}"
            self.count += 1
            with self.life() as number:
                self.proxy.kill_at_a_write(number, undone=bool(self.count % 2))
                wait_until(
                    # One that cannot renew its Lease in time, on a busy machine, ends by itself.
                    lambda: not self._operators.is_alive(number) or self.is_right(),
                    lambda: f"a write, or the end: {self.conditions()}",
                    within_s=LIFE_S,
                )

    def live_and_let_go(self, *kinds: str) -> None:
        """One that is spared, while objects are deleted."""
        with self.life():
            self.kubectl.delete(",".join(kinds), "--all")

    @contextmanager
    def life(self) -> Iterator[int]:
        # Its predecessor gave nothing back, and nobody waits here until its time is over.
        self.kubectl("delete", "lease", LEASE, "--ignore-not-found")
        number = self._operators.begin()
        try:
            yield number
        finally:
            if self.proxy.spare(number) and self._operators.is_alive(number):
                os.kill(number, signal.SIGKILL)
            self._operators.wait_for_the_end()

    def is_right(self) -> bool:
        """Each object is Ready with its present spec."""
        return all(self.conditions().values())

    def conditions(self) -> dict[str, bool]:
        """By object, whether it is."""
        found = {}
        for plural in PLURALS:
            for value in self._items(plural):
                ready = condition(value)
                is_now = ready.get("observedGeneration") == value["metadata"]["generation"]
                name = f"{plural}/{value['metadata']['name']}"
                found[name] = is_now and ready["status"] == "True"
        return found

    def _items(self, plural: str) -> list[Document]:
        path = f"/apis/{API_VERSION}/namespaces/{self.kubectl.namespace}/{plural}"
        while True:
            try:
                found: list[Document] = self._api.get(path)["items"]
            except ApiError as error:
                if error.code != DEFINITIONS_CHANGE:
                    raise
            else:
                return found


@pytest.fixture
def scene(
    restricted: Kubectl, our_kinds: None, project_images: None, backend: Backend, tmp_path: Path
) -> Iterator[Scene]:
    if backend.name != "own":
        pytest.skip("the operator's processes run here, and find brokers only on a node")
    assert backend.machine_address is not None
    settings = {
        "NAMESPACE": restricted.namespace,
        "WATCH_NAMESPACES": restricted.namespace,
        "POD_NAME": "one-of-many",
        "HTTP_PORT": "0",
        "RESYNC_SECONDS": "10",
        "LEASE_SECONDS": "60",
    }
    with ExitStack() as ends:
        rights = account(restricted, tmp_path / "operators.kubeconfig")
        target = ends.enter_context(rights.proxied())
        proxy = ends.enter_context(killing_proxy(target))
        operators = ends.enter_context(
            lives(tmp_path, settings, api=proxy.url, name_server=backend.machine_address)
        )
        scene = Scene(restricted, proxy, operators)
        yield scene
        scene.live_and_let_go("iggysinks", "iggytopics", "iggystreams", "iggyusers", "iggybrokers")


def test_killed_at_every_write_the_end_is_as_the_objects_say(scene: Scene, measured: Note) -> None:
    kubectl = scene.kubectl

    with (
        watching(kubectl, "pods", "--selector", DRIVERS) as drivers,
        watching(kubectl, "pods", "--selector", f"iggykube.dev/broker={BROKER}") as brokers,
    ):
        kubectl.apply(*objects())
        scene.live_until_all_is_right()
        born = scene.count
        kept = uids(kubectl, "pvc", "secrets")
        with producing(Producer(root(kubectl), STREAM, TOPIC, islice(numbered(2, MESSAGES), 1))):
            wait_until(lambda: len(everything(root(kubectl))) == MESSAGES, "messages are there")
        assert deletions(scene) == set()

        kubectl.apply(*objects(is_changed=True))
        scene.live_until_all_is_right()

    assert most_at_once(drivers) == most_at_once(brokers) == 1
    assert len({event.uid for event in drivers}) == len({event.uid for event in brokers}) == 2
    assert kept.items() <= uids(kubectl, "pvc", "secrets").items()
    assert {path.split("/")[-2] for path in deletions(scene)} == {"statefulsets"}
    assert len(deletions(scene)) == 1, "the sink's job, which was changed"
    assert len(everything(root(kubectl))) == MESSAGES
    assert len(scene.proxy.kills) > 2 * len(objects()), "each object alone is several writes"
    measured(
        f"operators killed at every write: {born} lives until all was Ready, "
        f"{scene.count - born} more until all was changed"
    )


def objects(*, is_changed: bool = False) -> list[Document]:
    """A broker and one of each of what lives in it."""
    config = {"config": {"heartbeat.interval": "40 s"}} if is_changed else {}
    partitions, interval = (4, "2s") if is_changed else (2, "1s")
    grants = ["ReadTopic", "SendMessages"] if is_changed else ["ReadTopic"]
    rights = {"streams": [{"stream": STREAM, "topics": [{"topic": TOPIC, "allow": grants}]}]}
    sink = {
        "topicRef": {"name": TOPIC},
        "type": "Console",
        "trigger": {"interval": interval},
        "spark": small_driver(),
    }
    return [
        broker(**config),
        stream(),
        topic(partitions=partitions),
        ours("IggyUser", "clerk", brokerRef={"name": BROKER}, permissions=rights),
        ours("IggySink", "shown", **sink),
    ]


def uids(kubectl: Kubectl, *kinds: str) -> dict[str, str]:
    return {
        f"{kind}/{one['metadata']['name']}": one["metadata"]["uid"]
        for kind in kinds
        for one in kubectl.items(kind)
    }


def deletions(scene: Scene) -> set[str]:
    """Paths of what any operator deleted."""
    return {path for verb, path in map(str.split, scene.proxy.written) if verb == "DELETE"}

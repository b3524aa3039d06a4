"""The operator is upgraded, removed and installed again: what it runs takes no notice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from e2e_backends import Backend
from e2e_broker import (
    BROKER,
    CLAIM,
    STREAM,
    TOPIC,
    broker,
    everything,
    make,
    root,
    small_driver,
    stream,
    topic,
)
from e2e_cluster.places import Places, cache_folder
from e2e_kubectl import Kubectl
from e2e_operator import SELECTOR, Operator
from e2e_retag import retagged
from e2e_topics import connected, says, status
from e2e_watch import GONE, Event, said, watching
from stored import send
from waiting import wait_until

pytestmark = pytest.mark.timeout(900)

OPERATOR_VALUES = {"replicas": 1, "resyncSeconds": 5}
SINK = f"{TOPIC}.tail"
READY_S, TAKEN_OVER_S = 240.0, 120.0
OBJECTS = {"igb": BROKER, "igs": STREAM, "igt": TOPIC, "igk": SINK}
ANOTHER = "0.1.0-another"
DEFINITIONS = tuple(
    f"iggy{kind}.iggykube.dev" for kind in ("brokers", "streams", "topics", "sinks", "users")
)


@pytest.fixture(scope="module")
def work(operator: Operator) -> Kubectl:
    sink = {"name": "tail", "type": "Console", "spark": small_driver()}
    make(operator.work, broker(), stream(), topic(sinks=[sink]))
    operator.work.wait(f"igk/{SINK}", "condition=Ready", within_s=READY_S)
    with connected(root(operator.work)) as client:
        send(client, STREAM, TOPIC, b"1", b"2")
    wait_until(lambda: is_carried(operator.work, 2), "the sink has carried it", READY_S)
    return operator.work


def is_carried(kubectl: Kubectl, count: int) -> bool:
    """Nothing waits, and so the sink stays Ready."""
    progress = status(kubectl, f"igk/{SINK}").get("progress", {})
    is_all = (progress.get("committed"), progress.get("lagMessages")) == (count, 0)
    return is_all and says(kubectl, f"igk/{SINK}") == ("True", "Running")


@pytest.fixture(scope="module")
def another_image(
    backend: Backend, project_images: None, tmp_path_factory: pytest.TempPathFactory
) -> str:
    """The operator's image under the tag of another release."""
    archive = Places(cache_folder()).images / "operator.tar"
    folder = tmp_path_factory.mktemp("image")
    backend.load([retagged(archive, f"iggykube/operator:{ANOTHER}", folder)])
    return ANOTHER


@contextmanager
def undisturbed(kubectl: Kubectl) -> Iterator[None]:
    """Nothing restarts in here, nothing is deleted, and what is Ready stays so."""
    held, claim = everything(root(kubectl)), kubectl.get("pvc", CLAIM)["metadata"]["uid"]
    pods = numbers(kubectl)
    assert len(pods) == 2, "a broker and a driver"
    seen: dict[str, list[Event]] = {}
    with ExitStack() as stack:
        seen = {kind: stack.enter_context(watching(kubectl, kind)) for kind in OBJECTS}
        yield
    assert numbers(kubectl) == pods
    for kind, name in OBJECTS.items():
        assert said(seen[kind], name) == ["True"], f"{kind}/{name}"
        assert not [event for event in seen[kind] if event.kind == GONE and event.name == name]
    assert kubectl.get("pvc", CLAIM)["metadata"]["uid"] == claim
    assert everything(root(kubectl)) == held


def numbers(kubectl: Kubectl) -> set[tuple[str, int]]:
    """Each pod, and how often it was restarted."""
    return {
        (pod["metadata"]["uid"], status["restartCount"])
        for pod in kubectl.items("pods")
        for status in pod["status"]["containerStatuses"]
    }


def works_on(kubectl: Kubectl, name: str) -> None:
    """The operator that is there now does its work."""
    make(kubectl, topic(name))
    kubectl.delete("igt", name)


def test_an_upgrade_restarts_nothing(operator: Operator, work: Kubectl, another_image: str) -> None:
    children = {"image": {"tag": "0.2.0"}}

    with undisturbed(work):
        operator.upgrade(
            {"image": {"tag": another_image}, "broker": children, "spark": children, "workers": 4}
        )
        (pod,) = operator.system.items(
            "pods", "--selector", SELECTOR, "--field-selector=status.phase=Running"
        )
        works_on(work, "after-upgrade")
        wait_until(
            lambda: says(work, f"igb/{BROKER}", "ConfigApplied") == ("False", "RestartPending"),
            "the broker says what waits",
            TAKEN_OVER_S,
        )

    assert pod["spec"]["containers"][0]["image"].endswith(f":{another_image}")
    waiting = work.get("igb", BROKER)["status"]["restart"]
    assert waiting["pending"] is True
    assert "image" in " ".join(waiting["reasons"])


def test_without_the_operator_everything_runs_on_and_the_next_one_takes_over(
    operator: Operator, work: Kubectl, cluster: Kubectl
) -> None:
    definitions = [cluster.get("crd", name)["metadata"]["uid"] for name in DEFINITIONS]

    with undisturbed(work):
        operator.uninstall()
        wait_until(lambda: not operator.pods(), "its pods are gone", TAKEN_OVER_S)
        assert [cluster.get("crd", name)["metadata"]["uid"] for name in DEFINITIONS] == definitions
        work.apply(topic("meanwhile"))
        operator.install()
        work.wait("igt/meanwhile", "condition=Ready", within_s=TAKEN_OVER_S)
        wait_until(
            lambda: says(work, f"igb/{BROKER}", "ConfigApplied") == ("True", "Synced"),
            "nothing waits any more",
            TAKEN_OVER_S,
        )

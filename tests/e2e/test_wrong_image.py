"""The installation names images that are not there; set right, broker and sink come by themselves.

Nobody touches a pod, a resource or an annotation in between.
"""

from __future__ import annotations

import pytest

from e2e_broker import BROKER, POD, STREAM, TOPIC, broker, root, small_driver, stream, topic
from e2e_kubectl import Document, Kubectl
from e2e_operator import Operator
from e2e_topics import connected, says, status
from e2e_watch import condition
from stored import send
from waiting import wait_until

pytestmark = pytest.mark.timeout(900)

MISSING = "never-built"
WRONG = {"image": {"tag": MISSING}}
OPERATOR_VALUES = {"replicas": 1, "resyncSeconds": 5, "broker": WRONG, "spark": WRONG}
OPERATOR_DELETES = {"statefulsets"}
SINK = f"{TOPIC}.tail"
IGB, IGK = f"igb/{BROKER}", f"igk/{SINK}"
STUCK_S, READY_S = 180.0, 240.0


def message(kubectl: Kubectl, what: str) -> str:
    return str(condition(kubectl.get(*what.split("/")), "Ready").get("message", ""))


def wait_for(kubectl: Kubectl, what: str, said: tuple[str, str], named: str = "") -> None:
    """Until it says so, and names an image."""
    wait_until(
        lambda: says(kubectl, what) == said and named in message(kubectl, what),
        lambda: f"{what} is {said}, {named}: {status(kubectl, what)}",
        STUCK_S if named else READY_S,
    )


def image_of(pod: Document) -> str:
    (container,) = pod["spec"]["containers"]
    return str(container["image"])


@pytest.fixture(scope="module")
def work(operator: Operator) -> Kubectl:
    """A broker and a sink whose images are not there; nothing is awaited."""
    sink = {"name": "tail", "type": "Console", "spark": small_driver()}
    operator.work.apply(broker(), stream(), topic(sinks=[sink]))
    return operator.work


def test_a_broker_comes_once_the_installation_names_the_right_image(
    operator: Operator, work: Kubectl
) -> None:
    wait_for(work, IGB, ("False", "BrokerNotReady"), f"iggykube/broker:{MISSING}")
    stuck = work.get("pod", POD)
    assert status(work, IGB)["restart"]["pending"] is False

    operator.upgrade({"broker": {}})
    wait_for(work, IGB, ("True", "Synced"))

    pod = work.get("pod", POD)
    assert pod["metadata"]["uid"] != stuck["metadata"]["uid"]
    assert not image_of(pod).endswith(MISSING)
    assert says(work, IGB, "ConfigApplied") == ("True", "Synced")
    assert status(work, IGB)["restart"]["reasons"] == []


def test_a_sink_comes_once_the_installation_names_the_right_image(
    operator: Operator, work: Kubectl
) -> None:
    """After the test above: its broker serves."""
    serving = work.get("pod", POD)["metadata"]["uid"]
    wait_until(lambda: work.exists("igk", SINK), f"{SINK} is made from its topic", READY_S)
    wait_for(work, IGK, ("False", "DriverPending"), f"iggykube/spark:{MISSING}")
    application = status(work, IGK)["application"]
    assert "error" not in application
    assert image_of(work.get("pod", application["driverPod"])).endswith(MISSING)

    operator.upgrade({"broker": {}, "spark": {}})
    wait_for(work, IGK, ("True", "Running"))
    with connected(root(work)) as client:
        send(client, STREAM, TOPIC, b"1", b"2")
    wait_until(
        lambda: status(work, IGK).get("progress", {}).get("committed") == 2,
        lambda: f"the sink carries what there is: {status(work, IGK)}",
        READY_S,
    )

    application = status(work, IGK)["application"]
    assert not image_of(work.get("pod", application["driverPod"])).endswith(MISSING)
    assert "error" not in application
    assert work.get("pod", POD)["metadata"]["uid"] == serving, "its broker was left alone"

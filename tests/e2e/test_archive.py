"""A broker that archives to an object store: its volume is lost under load and comes back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count

import pytest

import e2e_store
from e2e_archive import LATE_S, figures
from e2e_broker import (
    BROKER,
    CLAIM,
    POD,
    STREAM,
    TOPIC,
    broker,
    everything,
    make,
    root,
    stream,
    topic,
)
from e2e_kubectl import Document, Kubectl
from e2e_operator import Operator
from e2e_producer import Batch, Login, Place, Producer, producing
from e2e_watch import condition
from object_store import ObjectStore
from waiting import eventually, wait_until

pytestmark = pytest.mark.timeout(600)

OPERATOR_VALUES = {"replicas": 1}
BUCKET = "archive"
INTERVAL_S = 1
BEFORE, AFTER = (
    1_000,
    500,
)  # messages that are acknowledged and archived before the loss, and behind
ROWS = 10
PAUSE_S = 0.02  # between batches: the load is steady, and not all that the machine can do
BACK_S, TOLD_S = 180.0, 120.0

Note = Callable[[str], None]


class Historian(Producer):
    """Keeps all that was acknowledged, with times: it may be lost, and its place given again."""

    def __init__(self, login: Login) -> None:
        super().__init__(login, STREAM, TOPIC, steady())
        self.history: list[tuple[float, Place, bytes]] = []

    def note(self, at: Place, payload: bytes) -> None:
        self.history.append((time.monotonic(), at, payload))

    def before(self, until_s: float) -> list[tuple[Place, bytes]]:
        """What was acknowledged by then."""
        return [(at, payload) for at_s, at, payload in self.history if at_s < until_s]


@pytest.fixture(scope="module")
def work(operator: Operator, store: ObjectStore) -> Kubectl:
    store.make_bucket(BUCKET)
    e2e_store.serve(operator.work, store)
    archiver = {
        "kind": "S3",
        "interval": f"{INTERVAL_S}s",
        "s3": {"bucket": BUCKET, **e2e_store.reached()},
    }
    make(operator.work, broker(archiver=archiver, restoreFrom={}), stream(), topic())
    return operator.work


def steady() -> Iterator[Batch]:
    """Batches without an end; each payload is another."""
    for number in count():
        time.sleep(PAUSE_S)
        yield Batch(f"k{number % 8}", [b"%d/%d" % (number, row) for row in range(ROWS)])


def test_a_volume_that_is_lost_under_load_comes_back(work: Kubectl, measured: Note) -> None:
    pod, claim = work.get("pod", POD), work.get("pvc", CLAIM)
    incarnation = work.get("igt", TOPIC)["status"]["incarnation"]
    assert health(work, "True") == ("True", "Synced")
    producer = Historian(root(work))

    with producing(producer):
        lost_s, behind_s = archived(producer, pod)
        work("delete", "pvc", CLAIM, "--wait=false")
        work("delete", "pod", POD, "--grace-period=0", "--force", "--wait=false")
        wait_until(lambda: is_back(work, claim), "the broker on another volume", BACK_S)
        back_s = time.monotonic() - lost_s
        wait_for(producer, len(producer.history) + AFTER)

    found = everything(root(work))
    safe = producer.before(lost_s - behind_s - INTERVAL_S - LATE_S)
    wrong = [at for at, payload in safe if found.get(at) != payload]
    assert len(safe) >= BEFORE
    assert not wrong, f"{len(wrong)} of {len(safe)} are lost: {wrong[:3]}"
    later = [(at, payload) for at_s, at, payload in producer.history if at_s > lost_s + back_s]
    assert later, "the client goes on"
    assert [at for at, payload in later if found.get(at) != payload] == []
    kept = sum(found.get(at) == payload for _, at, payload in producer.history)
    measured(
        f"volume lost under load: Ready on another one after {back_s:.1f} s, "
        f"{len(producer.history) - kept:,} of {len(producer.history):,} acknowledged are lost, "
        f"with an interval of {INTERVAL_S} s"
    )
    there = work.get("igt", TOPIC)
    assert there["status"]["incarnation"] == incarnation
    assert condition(there, "DataContinuity")["status"] == "True"


def test_what_came_back_is_told(work: Kubectl) -> None:
    told = work.get("igb", BROKER)["status"]["restore"]
    assert told["from"].startswith(f"s3://{BUCKET}/{work.namespace}/{BROKER}")
    assert "1 streams, 1 topics" in told["message"]
    about = f"--field-selector=involvedObject.kind=IggyBroker,involvedObject.name={BROKER}"
    assert "Restored" in {one["reason"] for one in work.items("events", about)}


def test_a_pod_on_a_volume_with_data_restores_nothing(work: Kubectl) -> None:
    told = work.get("igb", BROKER)["status"]["restore"]
    before = everything(root(work))
    old = work.get("pod", POD)

    work("delete", "pod", POD, "--wait=false")
    wait_until(lambda: is_another(work, old), "another pod", BACK_S)

    assert before.items() <= everything(root(work)).items()
    assert work.get("igb", BROKER)["status"]["restore"] == told


def test_a_store_that_is_gone_is_told_and_holds_nobody_up(
    work: Kubectl, store: ObjectStore
) -> None:
    producer = Historian(root(work))
    with producing(producer):
        assert health(work, "True") == ("True", "Synced")
        store.kill()
        try:
            assert health(work, "False") == ("False", "ArchiveFailing")
            assert condition(work.get("igb", BROKER))["status"] == "True"
            wait_for(producer, len(producer.history) + AFTER)
        finally:
            store.start()
        assert health(work, "True") == ("True", "Synced")

    status = work.get("igb", BROKER)["status"]["archive"]
    assert status["failures"] > 0
    assert "lastArchiveTime" in status


def health(kubectl: Kubectl, wanted: str) -> tuple[str, str]:
    def look() -> str:
        return str(condition(kubectl.get("igb", BROKER), "ArchiveHealthy").get("status"))

    eventually(look, wanted, within_s=TOLD_S)
    found = condition(kubectl.get("igb", BROKER), "ArchiveHealthy")
    return found["status"], found["reason"]


def is_back(kubectl: Kubectl, old: Document) -> bool:
    """A pod is ready, on another claim than the old one."""
    if not kubectl.exists("pvc", CLAIM) or not kubectl.exists("pod", POD):
        return False
    is_new = kubectl.get("pvc", CLAIM)["metadata"]["uid"] != old["metadata"]["uid"]
    return is_new and condition(kubectl.get("pod", POD)).get("status") == "True"


def is_another(kubectl: Kubectl, old: Document) -> bool:
    if not kubectl.exists("pod", POD):
        return False
    pod = kubectl.get("pod", POD)
    is_new = pod["metadata"]["uid"] != old["metadata"]["uid"]
    return is_new and condition(pod).get("status") == "True"


def archived(producer: Historian, pod: Document) -> tuple[float, float]:
    """When there was enough in the archive, and how far that was behind then, in seconds."""
    now_s = behind_s = 0.0

    def is_enough() -> bool:
        nonlocal now_s, behind_s
        behind_s, now_s = figures(pod).behind_s, time.monotonic()
        return len(producer.before(now_s - behind_s - INTERVAL_S - LATE_S)) >= BEFORE

    wait_until(is_enough, lambda: f"an archive that is {behind_s:.0f} s behind", BACK_S)
    return now_s, behind_s


def wait_for(producer: Historian, acknowledged: int) -> None:
    wait_until(
        lambda: producer.is_done or len(producer.history) >= acknowledged,
        lambda: f"{acknowledged} acknowledged, and not {len(producer.history)}",
        within_s=BACK_S,
    )

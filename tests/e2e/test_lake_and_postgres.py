"""The sample with two targets in a cluster: drivers, a checkpoint and the broker go under load.

What the topic has in the end is in the Iceberg table and in PostgreSQL, each message once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

import e2e_store
from e2e_broker import STREAM, TOPIC, broker, check_kept, everything, kill_container, small_driver
from e2e_cluster.trouble import run
from e2e_kubectl import Document, Kubectl
from e2e_operator import Operator
from e2e_producer import Batch, Producer, login_of, producing, service_address
from e2e_watch import condition, most_at_once, watching
from iggy_operator.launchers.pods import DRIVER
from object_store import ACCESS_KEY, SECRET_KEY, ObjectStore
from postgres import DATABASE, PASSWORD, USERNAME, Postgres, running_postgres
from twin_targets import Place, Row, Targets, bad_order, difference, order, row_of
from waiting import eventually, wait_until

pytestmark = pytest.mark.timeout(1800)

OPERATOR_VALUES = {"replicas": 1}
OVERLAY = Path(__file__).parents[2] / "docs" / "samples" / "lake-and-postgres-on-kubernetes"
BROKER, BROKER_POD = "iggy", "iggy-0"  # what a stream gets that names no broker
SINKS = ("lake", "table")
POSTGRES_PORT = 5432
ROWS, BAD_EVERY = 20, 25  # rows of a batch; batches until one has a bad message
PAUSE_S = 0.2  # between batches: a load that both targets can follow
TRIGGER_ROWS = 1000
MORE_ROWS = 300  # that each target must get between two kills
READY_S, MOVED_S, CARRIED_S = 300.0, 300.0, 600.0
LOOK_S = 1.0

Note = Callable[[str], None]
Kill = Callable[[Kubectl, str], None]


@pytest.fixture(scope="module")
def postgres(machine_address: str) -> Iterator[Postgres]:
    """A real PostgreSQL on this machine."""
    with running_postgres(host=machine_address, fsync="off") as found:
        yield found


@pytest.fixture(scope="module")
def targets(store: ObjectStore, postgres: Postgres) -> Targets:
    return Targets(store, postgres)


@pytest.fixture(scope="module")
def work(operator: Operator, targets: Targets) -> Kubectl:
    """With both sinks, which have nothing to do yet."""
    kubectl = operator.work
    kubectl.apply(
        *e2e_store.service("s3", targets.store),
        *e2e_store.service("postgres", targets.postgres, port=POSTGRES_PORT),
        *logins(),
        {**broker(), "metadata": {"name": BROKER}},
    )
    kubectl.wait(f"igb/{BROKER}", "condition=Ready", within_s=READY_S)
    kubectl.apply(*sample(kubectl))
    for name in SINKS:
        kubectl.wait(f"igk/{TOPIC}.{name}", "condition=Ready", within_s=READY_S)
    return kubectl


def logins() -> list[Document]:
    """The Secrets that the sample leaves to whoever applies it."""
    login = f"{USERNAME}:{PASSWORD}@postgres:{POSTGRES_PORT}/{DATABASE}"
    catalog = {
        "uri": f"postgresql+psycopg://{login}",
        "s3.access-key-id": ACCESS_KEY,
        "s3.secret-access-key": SECRET_KEY,
    }
    values = {
        "lake-catalog": catalog,
        "pg-login": {"username": USERNAME, "password": PASSWORD},
    }
    return [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": value}
        for name, value in values.items()
    ]


def sample(kubectl: Kubectl) -> list[Document]:
    """The sample as it is, but for batches that are smaller, and drivers that reserve less."""
    switch = "--load-restrictor=LoadRestrictionsNone"
    documents: list[Document] = list(
        yaml.safe_load_all(run([kubectl.program, "kustomize", switch, str(OVERLAY)]))
    )
    (topic,) = (one for one in documents if one["kind"] == "IggyTopic")
    for sink in topic["spec"]["sinks"]:
        sink |= {
            "maxOffsetsPerTrigger": TRIGGER_ROWS,
            "trigger": {"interval": "500ms"},
            "spark": small_driver(),
        }
    return documents


def orders() -> Iterator[Batch]:
    """Without an end; each id once, and now and then a message that no target can hold."""
    number = 0
    while True:
        for batch in range(BAD_EVERY):
            payloads = [order(number + row) for row in range(ROWS)]
            number += ROWS
            yield Batch(f"k{batch % 8}", payloads)
            time.sleep(PAUSE_S)
        yield Batch("bad", [bad_order(number)])


def selector(sink: str) -> list[str]:
    return ["--selector", f"iggykube.dev/sink={TOPIC}.{sink}"]


def by_signal(kubectl: Kubectl, sink: str) -> None:
    (pod,) = kubectl.items("pods", *selector(sink))
    kill_container(pod, DRIVER)


def by_force(kubectl: Kubectl, sink: str) -> None:
    (pod,) = kubectl.items("pods", *selector(sink))
    away(kubectl, pod["metadata"]["name"])


def with_its_checkpoint(kubectl: Kubectl, sink: str) -> None:
    """Claim and pod at once: the next driver begins with nothing."""
    (pod,) = kubectl.items("pods", *selector(sink))
    claim = f"{TOPIC}.{sink}-checkpoint"
    old = kubectl.get("pvc", claim)["metadata"]["uid"]
    kubectl("delete", "pvc", claim, "--wait=false")
    away(kubectl, pod["metadata"]["name"])

    def is_new() -> bool:
        found = kubectl.items("pvc", "--field-selector", f"metadata.name={claim}")
        return any(one["metadata"]["uid"] != old for one in found)

    wait_until(is_new, f"another claim {claim}", MOVED_S)


def away(kubectl: Kubectl, pod: str) -> None:
    kubectl("delete", "pod", pod, "--grace-period=0", "--force", "--wait=false")


def the_broker(kubectl: Kubectl, _: str) -> None:
    old = kubectl.get("pod", BROKER_POD)["metadata"]["uid"]
    away(kubectl, BROKER_POD)

    def is_another() -> bool:
        if not kubectl.exists("pod", BROKER_POD):
            return False
        pod = kubectl.get("pod", BROKER_POD)
        return pod["metadata"]["uid"] != old and condition(pod).get("status") == "True"

    wait_until(is_another, "another broker is ready", MOVED_S)


KILLS: tuple[tuple[Kill, str], ...] = (
    (by_signal, "lake"),
    (by_force, "table"),
    (by_force, "lake"),
    (by_signal, "table"),
    (with_its_checkpoint, "lake"),
    (with_its_checkpoint, "table"),
    (the_broker, ""),
    (by_signal, "table"),
    (by_signal, "lake"),
)


def test_whatever_goes_under_load_each_message_is_in_both_targets_once(
    work: Kubectl, targets: Targets, measured: Note
) -> None:
    login = login_of(work, f"{BROKER}-root", service_address(work, BROKER))
    producer = Producer(login, STREAM, TOPIC, orders())

    with (
        watching(work, "pods", *selector("lake")) as lake,
        watching(work, "pods", *selector("table")) as table,
    ):
        with producing(producer):
            for kill, sink in KILLS:
                wait_for_more(targets, producer)
                kill(work, sink)
            wait_for_more(targets, producer)
        there = everything(login)
        wanted = sorted(row for row in rows_of(there) if row is not None)
        counts = dict.fromkeys(SINKS, len(wanted))
        assert eventually(targets.counts, counts, CARRIED_S, LOOK_S) == counts

    check_kept(producer, there)
    assert difference(targets.lake(), wanted) == ""
    assert difference(targets.table(), wanted) == ""
    bad = {payload for place, payload in there.items() if row_of(*place, payload) is None}
    assert bad
    for sink in SINKS:
        assert set(everything(login, f"{TOPIC}.{sink}.dead").values()) == bad
    assert (most_at_once(lake), most_at_once(table)) == (1, 1)
    measured(
        f"lake and PostgreSQL: {len(wanted):,} rows in each after {len(KILLS)} kills, "
        f"{producer.unanswered.total():,} sends unanswered"
    )


def test_both_sinks_say_that_nothing_is_left(work: Kubectl, targets: Targets) -> None:
    login = login_of(work, f"{BROKER}-root", service_address(work, BROKER))
    wanted = {sink: (len(everything(login)), 0) for sink in SINKS}

    def progress() -> dict[str, tuple[int | None, int | None]]:
        status = {sink: work.get("igk", f"{TOPIC}.{sink}")["status"] for sink in SINKS}
        found = {sink: one.get("progress", {}) for sink, one in status.items()}
        return {sink: (one.get("committed"), one.get("lagMessages")) for sink, one in found.items()}

    assert eventually(progress, wanted, CARRIED_S, LOOK_S) == wanted
    for sink in SINKS:
        work.wait(f"igk/{TOPIC}.{sink}", "condition=Ready", within_s=READY_S)


def rows_of(there: dict[Place, bytes]) -> Iterator[Row | None]:
    return (row_of(*place, payload) for place, payload in there.items())


def wait_for_more(targets: Targets, producer: Producer) -> None:
    """Both targets move on, so that what is killed next is at work."""
    before = targets.counts()

    def moved() -> bool:
        assert not producer.is_done, "it never ends by itself"
        now = targets.counts()
        return all(now[name] >= before[name] + MORE_ROWS for name in SINKS)

    assert eventually(moved, True, MOVED_S, LOOK_S), f"more than {before}: {targets.counts()}"

"""A sink's driver is deleted and killed in the middle of its work: no gap, no row twice."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import islice

import pytest

import e2e_store
from e2e_broker import (
    STREAM,
    TOPIC,
    broker,
    kill_container,
    make,
    root,
    stream,
    topic,
)
from e2e_drivers import driver, runs_anew
from e2e_kubectl import Document, Kubectl
from e2e_lake import BUCKET, carried, lake
from e2e_operator import Operator
from e2e_producer import Batch, Producer, numbered, producing
from e2e_watch import most_at_once, watching
from iggy_operator.launchers.pods import DRIVER
from object_store import ObjectStore
from waiting import eventually, wait_until

pytestmark = pytest.mark.timeout(900)

OPERATOR_VALUES = {"replicas": 1}
SINK = "orders.lake"
SELECTOR = "iggykube.dev/sink=orders.lake"
BATCHES, ROWS = 60, 50
READY_S, CARRIED_S, SHOWN_S = 240.0, 300.0, 120.0
ANOTHER_WITHIN_S = 60.0  # this is what was asked for

Note = Callable[[str], None]
Kill = Callable[[Kubectl, Document], None]


@pytest.fixture(scope="module")
def work(operator: Operator, store: ObjectStore) -> Kubectl:
    """With a sink that has nothing to do yet."""
    store.make_bucket(BUCKET)
    e2e_store.serve(operator.work, store)
    make(operator.work, broker(), stream(), topic(sinks=[lake()]))
    operator.work.wait(f"igk/{SINK}", "condition=Ready", within_s=READY_S)
    return operator.work


@pytest.fixture(scope="module")
def rows() -> Iterator[Batch]:
    """Each id once, over all tests."""
    return numbered(keys=8, rows=ROWS)


def by_deletion(kubectl: Kubectl, pod: Document) -> None:
    kubectl("delete", "pod", pod["metadata"]["name"], "--wait=false")


def by_signal(_: Kubectl, pod: Document) -> None:
    kill_container(pod, DRIVER)


@pytest.mark.parametrize("kill", [by_signal, by_deletion])
def test_another_driver_goes_on_where_the_first_one_was(
    work: Kubectl, store: ObjectStore, rows: Iterator[Batch], kill: Kill, measured: Note
) -> None:
    before = len(carried(store))
    old = driver(work, SELECTOR)

    with watching(work, "pods", "--selector", SELECTOR) as drivers:
        login = root(work)
        with producing(Producer(login, STREAM, TOPIC, islice(rows, BATCHES))) as producer:
            wait_until(lambda: producer.is_done, "everything is sent")
        wait_until(lambda: len(carried(store)) > before, "the first of it is carried", CARRIED_S)
        began = time.monotonic()
        kill(work, old)
        at_the_kill = len(carried(store))
        wait_until(lambda: runs_anew(work, SELECTOR, old), "another driver", ANOTHER_WITHIN_S)
        another_s = time.monotonic() - began
        total = before + len(producer.acknowledged)
        wait_until(
            lambda: len(carried(store)) >= total,
            lambda: f"{total} rows, and not {len(carried(store))}",
            within_s=CARRIED_S,
        )

    assert before < at_the_kill < total, "it was in the middle of its work"
    assert sorted(carried(store)) == list(range(total))
    assert not producer.unanswered
    assert most_at_once(drivers) == 1
    measured(
        f"driver killed {kill.__name__.replace('_', ' ')}: another one runs after "
        f"{another_s:.1f} s, all is carried after {time.monotonic() - began:.1f} s"
    )


def test_the_status_says_what_was_carried(work: Kubectl, store: ObjectStore) -> None:
    total = len(carried(store))

    def progress() -> tuple[int | None, int | None]:
        found = work.get("igk", SINK)["status"].get("progress", {})
        return found.get("committed"), found.get("lagMessages")

    wanted: tuple[int | None, int | None] = (total, 0)
    assert eventually(progress, wanted, within_s=SHOWN_S) == wanted
    work.wait(f"igk/{SINK}", "condition=Ready")
    assert len(work.items("pods", "--selector", SELECTOR)) == 1


def test_the_status_says_what_said_where_the_last_driver_began(work: Kubectl) -> None:
    """The operator asks the driver's port."""

    def start_by() -> list[str] | None:
        return work.get("igk", SINK)["status"].get("start", {}).get("by")

    wanted = ["checkpoint"]
    assert eventually(start_by, wanted, within_s=SHOWN_S) == wanted

"""The main job: from `helm install` to all flights in an object store, and what people then see."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import e2e_store
from e2e_cluster.trouble import run
from e2e_flights import batches, difference, places
from e2e_kubectl import Document, Kubectl
from e2e_operator import Operator
from e2e_pods import memory_mib
from e2e_producer import Producer, login_of, producing
from e2e_prometheus import Prometheus, complaints, running_prometheus
from e2e_tables import tables
from flights_demo.flights import load_flights
from iggy_operator.program.metrics import FAMILIES
from object_store import ObjectStore
from waiting import eventually, wait_until

pytestmark = pytest.mark.timeout(1200)

ROOT = Path(__file__).parents[2]
OVERLAY = ROOT / "docs" / "samples" / "flights-on-s3"
ALERTS = sorted((ROOT / "charts" / "iggy-operator" / "files" / "alerts").glob("*.yaml"))
STREAM, TOPIC, SINK = "flights", "departures", "departures.lake"
LAKE = "lake/departures"
PRODUCER: Document = {
    "apiVersion": "iggykube.dev/v1alpha1",
    "kind": "IggyUser",
    "metadata": {"name": "airport"},
    "spec": {
        "permissions": {
            "streams": [
                {
                    "stream": STREAM,
                    "topics": [{"topic": TOPIC, "allow": ["ReadTopic", "SendMessages"]}],
                }
            ]
        }
    },
}
READY_S = 300.0
CARRIED_S = 600.0
LOOK_S = 1.0  # each look asks kubectl
SETTLED_S = 330.0  # rates of the alerts look five minutes back
EVER = "1h"  # longer than this module runs
SHOWN_S = 120.0  # counters are written every half minute, or at the resync
# Counted by a word, and so without a series until the first one.
BY_WORD = re.compile(r"\| `(iggy_\w+)` \| \w+ \| \w* \| `(?:code|reason|method|source|kind)` \|")
# Of damage, and of listeners with TLS.
NOT_HERE = {
    "iggy_partition_damaged_offset",
    "iggy_certificate_expires_seconds",
    "iggy_certificate_reloads_total",
}
METRIC = re.compile(r"^\| `(iggy_\w+)` \| (\w+)", re.MULTILINE)

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Scene:
    """All of it, with everything carried over."""

    operator: Operator
    store: ObjectStore
    prometheus: Prometheus
    producer: Producer

    @property
    def kubectl(self) -> Kubectl:
        return self.operator.work


@pytest.fixture(scope="module")
def prometheus(
    operator: Operator, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    with running_prometheus(
        Prometheus(folder, [operator.system, operator.work], ALERTS)
    ) as prometheus:
        yield prometheus


@pytest.fixture(scope="module")
def scene(
    operator: Operator, store: ObjectStore, prometheus: Prometheus, measured: Note
) -> Iterator[Scene]:
    kubectl = operator.work
    measured(f"helm install to two pods ready: {operator.ready_s:.1f} s")
    store.client().create_bucket(Bucket="lake")
    e2e_store.serve(kubectl, store)

    began = time.monotonic()
    kubectl.apply(overlay(kubectl), PRODUCER)
    kubectl.wait("igb/iggy", "condition=Ready", within_s=READY_S)
    measured(f"apply to broker Ready: {time.monotonic() - began:.1f} s")
    for one in (f"igs/{STREAM}", f"igt/{TOPIC}", "igu/airport"):
        kubectl.wait(one, "condition=Ready", within_s=READY_S)
    measured(f"apply to topic and user Ready: {time.monotonic() - began:.1f} s")

    began = time.monotonic()
    with (
        kubectl.forwarded("service/iggy", 8090) as port,
        producing(producer(kubectl, f"127.0.0.1:{port}")) as producing_one,
    ):
        wait_until(lambda: producing_one.is_done, "everything is sent", within_s=CARRIED_S)
    measured(f"{len(producing_one.acknowledged):,} sent in {time.monotonic() - began:.1f} s")

    total = len(producing_one.acknowledged)
    for field, value in (("committed", total), ("lagMessages", 0)):
        kubectl.wait(f"igk/{SINK}", f"jsonpath={{.status.progress.{field}}}={value}", CARRIED_S)
    measured(f"first message to lag 0 in the status: {time.monotonic() - began:.1f} s")
    yield Scene(operator, store, prometheus, producing_one)


def overlay(kubectl: Kubectl) -> str:
    switch = "--load-restrictor=LoadRestrictionsNone"
    return run([kubectl.program, "kustomize", switch, str(OVERLAY)])


def producer(kubectl: Kubectl, address: str) -> Producer:
    login = login_of(kubectl, "airport-iggy", address)
    return Producer(login, STREAM, TOPIC, batches(load_flights(), partitions=6))


def test_every_flight_is_in_the_store_once(scene: Scene) -> None:
    flights = load_flights()

    found = e2e_store.read(scene.store, LAKE)

    assert len(scene.producer.acknowledged) == flights.num_rows == 336_776
    assert not scene.producer.unanswered
    assert places(found) == sorted(scene.producer.acknowledged)
    assert difference(found, flights) == ""


def test_kubectl_get_iggy_shows_it(scene: Scene) -> None:
    scene.kubectl.wait(f"igt/{TOPIC}", "jsonpath={.status.messages}=336776", SHOWN_S)

    found = tables(scene.kubectl("get", "iggy"))

    assert found[f"iggytopic/{TOPIC}"]["MESSAGES"] == "336776"
    sink = found[f"iggysink/{SINK}"]
    assert (sink["STATE"], sink["LAG"]) == ("Running", "0")
    assert {row["READY"] for row in found.values()} == {"True"}, found
    assert sorted(name.partition("/")[0] for name in found) == [
        *("iggybroker", "iggysink", "iggystream", "iggytopic"),
        *("iggyuser", "iggyuser"),  # the producer's and the sink's
    ]


def test_the_checkpoint_is_on_a_claim(scene: Scene) -> None:
    claim = scene.kubectl.get("pvc", f"{SINK}-checkpoint")

    assert claim["status"]["phase"] == "Bound"
    assert claim["spec"]["resources"]["requests"]["storage"] == "1Gi"
    (volume,) = (
        volume
        for volume in driver(scene.kubectl)["spec"]["volumes"]
        if "persistentVolumeClaim" in volume
    )
    assert volume["persistentVolumeClaim"]["claimName"] == f"{SINK}-checkpoint"


def test_nothing_was_restarted(scene: Scene) -> None:
    pods = [*scene.operator.pods(), *scene.kubectl.items("pods")]

    restarts = {
        pod["metadata"]["name"]: status["restartCount"]
        for pod in pods
        for status in pod["status"]["containerStatuses"]
    }

    assert len(pods) == 4, "two of the operator, a broker, a driver"
    assert set(restarts.values()) == {0}, restarts


def test_prometheus_reads_broker_and_operator(scene: Scene) -> None:
    pods = (*scene.operator.pods(), broker(scene.kubectl))
    wanted = {pod["metadata"]["name"]: "up" for pod in pods}

    def health() -> dict[str, str]:
        scene.prometheus.discover()
        return {
            target["labels"]["pod"]: target["lastError"] or target["health"]
            for target in scene.prometheus.targets()
        }

    assert eventually(health, wanted, within_s=SHOWN_S, step_s=LOOK_S) == wanted


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (f'iggy_topic_messages{{stream="{STREAM}",topic="{TOPIC}"}}', 336_776),
        (f'sum(iggy_partition_messages{{topic="{TOPIC}"}})', 336_776),
        ("sum(iggy_messages_received_total)", 336_776),
        (f'iggy_group_lag_messages{{topic="{TOPIC}"}}', 0),
        (f'iggy_group_members{{topic="{TOPIC}"}}', 1),
        ("min(iggy_ready)", 1),
        ("sum(iggy_operator_leader)", 1),
        ('sum(iggy_operator_objects{ready="True"})', 6),
        ('sum(iggy_operator_objects{ready!="True"}) or vector(0)', 0),
        # By the label that the alerts and dashboards name.
        (
            "iggy_operator_sink_lag_messages"
            f'{{exported_namespace!="",topic="{TOPIC}",sink="{SINK}"}}',
            0,
        ),
        (f'iggy_operator_sink_wanted{{topic="{TOPIC}",sink="{SINK}"}}', 1),
        (f'iggy_operator_sink_restarts_total{{topic="{TOPIC}",sink="{SINK}"}}', 0),
    ],
)
def test_prometheus_knows_it(scene: Scene, expression: str, value: float) -> None:
    def now() -> float | None:
        scene.prometheus.discover()
        return scene.prometheus.value(expression)

    assert eventually(now, value, within_s=SHOWN_S, step_s=LOOK_S) == value


def test_every_metric_of_the_documents_is_there(scene: Scene) -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    by_word = set(BY_WORD.findall(page)) | NOT_HERE
    of_broker = {(name, kind) for name, kind in METRIC.findall(page) if name not in by_word}
    # Here are no sources.
    families = [family for family in FAMILIES if "source" not in family.labels]
    of_operator = {(family.name, family.kind) for family in families}
    wanted = {
        f"{name}_count" if kind == "histogram" else name for name, kind in of_broker | of_operator
    }

    def missing() -> set[str]:
        scene.prometheus.discover()
        return wanted - scene.prometheus.names()

    assert len(wanted) > 60
    assert eventually(missing, set(), within_s=SHOWN_S, step_s=LOOK_S) == set()


@pytest.mark.parametrize("path", ALERTS, ids=lambda path: path.stem)
def test_the_alerts_of_the_chart_are_sound(path: Path) -> None:
    assert complaints("check", "rules", path) == ""


def test_no_alert_of_the_chart_fires_or_is_about_to(scene: Scene) -> None:
    def health() -> set[str]:
        return set(scene.prometheus.alerts().values())

    def raised(expression: str) -> list[dict[str, str]]:
        return [one.labels for one in scene.prometheus.query(expression)]

    assert eventually(health, {"ok"}) == {"ok"}, scene.prometheus.alerts()

    # While pods start and a third of a million messages come in, some wait for their time; with
    # nothing left to do they must all be over, as soon as no rate looks back on it any more.
    def pending() -> list[dict[str, str]]:
        return raised('ALERTS{alertstate="pending"}')

    assert eventually(pending, [], within_s=SETTLED_S, step_s=LOOK_S) == []
    assert raised(f'max_over_time(ALERTS{{alertstate="firing"}}[{EVER}])') == []


def test_the_operator_is_small(scene: Scene, measured: Note) -> None:
    sizes = {
        pod["metadata"]["name"]: memory_mib(scene.operator.system, pod)
        for pod in (*scene.operator.pods(), broker(scene.kubectl), driver(scene.kubectl))
    }
    for name, size_mib in sizes.items():
        measured(f"memory of {name}: {size_mib:.0f} MiB")

    assert all(sizes[pod["metadata"]["name"]] < 250 for pod in scene.operator.pods())


def broker(kubectl: Kubectl) -> Document:
    return kubectl.get("pod", "iggy-0")


def driver(kubectl: Kubectl) -> Document:
    return kubectl.get("pod", kubectl.get("igk", SINK)["status"]["application"]["driverPod"])

"""Sinks through the Spark operators of Kubeflow and Apache: their real resource definitions, their
state machines played beside a real API server.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from e2e_kubectl import Kubectl
from foreign_schemas import APACHE_FILE, KUBEFLOW_FILE, definition
from iggy_operator.cluster import NotFoundError, Object, Ref
from iggy_operator.program.api_kinds import API_KINDS
from operator_scene import OperatorScene, play
from played_operators import PlayedOperators
from real_people import eventually

pytestmark = [pytest.mark.usefixtures("our_kinds", "their_kinds"), pytest.mark.timeout(600)]
OPERATOR_DELETES = {"sparkapplications"}
LAUNCHERS = ("Kubeflow", "Apache")
GROUPS = {"Kubeflow": "sparkoperator.k8s.io", "Apache": "spark.apache.org"}
RUNNING = {"Kubeflow": "RUNNING", "Apache": "RunningHealthy"}
PUBLISHED = "jsonpath={.status.acceptedNames.plural}=sparkapplications"
LEASE_SECONDS = "60"
WITHIN_S = 240.0  # of a machine that does many things at a time


@pytest.fixture(scope="module")
def their_kinds(cluster: Kubectl) -> Iterator[None]:
    """Both definitions, in the cluster. They stay only where they were before."""
    files = {
        GROUPS["Kubeflow"]: definition(KUBEFLOW_FILE),
        GROUPS["Apache"]: definition(APACHE_FILE),
    }
    names = {f"sparkapplications.{group}": str(path) for group, path in files.items()}
    ours = [name for name in names if not cluster.exists("crd", name)]
    for name, path in names.items():
        cluster("apply", "--server-side", "--force-conflicts", "--filename", path)
        cluster.wait(f"crd/{name}", PUBLISHED)
    yield
    for name in ours:
        cluster("delete", "crd", name)


class Sink:
    """A sink of type Console, and what becomes of it."""

    def __init__(self, scene: OperatorScene, spark: PlayedOperators, launcher: str) -> None:
        self.scene, self.spark, self.launcher = scene, spark, launcher
        self.ref = Ref("IggySink", scene.namespace, "shown")

    async def give(self, **spec: object) -> None:
        await self.scene.give(
            "IggySink",
            "shown",
            topicRef={"name": "orders"},
            type="Console",
            spark={"launcher": self.launcher},
            restart={"backoffSeconds": 1},
            **spec,
        )

    async def remove(self) -> None:
        """With its user, which the operator must let go before the namespace can."""
        await self.scene.people.remove(self.ref)

        async def is_gone() -> bool:
            await self.spark.let_go()
            path = API_KINDS["IggyUser"].path(namespace=self.scene.namespace)
            users = (await self.scene.people.client.get(path))["items"]
            return not users and not await self.spark.applications()

        await eventually(is_gone, f"{self.ref} and what is its is gone", WITHIN_S)

    async def state(self) -> str:
        found = (await self.scene.people.get(self.ref)).get("status", {})
        return str(found.get("application", {}).get("state", ""))

    async def runs(self, *, beside: str = "") -> Object:
        """The driver's pod, once it runs and the status says so; another one than `beside`."""

        async def look() -> bool:
            drivers = await self.spark.drivers()
            uids = [pod["metadata"]["uid"] for pod in drivers]
            is_new = len(uids) == 1 and beside not in uids
            return is_new and await self.state() == RUNNING[self.launcher]

        await eventually(look, f"a driver of {self.ref} runs", WITHIN_S)
        (pod,) = await self.spark.drivers()
        return pod


def played(
    tmp_path: Path, kubectl: Kubectl, launcher: str, scenario: Callable[[Sink], Awaitable[None]]
) -> None:
    """A topic, a service account for drivers, an operator, and both Spark operators."""

    async def main(scene: OperatorScene) -> None:
        metadata = {"name": "iggy-spark", "namespace": scene.namespace}
        await scene.people.put({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
        await scene.give_topic()
        # Its process is nobody's to start again, should a busy machine cost it its Lease.
        await asyncio.to_thread(scene.operator, RESYNC_SECONDS="5", LEASE_SECONDS=LEASE_SECONDS)
        spark = PlayedOperators(scene.people.client, scene.namespace)
        sink = Sink(scene, spark, launcher)
        try:
            async with spark:
                await sink.give()
                await scenario(sink)
        finally:
            await sink.remove()
        assert spark.clashes == []

    play(tmp_path, kubectl, main)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_sink_runs_survives_its_driver_changes_and_pauses(
    tmp_path: Path, kubectl: Kubectl, launcher: str
) -> None:
    async def scenario(sink: Sink) -> None:
        first = await sink.runs()
        (application,) = await sink.spark.applications()
        assert application["apiVersion"].startswith(GROUPS[launcher])

        # A drain, or somebody: the driver is gone, and comes back.
        await sink.scene.people.remove(Ref("Pod", sink.scene.namespace, first["metadata"]["name"]))
        second = await sink.runs(beside=first["metadata"]["uid"])

        # What the job depends on: another application of the same name.
        await sink.give(trigger={"interval": "30s"})
        await sink.runs(beside=second["metadata"]["uid"])
        (another,) = await sink.spark.applications()
        assert another["metadata"]["name"] == application["metadata"]["name"]
        assert another["metadata"]["uid"] != application["metadata"]["uid"]

        # What it does not depend on: nothing moves.
        await sink.give(trigger={"interval": "30s"}, lag={"warnMessages": 5})
        generation = (await sink.scene.people.get(sink.ref))["metadata"]["generation"]

        async def is_seen() -> bool:
            status = (await sink.scene.people.get(sink.ref))["status"]
            return bool(status.get("observedGeneration") == generation)

        await eventually(is_seen, "the pass has seen the change", WITHIN_S)
        (same,) = await sink.spark.applications()
        assert same["metadata"]["uid"] == another["metadata"]["uid"]

        await sink.give(suspend=True)

        async def is_at_rest() -> bool:
            left = [*await sink.spark.applications(), *await sink.spark.drivers()]
            said = await sink.scene.people.says(sink.ref)
            return not left and said == ("False", "Suspended")

        await eventually(is_at_rest, "nothing of the sink runs, and it says so", WITHIN_S)

    played(tmp_path, kubectl, launcher, scenario)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_driver_that_waits_for_a_person_is_not_started_again(
    tmp_path: Path, kubectl: Kubectl, launcher: str
) -> None:
    async def scenario(sink: Sink) -> None:
        await sink.runs()
        sink.spark.exits = 2

        async def is_given_up() -> bool:
            return await sink.scene.people.says(sink.ref) == ("False", "DriverFailed") and not (
                await sink.spark.drivers()
            )

        await eventually(is_given_up, "the sink has given up", WITHIN_S)
        sink.spark.exits = None

        await sink.give(trigger={"interval": "1m"})

        await sink.runs()

    played(tmp_path, kubectl, launcher, scenario)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_an_operator_that_is_killed_during_a_change_makes_no_second_driver(
    tmp_path: Path, kubectl: Kubectl, launcher: str
) -> None:
    async def scenario(sink: Sink) -> None:
        before = (await sink.runs())["metadata"]["uid"]
        (operator,) = sink.scene.operators
        for seconds in (20, 25, 30):
            await sink.give(trigger={"interval": f"{seconds}s"})

            async def has_moved(uid: str = before) -> bool:
                """Something of the change is done: the old driver or its application goes."""
                try:
                    found = await sink.spark.applications()
                except NotFoundError:
                    return True
                going = [item for item in found if "deletionTimestamp" in item["metadata"]]
                uids = [pod["metadata"]["uid"] for pod in await sink.spark.drivers()]
                return not found or bool(going) or uid not in uids

            await eventually(has_moved, "the change has begun", WITHIN_S)
            operator.kill()
            # How long it is waited for, test_operator_leaders shows.
            sink.scene.kubectl("delete", "lease", "iggy-operator")
            operator.start()
            before = (await sink.runs(beside=before))["metadata"]["uid"]

    played(tmp_path, kubectl, launcher, scenario)

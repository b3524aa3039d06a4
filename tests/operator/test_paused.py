"""Paused objects: what is seen is shown, but for Ready, and nothing is done about it anywhere."""

from __future__ import annotations

from typing import Any

import pytest

from fake_broker import USERNAME
from iggy_client import access_calls
from iggy_operator.cluster import Ref
from iggy_operator.conditions import found
from iggy_operator.objects import ref_of
from managed_world import BROKER, POD, ROOT, ManagedWorld, run_managed, started
from operator_world import OperatorWorld, run_in
from sink_scene import GROUP, SINK, TOPIC, Scene, play

SEEN_ONLY = {"apply_status", "record"}
# What later passes go by: it does not move while nothing is done.
REMEMBERED = {
    "streamName", "streamId", "topicName", "topicId", "incarnation", "recreations",
    "topicIncarnation", "username", "userId", "unresolved", "accessTokens", "lastRotationTime",
}  # fmt: skip


class Watch:
    """What is written from now on."""

    def __init__(self, world: OperatorWorld) -> None:
        self._world = world
        self._before = len(world.writes())

    @property
    def writes(self) -> list[str]:
        return self._world.writes()[self._before :]

    def check(self) -> None:
        """Nothing but statuses and events."""
        assert set(self.writes) <= SEEN_ONLY


def pause(world: OperatorWorld, ref: Ref) -> Watch:
    world.cluster.annotate(ref, "paused", "true")
    return Watch(world)


def remembered(world: OperatorWorld, ref: Ref) -> dict[str, Any]:
    return {name: item for name, item in world.status(ref).items() if name in REMEMBERED}


async def given(world: OperatorWorld, **topic: Any) -> tuple[Ref, Ref]:
    world.give_broker()
    refs = world.give_stream(), world.give_topic(**topic)
    await world.resync()
    return refs


def test_the_disk_of_a_paused_broker_is_watched() -> None:
    async def scenario(world: ManagedWorld) -> None:
        world.broker.disk = (100, 90)
        await started(world)
        watch = pause(world, BROKER)
        await world.go(70)
        assert world.says(BROKER, "StorageReady") == ("True", "Synced")
        world.broker.disk = (100, 4)
        world.broker.make_topic("shop", "orders")
        await world.go(70)

        assert world.says(BROKER, "StorageReady") == ("False", "DiskPressure")
        assert world.status(BROKER)["storage"]["usedPercent"] == 96
        assert world.status(BROKER)["counts"]["topics"] == 1
        assert "DiskPressure" in [event.reason for event in world.cluster.events]
        assert world.says(BROKER) == ("True", "Synced")
        watch.check()

    run_managed(scenario)


def test_a_change_waits_while_its_broker_is_paused_and_is_told() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world)
        pod, before = world.uid(POD), world.status(BROKER)["restart"]
        watch = pause(world, BROKER)
        world.cluster.change_spec(BROKER, image="other:2")
        await world.go(130)

        assert world.says(BROKER, "ConfigApplied") == ("False", "RestartPending")
        assert "paused" in world.message(BROKER, "ConfigApplied")
        assert world.says(BROKER, "Progressing") == ("False", "Synced")
        assert world.status(BROKER)["image"] != "other:2"
        assert world.status(BROKER)["restart"].get("lastRestartTime") == before.get(
            "lastRestartTime"
        )
        assert world.uid(POD) == pod
        watch.check()
        count = len(watch.writes)
        await world.go(600)
        assert len(watch.writes) == count, "nothing new is not written again"

        world.cluster.annotate(BROKER, "paused", None)
        await world.go(70)
        assert world.status(BROKER)["image"] == "other:2"
        assert world.says(BROKER, "ConfigApplied") == ("True", "Synced")

    run_managed(scenario)


def test_what_a_paused_broker_was_asked_for_is_not_under_way() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world)
        watch = pause(world, BROKER)
        size = world.cluster.objects[BROKER]["spec"]["storage"]
        world.cluster.change_spec(BROKER, hibernate=True, storage={**size, "size": "80Gi"})
        await world.go(130)

        assert world.says(BROKER, "Progressing") == ("False", "Synced")
        assert world.says(BROKER, "StorageReady") == ("False", "Paused")
        assert "nothing grows" in world.message(BROKER, "StorageReady")
        shards = world.status(BROKER)["shards"]
        assert shards["ready"] == shards["desired"] > 0
        watch.check()

        world.cluster.annotate(BROKER, "paused", None)
        await world.go(70)
        assert world.says(BROKER) == ("False", "Hibernated")

    run_managed(scenario)


def test_a_paused_broker_says_that_its_pod_is_gone() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world)
        watch = pause(world, BROKER)
        world.sets.is_asleep = True
        world.cluster.remove(POD)
        await world.go(70)

        assert world.status(BROKER)["shards"]["ready"] == 0
        assert "image" not in world.status(BROKER)
        assert world.says(BROKER, "Progressing")[0] == "True"
        assert world.says(BROKER) == ("True", "Synced")
        watch.check()

    run_managed(scenario)


def test_a_paused_broker_says_that_its_password_is_refused() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world)
        watch = pause(world, BROKER)
        world.broker.change_root("by-hand")
        world.broker.cut()
        await world.go(130)

        assert world.says(BROKER, "CredentialsReady") == ("False", "Unauthorized")
        assert world.cluster.objects[ROOT]
        assert world.says(BROKER) == ("True", "Synced")
        watch.check()

    run_managed(scenario)


def test_a_paused_external_broker_shows_its_counts() -> None:
    async def scenario(world: OperatorWorld) -> None:
        await given(world)
        ref = Ref("IggyBroker", "shop", "main")
        watch = pause(world, ref)
        world.broker.make_topic("shop", "bills")
        await world.go(70)

        assert world.status(ref)["counts"]["topics"] == 2
        watch.check()

    run_in(scenario)


@pytest.mark.parametrize("policy", ["Revert", "Report"])
@pytest.mark.parametrize("annotation", ["paused", "unmanaged"])
def test_a_paused_topic_shows_drift_counts_and_partitions(policy: str, annotation: str) -> None:
    async def scenario(world: OperatorWorld) -> None:
        kept = {"retention": {"messageExpiry": "7d"}, "consumerGroups": [{"name": "audit"}]}
        _, topic = await given(world, **kept, driftPolicy=policy, partitions=2)
        before = remembered(world, topic)
        world.cluster.annotate(topic, annotation, "true")
        await world.settle()
        watch = Watch(world)
        world.broker.drop_topic("shop", "orders")
        world.broker.make_topic("shop", "orders", 1, message_expiry=3_600_000_000)
        world.broker.fill("shop", "orders", messages=7)
        await world.go(70)

        status = world.status(topic)
        assert (status["partitions"], status["messages"]) == (1, 7)
        assert {row["field"]: row["actual"] for row in status["drift"]} == {
            "partitions": "1", "consumerGroups": "not there",
            "retention.messageExpiry": "3600000000",
        }  # fmt: skip
        assert world.says(topic, "Synced") == ("False", "Drifted")
        assert world.says(topic, "DataContinuity") == ("False", "Recreated")
        assert world.says(topic) == ("True", "Synced")
        assert remembered(world, topic) == before
        watch.check()

        world.cluster.annotate(topic, annotation, None)
        await world.go(70)
        assert world.status(topic)["recreations"] == 1, "told when somebody may act on it"
        assert world.says(topic, "Synced")[0] == ("True" if policy == "Revert" else "False")

    run_in(scenario)


def test_paused_objects_whose_entities_are_gone_say_so() -> None:
    async def scenario(world: OperatorWorld) -> None:
        stream, topic = await given(world)
        before = remembered(world, topic), remembered(world, stream)
        pause(world, stream)
        watch = pause(world, topic)
        world.broker.drop_topic("shop", "orders")
        await world.go(70)
        assert world.says(topic, "Synced") == ("False", "Missing")
        assert world.says(topic, "DataContinuity") == ("True", "Synced"), "until it is made anew"
        assert world.says(stream, "Synced") == ("True", "Synced")
        world.broker.lose_everything()
        await world.go(70)

        assert world.says(stream, "Synced") == ("False", "Missing")
        assert world.says(stream) == world.says(topic) == ("True", "Synced")
        assert (remembered(world, topic), remembered(world, stream)) == before
        watch.check()
        assert world.broker.streams == {}

    run_in(scenario)


def test_what_was_paused_before_it_was_made_is_not_taken_for_ours() -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.give_broker()
        stream = world.give_stream()
        await world.resync()
        topic = world.give_topic(adoptionPolicy="FailIfExists")
        pause(world, topic)
        world.broker.make_topic("shop", "orders")
        await world.go(70)
        assert remembered(world, topic) == {}

        world.cluster.annotate(topic, "paused", None)
        await world.go(70)
        assert world.says(topic) == ("False", "AlreadyExists")
        assert world.says(stream) == ("True", "Synced")

    run_in(scenario)


def test_a_paused_topic_shows_how_its_sinks_are_doing() -> None:
    async def scenario(world: OperatorWorld) -> None:
        sink = {"name": "lake", "type": "Console", "suspend": True}
        _, topic = await given(world, sinks=[sink])
        await world.go(60)
        pause(world, topic)
        lake = Ref("IggySink", "shop", "orders.lake")
        status = world.cluster.objects[lake]["status"]
        found(status["conditions"], "Ready")["reason"] = "DriverFailed"  # type: ignore[index]
        world.watched(lake, world.cluster.objects[lake])
        world.cluster.change_spec(lake, suspend=False)
        await world.go(70)

        (row,) = world.status(topic)["sinks"]
        assert row["reason"] == world.says(lake)[1]
        assert world.says(topic, "SinksReady")[0] == "False"

    run_in(scenario)


def test_a_paused_sink_shows_lag_driver_and_restarts() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given(lag={"warnMessages": 5})
        before, uid = remembered(scene.world, SINK), scene.uid
        assert scene.status["application"]["state"] == "Running"
        pause(scene.world, SINK)
        scene.world.broker.ends["shop", "orders", 0] = 9
        scene.launchers.end(1, "the disk is full")
        scene.change(maxOffsetsPerTrigger=8)
        await scene.go(300)

        assert scene.status["progress"]["lagMessages"] == 9
        assert scene.says("Lagging") == ("True", "Lagging")
        assert scene.says("Available") == ("False", "Running"), "nothing is carried"
        application = scene.status["application"]
        assert (application["state"], application["attempts"]) == ("Running", 2)
        assert application["uid"] == uid
        assert scene.says() == ("True", "Running")
        assert remembered(scene.world, SINK) == before
        assert scene.uid == uid, "a change waits"
        scene.world.cluster.annotate(SINK, "paused", None)
        await scene.go(120)
        assert scene.uid != uid

    play(scenario)


def test_nothing_is_given_up_while_a_sink_is_paused() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given(restart={"maxRetries": 1, "backoffSeconds": 1})
        pause(scene.world, SINK)
        for _ in range(4):
            scene.launchers.end(1, "the store is away")
            await scene.go(70)
        assert "ended" not in scene.status["application"]
        uid = scene.uid

        await scene.go(700)
        scene.world.cluster.annotate(SINK, "paused", None)
        await scene.go(120)

        assert scene.says() == ("True", "Running")
        assert scene.uid == uid, "what runs well by now goes on"

    play(scenario)


@pytest.mark.parametrize("launcher", ["Native", "Kubeflow", "Apache"])
def test_a_paused_sink_whose_job_is_gone_says_so_and_starts_nothing(launcher: str) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given(launcher)
        pause(scene.world, SINK)
        (application,) = scene.launchers.applications()
        scene.world.cluster.remove(ref_of(application))
        await scene.go(120)

        assert scene.launchers.applications() == []
        assert scene.says("Available") == ("False", "Paused")
        assert "state" not in scene.status["application"]
        assert scene.says() == ("True", "Running")
        assert scene.status["consumerGroup"] == GROUP
        assert scene.world.says(TOPIC) == ("True", "Synced")

        scene.world.cluster.annotate(SINK, "paused", None)
        await scene.go(120)
        assert scene.says() == ("True", "Running")

    play(scenario)


def test_a_paused_user_shows_what_is_not_as_it_should_be() -> None:
    async def scenario(world: OperatorWorld) -> None:
        await given(world)
        grant = {"stream": "shop", "topics": [{"topic": "orders", "allow": ["ReadTopic"]}]}
        user = world.give_user(permissions={"streams": [grant]})
        await world.go(70)
        assert world.says(user, "Synced") == ("True", "Synced")
        before = remembered(world, user)
        watch = pause(world, user)
        world.broker.caller = USERNAME
        world.broker.answer(access_calls.update_permissions("fraud", None).request)
        await world.go(70)
        assert world.says(user, "Synced") == ("False", "Drifted")
        assert world.says(user, "CredentialsReady") == ("True", "Synced")
        late = {**grant, "stream": "bills"}
        world.cluster.change_spec(user, permissions={"streams": [late]})
        await world.go(70)
        assert world.says(user, "Synced") == ("False", "UnresolvedGrants")
        assert "bills" in world.message(user, "Synced")
        world.cluster.remove(Ref("Secret", "shop", "fraud-iggy"))
        del world.broker.people["fraud"]
        await world.go(70)

        assert world.says(user, "Synced") == ("False", "Missing")
        assert world.says(user, "CredentialsReady") == ("False", "SecretNotFound")
        assert world.says(user) == ("True", "Synced")
        assert remembered(world, user) == before
        watch.check()

    run_in(scenario)


def test_a_paused_user_whose_own_secret_is_missing_says_so() -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.give_broker()
        world.give_secret("own", password="of-the-user")
        user = world.give_user(passwordSecretRef={"name": "own", "key": "password"})
        await world.resync()
        assert world.says(user) == ("True", "Synced")
        pause(world, user)
        world.cluster.remove(Ref("Secret", "shop", "own"))
        await world.go(70)

        assert world.says(user, "CredentialsReady") == ("False", "SecretNotFound")
        assert world.says(user) == ("True", "Synced")

    run_in(scenario)

"""An IggySource and its job: what differs from a sink's, and that the rest is the same."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from iggy_operator.cluster import Ref
from iggy_operator.resources import Source
from operator_world import given_all
from sink_scene import LAUNCHERS, SEAT, SOURCE, TOPIC, Scene, play, sink_of, source_of, survive

SEND = {"streams": [{"stream": "shop", "topics": [
    {"topic": "orders", "allow": ["ReadTopic", "SendMessages"]}]}]}  # fmt: skip
READ = {"streams": [{"stream": "shop", "topics": [{"topic": "orders", "allow": ["ReadTopic"]}]}]}


def play_source(scenario: Callable[[Scene], Any]) -> None:
    play(scenario, SOURCE)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_source_is_started_and_says_so(launcher: str) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given(launcher)

        assert scene.says() == ("True", "Running")
        assert len(scene.launchers.started) == 1
        for kind in ("Available", "CredentialsReady", "CheckpointReady"):
            assert scene.says(kind)[0] == "True"
        assert scene.status["checkpoint"]["claimName"] == "made-checkpoint"
        assert scene.status["consumerGroup"] == SEAT
        assert "progress" not in scene.status
        before = len(scene.world.faults.writes)
        await scene.go(300)
        assert scene.world.writes()[before:] == []

    play_source(scenario)


def test_its_job_is_given_the_source() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given(key="id", maxMessagesPerTrigger=7)
        (name,) = scene.world.cluster.names("ConfigMap")
        text = scene.world.cluster.objects[Ref("ConfigMap", "shop", name)]["data"]["job.json"]
        job = json.loads(text)
        assert "sink" not in job
        assert (job["name"], job["stream"], job["topic"]) == (SEAT, "shop", "orders")
        assert job["source"]["random"]["rate"] == 10
        assert (job["source"]["key"], job["source"]["maxMessagesPerTrigger"]) == ("id", 7)

    play_source(scenario)


def test_its_user_may_send_to_this_topic_and_nothing_else() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given()
        (person,) = scene.world.broker.people.values()
        (stream,) = person.permissions.streams
        (topic,) = stream.topics
        assert topic.read_topic and topic.send_messages
        assert not any((topic.manage_topic, topic.poll_messages))
        assert not any((stream.read_stream, stream.manage_stream, stream.send_messages))

    play_source(scenario)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_driver_that_has_not_taken_its_place_is_not_available(launcher: str) -> None:
    async def scenario(scene: Scene) -> None:
        scene.takes_seat = False
        await scene.given(launcher)
        assert scene.launchers.drivers()
        assert scene.says() == scene.says("Available") == ("False", "Running")
        assert "not in its consumer group yet" in scene.world.message(SOURCE)

        scene.takes_seat = True
        await scene.go(10)
        assert scene.says() == ("True", "Running")

    play_source(scenario)


def test_a_second_member_of_its_group_is_told() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given()
        scene.takes_seat = False
        scene.world.broker.members[SEAT] = 2
        await scene.go(70)
        (event,) = (one for one in scene.world.cluster.events if one.reason == "SecondReader")
        assert "the source's own job" in event.message
        assert "progress" not in event.message

    play_source(scenario)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_change_stops_waits_and_starts(launcher: str) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given(launcher)
        before = scene.uid
        scene.change(random={"rate": 5}, restart={"maxRetries": 3})
        await scene.go(60)
        assert scene.uid != before
        assert len(set(scene.launchers.started)) == 2
        assert scene.says() == ("True", "Running")

    play_source(scenario)


def test_suspend_stops_and_keeps() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given()
        scene.change(suspend=True)
        await scene.go(60)
        assert scene.launchers.applications() == []
        assert scene.says() == ("False", "Suspended")
        assert scene.world.cluster.names("PersistentVolumeClaim") == ["made-checkpoint"]

        scene.change(suspend=False)
        await scene.go(60)
        assert scene.says() == ("True", "Running")

    play_source(scenario)


def test_what_is_finished_is_not_done_again() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given(trigger={"mode": "AvailableNow"})
        scene.launchers.end(0)
        await scene.go(60)
        assert scene.says() == ("True", "Completed")
        await scene.go(300)
        assert len(scene.launchers.started) == 1

    play_source(scenario)


def test_why_a_driver_failed_is_told() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given("Apache", restart={"policy": "Never"})
        scene.launchers.end(1, "Spark says much\niggy source job failed: no such table: a.b\n{}")
        await scene.go(60)
        assert scene.says() == ("False", "DriverFailed")
        assert scene.world.message(SOURCE) == "no such table: a.b"

    play_source(scenario)


def test_a_topic_that_was_made_anew_is_filled_like_the_old_one() -> None:
    """What it lost is told at the topic; nothing there waits for a decision about the source."""

    async def scenario(scene: Scene) -> None:
        await scene.given()
        scene.world.broker.drop_topic("shop", "orders")
        await scene.go(180)
        assert scene.says() == ("True", "Running")
        assert scene.status["topicIncarnation"] == scene.world.status(TOPIC)["incarnation"]

    play_source(scenario)


def test_a_source_waits_for_its_topic_and_gets_its_rights_with_it() -> None:
    async def scenario(scene: Scene) -> None:
        scene.world.broker.is_down = True
        await scene.given()
        assert scene.launchers.started == []
        scene.world.broker.is_down = False
        await scene.go(300)
        assert scene.says() == ("True", "Running")

    play_source(scenario)


def test_a_user_of_ones_own_must_be_allowed_to_send() -> None:
    async def scenario(scene: Scene) -> None:
        scene.world.give_user("feeder", permissions=READ)
        await scene.given(userRef={"name": "feeder"})
        assert scene.says() == ("False", "MissingGrants")
        text = scene.world.message(SOURCE)
        assert "IggyUser feeder may not send to shop/orders" in text
        assert scene.launchers.started == []

        scene.world.cluster.change_spec(Ref("IggyUser", "shop", "feeder"), permissions=SEND)
        await scene.go(60)
        assert scene.says() == ("True", "Running")
        assert scene.world.cluster.names("IggyUser") == ["feeder"]

    play_source(scenario)


def test_a_secret_that_is_missing_is_waited_for() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given(
            type="Postgres",
            random=None,
            postgres={
                "url": "postgresql://pg/shop",
                "tables": ["public.orders"],
                "credentialsSecretName": "pg",
            },
        )
        assert scene.says() == ("False", "SecretNotFound")
        assert "postgres.credentialsSecretName" in scene.world.message(SOURCE)
        scene.world.give_secret("pg", username="reader")
        await scene.go(30)
        assert scene.says() == ("False", "SecretInvalid")
        assert "the key password" in scene.world.message(SOURCE)
        scene.world.give_secret("pg", username="reader", password="x")
        await scene.go(60)
        assert scene.says() == ("True", "Running")

    play_source(scenario)


def test_a_source_yields_to_a_sink_of_its_name_and_topic() -> None:
    async def scenario(scene: Scene) -> None:
        namesake = sink_of()
        namesake["metadata"]["name"] = SOURCE.name
        scene.world.cluster.put(namesake)
        await scene.given()
        assert scene.says() == ("False", "NameConflict")
        assert "consumer group" in scene.world.message(SOURCE)
        (theirs,) = scene.launchers.applications()
        assert Source.label not in theirs["metadata"]["labels"]

        scene.world.cluster.remove(Ref("IggySink", "shop", SOURCE.name))
        scene.world.cluster.remove(Ref("PersistentVolumeClaim", "shop", "made-checkpoint"))
        await scene.go(120)
        assert scene.says() == ("True", "Running")

    play_source(scenario)


def test_a_topic_tells_its_sinks_and_its_sources_apart() -> None:
    async def scenario(scene: Scene) -> None:
        lists = {"sinks": [listed(sink_of(), "lake")], "sources": [listed(source_of(), "made")]}
        await given_all(scene.world, **lists)
        await scene.go(130)
        status = scene.world.status(TOPIC)
        assert (status["sinksSummary"], status["sourcesSummary"]) == ("1/1", "0/1")
        assert scene.world.says(TOPIC, "SinksReady") == ("True", "Synced")
        assert scene.world.says(TOPIC, "SourcesReady") == ("False", "Running")

        scene.world.cluster.change_spec(TOPIC, sources=[])
        await scene.go(130)
        assert scene.world.cluster.names("IggySource") == []
        assert scene.world.cluster.names("IggySink") == ["orders.lake"]
        assert scene.world.says(TOPIC, "SourcesReady") == ("True", "Synced")

    play(scenario)


def listed(value: dict[str, Any], name: str) -> dict[str, Any]:
    """As an entry of a topic."""
    spec = {field: item for field, item in value["spec"].items() if field != "topicRef"}
    return {"name": name, **spec}


def test_everything_goes_with_a_source_but_its_claim() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given()
        scene.world.cluster.remove(SOURCE)
        await scene.go(60)
        for kind in ("StatefulSet", "Pod", "ConfigMap", "IggyUser"):
            assert scene.world.cluster.names(kind) == [], kind
        assert scene.world.broker.people == {}
        assert scene.world.cluster.names("PersistentVolumeClaim") == ["made-checkpoint"]

    play_source(scenario)


@pytest.mark.parametrize("killed_after", range(1, 20))
def test_killed_after_any_write_there_are_never_two_drivers(killed_after: int) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given()
        steps: list[dict[str, Any]] = [
            {"maxMessagesPerTrigger": 7},
            {"spark": {"launcher": "Kubeflow"}},
            {"suspend": True},
            {"suspend": False, "maxMessagesPerTrigger": 8},
        ]
        await survive(scene, steps, killed_after=killed_after)

        assert scene.says() == ("True", "Running")
        assert len(scene.launchers.drivers()) == 1

    play_source(scenario)

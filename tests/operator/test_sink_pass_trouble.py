"""Sinks whose broker, login, checkpoint or launcher is not as it should be."""

from typing import Any

import pytest

from iggy_operator.cluster import Ref
from iggy_operator.kinds.user import UNRESOLVED_MAX
from iggy_operator.launchers.steps import SOON_S
from sink_scene import GROUP, SINK, Scene, play, sink_of


def reading(grants: list[tuple[str, list[str]]]) -> dict[str, Any]:
    """Permissions to read topics of streams."""
    return {
        "streams": [
            {
                "stream": stream,
                "topics": [{"topic": name, "allow": ["ReadTopic"]} for name in names],
            }
            for stream, names in grants
        ]
    }


def test_a_broker_that_is_down_stops_no_job_and_is_told_after_a_minute() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given()
        before = scene.uid
        scene.world.broker.is_down = True
        await scene.go(300)
        assert scene.uid == before
        assert scene.says() == ("Unknown", "BrokerUnreachable")

        scene.world.broker.is_down = False
        await scene.go(300)
        assert scene.says() == ("True", "Running")

    play(scenario)


def test_suspend_is_followed_while_the_broker_is_down() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given()
        scene.world.broker.is_down = True
        scene.change(suspend=True)
        await scene.go(60)
        assert scene.launchers.applications() == []
        assert scene.says() == ("False", "Suspended")

    play(scenario)


def test_suspend_is_followed_without_a_topic() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given()
        scene.world.cluster.remove(Ref("IggyTopic", "shop", "orders"))
        scene.change(suspend=True)
        await scene.go(60)
        assert scene.launchers.applications() == []
        assert scene.says() == ("False", "TopicNotFound")
        assert scene.says("Available") == ("False", "Suspended")
        assert scene.says("Progressing") == ("False", "Synced")
        assert not {"uid", "name", "state"} & scene.status["application"].keys()

        scene.world.give_topic()
        scene.change(suspend=False)
        await scene.go(120)
        assert scene.says() == scene.says("Available") == ("True", "Running")
        assert scene.status["application"]["attempts"] == 1  # a start that was asked for
        assert "ApplicationGone" not in {event.reason for event in scene.world.cluster.events}

    play(scenario)


def test_a_stop_without_a_topic_is_told_while_it_takes_its_time() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given()
        scene.world.cluster.remove(Ref("IggyTopic", "shop", "orders"))
        scene.change(suspend=True)
        await scene.world.settle()  # its pods are not gone yet
        assert scene.launchers.drivers()
        assert scene.says("Available") == ("False", "Suspended")
        assert scene.says("Progressing") == ("True", "Suspended")

    play(scenario)


def test_a_user_of_ones_own_is_waited_for() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given(userRef={"name": "reader"})
        assert scene.launchers.applications() == []
        assert scene.says() == ("False", "SecretNotFound")
        assert scene.says("CredentialsReady")[0] == "False"

        scene.world.give_user("reader")
        await scene.go(120)
        assert scene.says() == ("True", "Running")
        assert scene.world.cluster.names("IggyUser") == ["reader"]

    play(scenario)


@pytest.mark.parametrize(
    "grants",
    [[("shop", ["orders", "later"])], [("shop", ["orders"]), ("next", ["orders"])]],
    ids=["another topic", "another stream"],
)
def test_a_grant_of_the_future_keeps_no_sink_waiting(
    grants: list[tuple[str, list[str]]],
) -> None:
    async def scenario(scene: Scene) -> None:
        scene.world.give_user("reader", permissions=reading(grants))
        await scene.given(userRef={"name": "reader"})
        user = Ref("IggyUser", "shop", "reader")
        assert scene.world.says(user, "Synced") == ("False", "UnresolvedGrants")
        assert scene.says() == ("True", "Running")
        assert scene.says("CredentialsReady") == ("True", "Synced")

    play(scenario)


def test_a_sink_waits_for_the_grant_on_its_own_topic() -> None:
    async def scenario(scene: Scene) -> None:
        topic = scene.world.give_topic()
        scene.world.cluster.annotate(topic, "paused", "true")
        scene.world.give_user("reader", permissions=reading([("shop", ["orders", "later"])]))
        scene.world.give_broker()
        scene.world.give_stream()
        scene.world.cluster.put(sink_of(userRef={"name": "reader"}))
        await scene.go(60)
        assert scene.launchers.applications() == []
        assert scene.says() == ("False", "UnresolvedGrants")
        assert scene.world.message(SINK).endswith("waits for shop/orders")

        scene.world.cluster.annotate(topic, "paused", None)
        await scene.go(60)
        assert scene.says() == ("True", "Running")

    play(scenario)


def test_a_list_of_grants_that_is_cut_may_hide_the_sinks_own() -> None:
    async def scenario(scene: Scene) -> None:
        later = [f"later-{number}" for number in range(UNRESOLVED_MAX)]
        scene.world.give_user("reader", permissions=reading([("shop", ["orders", *later])]))
        await scene.given(userRef={"name": "reader"})
        assert scene.launchers.applications() == []
        assert scene.says() == ("False", "UnresolvedGrants")

    play(scenario)


def test_a_sink_that_gets_a_user_gives_up_its_own_once_the_job_runs_with_it() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given()
        scene.world.give_user("reader")
        scene.change(userRef={"name": "reader"})
        await scene.go(180)
        assert scene.says() == ("True", "Running")
        assert len(scene.launchers.started) == 2
        assert scene.world.cluster.names("IggyUser") == ["reader"]
        assert list(scene.world.broker.people) == ["reader"]

    play(scenario)


def test_a_second_reader_in_the_group_is_told() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given()
        broker = scene.world.broker
        broker.groups["shop", "orders"] = [GROUP]
        broker.members[GROUP] = 1
        await scene.go(120)
        reasons = {event.reason for event in scene.world.cluster.events}
        assert "SecondReader" not in reasons

        broker.members[GROUP] = 2
        await scene.go(120)
        assert "SecondReader" in {event.reason for event in scene.world.cluster.events}

    play(scenario)


def test_a_claim_of_ones_own_must_be_there() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given(checkpoint={"volume": {"existingClaim": "mine"}})
        assert scene.launchers.applications() == []
        assert scene.says() == ("False", "CheckpointUnavailable")
        assert scene.says("CheckpointReady")[0] == "False"

    play(scenario)


def test_a_claim_of_somebody_else_is_left_alone() -> None:
    async def scenario(scene: Scene) -> None:
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": {}}
        scene.world.cluster.put({**claim, "metadata": {"name": "lake-checkpoint"}})
        await scene.given()
        assert scene.launchers.applications() == []
        assert scene.says() == ("False", "NameConflict")

    play(scenario)


def test_a_paused_sink_is_left_as_it_is() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given()
        before = scene.uid
        scene.world.cluster.annotate(SINK, "paused", "true")
        scene.change(suspend=True)
        await scene.go(120)
        assert scene.uid == before
        assert scene.says("Paused") == ("True", "Paused")

    play(scenario)


def test_ten_minutes_of_running_start_the_count_of_retries_anew() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given(restart={"maxRetries": 2})
        for _ in range(4):
            scene.launchers.end(1)
            await scene.go(900)
            assert scene.says() == ("True", "Running")
        assert scene.status["application"]["attempts"] == 1

    play(scenario)


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
def test_a_stream_that_ends_well_is_not_started_again_unless_asked_for(policy: str) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given("Apache", restart={"policy": policy})
        scene.launchers.end(0)
        await scene.go(120)
        assert len(scene.launchers.started) == 1
        assert scene.says("Available") == ("False", "Completed")

    play(scenario)


def test_an_application_that_cannot_be_started_is_made_anew_with_growing_pauses() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given("Kubeflow", restart={"maxRetries": 4, "backoffSeconds": 3600})
        uids: list[tuple[str, float]] = []
        for _ in range(40):
            for value in scene.launchers.applications():
                if value["metadata"]["uid"] not in [uid for uid, _ in uids]:
                    uids.append((value["metadata"]["uid"], scene.world.clock.seconds))
                value["status"] = {"applicationState": {"state": "SUBMISSION_FAILED"}}
            await scene.world.go(SOON_S)
            scene.launchers._end_pods()
        assert len(uids) == 5
        assert uids[-1][1] - uids[-2][1] >= 8  # 1 s, doubled three times
        assert scene.says() == ("False", "RetriesExhausted")

    play(scenario)


def test_a_driver_of_which_nobody_knows_is_unknown_and_no_second_one_is_started() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given("Kubeflow")
        (application,) = scene.launchers.applications()
        application["status"]["applicationState"] = {"state": "UNKNOWN"}
        uid = scene.uid
        await scene.world.go(600)

        assert scene.says() == scene.says("Available") == ("Unknown", "DriverPending")
        assert "nothing is started" in scene.world.message(SINK)
        assert scene.says("Progressing") == ("False", "Synced")
        assert (scene.uid, len(scene.launchers.started)) == (uid, 1)

    play(scenario)

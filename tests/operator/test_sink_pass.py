"""An IggySink and its job, whoever launches it, on a fake cluster with fake controllers."""

from typing import Any

import pytest

from fake_launchers import APACHE, KUBEFLOW
from iggy_operator.cluster import Ref
from iggy_operator.conditions import found
from iggy_operator.kinds.connector_progress import LOOK_S, TRIGGERS
from launcher_cases import SMALLEST
from operator_world import given_all
from sink_scene import GROUP, LAUNCHERS, SINK, TOPIC, Scene, play, sink_of, survive


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_sink_is_started_and_says_so(launcher: str) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given(launcher)

        assert scene.says() == ("True", "Running")
        assert len(scene.launchers.started) == 1
        for kind in ("Available", "CredentialsReady", "CheckpointReady"):
            assert scene.says(kind)[0] == "True"
        assert scene.status["checkpoint"]["claimName"] == "lake-checkpoint"
        before = len(scene.world.faults.writes)
        await scene.go(300)
        assert scene.world.writes()[before:] == []

    play(scenario)


def test_its_user_may_read_this_topic_and_nothing_else() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given()
        (person,) = scene.world.broker.people.values()
        (stream,) = person.permissions.streams
        (topic,) = stream.topics
        assert topic.read_topic
        assert not any((topic.manage_topic, topic.poll_messages, topic.send_messages))
        assert not any((stream.read_stream, stream.manage_stream, stream.read_topics))

    play(scenario)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_change_stops_waits_and_starts(launcher: str) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given(launcher)
        before = scene.uid

        scene.change(maxOffsetsPerTrigger=7)
        await scene.go(60)

        assert scene.uid != before
        assert len(set(scene.launchers.started)) == 2
        assert scene.says() == ("True", "Running")

    play(scenario)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_what_does_not_concern_the_job_restarts_nothing(launcher: str) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given(launcher)
        before = scene.uid
        scene.change(lag={"warnMessages": 5}, restart={"maxRetries": 3})
        await scene.go(120)
        assert scene.uid == before
        assert len(scene.launchers.started) == 1

    play(scenario)


def test_editing_a_job_that_was_given_up_starts_it() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given("Kubeflow", restart={"policy": "Never"})
        scene.launchers.end(1)
        await scene.go(60)
        assert scene.says() == ("False", "DriverFailed")
        count = len(scene.launchers.started)
        await scene.go(300)
        assert len(scene.launchers.started) == count

        scene.change(maxOffsetsPerTrigger=7)
        await scene.go(60)
        assert scene.says() == ("True", "Running")

    play(scenario)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_driver_that_was_removed_comes_back(launcher: str) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given(launcher)
        scene.launchers.remove_driver()
        await scene.go(60)
        assert len(scene.launchers.started) == 2
        assert scene.says() == ("True", "Running")

    play(scenario)


@pytest.mark.parametrize("policy", ["Always", "OnFailure"])
def test_a_driver_that_is_drained_ends_well_and_has_not_failed(policy: str) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given(restart={"policy": policy})
        before = scene.uid
        scene.launchers.remove_driver()
        scene.launchers.end(0)
        await scene.world.go(70)  # a look while the pod is on its way out
        assert scene.says() == ("False", "DriverPending")

        await scene.go(60)
        assert scene.says() == ("True", "Running")
        assert scene.uid == before
        assert "error" not in scene.status["application"]

    play(scenario)


def test_an_application_that_was_removed_comes_back() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given("Kubeflow")
        (value,) = scene.launchers.applications()
        scene.world.cluster.remove(Ref(KUBEFLOW, "shop", value["metadata"]["name"]))
        await scene.go(90)
        assert len(scene.launchers.started) == 2
        assert scene.says() == ("True", "Running")
        assert "ApplicationGone" in {event.reason for event in scene.world.cluster.events}

    play(scenario)


def test_a_launcher_that_is_stuck_is_helped() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given("Kubeflow")
        before = scene.uid
        scene.launchers.is_stuck = True
        scene.launchers.remove_driver()
        await scene.go(100)
        assert scene.uid == before
        await scene.go(120)
        assert scene.uid != before
        assert scene.says() == ("True", "Running")

    play(scenario)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_finished_work_is_not_done_again(launcher: str) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given(launcher, trigger={"mode": "AvailableNow"})
        scene.launchers.end(0)
        await scene.go(60)
        assert scene.says() == ("True", "Completed")

        scene.world.start()
        scene.change(lag={"warnMessages": 5})
        await scene.go(300)
        assert len(scene.launchers.started) == 1
        assert scene.says() == ("True", "Completed")

    play(scenario)


@pytest.mark.parametrize(
    ("code", "reason"), [(2, "DriverFailed"), (4, "DriverFailed"), (6, "TooManyBadRecords")]
)
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_an_end_that_needs_a_person_is_not_tried_again(
    launcher: str, code: int, reason: str
) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given(launcher)
        scene.launchers.exits = code
        await scene.go(180)
        count = len(scene.launchers.started)
        await scene.go(300)
        assert len(scene.launchers.started) == count
        assert scene.says() == ("False", reason)
        assert scene.launchers.drivers() == []

    play(scenario)


def test_retries_are_used_up() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given(restart={"maxRetries": 2})
        scene.launchers.exits = 1
        await scene.go(300)
        assert len(scene.launchers.started) <= 5
        assert scene.says() == ("False", "RetriesExhausted")
        assert scene.launchers.applications() == []

        scene.launchers.exits = None
        scene.world.cluster.annotate(SINK, "restart-at", "2027-01-01T00:00:00Z")
        await scene.go(60)
        assert scene.says() == ("True", "Running")

    play(scenario)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_suspend_stops_and_keeps(launcher: str) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given(launcher)
        scene.change(suspend=True)
        await scene.go(60)
        assert scene.launchers.applications() == []
        assert scene.says() == ("False", "Suspended")
        assert scene.world.cluster.names("PersistentVolumeClaim") == ["lake-checkpoint"]

        scene.change(suspend=False)
        await scene.go(60)
        assert scene.says() == ("True", "Running")

    play(scenario)


def test_a_topic_that_was_made_anew_pauses_until_acknowledged() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given()
        scene.world.broker.drop_topic("shop", "orders")
        await scene.go(180)
        assert scene.says() == ("False", "TopicRecreated")
        assert scene.launchers.applications() == []

        now = scene.world.status(TOPIC)["incarnation"]
        scene.world.cluster.annotate(TOPIC, "acknowledge-recreation", now)
        await scene.go(120)
        assert scene.says() == ("True", "Running")
        (name,) = scene.world.cluster.names("ConfigMap")
        text = scene.world.cluster.objects[Ref("ConfigMap", "shop", name)]["data"]["job.json"]
        assert '"onTopicRecreated": "Restart"' in text

    play(scenario)


def test_a_sink_may_go_on_with_a_new_topic() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given(onTopicRecreated="Restart")
        scene.world.broker.drop_topic("shop", "orders")
        await scene.go(180)
        assert scene.says() == ("True", "Running")
        assert scene.status["topicIncarnation"] == scene.world.status(TOPIC)["incarnation"]

    play(scenario)


def test_a_spark_operator_that_is_missing_is_looked_for_again() -> None:
    async def scenario(scene: Scene) -> None:
        scene.world.cluster.missing_kinds |= {KUBEFLOW, APACHE}
        await scene.given("Kubeflow")
        assert scene.says() == ("False", "SparkOperatorMissing")
        scene.world.cluster.missing_kinds.clear()
        await scene.go(120)
        assert scene.says() == ("True", "Running")

    play(scenario)


def test_auto_keeps_what_it_has() -> None:
    async def scenario(scene: Scene) -> None:
        scene.world.cluster.missing_kinds |= {KUBEFLOW, APACHE}
        await scene.given("Auto")
        before = scene.uid
        scene.world.cluster.missing_kinds.clear()
        await scene.go(120)
        assert scene.uid == before
        scene.change(maxOffsetsPerTrigger=7)
        await scene.go(60)
        (value,) = scene.launchers.applications()
        assert value["kind"] == "StatefulSet"

    play(scenario)


def test_progress_is_what_the_group_has_stored() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given(lag={"warnMessages": 5})
        broker = scene.world.broker
        broker.groups["shop", "orders"] = [GROUP]
        broker.ends["shop", "orders", 0] = 10
        broker.stored["shop", "orders", GROUP, 0] = 2
        await scene.go(70)
        progress = scene.status["progress"]
        assert (progress["committed"], progress["end"], progress["lagMessages"]) == (3, 10, 7)
        assert scene.says("Lagging") == ("True", "Lagging")
        assert scene.says() == ("True", "Running")

        await scene.go(300)
        assert scene.says("Available") == ("False", "Running")
        assert scene.says()[0] == "False"
        broker.stored["shop", "orders", GROUP, 0] = 9
        await scene.go(70)
        assert scene.says("Lagging")[0] == "False"
        assert scene.says() == ("True", "Running")

    play(scenario)


def test_a_sink_is_not_ready_three_triggers_after_its_last_commit() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given(trigger={"interval": "5m"})
        broker = scene.world.broker
        broker.groups["shop", "orders"] = [GROUP]
        broker.ends["shop", "orders", 0] = 10
        broker.stored["shop", "orders", GROUP, 0] = 2
        await scene.go(LOOK_S)
        ready_s = 0
        while scene.says() == ("True", "Running"):
            await scene.go(5)
            ready_s += 5

        assert 2 * 300 < ready_s <= TRIGGERS * 300 + 2 * LOOK_S
        assert scene.says() == ("False", "Running")

    play(scenario)


def test_a_sink_that_has_carried_everything_shows_a_lag_of_zero_at_its_topic() -> None:
    async def scenario(scene: Scene) -> None:
        listed = {**sink_of()["spec"], "name": "lake"}
        del listed["topicRef"]
        await given_all(scene.world, sinks=[listed])
        await scene.go(130)

        (row,) = scene.world.status(TOPIC)["sinks"]
        assert (row["ready"], row["lagMessages"]) == ("True", 0)

    play(scenario)


@pytest.mark.parametrize("is_down", [False, True], ids=["up", "down"])
def test_without_bounds_no_sink_is_lagging(is_down: bool) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given(lag={"warnMessages": 5})
        scene.world.broker.ends["shop", "orders", 0] = 10
        await scene.go(70)
        assert scene.says("Lagging") == ("True", "Lagging")

        scene.world.broker.is_down = is_down
        scene.change(lag={})
        await scene.go(70)
        assert scene.says("Lagging") == ("False", "Synced")
        assert "lag" in scene.world.message(SINK, "Lagging")

    play(scenario)


def test_a_sink_that_never_had_bounds_says_nothing_of_them() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given()
        await scene.go(70)
        assert found(scene.status["conditions"], "Lagging") is None

    play(scenario)


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("killed_after", range(1, 26))
def test_killed_after_any_write_there_are_never_two_drivers(
    launcher: str, killed_after: int
) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given(launcher)
        other = "Native" if launcher == "Kubeflow" else "Kubeflow"
        steps: list[dict[str, Any]] = [
            {"maxOffsetsPerTrigger": 7},
            {"spark": {**SMALLEST["spark"], "launcher": other}},
            {"suspend": True},
            {"suspend": False, "maxOffsetsPerTrigger": 8},
        ]
        await survive(scene, steps, killed_after=killed_after)

        assert scene.says() == ("True", "Running")
        assert len(scene.launchers.drivers()) == 1

    play(scenario)


def test_a_new_sink_of_the_name_waits_for_the_driver_of_the_old_one() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given()
        scene.world.cluster.remove(SINK)
        scene.world.cluster.put(sink_of())
        await scene.world.go(30)  # no tick: the old pod is still there
        assert scene.launchers.applications() == []
        assert "never two drivers" in scene.world.message(SINK)
        await scene.go(60)
        assert scene.says() == ("True", "Running")

    play(scenario)

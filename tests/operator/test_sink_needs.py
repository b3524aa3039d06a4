"""What a sink's job needs besides its topic: account, Secrets, checkpoint; how it comes along."""

from typing import Any

import pytest

from iggy_operator.cluster import DeniedError, Ref
from iggy_operator.kinds.connector_objects import Found
from iggy_operator.kinds.connector_report import Facts, verdict
from iggy_operator.launchers.steps import Plan, Step
from iggy_operator.reasons import Reason
from launcher_cases import job_of
from launcher_cases import sink_of as desired_sink
from operator_world import OperatorWorld
from planted_faults import Made
from sink_blocks import DATABASE
from sink_scene import GROUP, LAUNCHERS, SINK, Scene, play

ACCOUNT = Ref("ServiceAccount", "shop", "iggy-spark")
CLAIM = "CheckpointReady"


@pytest.mark.parametrize("launcher", ["Kubeflow", "Apache"])
def test_a_missing_account_of_the_chart_is_named_and_awaited(launcher: str) -> None:
    async def scenario(scene: Scene) -> None:
        scene.world.cluster.remove(ACCOUNT)
        await scene.given(launcher)

        assert scene.says() == ("False", "ServiceAccountNotFound")
        assert "iggy-spark" in scene.world.message(SINK)
        assert scene.launchers.applications() == []
        scene.give_account("iggy-spark")
        await scene.go(60)
        assert scene.says() == ("True", "Running")

    play(scenario)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_missing_account_that_the_sink_names_is_said(launcher: str) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given(launcher, spark={"serviceAccountName": "theirs"})

        assert scene.says() == ("False", "ServiceAccountNotFound")
        assert "service account theirs" in scene.world.message(SINK)
        scene.give_account("theirs")
        await scene.go(60)
        assert scene.says() == ("True", "Running")
        scene.world.cluster.remove(Ref("ServiceAccount", "shop", "theirs"))
        uid = scene.uid
        await scene.go(120)
        assert (scene.uid, scene.says()) == (uid, ("True", "Running")), "what runs goes on"

    play(scenario)


def test_an_operator_that_may_not_read_accounts_starts_the_job_all_the_same() -> None:
    async def scenario(scene: Scene) -> None:
        def deny(call: Made) -> Exception | None:
            is_account = call.verb == "get" and call.what.startswith("ServiceAccount")
            return DeniedError("403") if is_account else None

        scene.world.faults.fail = deny
        await scene.given("Kubeflow")

        assert scene.says() == ("True", "Running")

    play(scenario)


def test_a_secret_that_the_sink_names_is_awaited() -> None:
    async def scenario(scene: Scene) -> None:
        s3 = {"credentialsSecretName": "bucket", "endpoint": "http://store:9000"}
        path = {"path": "s3a://lake/orders"}
        await scene.given(files={**path, "s3": s3}, spark={"podTemplate": {}})

        assert scene.says() == ("False", "SecretNotFound"), scene.world.message(SINK)
        assert "files.s3.credentialsSecretName: there is no Secret bucket" in (
            scene.world.message(SINK)
        )
        scene.world.give_secret("bucket", accessKeyId="a", secretAccessKey="b")
        await scene.go(60)
        assert scene.says() == ("True", "Running")

    play(scenario)


def test_a_key_that_a_secret_lacks_is_awaited() -> None:
    async def scenario(scene: Scene) -> None:
        scene.world.give_secret("pg", username="ann")
        await scene.given(**DATABASE)

        assert scene.says() == ("False", "SecretInvalid"), scene.world.message(SINK)
        text = scene.world.message(SINK)
        assert "jdbc.credentialsSecretName: Secret pg lacks the key password" in text
        assert "ann" not in text
        scene.world.give_secret("pg", username="ann", password="p")
        await scene.go(60)
        assert scene.says() == ("False", "SecretNotFound")
        assert "jdbc.caSecretName: there is no Secret pg-ca" in scene.world.message(SINK)
        scene.world.give_secret("pg-ca", **{"ca.crt": "x"})
        await scene.go(60)
        assert scene.says() == ("True", "Running")

    play(scenario)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_secret_that_changes_or_goes_restarts_nothing(launcher: str) -> None:
    async def scenario(scene: Scene) -> None:
        scene.world.give_secret("pg", username="ann", password="p")
        scene.world.give_secret("pg-ca", **{"ca.crt": "x"})
        await scene.given(launcher, **DATABASE)
        assert scene.says() == ("True", "Running")
        before = scene.uid

        scene.world.give_secret("pg", username="ann", password="another")
        await scene.go(120)
        scene.world.cluster.remove(Ref("Secret", "shop", "pg-ca"))
        await scene.go(120)

        assert (scene.uid, scene.says()) == (before, ("True", "Running"))
        assert len(scene.launchers.started) == 1

    play(scenario)


def test_a_claim_without_a_volume_is_told_in_the_pods_own_words() -> None:
    async def scenario(scene: Scene) -> None:
        scene.launchers.binds_claims = False
        await scene.given()
        (pod,) = [ref for ref in scene.world.cluster.objects if ref.kind == "Pod"]
        waiting = {
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                            "message": "pod has unbound immediate PersistentVolumeClaims"}],
        }  # fmt: skip
        scene.world.cluster.change(pod, status={"containerStatuses": [], **waiting})
        await scene.world.go(60)

        assert scene.says(CLAIM) == ("False", "VolumePending")
        assert "unbound immediate" in scene.world.message(SINK, CLAIM)
        assert "lake-checkpoint" in scene.world.message(SINK, CLAIM)
        assert scene.says() == ("False", "DriverPending")

    play(scenario)


def test_a_claim_that_is_bound_is_ready() -> None:
    async def scenario(scene: Scene) -> None:
        scene.launchers.binds_claims = False
        await scene.given()
        assert scene.says(CLAIM) == ("False", "VolumePending")

        scene.launchers.binds_claims = True
        await scene.go(120)

        assert scene.says(CLAIM) == ("True", "Synced")

    play(scenario)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_driver_that_was_made_without_its_volume_is_told(launcher: str) -> None:
    async def scenario(scene: Scene) -> None:
        scene.launchers.drops_volumes = True
        await scene.given(launcher)

        assert scene.says(CLAIM) == ("False", "CheckpointUnavailable")
        assert "does not mount claim lake-checkpoint" in scene.world.message(SINK, CLAIM)

    play(scenario)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_progress_of_a_change_is_named_and_ends(launcher: str) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given(launcher)
        assert scene.says("Progressing") == ("False", "Synced")

        scene.change(maxOffsetsPerTrigger=7)
        await scene.world.go(1)
        assert scene.says("Progressing") == ("True", "Reconciling")
        assert "is gone" in scene.world.message(SINK, "Progressing")

        await scene.go(120)
        assert scene.says("Progressing") == ("False", "Synced")

    play(scenario)


def test_a_job_that_somebody_else_stops_is_progressing() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given("Kubeflow")
        (application,) = scene.launchers.applications()
        application["status"]["applicationState"] = {"state": "SUSPENDING"}
        await scene.world.go(60)

        assert scene.says("Progressing") == ("True", "Reconciling")
        assert scene.world.message(SINK, "Progressing") == "SUSPENDING"

    play(scenario)


def test_a_start_a_change_and_a_stop_that_were_asked_for_are_no_warning() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given()
        scene.change(maxOffsetsPerTrigger=7)
        await scene.go(120)
        scene.change(suspend=True)
        await scene.go(120)
        scene.change(suspend=False)
        await scene.go(120)

        assert scene.says() == ("True", "Running")
        assert [event for event in scene.world.cluster.events if event.is_warning] == []

    play(scenario)


def speed(world: OperatorWorld) -> str | None:
    found = world.status(SINK)["progress"].get("rowsPerSecond")
    return None if found is None else str(found)


def test_speed_is_what_was_carried_between_two_looks() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given()
        world = scene.world
        world.broker.groups["shop", "orders"] = [GROUP]
        place = ("shop", "orders", GROUP, 0)

        world.broker.ends["shop", "orders", 0] = 10_000
        world.broker.stored[place] = 599
        await scene.go(60)
        assert speed(world) == "10.0"

        world.broker.stored[place] = 2_999
        await scene.go(60)
        assert speed(world) == "40.0"

        await scene.go(600)
        assert speed(world) == "0.0"
        count = len(world.faults.verbs("apply_status"))
        await scene.go(600)
        assert len(world.faults.verbs("apply_status")) == count, "a speed of nothing is told once"

        world.broker.stored[place] = 3_599
        await scene.go(60)
        assert speed(world) == "10.0", "the idle time before does not count"

    play(scenario)


@pytest.mark.parametrize(
    ("checkpoint", "shown"),
    [
        ({"volume": {}}, {"claimName": "orders.lake-checkpoint",
                          "location": "/checkpoint/orders.lake"}),
        ({"volume": {"existingClaim": "ours"}}, {"claimName": "ours",
                                                 "location": "/checkpoint/orders.lake"}),
        ({"location": "s3a://lake/_ckpt"}, {"location": "s3a://lake/_ckpt"}),
    ],
)  # fmt: skip
def test_the_status_names_the_checkpoint(checkpoint: dict[str, Any], shown: Any) -> None:
    job = job_of(desired_sink(checkpoint=checkpoint))
    facts = Facts(
        job=job,
        found=Found(None, None, (), frozenset(), running_s=0, since_s=0),
        plan=Plan(Step.KEEP, Reason.PENDING),
        credentials=None,
        checkpoint=None,
        incarnation=None,
        was_lost=False,
    )

    assert verdict(facts, {}, now_s=0).report.fields["checkpoint"] == shown

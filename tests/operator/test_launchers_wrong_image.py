"""A sink whose Spark image is not there, as the installation names it: set right, it heals."""

from dataclasses import replace
from typing import Any

import pytest

from desired_cases import NEXT_RELEASE, RELEASE
from fake_launchers import APACHE_START_S
from iggy_operator.desired.metadata import RELEASE_HASH, USER_HASH
from iggy_operator.launchers.states import Phase, Reading
from iggy_operator.launchers.steps import Look, Record, Step, plan
from iggy_operator.reasons import Reason
from launcher_cases import sink_of
from planted_faults import Killed
from sink_scene import LAUNCHERS, SINK, Scene, play

WRONG = replace(RELEASE, spark_image="iggykube/spark:wrong")
MODES = ("ProcessingTime", "AvailableNow")
TEN = 10
IS_STUCK = Reading(Phase.PENDING, "ImagePullBackOff", "no such image", is_stuck=True)


def look(reading: Reading, *, release: str = "next", **record: Any) -> Look:
    """At an application of an older release."""
    annotations = {USER_HASH: "asked", RELEASE_HASH: "old"}
    metadata = {"name": "lake", "uid": "1", "annotations": annotations}
    return Look(
        connector=sink_of(restart={"maxRetries": 2}),
        marks={USER_HASH: "asked", RELEASE_HASH: release},
        record=Record(**{"uid": "1", "hash": "asked", "starts": 1, "attempts": 1, **record}),
        now_s=1000,
        application={"kind": "SparkApplication", "metadata": metadata},
        reading=reading,
    )


@pytest.mark.parametrize("phase", [Phase.PENDING, Phase.REFUSED, Phase.FAILING, Phase.FAILED])
def test_a_driver_that_never_ran_goes_for_another_release(phase: Phase) -> None:
    stuck = replace(IS_STUCK, phase=phase)

    first = plan(look(stuck, attempts=7))
    second = plan(replace(look(stuck), record=first.record))

    assert (first.step, second.step) == (Step.KEEP, Step.STOP), "the status is written in between"
    assert first.reason is second.reason is Reason.RECONCILING
    assert (second.record.attempts, second.record.hash) == (0, "asked")


@pytest.mark.parametrize(
    "reading",
    [replace(IS_STUCK, is_stuck=False), Reading(Phase.RUNNING, "RUNNING"),
     Reading(Phase.FAILING, "CrashLoopBackOff", exit_code=1), Reading(Phase.UNKNOWN, "")],
)  # fmt: skip
def test_any_other_driver_keeps_its_release(reading: Reading) -> None:
    assert plan(look(reading)).step is Step.KEEP


def test_what_was_given_up_stays_so() -> None:
    found = plan(look(IS_STUCK, ended="RetriesExhausted", error="it crashed"))

    assert (found.step, found.reason) == (Step.KEEP, Reason.RETRIES_EXHAUSTED)


@pytest.mark.parametrize("phase", [Phase.REFUSED, Phase.FAILED])
@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
def test_a_driver_that_never_ran_is_never_given_up(phase: Phase, policy: str) -> None:
    stuck = replace(IS_STUCK, phase=phase, attempts=1)
    sink = sink_of(restart={"policy": policy, "maxRetries": 2, "backoffSeconds": 60})
    case = replace(look(stuck, release="old", attempts=TEN), connector=sink)

    waiting, due = plan(replace(case, since_s=990)), plan(replace(case, since_s=900))

    assert (waiting.step, waiting.again_s) == (Step.KEEP, 50)
    assert due.step is Step.STOP
    assert waiting.record.ended == due.record.ended == ""


def install(scene: Scene, release: Any) -> None:
    """A new process of the operator, with what the chart says now."""
    scene.world.product = release
    scene.world.start()


async def stuck(scene: Scene, launcher: str, mode: str = "ProcessingTime", **fields: Any) -> None:
    scene.launchers.missing_images = {WRONG.spark_image}
    install(scene, WRONG)
    await scene.given(launcher, trigger={"mode": mode}, **fields)
    assert scene.launchers.started == []
    assert scene.says() == ("False", "DriverPending")
    message = scene.world.message(SINK)
    assert "ImagePullBackOff" in message
    assert WRONG.spark_image in message
    assert "error" not in scene.status["application"]


async def healed(scene: Scene) -> None:
    await scene.go(120)
    assert scene.says() == ("True", "Running")
    assert len(scene.launchers.started) == 1
    assert scene.status["application"]["attempts"] == 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_sink_heals_when_the_installation_is_corrected(launcher: str, mode: str) -> None:
    async def scenario(scene: Scene) -> None:
        await stuck(scene, launcher, mode)
        install(scene, RELEASE)
        await healed(scene)
        count = len(scene.world.faults.writes)
        await scene.go(300)
        assert scene.world.writes()[count:] == []

    play(scenario)


@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_ten_failures_of_the_image_and_another_operator_are_no_end(
    launcher: str, policy: str
) -> None:
    async def scenario(scene: Scene) -> None:
        restart = {"policy": policy, "maxRetries": 2, "backoffSeconds": 60}
        await stuck(scene, launcher, restart=restart)
        await scene.go(TEN / 2 * APACHE_START_S)
        install(scene, WRONG)
        await scene.go(TEN / 2 * APACHE_START_S)
        if launcher == "Apache":
            assert scene.status["application"]["attempts"] > 2
            assert scene.status["application"]["error"] == "the driver did not start in time"
        assert "ended" not in scene.status["application"]

        install(scene, RELEASE)
        await healed(scene)

    play(scenario)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_an_image_that_comes_later_is_taken(launcher: str) -> None:
    async def scenario(scene: Scene) -> None:
        await stuck(scene, launcher)
        uid = scene.uid
        scene.launchers.missing_images.clear()
        await healed(scene)
        assert scene.uid == uid

    play(scenario)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_driver_that_runs_is_not_touched_by_a_release(launcher: str) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given(launcher)
        uid = scene.uid
        install(scene, NEXT_RELEASE)
        await scene.go(300)
        assert scene.uid == uid
        assert len(scene.launchers.started) == 1

        scene.launchers.end(1)  # and one that failed comes back as it was
        await scene.go(120)
        assert scene.uid == uid

    play(scenario)


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("killed_after", range(1, 9))
def test_killed_after_any_write_it_heals_and_there_are_never_two(
    launcher: str, killed_after: int
) -> None:
    async def scenario(scene: Scene) -> None:
        await stuck(scene, launcher)
        install(scene, RELEASE)
        faults = scene.world.faults
        faults.kill_after_write = len(faults.writes) + killed_after
        try:
            await scene.go(120)
        except Killed:
            faults.kill_after_write = None
            scene.world.start()
        await healed(scene)

    play(scenario)

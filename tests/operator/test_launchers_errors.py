"""`status.application.error`: why a sink's job failed last, and nothing else."""

from typing import Any

import pytest

from iggy_operator.desired.metadata import RELEASE_HASH, USER_HASH
from iggy_operator.launchers.states import Phase, Reading
from iggy_operator.launchers.steps import Look, Record, plan
from launcher_cases import sink_of
from sink_scene import LAUNCHERS, SINK, Scene, play

WORDS = "in its own words"
FAILURES = {Phase.REFUSED, Phase.FAILING, Phase.FAILED, Phase.FINISHED}


def error(phase: Phase, *, before: str = "", mode: str = "ProcessingTime", code: int = 1) -> str:
    marks = {USER_HASH: "asked", RELEASE_HASH: "rendered"}
    metadata = {"name": "lake", "uid": "1", "annotations": marks}
    look = Look(
        connector=sink_of(trigger={"mode": mode}),
        marks=marks,
        record=Record(uid="1", hash="asked", starts=1, attempts=1, error=before),
        now_s=1000,
        application={"kind": "SparkApplication", "metadata": metadata},
        reading=Reading(phase, "STATE", WORDS, exit_code=code),
    )
    return plan(look).record.error


@pytest.mark.parametrize("phase", Phase)
def test_only_an_end_is_a_failure(phase: Phase) -> None:
    assert error(phase, before="an older one") == (WORDS if phase in FAILURES else "an older one")


def test_an_end_that_is_no_failure_is_none() -> None:
    assert error(Phase.FINISHED, mode="AvailableNow", code=0) == ""
    assert error(Phase.FAILING, code=5) == "", "it was asked to stop"


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_sink_that_never_failed_has_no_error(launcher: str) -> None:
    async def scenario(scene: Scene) -> None:
        scene.launchers.missing_images = {scene.world.product.spark_image}
        await scene.given(launcher)
        assert "ImagePullBackOff" in scene.world.message(SINK)
        assert "error" not in scene.status["application"]

        scene.launchers.missing_images.clear()
        await scene.go(60)
        assert scene.says() == ("True", "Running")
        assert "error" not in scene.status["application"]

    play(scenario)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_the_last_failure_stays_while_the_sink_is_well_again(launcher: str) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given(launcher)
        scene.launchers.exits = 3
        await scene.go(70)
        scene.launchers.exits = None
        await scene.go(300)
        assert scene.says() == ("True", "Running")
        failure = scene.status["application"]["error"]
        assert "so it ended" in failure or "ExitCode: 3" in failure

        await scene.go(900)
        assert scene.status["application"]["error"] == failure
        scene.change(maxOffsetsPerTrigger=7)  # another job, which has not failed
        await scene.go(120)
        assert scene.says() == ("True", "Running")
        assert "error" not in scene.status["application"]

    play(scenario)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_work_that_is_done_is_no_error(launcher: str) -> None:
    async def scenario(scene: Scene) -> None:
        trigger: dict[str, Any] = {"mode": "AvailableNow"}
        await scene.given(launcher, trigger=trigger)
        scene.launchers.end(0)
        await scene.go(60)
        scene.world.start()
        await scene.go(300)
        assert scene.says() == ("True", "Completed")
        assert scene.world.message(SINK) == "all messages are carried over"
        assert "error" not in scene.status["application"]

    play(scenario)

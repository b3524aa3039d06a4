"""How often a sink's job was started again: counted for the metrics from what passes write."""

from collections import Counter
from dataclasses import replace

import pytest

from iggy_operator.meter import Meter
from iggy_operator.passes import Passes
from sink_scene import LAUNCHERS, SINK, Scene, play


class Restarts(Meter):
    """Counts them, and nothing else."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def restarted(self, sink_uid: str, count: int) -> None:
        self.counts[sink_uid] += count


def counted(scene: Scene) -> Restarts:
    """The meter of the scene's operator from now on, a new one."""
    meter, world = Restarts(), scene.world
    world.world = replace(world.world, meter=meter)
    world.passes = Passes(world.world, add=world._add, check=world._check)
    return meter


def restarts(scene: Scene, meter: Restarts) -> int:
    (uid,) = meter.counts or {str(scene.world.cluster.objects[SINK]["metadata"]["uid"])}
    assert uid == scene.world.cluster.objects[SINK]["metadata"]["uid"]
    return meter.counts[uid]


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_each_start_after_a_failure_counts_and_none_is_ever_taken_back(launcher: str) -> None:
    async def scenario(scene: Scene) -> None:
        meter = counted(scene)
        await scene.given(launcher)
        assert scene.says() == ("True", "Running")
        assert restarts(scene, meter) == 0

        for number in (1, 2):
            scene.launchers.end(1)
            await scene.go(300)
            assert scene.says() == ("True", "Running")
            assert restarts(scene, meter) == number

        await scene.go(1200)
        assert scene.status["application"]["attempts"] == 1, "retries begin anew"
        assert restarts(scene, meter) == 2
        scene.launchers.end(1)
        await scene.go(300)
        assert restarts(scene, meter) == 3

    play(scenario)


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("asked", ["change", "restart-at", "suspend"])
def test_a_start_that_was_asked_for_is_no_restart(launcher: str, asked: str) -> None:
    async def scenario(scene: Scene) -> None:
        meter = counted(scene)
        await scene.given(launcher)
        before = scene.uid
        if asked == "change":
            scene.change(maxOffsetsPerTrigger=8)
        elif asked == "restart-at":
            scene.world.cluster.annotate(SINK, "restart-at", "2027-01-15T08:00:00Z")
        else:
            scene.change(suspend=True)
            await scene.go(60)
            scene.change(suspend=False)
        await scene.go(120)

        assert scene.uid != before
        assert scene.says() == ("True", "Running")
        assert restarts(scene, meter) == 0
        assert scene.status["application"]["attempts"] == 1

    play(scenario)


def test_an_operator_that_starts_counts_what_has_happened_since_it_was_gone_once() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given()
        scene.launchers.end(1)
        for _ in range(4):
            scene.launchers.tick()
            scene.world.clock.seconds += 15
        scene.world.start()
        meter = counted(scene)
        await scene.go(60)
        assert restarts(scene, meter) == 1
        scene.world.start()
        meter = counted(scene)
        await scene.go(120)
        assert restarts(scene, meter) == 0

    play(scenario)

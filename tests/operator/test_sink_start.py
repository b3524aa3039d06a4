"""What said where a sink's driver began: its metrics do, and the status has it."""

import asyncio

import pytest

from fake_launchers import POD_IP
from iggy_operator.figures import START_SOURCES, FiguresError, start_sources
from iggy_operator.kinds import sink_start
from iggy_operator.launchers.job import METRICS_PORT
from iggy_operator.schema import schemas
from sink_scene import LAUNCHERS, SOURCE, Scene, play


def told(**partitions: int) -> list[str]:
    """As a driver's metrics have it: partitions by what said where it begins in them."""
    counts = dict.fromkeys(("checkpoint", "target", "group", "settings"), 0) | partitions
    name = "iggy_sink_start_partitions"
    labels = 'namespace="shop",sink="lake"'
    return [f'{name}{{{labels},by="{by}"}} {count}.0' for by, count in counts.items()]


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_driver_is_asked_until_it_tells_and_no_more(launcher: str) -> None:
    async def scenario(scene: Scene) -> None:
        world = scene.world
        await scene.given(launcher)
        assert scene.says() == ("True", "Running")
        world.metrics = told()
        await scene.go(120)
        assert "start" not in scene.status, "its driver has not begun"

        world.metrics = told(settings=1, target=2)
        await scene.go(120)
        before = scene.status["start"]
        assert before["by"] == ["target", "settings"]
        asked = len(world.asked)
        assert set(world.asked) == {f"{POD_IP}:{METRICS_PORT}"}
        await scene.go(300)
        assert len(world.asked) == asked

        world.metrics = None
        scene.launchers.remove_driver()
        await scene.go(60)
        assert scene.status["start"] == before, "the next one is silent"
        world.metrics = told(checkpoint=3)
        await scene.go(120)
        assert scene.status["start"]["by"] == ["checkpoint"]
        assert scene.status["start"]["time"] > before["time"]

    play(scenario)


def test_a_driver_that_nobody_may_reach_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_start, "ANSWER_S", 0.01)

    async def scenario(scene: Scene) -> None:
        async def read_metrics(address: str, prefix: str) -> list[str]:
            await asyncio.Event().wait()
            raise AssertionError("nobody answers")

        monkeypatch.setattr(scene.world, "read_metrics", read_metrics)
        scene.world.start()
        await scene.given()
        assert scene.says() == ("True", "Running")
        assert "start" not in scene.status

    play(scenario)


def test_a_source_has_no_such_thing() -> None:
    async def scenario(scene: Scene) -> None:
        scene.world.metrics = told(settings=1)
        await scene.given()
        assert not scene.world.asked

    play(scenario, SOURCE)


def test_the_schemas_know_all_of_them() -> None:
    statuses = [schemas()[kind].root["properties"]["status"] for kind in ("IggySink", "IggyTopic")]
    by = statuses[0]["properties"]["start"]["properties"]["by"]
    row = statuses[1]["properties"]["sinks"]["items"]["properties"]["startBy"]
    for one in (by, row):
        assert tuple(one["items"]["enum"]) == START_SOURCES
        assert one["maxItems"] == len(START_SOURCES)


def test_what_is_no_line_of_metrics_and_words_of_another_release() -> None:
    assert start_sources([]) == []
    assert start_sources(told(group=2)) == ["group"]
    other = 'iggy_sink_start_partitions{by="oracle",sink="lake"} 1'
    assert start_sources([other, *told(checkpoint=1)]) == ["checkpoint"]
    with pytest.raises(FiguresError, match="no line of metrics"):
        start_sources(["iggy_sink_start_partitions"])

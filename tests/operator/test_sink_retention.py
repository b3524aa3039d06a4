"""The event before messages are gone: what a sink has not read has little time left."""

from typing import Any

import pytest

from iggy_operator.kinds import sink_retention
from iggy_wire.primitives import EXPIRY_NEVER
from iggy_wire.replies_resources import TopicHeader
from sink_scene import GROUP, TOPIC, Scene, play


@pytest.mark.parametrize(
    ("ages_s", "percent"),
    [([0], 100), ([2880], 20), ([2881], 19), ([60, None, 3500], 2), ([7200], 0), ([None], None)],
)
def test_the_oldest_message_decides(ages_s: list[int | None], percent: int | None) -> None:
    assert sink_retention.headroom(ages_s, 3600.0) == percent


@pytest.mark.parametrize("expiry_us", [0, EXPIRY_NEVER])
def test_what_never_expires_has_no_end(expiry_us: int) -> None:
    topic = TopicHeader(0, 0, 1, expiry_us, 1, 0, 0, 0, "orders")

    assert sink_retention.expiry_s(topic) is None
    assert sink_retention.headroom([99], None) is None


def test_little_time_left_is_one_event_until_there_was_more() -> None:
    async def scenario(scene: Scene) -> None:
        broker, clock = scene.world.broker, scene.world.clock

        def told() -> list[str]:
            events = scene.world.cluster.events
            return [event.message for event in events if event.reason == "NearRetention"]

        def percent() -> Any:
            return scene.status["progress"].get("headroomPercent")

        async def given_age(seconds: float, *, partition: int = 0) -> None:
            place = ("shop", "orders", partition)
            broker.message_times_us[place] = int((clock.now_s() - seconds) * 1e6)
            await scene.go(60)

        await scene.given()
        scene.world.cluster.change_spec(TOPIC, partitions=2, retention={"messageExpiry": "1h"})
        broker.groups["shop", "orders"] = [GROUP]
        assert (percent(), told()) == (None, []), "nothing waits"

        broker.ends["shop", "orders", 0] = 10
        await given_age(600)
        assert percent() > 80
        broker.ends["shop", "orders", 1] = 1
        await given_age(3000, partition=1)
        assert percent() < 20
        assert len(told()) == 1
        assert told()[0].startswith(f"the oldest message that waits has {percent()} % of the topic")
        await scene.go(1200)
        assert (percent(), len(told())) == (0, 1), "that is known"
        scene.world.start()
        broker.is_down = True
        await scene.go(300)
        broker.is_down = False
        await scene.go(1200)
        assert len(told()) == 1, "still the same, for another operator, too"

        for number in range(2):
            broker.stored["shop", "orders", GROUP, number] = 9
        await scene.go(60)
        assert (percent(), len(told())) == (None, 1)
        broker.ends["shop", "orders", 0] = 20
        await given_age(3500)
        assert len(told()) == 2

    play(scenario)

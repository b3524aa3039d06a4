"""The seat of a source's driver in its consumer group, on a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from broker_process import BrokerProcess
from iggy_client import Client
from iggy_spark import options
from iggy_spark import seat as seat_module
from iggy_spark.errors import BrokerRefused, Fenced
from iggy_spark.seat import Seat
from waiting import wait_until

if TYPE_CHECKING:
    from conftest import Topic

GROUP = "made"
CONTACT_S = 10.0


def seat_of(topic: Topic, *, stop: bool = False, occupied: str = "2s") -> Seat:
    raw = topic.options(consumerGroup=GROUP, retryTimeoutMs=occupied)
    return Seat(options.parse(raw, mode="stream"), should_stop=lambda: stop)


@pytest.fixture
def other(broker: BrokerProcess, topic: Topic) -> Iterator[Client]:
    """A member that stays."""
    with broker.client() as member:
        member.create_group(topic.stream, topic.name, GROUP)
        member.join_group(topic.stream, topic.name, GROUP)
        yield member


def test_a_driver_is_the_only_member_and_leaves(topic: Topic) -> None:
    with closing(seat_of(topic)) as seat:
        assert seat.take(contact_s=CONTACT_S)
        topic.send(0, [b"m"] * 5)
        seat.keep()
        during = topic.members(GROUP)

    assert during == 1
    assert topic.client.get_group(topic.stream, topic.name, GROUP) is None


def test_the_group_has_no_lag(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seat_module, "ENDS_S", 0.0)
    topic.send(0, [b"m"] * 5)
    with closing(seat_of(topic)) as seat:
        assert seat.take(contact_s=CONTACT_S)
        seat.keep()
        first = [topic.stored(GROUP, partition) for partition in (0, 1)]
        topic.send(0, [b"m"] * 2)
        topic.send(1, [b"m"])
        seat.keep()
        then = [topic.stored(GROUP, partition) for partition in (0, 1)]

    assert (first, then) == ([4, None], [6, 0])


def test_a_second_driver_does_not_begin(topic: Topic, other: Client) -> None:
    with (
        closing(seat_of(topic)) as seat,
        pytest.raises(Fenced, match="another member"),
    ):
        seat.take(contact_s=CONTACT_S)

    assert topic.members(GROUP) == 1


def test_a_wish_to_stop_ends_the_wait_for_others(topic: Topic, other: Client) -> None:
    with closing(seat_of(topic, stop=True, occupied="60s")) as seat:
        assert not seat.take(contact_s=CONTACT_S)


def test_a_driver_whose_place_was_taken_ends(broker: BrokerProcess, topic: Topic) -> None:
    with closing(seat_of(topic)) as seat:
        assert seat.take(contact_s=CONTACT_S)
        seat.close()  # as after a loss of the connection
        with broker.client() as member:
            member.create_group(topic.stream, topic.name, GROUP)
            member.join_group(topic.stream, topic.name, GROUP)
            wait_until(lambda: keeps(seat) == "Fenced", "the other is not noticed")
            assert topic.members(GROUP) == 1


def test_a_topic_that_was_made_anew_has_a_seat_too(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seat_module, "ENDS_S", 0.0)
    with closing(seat_of(topic)) as seat:
        assert seat.take(contact_s=CONTACT_S)
        topic.recreate(3)
        wait_until(lambda: keeps(seat) and topic.members(GROUP), "no member of the new group")
        assert topic.members(GROUP) == 1


def keeps(seat: Seat) -> str:
    """What comes of it."""
    try:
        seat.keep()
    except Fenced as error:
        return type(error).__name__
    return "sits"


def test_a_topic_that_is_gone_is_told(topic: Topic) -> None:
    with closing(seat_of(topic)) as seat:
        seat.take(contact_s=CONTACT_S)
        seat.close()
        topic.client.delete_topic(topic.stream, topic.name)
        with pytest.raises(BrokerRefused, match="does not exist"):
            seat.keep()

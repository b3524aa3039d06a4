import asyncio

import pytest

from fake_broker import ADDRESS, PASSWORD, USERNAME, FakeBroker
from iggy_client import LinkError
from iggy_operator.broker_admin import (
    LISTING_S,
    BrokerAdmin,
    BrokerDeniedError,
    BrokerDownError,
    BrokerRefusedError,
    Login,
)
from iggy_operator.cluster import ClusterError, ThrottledError, error_of
from iggy_operator.decide.actions import CreateStream, CreateTopic, DeleteTopic, UpdateTopic
from operator_world import HandClock


class Case:
    """A broker, the way to it, and a clock."""

    def __init__(self, password: str = PASSWORD) -> None:
        self.clock = HandClock()
        self.broker = FakeBroker()
        login = Login(ADDRESS, USERNAME, password)
        self.admin = BrokerAdmin(login, self.broker.connect, self.clock, lambda: 0.0)

    def count(self, verb: str) -> int:
        return len(self.broker.faults.verbs(verb))


def test_many_who_ask_at_once_share_one_connection_and_one_listing() -> None:
    async def scenario() -> None:
        case = Case()
        case.broker.make_topic("shop", "orders")

        await asyncio.gather(*(case.admin.topics("shop") for _ in range(50)))
        await asyncio.gather(*(case.admin.streams() for _ in range(50)))
        case.clock.seconds += LISTING_S
        await case.admin.streams()

        assert case.broker.attempts == 1
        assert (case.count("GetTopics"), case.count("GetStreams")) == (1, 2)

    asyncio.run(scenario())


def test_a_listing_knows_at_once_what_was_done() -> None:
    async def scenario() -> None:
        case = Case()
        await case.admin.streams()
        await case.admin.act("shop", CreateStream("shop"))
        assert list(await case.admin.streams()) == ["shop"]
        await case.admin.topics("shop")

        await case.admin.act("shop", CreateTopic("orders", 2, {}))
        made = (await case.admin.topics("shop"))["orders"].partitions_count
        await case.admin.act("shop", UpdateTopic("orders", {"message_expiry": 5}))
        changed = (await case.admin.topics("shop"))["orders"].message_expiry_us
        await case.admin.act("shop", DeleteTopic("orders"))

        assert (made, changed) == (2, 5)
        assert await case.admin.topics("shop") == {}
        assert (case.count("GetTopics"), case.count("GetStreams")) == (1, 1)

    asyncio.run(scenario())


def test_nobody_connects_before_the_pause_is_over() -> None:
    async def scenario() -> None:
        case = Case()
        case.broker.is_down = True
        waits = []
        for _ in range(5):
            for _ in range(20):
                with pytest.raises(BrokerDownError) as told:
                    await case.admin.streams()
            waits.append(told.value.retry_in_s)
            case.clock.seconds += told.value.retry_in_s

        assert case.broker.attempts == 5
        assert waits == [1, 2, 4, 8, 16]
        assert told.value.down_for_s == 15

        case.broker.is_down = False
        await case.admin.streams()
        case.broker.is_down = True
        with pytest.raises(BrokerDownError) as told:
            await case.admin.stats()
        assert (told.value.retry_in_s, told.value.down_for_s) == (1, 0)

    asyncio.run(scenario())


def test_wrong_credentials_are_not_tried_over_and_over_and_never_shown() -> None:
    async def scenario() -> None:
        case = Case("wrong-password")
        for _ in range(20):
            with pytest.raises(BrokerDeniedError) as told:
                await case.admin.streams()

        assert case.broker.attempts == 1
        assert "wrong-password" not in f"{told.value} {case.admin.login!r}"

    asyncio.run(scenario())


def test_a_refusal_keeps_the_connection_and_asks_anew() -> None:
    async def scenario() -> None:
        case = Case()
        await case.admin.streams()
        case.broker.make_topic("shop", "orders")

        with pytest.raises(BrokerRefusedError, match="STREAM_NAME_ALREADY_EXISTS"):
            await case.admin.act("shop", CreateStream("shop"))

        assert list(await case.admin.streams()) == ["shop"]
        assert case.broker.attempts == 1

    asyncio.run(scenario())


def test_a_broken_connection_is_made_anew_and_nothing_old_is_believed() -> None:
    async def scenario() -> None:
        case = Case()
        case.broker.make_topic("shop", "orders")
        await case.admin.streams()
        case.broker.faults.fail = lambda call: LinkError("broke")
        with pytest.raises(BrokerDownError):
            await case.admin.stats()
        case.broker.faults.fail = lambda call: None
        case.broker.lose_everything()
        case.clock.seconds += 1

        assert await case.admin.streams() == {}
        assert case.broker.attempts == 2

    asyncio.run(scenario())


@pytest.mark.parametrize("status", [401, 403, 404, 409, 410, 422, 429, 500, 503])
def test_errors_of_the_cluster_have_a_class_for_each_status(status: int) -> None:
    error = error_of(status, "told", retry_after_s=7)

    assert isinstance(error, ClusterError)
    assert str(error) == "told"
    assert type(error) is not ClusterError or status == 401
    assert not isinstance(error, ThrottledError) or error.retry_after_s == 7


def test_whoever_hears_that_it_serves_need_not_wait_but_only_once() -> None:
    async def scenario() -> None:
        case = Case()
        case.broker.is_down = True
        for _ in range(5):
            with pytest.raises(BrokerDownError) as found:
                await case.admin.streams()
            case.clock.seconds += found.value.retry_in_s
        attempts = case.broker.attempts
        with pytest.raises(BrokerDownError) as found:
            await case.admin.streams()
        assert found.value.down_for_s > 10

        for sign in ("first", "first", "second"):
            case.admin.heard(sign)
            with pytest.raises(BrokerDownError) as found:
                await case.admin.streams()

        assert case.broker.attempts == attempts + 3
        assert found.value.retry_in_s == 1
        assert found.value.down_for_s == 0, "what was before it served is no more"

    asyncio.run(scenario())

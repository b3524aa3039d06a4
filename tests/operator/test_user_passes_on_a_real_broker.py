"""Users made by the operator's core on a real broker process: what they are let in to."""

from __future__ import annotations

import pytest

from broker_process import BrokerProcess
from iggy_client import AsyncClient, Client, ClientError
from iggy_wire.errors import ErrorCode
from operator_world import OperatorWorld
from real_broker_world import run_with

READER = {
    "streams": [
        {"stream": "shop", "topics": [{"topic": "orders", "allow": ["ReadTopic", "PollMessages"]}]}
    ]
}


def may_read(broker: BrokerProcess, password: str) -> bool:
    """Whether the user may read the topic, or is at least let in."""
    with Client.connect(broker.address, "fraud", password) as client:
        try:
            client.poll("shop", "orders", 0, count=1)
        except ClientError as error:
            assert error.code == ErrorCode.UNAUTHORIZED
            return False
    return True


def is_let_in(broker: BrokerProcess, password: str) -> bool:
    try:
        with Client.connect(broker.address, "fraud", password):
            return True
    except ClientError as error:
        assert error.code in (ErrorCode.INVALID_CREDENTIALS, ErrorCode.USER_INACTIVE)
        return False


def test_a_user_may_do_what_was_granted_also_in_a_topic_made_anew(broker: BrokerProcess) -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.give_topic()
        user = world.give_user(permissions=READER)
        await world.resync()
        password = world.secret("fraud-iggy", "password")
        assert may_read(broker, password)
        with (
            Client.connect(broker.address, "fraud", password) as client,
            pytest.raises(ClientError, match="UNAUTHORIZED"),
        ):
            client.create_stream("mine")

        with broker.client() as root:
            root.delete_topic("shop", "orders")
            root.create_topic("shop", "first", 1)  # takes the number that the topic had
        await world.go(130)
        assert may_read(broker, password)
        await world.go(130)
        writes = len(world.faults.writes)
        await world.go(300)
        assert len(world.faults.writes) == writes
        assert world.says(user, "Synced") == ("True", "Synced")

        world.cluster.remove(user)
        await world.settle()
        assert not is_let_in(broker, password)

    run_with(broker, scenario)


def test_passwords_are_imported_followed_and_rotated(broker: BrokerProcess) -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.give_topic()
        world.give_secret("mine", password="first-of-mine")
        user = world.give_user(passwordSecretRef={"name": "mine"})
        await world.resync()
        assert is_let_in(broker, "first-of-mine")

        world.give_secret("mine", password="second-of-mine")
        await world.go(65)
        assert is_let_in(broker, "second-of-mine")
        assert not is_let_in(broker, "first-of-mine")

        spec = world.cluster.objects[user]["spec"]
        del spec["passwordSecretRef"]
        world.cluster.annotate(user, "rotate-password-at", "2026-05-01T12:00:00Z")
        await world.settle()
        assert is_let_in(broker, world.secret("fraud-iggy", "password"))
        assert not is_let_in(broker, "second-of-mine")

        world.cluster.change_spec(user, active=False)
        await world.settle()
        assert not is_let_in(broker, world.secret("fraud-iggy", "password"))

    run_with(broker, scenario)


def test_tokens_log_in_and_are_renewed(broker: BrokerProcess) -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.give_topic()
        world.give_user(accessTokens=[{"name": "dashboard", "expiry": "1h"}])
        await world.resync()
        first = world.secret("fraud-iggy.dashboard", "token")
        assert await token_works(broker, first)

        await world.go(45 * 60)

        second = world.secret("fraud-iggy.dashboard", "token")
        assert await token_works(broker, second)
        assert not await token_works(broker, first)

    run_with(broker, scenario)


async def token_works(broker: BrokerProcess, token: str) -> bool:
    async with await AsyncClient.open(broker.address) as client:
        try:
            await client.login_with_token(token)
        except ClientError:
            return False
        return True

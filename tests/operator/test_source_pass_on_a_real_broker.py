"""A source's login and its place in the group on a real broker; the launchers are fakes."""

from __future__ import annotations

import asyncio

import pytest

from broker_process import PASSWORD, USERNAME, BrokerProcess
from fake_launchers import FakeLaunchers
from iggy_client import AsyncClient, Client, ClientError
from iggy_operator.cluster import Ref
from iggy_wire.batch import Message
from iggy_wire.errors import ErrorCode
from iggy_wire.primitives import Partitioning
from operator_world import OperatorWorld
from sink_scene import SEAT, SOURCE, source_of


async def go(world: OperatorWorld, launchers: FakeLaunchers, seconds: int) -> None:
    for _ in range(seconds // 5):
        launchers.tick()
        await world.go(5)


def seated(broker: BrokerProcess, world: OperatorWorld) -> Client:
    """Do what a driver does, as the source's user: take the place in the group, and send."""
    secret = f"{world.status(SOURCE)['userName']}-iggy"
    login = world.secret(secret, "username"), world.secret(secret, "password")
    client = Client.connect(broker.address, *login)
    client.create_group("shop", "orders", SEAT)
    client.join_group("shop", "orders", SEAT)
    client.send("shop", "orders", Partitioning.balanced(), [Message(b"x")])
    with pytest.raises(ClientError) as refused:
        client.send("shop", "other", Partitioning.balanced(), [Message(b"x")])
    assert refused.value.code == ErrorCode.UNAUTHORIZED
    with pytest.raises(ClientError) as refused:
        client.delete_topic("shop", "orders")
    assert refused.value.code == ErrorCode.UNAUTHORIZED
    return client


def test_a_sources_user_can_do_its_work_and_its_driver_is_seen(broker: BrokerProcess) -> None:
    async def main() -> None:
        world = OperatorWorld(AsyncClient.connect)
        launchers = FakeLaunchers(world.cluster)
        external = {"tcp": broker.address, "http": "http://x", "credentialsSecretName": "root"}
        world.give_broker(external=external)
        world.give_secret("root", username=USERNAME, password=PASSWORD)
        world.give_stream()
        world.give_topic()
        world.give_topic("other")
        world.cluster.put(source_of())
        try:
            await go(world, launchers, 60)
            assert launchers.drivers()
            assert world.says(SOURCE) == ("False", "Running"), world.message(SOURCE)
            with seated(broker, world):
                await go(world, launchers, 10)
                assert world.says(SOURCE) == ("True", "Running"), world.message(SOURCE)
            await go(world, launchers, 70)
            assert world.says(SOURCE) == ("False", "Running")
            topic = Ref("IggyTopic", "shop", "orders")
            assert world.says(topic) == ("True", "Synced")
        finally:
            await world.pool.keep_only(())

    asyncio.run(main())

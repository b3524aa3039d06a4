"""A sink's login and progress on a real broker; the launchers are fakes."""

from __future__ import annotations

import asyncio
import time

import pytest

from broker_process import PASSWORD, USERNAME, BrokerProcess
from fake_launchers import FakeLaunchers
from iggy_client import AsyncClient, Client, ClientError
from iggy_operator.cluster import Ref
from iggy_wire.batch import Message
from iggy_wire.errors import ErrorCode
from iggy_wire.primitives import Consumer, Partitioning
from launcher_cases import SMALLEST
from operator_world import OperatorWorld
from resource_documents import sink

SINK = Ref("IggySink", "shop", "lake")
GROUP = Consumer.group("shop/lake")


def carry(broker: BrokerProcess, world: OperatorWorld) -> None:
    """Do what a driver does, as the sink's user: join, read, store."""
    secret = f"{world.status(SINK)['userName']}-iggy"
    login = world.secret(secret, "username"), world.secret(secret, "password")
    with Client.connect(broker.address, *login) as client:
        client.create_group("shop", "orders", "shop/lake")
        client.join_group("shop", "orders", "shop/lake")
        assert client.poll("shop", "orders", 0, count=10)
        client.store_offset(GROUP, "shop", "orders", 0, 2)
        assert client.get_topic("shop", "orders.dlq") is not None  # as who sends dead letters asks
        client.send("shop", "orders.dlq", Partitioning.balanced(), [Message(b"bad")])
        with pytest.raises(ClientError) as refused:
            client.send("shop", "orders", Partitioning.balanced(), [Message(b"x")])
        assert refused.value.code == ErrorCode.UNAUTHORIZED
        with pytest.raises(ClientError) as refused:
            client.poll("shop", "other", 0, count=1)
        assert refused.value.code == ErrorCode.UNAUTHORIZED


def test_a_sinks_user_can_do_its_work_and_its_progress_is_seen(broker: BrokerProcess) -> None:
    async def main() -> None:
        world = OperatorWorld(AsyncClient.connect)
        world.clock.seconds = time.time()  # the age of messages is told by the broker's clock
        world.start()
        launchers = FakeLaunchers(world.cluster)
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "iggy-spark"}}
        world.cluster.put(account)
        external = {"tcp": broker.address, "http": "http://x", "credentialsSecretName": "root"}
        world.give_broker(external=external)
        world.give_secret("root", username=USERNAME, password=PASSWORD)
        world.give_stream()
        world.give_topic(partitions=2, retention={"messageExpiry": "75s"})
        world.give_topic("other")
        letters = {"tolerance": "Data", "deadLetter": {"topic": "orders.dlq"}}
        value = sink(**SMALLEST, lag={"warnAge": "1m"}, errors=letters)
        value["metadata"]["name"] = "lake"
        world.cluster.put(value)
        try:
            for _ in range(12):
                launchers.tick()
                await world.go(5)
            assert world.says(SINK) == ("True", "Running"), world.message(SINK)
            with broker.client() as client:
                client.send("shop", "orders", Partitioning.partition(0), [Message(b"x")] * 5)
            carry(broker, world)

            await world.go(70)
        finally:
            await world.pool.keep_only(())
        progress = world.status(SINK)["progress"]
        assert (progress["committed"], progress["end"], progress["lagMessages"]) == (3, 5, 2)
        assert progress["worstPartition"] == 0
        assert "lastCommitTime" in progress
        assert progress["lagSeconds"] > 60
        assert world.says(SINK, "Lagging") == ("True", "Lagging")
        assert progress["headroomPercent"] < 20
        assert [item.reason for item in world.cluster.events].count("NearRetention") == 1

    asyncio.run(main())

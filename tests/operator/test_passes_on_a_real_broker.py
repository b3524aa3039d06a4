"""The operator's core with a fake cluster and a real broker process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from broker_process import PASSWORD, USERNAME, BrokerProcess
from iggy_operator.cluster import Ref
from operator_world import OperatorWorld
from real_broker_world import run_with
from waiting import WITHIN_S

BROKER = Ref("IggyBroker", "shop", "main")


async def until(world: OperatorWorld, condition: Callable[[], bool]) -> None:
    """Let the operator's time pass, as fast as it can, until something holds."""
    async with asyncio.timeout(WITHIN_S):
        while not condition():
            await world.go(30)


def test_a_topic_is_made_changed_and_deleted_on_a_real_broker(broker: BrokerProcess) -> None:
    async def scenario(world: OperatorWorld) -> None:
        topic = world.give_topic(
            partitions=3,
            retention={"messageExpiry": "7d", "maxSize": "20Gi"},
            durability={"profile": "Strict"},
            segment={"size": "64Mi"},
            compression="Gzip",
            consumerGroups=[{"name": "billing"}],
            deletionPolicy="Delete",
        )
        await world.resync()
        assert world.says(BROKER) == ("True", "Synced")
        assert world.says(topic, "Synced") == ("True", "Synced"), world.message(topic, "Synced")
        with broker.client() as client:
            details = client.get_topic("shop", "orders")
            assert details is not None
            assert details.topic.message_expiry_us == 7 * 86_400_000_000
            assert details.topic.partitions_count == 3
            assert [group.name for group in client.get_groups("shop", "orders")] == ["billing"]

            await world.go(120)  # counts of topics
            writes = len(world.faults.writes)
            await world.go(300)
            assert len(world.faults.writes) == writes  # what the broker shows is what was asked for

            client.update_topic("shop", "orders", "orders", {"message_expiry": 5_000_000})
            world.cluster.change_spec(topic, partitions=5)
            await world.go(65)
            details = client.get_topic("shop", "orders")
            assert details is not None
            assert details.topic.message_expiry_us == 7 * 86_400_000_000
            assert details.topic.partitions_count == 5

            world.cluster.remove(topic)
            await world.settle()
            assert client.get_topic("shop", "orders") is None
            assert topic not in world.cluster.objects

    run_with(broker, scenario)


@pytest.mark.parametrize(
    "spec",
    [
        {"durability": {"profile": "Balanced"}},
        {"durability": {"profile": "Relaxed"}},
        {"durability": {"profile": "Custom", "enforceFsync": True, "flushMessages": 5,
                        "flushBytes": "1Mi"}},
        {"segment": {"size": "1Mi", "preallocate": True}},
    ],
    ids=["balanced", "relaxed", "custom", "preallocated"],
)  # fmt: skip
def test_what_a_real_broker_shows_is_what_was_asked_for(
    broker: BrokerProcess, spec: dict[str, object]
) -> None:
    async def scenario(world: OperatorWorld) -> None:
        topic = world.give_topic(**spec)
        await world.resync()
        await world.go(120)

        assert world.says(topic, "Synced") == ("True", "Synced"), world.message(topic, "Synced")

    run_with(broker, scenario)


def test_a_restart_and_a_lost_volume_need_no_restart_of_the_operator(
    broker: BrokerProcess,
) -> None:
    async def scenario(world: OperatorWorld) -> None:
        topic = world.give_topic()
        await world.resync()
        first = world.status(topic)["incarnation"]

        broker.kill()
        await world.go(70)
        broker.start()
        with broker.client() as client:
            client.delete_topic("shop", "orders")
        await until(world, lambda: world.status(topic).get("recreations") == 1)
        assert world.says(topic, "DataContinuity") == ("False", "Recreated")

        broker.stop()
        broker.data.rename(broker.folder / "lost")
        broker.start()
        await until(world, lambda: world.status(topic).get("recreations") == 2)

        assert world.status(topic)["incarnation"] != first
        await until(world, lambda: world.says(topic) == ("True", "Synced"))
        with broker.client() as client:
            assert client.get_topic("shop", "orders") is not None

    run_with(broker, scenario)


def test_topics_of_others_stay_and_messages_are_counted(broker: BrokerProcess) -> None:
    async def scenario(world: OperatorWorld) -> None:
        topic = world.give_topic(deletionPolicy="DeleteIfEmpty")
        await world.resync()
        with broker.client() as client:
            client.create_topic("shop", "theirs", 1)
            client.send_batch("shop", "orders", 0, one_batch())
            world.cluster.remove(topic)
            await world.go(130)
            assert world.says(topic) == ("False", "Deleting")
            assert "1 messages" in world.message(topic)

            client.purge_topic("shop", "orders")
            await world.go(65)
            assert topic not in world.cluster.objects
            assert [item.name for item in client.get_topics("shop")] == ["theirs"]

    run_with(broker, scenario)


def one_batch() -> bytes:
    from iggy_wire import batch

    return bytes(batch.build([batch.Message(b"hello", id=1)], origin_timestamp_us=1))


def test_a_wrong_password_is_told_and_a_right_one_found(broker: BrokerProcess) -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.give_secret("root", username=USERNAME, password="wrong-password")
        await world.resync()
        assert world.says(BROKER) == ("False", "Unauthorized")
        assert "wrong-password" not in world.message(BROKER)

        world.give_secret("root", username=USERNAME, password=PASSWORD)
        await until(world, lambda: world.says(BROKER) == ("True", "Synced"))

    run_with(broker, scenario)

"""The ways to all brokers: none stands in the way of another, and no old way is used."""

from __future__ import annotations

import asyncio

import pytest

from fake_broker import USERNAME, FakeBroker
from iggy_operator.broker_admin import BrokerDownError
from iggy_operator.brokers import CREDENTIALS_S, BrokerPool
from iggy_operator.cache import Entry, entry_of
from iggy_operator.cluster import Object, Ref
from iggy_operator.meter import Meter
from operator_world import NAMESPACE, OperatorWorld


class Slow:
    """A cluster in which nothing is read before a test says so."""

    def __init__(self, world: OperatorWorld) -> None:
        self._cluster = world.cluster
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()

    async def get(self, ref: Ref) -> Object:
        self.asked.set()
        await self.go_on.wait()
        return await self._cluster.get(ref)


class Counted(Meter):
    """Brokers of which anything is remembered."""

    def __init__(self) -> None:
        self.brokers: set[Ref] = set()

    def asked(self, broker: Ref, command: str, result: str, seconds: float) -> None:
        self.brokers.add(broker)

    def forget_broker(self, broker: Ref) -> None:
        self.brokers.discard(broker)


def broker_of(world: OperatorWorld, name: str) -> Entry:
    world.give_broker(name)
    return entry_of(world.cluster.objects[Ref("IggyBroker", NAMESPACE, name)])


def test_a_broker_whose_secret_is_read_slowly_holds_up_no_other() -> None:
    async def main() -> None:
        world = OperatorWorld()
        slow, fast = broker_of(world, "slow"), broker_of(world, "fast")
        cluster, pool = Slow(world), world.pool
        waiting = asyncio.create_task(pool.admin(cluster, slow))  # type: ignore[arg-type]
        await cluster.asked.wait()

        async with asyncio.timeout(5.0):
            await (await pool.admin(world.cluster, fast)).streams()
        assert not waiting.done()

        cluster.go_on.set()
        await (await waiting).streams()

    asyncio.run(main())


def test_who_still_has_the_way_to_a_broker_that_is_gone_opens_no_connection() -> None:
    async def main() -> None:
        world, meter, broker = OperatorWorld(), Counted(), FakeBroker()
        pool = BrokerPool(broker.connect, world.clock, lambda: 0.5, meter)
        entry = broker_of(world, "main")
        admin = await pool.admin(world.cluster, entry)
        await admin.streams()
        assert meter.brokers == {entry.ref}

        await pool.keep_only(())
        with pytest.raises(BrokerDownError, match="another way"):
            await admin.streams()

        assert broker.attempts == 1
        assert meter.brokers == set()

    asyncio.run(main())


def test_who_still_has_the_old_way_finds_the_new_one_after_another_login() -> None:
    async def main() -> None:
        world = OperatorWorld()
        entry = broker_of(world, "main")
        old = await world.pool.admin(world.cluster, entry)
        await old.streams()
        world.give_secret("root", username=USERNAME, password="changed")
        world.clock.seconds += CREDENTIALS_S

        assert await world.pool.admin(world.cluster, entry) is not old
        with pytest.raises(BrokerDownError) as caught:
            await old.streams()
        assert caught.value.retry_in_s <= 1

    asyncio.run(main())

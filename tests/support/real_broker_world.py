"""The operator's core with a fake cluster and a broker that is a real process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from broker_process import PASSWORD, USERNAME, BrokerProcess
from iggy_client import AsyncClient
from operator_world import OperatorWorld


def world_on(broker: BrokerProcess) -> OperatorWorld:
    """An object for the broker, its login, and a stream."""
    world = OperatorWorld(AsyncClient.connect)
    external = {
        "tcp": broker.address,
        "http": "http://127.0.0.1:3000",
        "credentialsSecretName": "root",
    }
    world.give_broker(external=external)
    world.give_secret("root", username=USERNAME, password=PASSWORD)
    world.give_stream()
    return world


def run_with(broker: BrokerProcess, scenario: Callable[[OperatorWorld], Awaitable[None]]) -> None:
    """Run it, and close the connections."""

    async def main() -> None:
        world = world_on(broker)
        try:
            await scenario(world)
        finally:
            await world.pool.keep_only(())

    asyncio.run(main())

"""Connections of a mixed load: lasting ones, one for each worker, and others for a moment."""

from __future__ import annotations

import asyncio

from apache_iggy import IggyClient

from broker_process import PASSWORD, USERNAME, BrokerProcess
from iggy_client import AsyncClient, messages
from iggy_wire.replies import Polled


def taken(polled: Polled) -> list[tuple[int, bytes]]:
    """Offsets and payloads."""
    return [(message.offset, bytes(message.payload)) for message in messages(polled)]


class Clients:
    """Makes connections to one broker, logged in as root."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self._lasting: dict[str, AsyncClient] = {}
        self._official: dict[str, IggyClient] = {}

    async def connect(self) -> AsyncClient:
        """A new one of our own client."""
        return await AsyncClient.connect(self.broker.address, USERNAME, PASSWORD)

    async def connect_officially(self) -> IggyClient:
        """A new one of the released client. It closes when it is forgotten."""
        client = IggyClient(self.broker.address)
        await client.connect()
        await client.login_user(USERNAME, PASSWORD)
        return client

    async def lasting(self, name: str) -> AsyncClient:
        """The connection of that name, made when first asked for."""
        if name not in self._lasting:
            self._lasting[name] = await self.connect()
        return self._lasting[name]

    async def of_this_task(self) -> AsyncClient:
        """The lasting connection of the task that asks."""
        return await self.lasting(_task())

    async def official_of_this_task(self) -> IggyClient:
        """The same with the released client."""
        if _task() not in self._official:
            self._official[_task()] = await self.connect_officially()
        return self._official[_task()]

    async def close(self) -> None:
        """Close the lasting ones."""
        self._official.clear()
        for client in self._lasting.values():
            await client.close()
        self._lasting.clear()


def _task() -> str:
    task = asyncio.current_task()
    assert task is not None
    return task.get_name()

"""Who makes things and deletes them again, comes for a moment, or only looks."""

from __future__ import annotations

import asyncio
import random
from itertools import count

import pytest

from broker_process import PASSWORD, USERNAME
from iggy_client import AsyncClient, ClientError, LinkError
from iggy_wire.batch import Message
from iggy_wire.errors import ErrorCode
from iggy_wire.permissions import GlobalPermissions, Permissions
from iggy_wire.primitives import Partitioning, PollingStrategy
from mixed_clients import Clients, taken

REFUSED = 0.1  # of those who might be: a wrong password costs a hash
NAMES = 5  # of streams and users, which come again and again


class Visitors:
    """Workers that leave nothing behind."""

    def __init__(self, clients: Clients, chance: random.Random) -> None:
        self._clients = clients
        self._chance = chance
        self._numbers = count()

    async def make_and_delete_a_stream(self) -> None:
        """With topics, groups, messages and offsets, renamed, purged, grown and shrunk."""
        client = await self._clients.of_this_task()
        stream = f"passing-{next(self._numbers) % NAMES}"
        await client.create_stream(stream)
        partitions = self._chance.randint(1, 6)
        await client.create_topic(stream, "t", partitions)
        await client.create_partitions(stream, "t", 2)
        await client.create_group(stream, "t", "g")
        await client.join_group(stream, "t", "g")
        for partition in range(partitions + 2):
            target = Partitioning.partition(partition)
            sent = await client.send(stream, "t", target, [Message(stream.encode())] * 3)
            assert sent.base_offset == 0
            polled = await client.poll(
                stream, "t", partition, strategy=PollingStrategy.first(), count=9
            )
            assert taken(polled) == [(number, stream.encode()) for number in range(3)]
            await client.store_offset(1, stream, "t", partition, 2)
        await client.delete_partitions(stream, "t", 1)
        await client.update_topic(stream, "t", "u")
        await client.purge_stream(stream)
        if self._chance.random() < 0.5:
            await client.delete_group(stream, "u", "g")
            await client.delete_topic(stream, "u")
        await client.delete_stream(stream)

    async def make_and_delete_a_user(self) -> None:
        """With a token, whose session ends with the user."""
        admin = await self._clients.of_this_task()
        name = f"passing-{next(self._numbers) % NAMES}"
        rights = Permissions(GlobalPermissions(read_streams=True))
        await admin.create_user(name, PASSWORD, permissions=rights)
        address = self._clients.broker.address
        async with await AsyncClient.connect(address, name, PASSWORD) as user:
            token = await user.create_access_token("token")
            async with await AsyncClient.open(address) as other:
                await other.login_with_token(token)
                await other.get_streams()
                await user.delete_access_token("token")
                await admin.update_permissions(name, None)
                with pytest.raises(ClientError):
                    await other.get_streams()
                await admin.delete_user(name)
                with pytest.raises((ClientError, LinkError)):
                    await other.get_streams()

    async def come_and_go(self) -> None:
        """A connection for a moment: logged in, not logged in, refused, or gone in half a frame."""
        manner = self._chance.choice(("known", "known", "unknown", "half", "refused"))
        address = self._clients.broker.address
        if manner == "known":
            async with await self._clients.connect() as client:
                assert (await client.get_me()).client.user_id == 0
        elif manner == "half":
            host, _, port = address.partition(":")
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(bytes(100))
            await writer.drain()
            writer.close()
            await writer.wait_closed()
        else:
            async with await AsyncClient.open(address) as client:
                await client.ping()
                if manner == "refused" and self._chance.random() < REFUSED:
                    with pytest.raises(ClientError) as error:
                        await client.login(USERNAME, "not-the-password")
                    assert error.value.code == ErrorCode.INVALID_CREDENTIALS

    async def look_around(self) -> None:
        """What consoles and operators ask for."""
        client = await self._clients.of_this_task()
        stats = await client.get_stats()
        assert stats.streams_count >= 1
        assert any(one.user_id == 0 for one in await client.get_clients())
        for stream in await client.get_streams():
            await client.get_topics(stream.id)
        assert await client.get_users()
        assert await client.get_cluster_metadata()

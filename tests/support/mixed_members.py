"""Members of groups that come, read a while and go, by our own client and by the released one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

from apache_iggy import Consumer as OfficialConsumer
from apache_iggy import PollingStrategy as OfficialStrategy

from checked_topic import CheckedTopic
from group_cases import NOT_OWNED
from iggy_client import AsyncClient
from iggy_wire.primitives import Consumer
from mixed_clients import Clients, taken

STREAM = "load"
GROUP = "g"
TURNS = 30  # polls of a member before it goes
PAUSE_S = 0.03  # between two of them
POLL_COUNT = 40


class Members:
    """Workers, each of which is a member for a while. They commit as they read."""

    def __init__(
        self, clients: Clients, topics: Sequence[CheckedTopic], chance: random.Random
    ) -> None:
        self._clients = clients
        self._topics = topics
        self._chance = chance
        self.read = 0  # messages, also those that came again

    async def live(self) -> None:
        """A member on our own client: it leaves, or its connection ends."""
        topic = self._chance.choice(self._topics)
        async with await self._clients.connect() as client:
            await client.join_group(STREAM, topic.name, GROUP)
            for _ in range(TURNS):
                assignment = await client.sync_group(STREAM, topic.name, GROUP)
                assert assignment is not None, "a member until it goes"
                for number in assignment.partitions:
                    await self._poll(client, topic, number)
                await asyncio.sleep(PAUSE_S)
            if self._chance.random() < 0.5:
                await client.leave_group(STREAM, topic.name, GROUP)

    async def live_officially(self) -> None:
        """A member on the released client, which finds its partitions by itself."""
        topic = self._chance.choice(self._topics)
        client = await self._clients.connect_officially()
        await client.join_consumer_group(STREAM, topic.name, GROUP)
        for _ in range(TURNS):
            epochs = [partition.epoch for partition in topic.partitions]
            found = await client.poll_messages(
                STREAM,
                topic.name,
                consumer=OfficialConsumer.Group(GROUP),
                polling_strategy=OfficialStrategy.Next(),
                count=POLL_COUNT,
                auto_commit=True,
            )
            self.read += len(found)
            for one in found:
                number = one.partition_id()
                judged = [(one.offset(), one.payload())]
                topic.partitions[number].judge_any(judged, epoch=epochs[number])
            await asyncio.sleep(PAUSE_S)
        if self._chance.random() < 0.5:
            await client.leave_consumer_group(STREAM, topic.name, GROUP)

    async def read_to_the_end(self, client: AsyncClient, topic: CheckedTopic) -> None:
        """When all others have gone: the group gets everything that it has not read yet."""
        await client.join_group(STREAM, topic.name, GROUP)
        for partition in topic.partitions:
            while await self._poll(client, topic, partition.id):
                pass
            stored = await client.get_offset(
                Consumer.group(GROUP), STREAM, topic.name, partition.id
            )
            at = -1 if stored is None else stored.stored_offset
            assert at == partition.next_offset - 1
        await client.leave_group(STREAM, topic.name, GROUP)

    async def _poll(self, client: AsyncClient, topic: CheckedTopic, number: int) -> int:
        partition = topic.partitions[number]
        epoch = partition.epoch
        polled = await client.poll(
            STREAM,
            topic.name,
            number,
            consumer=Consumer.group(GROUP),
            count=POLL_COUNT,
            auto_commit=True,
        )
        assert polled.partition_id in (number, NOT_OWNED)
        partition.judge_any(taken(polled), epoch=epoch)
        self.read += polled.count
        return polled.count

"""A load of everything at once, at a steady rate, that judges every answer while it runs."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable

from apache_iggy import SendMessage

from broker_process import BrokerProcess
from checked_topic import CheckedPartition, CheckedTopic
from iggy_client import AsyncClient, messages
from iggy_wire.batch import Message
from iggy_wire.primitives import Partitioning, PollingStrategy
from mixed_clients import Clients, taken
from mixed_members import GROUP, STREAM, Members
from mixed_visitors import Visitors

PARTITIONS = 4
SEGMENT_BYTES = 1 << 20  # the smallest
TOPIC_BYTES_MAX = 24 << 20  # of payloads; then the topic is purged
PURGED = 0.05  # of those turns, whether or not the topic has grown
BATCH_MAX = 20
POLL_MAX = 60
KEEPER = "keeper"  # the consumer that commits as it reads

Work = Callable[[], Awaitable[None]]


class Mixed:
    """The load: workers whose methods are done again and again, each at its own pace."""

    def __init__(self, broker: BrokerProcess, seed: int) -> None:
        self._chance = random.Random(seed)
        self._clients = Clients(broker)
        self._topics = [CheckedTopic(name, PARTITIONS) for name in ("replicated", "persisted")]
        self._members = Members(self._clients, self._topics, self._chance)
        self._visitors = Visitors(self._clients, self._chance)
        self.done: Counter[str] = Counter()  # turns, by what was done

    async def prepare(self) -> None:
        """Make what stays for the whole run."""
        admin = await self._clients.lasting("admin")
        await admin.create_stream(STREAM)
        for topic in self._topics:
            options: dict[str, str | int] = {
                "durability": topic.name,
                "segment_size": SEGMENT_BYTES,
            }
            await admin.create_topic(STREAM, topic.name, PARTITIONS, options)
            await admin.create_group(STREAM, topic.name, GROUP)

    async def run(self, over: asyncio.Event) -> None:
        """All workers, until it is over. The first one that finds something wrong ends it."""
        paces: list[tuple[Work, int, float]] = [  # what, how many at once, pause in seconds
            (self.send, 3, 0.03),
            (self.send_officially, 2, 0.1),
            (self.read, 3, 0.03),
            (self.read_by_time, 1, 0.1),
            (self.store_and_forget_an_offset, 1, 0.2),
            (self.purge_or_trim, 1, 0.5),
            (self._members.live, 2, 0.2),
            (self._members.live_officially, 2, 0.2),
            (self._visitors.make_and_delete_a_stream, 1, 0.5),
            (self._visitors.make_and_delete_a_user, 1, 1.0),
            (self._visitors.come_and_go, 1, 0.1),
            (self._visitors.look_around, 1, 0.5),
        ]
        async with asyncio.TaskGroup() as group:
            for work, count, pause_s in paces:
                for number in range(count):
                    name = f"{work.__name__}-{number}"
                    group.create_task(self._again(work, pause_s, over), name=name)

    async def _again(self, work: Work, pause_s: float, over: asyncio.Event) -> None:
        while not over.is_set():
            await work()
            self.done[work.__name__] += 1
            await asyncio.sleep(self._chance.uniform(0, 2 * pause_s))

    async def finish(self) -> None:
        """What must be there is there, groups read to the end; then all is removed."""
        admin = await self._clients.lasting("admin")
        for topic in self._topics:
            for partition in topic.partitions:
                await self._read_all(admin, topic, partition)
            await self._members.read_to_the_end(admin, topic)
        await admin.delete_stream(STREAM)
        await self._clients.close()

    @property
    def messages(self) -> int:
        """Acknowledged in all."""
        return sum(topic.messages for topic in self._topics)

    # -- workers -------------------------------------------------------------------------------

    async def send(self) -> None:
        """A batch to any partition."""
        topic, partition = self._any()
        client = await self._clients.of_this_task()
        async with partition.turn:
            batch = partition.batch(self._chance.randint(1, BATCH_MAX))
            target = Partitioning.partition(partition.id)
            sent = await client.send(STREAM, topic.name, target, [Message(one) for one in batch])
            topic.sent(partition, sent.base_offset, batch)

    async def send_officially(self) -> None:
        """The same with the released client."""
        topic, partition = self._any()
        client = await self._clients.official_of_this_task()
        async with partition.turn:
            batch = partition.batch(self._chance.randint(1, BATCH_MAX))
            sent = await client.send_messages(
                STREAM, topic.name, partition.id, [SendMessage(one) for one in batch]
            )
            topic.sent(partition, sent.confirmations[0].base_offset, batch)

    async def read(self) -> None:
        """A poll of any kind but by time."""
        topic, partition = self._any()
        client = await self._clients.of_this_task()
        count = self._chance.randint(1, POLL_MAX)
        async with partition.turn:
            offset = self._chance.randint(partition.oldest, partition.next_offset)
            tail = max(partition.next_offset - count, partition.oldest)
            strategy, first = self._chance.choice(
                (
                    (PollingStrategy.first(), partition.oldest),
                    (PollingStrategy.last(), tail),
                    (PollingStrategy.offset(offset), offset),
                    (PollingStrategy.next(), partition.read_to),
                )
            )
            goes_on = strategy == PollingStrategy.next()
            polled = await client.poll(
                STREAM,
                topic.name,
                partition.id,
                consumer=KEEPER,
                strategy=strategy,
                count=count,
                auto_commit=goes_on,
            )
            partition.judge(taken(polled), first=first, count=count)
            if goes_on and polled.count:
                partition.read_to = taken(polled)[-1][0] + 1

    async def read_by_time(self) -> None:
        """A poll from the time of some message: that batch and what came after."""
        topic, partition = self._any()
        client = await self._clients.of_this_task()
        place = (STREAM, topic.name, partition.id)
        async with partition.turn:
            offset = self._chance.randint(partition.oldest, partition.next_offset)
            strategy = PollingStrategy.offset(offset)
            polled = await client.poll(*place, strategy=strategy, count=1)
            for one in messages(polled):
                strategy = PollingStrategy.timestamp(one.timestamp_us)
                found = taken(await client.poll(*place, strategy=strategy, count=POLL_MAX))
                first = found[0][0]
                if first > one.offset:  # perhaps it was trimmed between the two polls
                    strategy = PollingStrategy.offset(one.offset)
                    again = taken(await client.poll(*place, strategy=strategy, count=1))
                    assert partition.is_trimmed and again[0][0] > one.offset
                partition.judge(found, first=first, count=POLL_MAX)

    async def store_and_forget_an_offset(self) -> None:
        """A consumer that is there for a moment only."""
        topic, partition = self._any()
        client = await self._clients.of_this_task()
        async with partition.turn:
            if not partition.next_offset:
                return
            offset = self._chance.randrange(partition.next_offset)
            consumer = f"passing-{self._chance.randrange(100)}"
            place = (STREAM, topic.name, partition.id)
            await client.store_offset(consumer, *place, offset)
            stored = await client.get_offset(consumer, *place)
            assert stored is not None
            assert stored.stored_offset == offset
            assert stored.current_offset == partition.next_offset - 1
            found = taken(await client.poll(*place, consumer=consumer, count=2))
            partition.judge(found, first=max(offset + 1, partition.oldest), count=2)
            await client.delete_offset(consumer, *place)
            assert await client.get_offset(consumer, *place) is None

    async def purge_or_trim(self) -> None:
        """Empty a topic, surely one that has grown, or delete the oldest segment of a partition."""
        topic, partition = self._any()
        client = await self._clients.of_this_task()
        if topic.bytes > TOPIC_BYTES_MAX or self._chance.random() < PURGED:
            async with topic.all_turns():
                await client.purge_topic(STREAM, topic.name)
                topic.purged()
        else:
            async with partition.turn:
                partition.is_trimmed = True
                await client.delete_segments(STREAM, topic.name, partition.id, 1)

    def _any(self) -> tuple[CheckedTopic, CheckedPartition]:
        topic = self._chance.choice(self._topics)
        return topic, self._chance.choice(topic.partitions)

    async def _read_all(
        self, client: AsyncClient, topic: CheckedTopic, partition: CheckedPartition
    ) -> None:
        at = 0
        while at < partition.next_offset:
            strategy = PollingStrategy.offset(at)
            polled = await client.poll(
                STREAM, topic.name, partition.id, strategy=strategy, count=1000
            )
            found = taken(polled)
            partition.judge(found, first=at, count=1000)
            at = found[-1][0] + 1

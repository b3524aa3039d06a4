"""What clients do: send, poll, store offsets, delete segments, be members of groups."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from iggy_client import calls
from iggy_client.errors import ClientError, LinkError
from iggy_wire.batch import Message, build, messages
from iggy_wire.primitives import Consumer, Partitioning, PollingStrategy
from iggy_wire.replies import Polled
from simulation.clients import SimulatedClient
from simulation.members import Member
from simulation.oracle import Key, Oracle, Partition, ViolationError
from simulation.stored import ABSENT, Reader

STREAM = "s"
PERSISTED = {"durability": "persisted", "consumer_offset_durability": "persisted"}
TOPICS: dict[str, dict[str, str | int]] = {
    "kept": PERSISTED,
    "plain": {},
    "half": {"durability": "persisted"},
    "aged": {"message_expiry": 400_000, "max_topic_size": 200_000},
}
AGED = "aged"  # old messages go by themselves
PARTITIONS = 2
SIZES = (8, 8, 40, 300, 300, 3000, 12_000)
LOST = (LinkError, ConnectionError)

Action = Callable[[], Coroutine[Any, Any, None]]


class Worker:
    """One client and what it does next."""

    def __init__(self, client: SimulatedClient, oracle: Oracle, number: int) -> None:
        self.client = client
        self.oracle = oracle
        self.chance = client.chance
        self.number = number
        self.operations = 0
        self.key: Key = (STREAM, "kept", 0)
        self.member = Member(self)

    async def enter(self, shard: int) -> None:
        """Connect and log in."""
        await self.client.connect(shard)

    async def act(self) -> str:
        """One operation, drawn by chance; its name. LinkError or ConnectionError if cut off."""
        if self.chance.random() < 0.08:
            self.key = self.chance.choice([k for k in self.oracle.partitions if k[0] == STREAM])
        action = self.pick()
        self.operations += 1
        await action()
        return action.__name__

    def pick(self) -> Action:
        """What to do next."""
        if self.member.is_in_group and self.chance.random() < 0.5:
            return self.member.act
        (action,) = self.chance.choices(
            (self.send, self.burst, self.poll, self.poll_on, self.store, self.fetch, self.trim,
             self.member.act),
            (40, 7, 22, 8, 6, 5, 3, 22),
        )  # fmt: skip
        return action

    # messages

    def _batch(self, key: Key) -> list[Message]:
        size = self.chance.choice(SIZES)
        count = self.chance.randint(1, max(1, min(20, 24_000 // size)))
        return [self.oracle.make(key, size) for _ in range(count)]

    async def send(self, key: Key | None = None) -> None:
        await self._send([key or self.key])

    async def burst(self) -> None:
        """Several sends without waiting for answers."""
        keys = [k for k in self.oracle.partitions if k[0] == STREAM]
        await self._send(
            [
                self.key if self.chance.random() < 0.7 else self.chance.choice(keys)
                for _ in range(self.chance.randint(2, 6))
            ]
        )

    async def _send(self, keys: list[Key]) -> list[Any]:
        """Send a batch to each; what was answered."""
        batches = [(key, self._batch(key)) for key in keys]
        wishes = []
        for key, batch in batches:
            self.oracle.sending(key, batch)
            data = build(batch, origin_timestamp_us=1)
            stream, topic, partition_id = key
            wishes.append(
                calls.send_batch(stream, topic, Partitioning.partition(partition_id), data)
            )
        answers = await self.client.calls(wishes)
        for (key, batch), answer in zip(batches, answers, strict=True):
            if isinstance(answer, ClientError):
                self.oracle.count("refused sends")
                self.oracle.refused(key, batch)
            elif not isinstance(answer, Exception):
                self.oracle.count("acknowledged sends")
                self.oracle.acknowledged(key, batch, answer.base_offset)
        for answer in answers:
            if isinstance(answer, Exception) and not isinstance(answer, ClientError):
                raise answer
        return answers

    async def poll(self) -> None:
        partition = self.oracle.partitions[self.key]
        end = partition.acked_end
        start = self.chance.randint(0, end + 2)
        if self.chance.random() < 0.5:
            start = max(0, end - self.chance.randint(0, 40))
        count = self.chance.choice((1, 3, 20, 200, 100_000))
        polled = await self._poll(PollingStrategy.offset(start), count)
        self._check(polled, start, min(end, start + count))

    async def poll_on(self) -> None:
        """Poll "next" with auto-commit."""
        key, consumer = self.key, self.number + 1
        partition = self.oracle.partitions[key]
        end, stored = partition.acked_end, set(partition.stored.of(consumer))
        doing = self.oracle.committing(key, consumer)
        try:
            polled = await self._poll(PollingStrategy.next(), 20, auto_commit=True)
        except LOST:
            self.oracle.cut_off(key, doing)
            raise
        except ClientError:
            self.oracle.stored(key, doing, None)
            raise
        found = list(messages(bytes(polled.region)))
        self.oracle.stored(key, doing, found[-1].offset if found else None)
        start = max(stored) + 1
        if found:
            start = found[0].offset
            self.check_next(partition, start, stored)
        self._check(polled, start, min(end, start + 20))

    def check_next(self, partition: Partition, start: int, stored: set[int]) -> None:
        """A poll "next" began at `start`, when one of `stored` was stored: nothing is skipped."""
        deleted = start <= partition.head.allowed and min(stored) < start
        if start - 1 not in stored and not deleted and not partition.damaged:
            told = f"{partition.key}: next is {start}, stored was {sorted(stored)[:6]}"
            raise ViolationError(told)

    async def _poll(
        self, strategy: PollingStrategy, count: int, *, auto_commit: bool = False
    ) -> Polled:
        return await self.client.call(
            calls.poll(
                *self.key,
                consumer=self.number + 1,
                strategy=strategy,
                count=count,
                auto_commit=auto_commit,
            )
        )

    def _check(self, polled: Polled, start: int, needed_end: int) -> None:
        self.oracle.count("polls")
        self.oracle.polled(
            self.key,
            start,
            bytes(polled.region),
            needed_end=needed_end,
            current_offset=polled.current_offset,
        )

    # offsets

    async def store(self) -> None:
        """Store an offset, or delete the stored one."""
        key, consumer = self.key, self.number + 1
        end = self.oracle.partitions[key].acked_end
        offset = self.chance.randint(max(0, end - 60) if self.chance.random() < 0.7 else 0, end)
        stream, topic, partition_id = key
        if offset == end:
            offset, call = ABSENT, calls.delete_offset(consumer, stream, topic, partition_id)
        else:
            call = calls.store_offset(consumer, stream, topic, partition_id, offset)
        doing = self.oracle.storing(key, consumer, offset)
        try:
            await self.client.call(call)
        except LOST:
            self.oracle.cut_off(key, doing)
            raise
        except ClientError:
            self.oracle.stored(key, doing, None)
            raise
        self.oracle.count("stored offsets")
        self.oracle.stored(key, doing, offset)

    async def fetch(self) -> None:
        """What is stored, and which streams there are."""
        await self.read_offset(self.key, self.number + 1, Consumer.plain(self.number + 1))
        known = dict(self.oracle.streams)
        names = {stream.name for stream in await self.client.call(calls.get_streams())}
        self.oracle.stream_seen(names, known)

    async def read_offset(self, key: Key, reader: Reader, consumer: Consumer) -> None:
        """What is stored for a consumer or a group."""
        doing = self.oracle.reading(key, reader)
        try:
            found = await self.client.call(calls.get_offset(consumer, *key))
        except (*LOST, ClientError):
            self.oracle.stored(key, doing, None)
            raise
        pair = None if found is None else (found.stored_offset, found.current_offset)
        self.oracle.offset_read(key, doing, pair)

    async def trim(self) -> None:
        """Delete the oldest segments: those that all readers have passed, now or later."""
        key = self.key
        self.oracle.trimming(key)
        count = self.chance.choice((1, 1, 2, 50))
        try:
            await self.client.call(calls.delete_segments(*key, count))
        except (*LOST, ClientError):
            self.oracle.trimmed(key, answered=False)
            raise
        self.oracle.count("segment deletions")
        self.oracle.trimmed(key, answered=True)


async def read_all(client: SimulatedClient, key: Key) -> tuple[list[Message], int]:
    """Every message of a partition, as far as it can be read, and where it ends."""
    stream, topic, partition_id = key
    found: list[Message] = []
    while True:
        polled = await client.call(
            calls.poll(
                stream,
                topic,
                partition_id,
                consumer=999,
                strategy=PollingStrategy.offset(found[-1].offset + 1 if found else 0),
                count=100_000,
                auto_commit=False,
            )
        )
        step = list(messages(bytes(polled.region)))
        if not step:
            # The last offset of an empty partition is told as 0, and so is one that is alone.
            last = polled.current_offset
            return found, last + 1 if last or found else 0
        found += step


async def make_topics(client: SimulatedClient, oracle: Oracle) -> None:
    """What every scenario has from the start."""
    await client.call(calls.create_stream(STREAM))
    oracle.streams[STREAM] = True
    for name, options in TOPICS.items():
        await client.call(calls.create_topic(STREAM, name, PARTITIONS, options))
        persisted = options.get("durability") == "persisted"
        offsets = options.get("consumer_offset_durability") == "persisted"
        for partition_id in range(PARTITIONS):
            key = (STREAM, name, partition_id)
            oracle.partitions[key] = Partition(
                key, persisted, offsets, aged=name == AGED, kept=oracle.kept
            )
        await client.call(calls.create_group(STREAM, name, "g0"))
        oracle.groups[name, "g0"] = True

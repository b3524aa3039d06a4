"""What clients do: send, poll, store offsets; one of them makes and deletes things."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from iggy_client import calls
from iggy_client.errors import ClientError, LinkError
from iggy_wire.batch import Message, build, messages
from iggy_wire.primitives import Partitioning, PollingStrategy
from iggy_wire.replies import Polled
from simulation.clients import SimulatedClient
from simulation.oracle import Key, Oracle, Partition, ViolationError

STREAM = "s"
PERSISTED = {"durability": "persisted", "consumer_offset_durability": "persisted"}
TOPICS: dict[str, dict[str, str]] = {
    "kept": PERSISTED,
    "plain": {},
    "half": {"durability": "persisted"},
}
PARTITIONS = 2
SIZES = (8, 8, 40, 300, 300, 3000, 12_000)
EXTRA_STREAMS_MAX = 4
LOST = (LinkError, ConnectionError)


class Worker:
    """One client and what it does next."""

    def __init__(self, client: SimulatedClient, oracle: Oracle, number: int) -> None:
        self.client = client
        self.oracle = oracle
        self.chance = client.chance
        self.number = number
        self.operations = 0
        self._key: Key = (STREAM, "kept", 0)
        self._made = 0

    async def act(self) -> str:
        """One operation, drawn by chance; its name. LinkError or ConnectionError if cut off."""
        if self.chance.random() < 0.08:
            self._key = self.chance.choice([k for k in self.oracle.partitions if k[0] == STREAM])
        action = self._pick()
        self.operations += 1
        await action()
        return action.__name__

    def _pick(self) -> Callable[[], Coroutine[Any, Any, None]]:
        if self.number == 0 and self.chance.random() < 0.5:
            return self.chance.choice((self.make, self.make, self.remove, self.empty, self.group))
        (action,) = self.chance.choices(
            (self.send, self.burst, self.poll, self.poll_on, self.store, self.fetch, self.look),
            (44, 8, 24, 8, 6, 6, 4),
        )
        return action

    # messages

    def _batch(self, key: Key) -> list[Message]:
        size = self.chance.choice(SIZES)
        count = self.chance.randint(1, max(1, min(30, 24_000 // size)))
        return [self.oracle.make(key, size) for _ in range(count)]

    async def send(self, key: Key | None = None) -> None:
        await self._send([key or self._key])

    async def burst(self) -> None:
        """Several sends without waiting for answers."""
        keys = [k for k in self.oracle.partitions if k[0] == STREAM]
        await self._send(
            [
                self._key if self.chance.random() < 0.7 else self.chance.choice(keys)
                for _ in range(self.chance.randint(2, 6))
            ]
        )

    async def _send(self, keys: list[Key]) -> None:
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
        self._raise(answers)

    def _raise(self, answers: list[Any]) -> None:
        for answer in answers:
            if isinstance(answer, Exception) and not isinstance(answer, ClientError):
                raise answer

    async def poll(self) -> None:
        partition = self.oracle.partitions[self._key]
        end = partition.acked_end
        start = self.chance.randint(0, end + 2)
        if self.chance.random() < 0.5:
            start = max(0, end - self.chance.randint(0, 40))
        count = self.chance.choice((1, 3, 20, 200, 100_000))
        polled = await self._poll(PollingStrategy.offset(start), count)
        self._check(polled, start, min(end, start + count))

    async def poll_on(self) -> None:
        """Poll "next" with auto-commit."""
        key, consumer = self._key, self.number + 1
        partition = self.oracle.partitions[key]
        end, stored = partition.acked_end, partition.stored.get(consumer, {-1})
        try:
            polled = await self._poll(PollingStrategy.next(), 20, auto_commit=True)
        except ClientError:
            raise
        except LOST:
            self.oracle.committing(key, consumer, None)
            raise
        found = list(messages(bytes(polled.region)))
        if found:
            start = found[0].offset
            if start - 1 not in stored and not partition.damaged:
                raise ViolationError(f"{key}: next is {start}, stored was {sorted(stored)[:6]}")
            self._check(polled, start, min(end, start + 20))
            self.oracle.committing(key, consumer, found[-1].offset)

    async def _poll(
        self, strategy: PollingStrategy, count: int, *, auto_commit: bool = False
    ) -> Polled:
        stream, topic, partition_id = self._key
        return await self.client.call(
            calls.poll(
                stream,
                topic,
                partition_id,
                consumer=self.number + 1,
                strategy=strategy,
                count=count,
                auto_commit=auto_commit,
            )
        )

    def _check(self, polled: Polled, start: int, needed_end: int) -> None:
        self.oracle.count("polls")
        self.oracle.polled(
            self._key,
            start,
            bytes(polled.region),
            needed_end=needed_end,
            current_offset=polled.current_offset,
        )

    # offsets

    async def store(self) -> None:
        key, consumer = self._key, self.number + 1
        end = self.oracle.partitions[key].acked_end
        offset = self.chance.randint(0, max(end - 1, 0))
        stream, topic, partition_id = key
        self.oracle.storing(key, consumer, offset)
        call = calls.store_offset(consumer, stream, topic, partition_id, offset)
        try:
            await self.client.call(call)
        except LOST:
            self.oracle.unanswered(key, consumer, offset)
            raise
        self.oracle.count("stored offsets")
        self.oracle.stored(key, consumer, offset)

    async def fetch(self) -> None:
        key, consumer = self._key, self.number + 1
        stream, topic, partition_id = key
        found = await self.client.call(calls.get_offset(consumer, stream, topic, partition_id))
        pair = None if found is None else (found.stored_offset, found.current_offset)
        self.oracle.offset_read(key, consumer, pair)

    # metadata

    async def look(self) -> None:
        known = dict(self.oracle.streams)
        names = {stream.name for stream in await self.client.call(calls.get_streams())}
        self.oracle.count("looks")
        self.oracle.stream_seen(names, known)

    def _extra(self) -> list[str]:
        return [n for n, there in self.oracle.streams.items() if there and n != STREAM]

    async def make(self) -> None:
        """A stream with a topic that gets a few messages."""
        if len(self._extra()) >= EXTRA_STREAMS_MAX:
            await self.remove()
            return
        self._made += 1
        name = f"x{self._made}"
        await self._change(name, calls.create_stream(name), done=True, refused=False)
        options = self.chance.choice((PERSISTED, {}))
        await self.client.call(calls.create_topic(name, "t", 2, options))
        self.oracle.count("topics made")
        for partition_id in range(2):
            key = (name, "t", partition_id)
            persisted = bool(options)
            self.oracle.partitions[key] = Partition(key, persisted, persisted)
            await self.send(key)

    async def remove(self) -> None:
        """Delete an extra stream with all in it."""
        names = self._extra()
        if not names:
            return
        name = self.chance.choice(names)
        await self._change(name, calls.delete_stream(name), done=False, refused=True)
        for key in [key for key in self.oracle.partitions if key[0] == name]:
            del self.oracle.partitions[key]

    async def _change(self, name: str, call: Any, *, done: bool, refused: bool) -> None:
        self.oracle.streams[name] = None
        try:
            await self.client.call(call)
        except ClientError:
            self.oracle.streams[name] = refused
            raise
        self.oracle.count("changes")
        self.oracle.streams[name] = done

    async def empty(self) -> None:
        """Purge the topic of an extra stream, and send to it again."""
        keys = [key for key in self.oracle.partitions if key[0] != STREAM]
        if not keys:
            return
        stream, topic, partition_id = self.chance.choice(keys)
        both = [key for key in self.oracle.partitions if key[0] == stream]
        for key in both:
            self.oracle.partitions[key].purging = True
        await self.client.call(calls.purge_topic(stream, topic))
        self.oracle.count("purges")
        for key in both:
            self.oracle.purged(key)
        await self.send((stream, topic, partition_id))

    async def group(self) -> None:
        name = f"g{self.chance.randint(0, 3)}"
        topic = self.chance.choice(list(TOPICS))
        wanted = calls.create_group if self.chance.random() < 0.6 else calls.delete_group
        await self.client.call(wanted(STREAM, topic, name))  # type: ignore[arg-type]


async def read_all(client: SimulatedClient, key: Key) -> list[Message]:
    """Every message of a partition, as far as it can be read."""
    stream, topic, partition_id = key
    found: list[Message] = []
    while True:
        polled = await client.call(
            calls.poll(
                stream,
                topic,
                partition_id,
                consumer=999,
                strategy=PollingStrategy.offset(len(found)),
                count=100_000,
                auto_commit=False,
            )
        )
        step = list(messages(bytes(polled.region)))
        if not step:
            return found
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
            oracle.partitions[key] = Partition(key, persisted, offsets)

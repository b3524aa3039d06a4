"""Producers and members of a group on the released client `apache-iggy`, each in its own process.

Each appends to a file of its own what it is about to do and what it was told, one line for each:

    asked NUMBER                    a producer sends its batch of that number
    told NUMBER PARTITION OFFSET    it was acknowledged: its first message has this offset
    read PARTITION OFFSET PAYLOAD   a member was handed a message (written before it is committed)
    kept PARTITION OFFSET           the broker has stored the group's offset

A producer sends a batch again until it is acknowledged. SIGTERM ends a process.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from datetime import timedelta
from pathlib import Path

from apache_iggy import (
    AutoCommit,
    AutoLogin,
    IggyClient,
    IggyConsumer,
    PollingStrategy,
    SendMessage,
    TcpConfig,
    TcpReconnectionConfig,
)

from broker_process import PASSWORD, USERNAME

STREAM, TOPIC, GROUP = "s", "t", "g"
PARTITIONS = 4
BATCH = 3  # messages
PAUSE_S = 0.002  # the longest one between two sends
POLL_COUNT = 20 * BATCH  # whole batches, so that a member commits all that it was handed
RETRY_S = 0.02
RETRY = timedelta(seconds=RETRY_S)
SOON = timedelta(milliseconds=2)
HEARTBEAT = timedelta(milliseconds=500)  # so often a member asks for its partitions


def payload(producer: int, number: int, place: int) -> str:
    """Different for every message, and of different lengths."""
    return f"{producer}/{number}/{place}/" + "x" * (number * 7 % 700)


def label(text: str) -> tuple[int, int, int]:
    """Producer, number and place of a payload, which must be exactly what was sent."""
    producer, number, place, _ = text.split("/")
    found = int(producer), int(number), int(place)
    assert text == payload(*found), f"a payload that nobody sent: {text[:60]!r}"
    return found


class Worker:
    """One process: its client, its file, and whether it is to end."""

    def __init__(self, address: str, path: Path, number: int, over: asyncio.Event) -> None:
        self.address = address
        self.number = number
        self.over = over
        self._notes = path.open("w", buffering=1)  # once it is there, SIGTERM is understood

    def note(self, *words: object) -> None:
        """One line, which is in the file when this returns."""
        self._notes.write(" ".join(map(str, words)) + "\n")

    async def connect(self) -> IggyClient:
        """A client that reconnects and logs in again by itself."""
        client = IggyClient(
            TcpConfig(
                server_address=self.address,
                auto_login=AutoLogin.username_password(USERNAME, PASSWORD),
                reconnection=TcpReconnectionConfig(interval=RETRY, reestablish_after=timedelta(0)),
                heartbeat_interval=HEARTBEAT,
            )
        )
        await client.connect()
        return client

    async def produce(self) -> None:
        """Send batch after batch, each one until it is acknowledged."""
        client = await self.connect()
        chance = random.Random(self.number)
        number = 0
        while not self.over.is_set():
            if await self._send(client, number):
                number += 1
                await asyncio.sleep(chance.uniform(0, PAUSE_S))
            else:
                await asyncio.sleep(RETRY_S)

    async def _send(self, client: IggyClient, number: int) -> bool:
        partition = (self.number + number) % PARTITIONS
        batch = [SendMessage(payload(self.number, number, place)) for place in range(BATCH)]
        self.note("asked", number)
        try:
            answer = await client.send_messages(STREAM, TOPIC, partition, batch)
        except RuntimeError:
            return False  # the link broke: whether it was stored, nobody told us
        (confirmation,) = answer.confirmations
        self.note("told", number, confirmation.partition_id, confirmation.base_offset)
        return True

    async def consume(self) -> None:
        """Read as a member of the group, with a new client whenever one has given up."""
        while not self.over.is_set():
            try:
                client = await self.connect()  # while it is there, it looks for partitions, too
                await self._read(await self._join(client))
            except RuntimeError:
                await asyncio.sleep(RETRY_S)

    async def _join(self, client: IggyClient) -> IggyConsumer:
        return await client.consumer_group(
            GROUP,
            STREAM,
            TOPIC,
            polling_strategy=PollingStrategy.Next(),
            batch_length=POLL_COUNT,
            auto_commit=AutoCommit.Disabled(),
            poll_interval=SOON,
            polling_retry_interval=RETRY,
            init_retries=100,
            init_retry_interval=RETRY,
            allow_replay=True,  # what was read and not committed when the link broke
        )

    async def _read(self, consumer: IggyConsumer) -> None:
        async for message in consumer.iter_messages():
            partition, offset = message.partition_id(), message.offset()
            text = message.payload().decode()
            self.note("read", partition, offset, text)
            if label(text)[2] + 1 == BATCH:
                await self._commit(consumer, partition, offset)
            if self.over.is_set():
                return

    async def _commit(self, consumer: IggyConsumer, partition: int, offset: int) -> None:
        try:
            await consumer.store_offset(offset, partition)
        except RuntimeError:
            return  # the link broke, or the partition went to the other member
        self.note("kept", partition, offset)


async def _main(role: str, number: str, address: str, path: str) -> None:
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    worker = Worker(address, Path(path), int(number), over)
    work = asyncio.ensure_future(worker.produce() if role == "producer" else worker.consume())
    ending = asyncio.ensure_future(over.wait())
    await asyncio.wait((work, ending), return_when=asyncio.FIRST_COMPLETED)
    if role == "producer" or work.done():
        await work  # the last answer, or the reason why it gave up


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:5]))
    # The client's own threads may abort an interpreter that ends in the usual way.
    os._exit(0)

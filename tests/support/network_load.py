"""Producers and group members that live on a bad network, and what they were told.

A producer of ours sends each payload once, whatever comes of it. The official client repeats by
itself what it got no answer to. Whoever loses the connection makes a new one and goes on.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from apache_iggy import (
    AutoLogin,
    IggyClient,
    SendMessage,
    TcpConfig,
    TcpReconnectionConfig,
)

from both_clients import Awaited
from broker_process import PASSWORD, USERNAME
from iggy_client.async_client import AsyncClient
from iggy_client.client import Client, messages
from iggy_client.errors import ClientError, LinkError
from iggy_wire.batch import Message
from iggy_wire.primitives import Consumer, Partitioning, PollingStrategy

PARTITIONS = 8  # both shards own some
TIMEOUT_S = 5.0  # for one answer: stalls are short

Place = tuple[int, int]  # partition, offset


@dataclass
class History:
    """What clients asked for, and what they were told. Many threads tell it."""

    asked: set[bytes] = field(default_factory=set)
    acknowledged: dict[Place, bytes] = field(default_factory=dict)
    read: set[Place] = field(default_factory=set)
    troubles: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)  # what must not be, of all threads
    lock: threading.Lock = field(default_factory=threading.Lock)

    def ask(self, payloads: list[bytes]) -> None:
        with self.lock:
            self.asked.update(payloads)

    def told(self, partition: int, base_offset: int, payloads: list[bytes]) -> None:
        with self.lock:
            for offset, payload in enumerate(payloads, base_offset):
                if self.acknowledged.setdefault((partition, offset), payload) != payload:
                    self.wrong.append(f"partition {partition} offset {offset} is given twice")

    def handed_out(self, partition: int, offset: int, payload: bytes) -> None:
        with self.lock:
            self.read.add((partition, offset))
            if payload not in self.asked:
                self.wrong.append(f"nobody sent {payload[:60]!r}")

    def trouble(self, error: BaseException) -> None:
        with self.lock:
            self.troubles[type(error).__name__] += 1


def batch_of(producer: str, number: int) -> tuple[int, list[bytes]]:
    """A partition and some payloads that nobody else sends, of different lengths."""
    payloads = [
        f"{producer}/{number}/{place}/".encode() + b"x" * (number * 37 % 3000)
        for place in range(1 + number % 3)
    ]
    return number % PARTITIONS, payloads


def produce_blocking(address: str, history: History, name: str, batches: int) -> None:
    client: Client | None = None
    for number in range(batches):
        partition, payloads = batch_of(name, number)
        history.ask(payloads)
        try:
            if client is None:
                client = Client.connect(address, USERNAME, PASSWORD, timeout_s=TIMEOUT_S)
            elif not client.is_open:
                client.reconnect()
            target = Partitioning.partition(partition)
            sent = client.send("s", "t", target, [Message(one) for one in payloads])
            history.told(partition, sent.base_offset, payloads)
        except LinkError as error:
            history.trouble(error)
    if client is not None:
        client.close()


def produce_async(address: str, history: History, name: str, batches: int) -> None:
    async def run() -> None:
        client: AsyncClient | None = None
        for number in range(batches):
            partition, payloads = batch_of(name, number)
            history.ask(payloads)
            try:
                if client is None:
                    client = await AsyncClient.connect(
                        address, USERNAME, PASSWORD, timeout_s=TIMEOUT_S
                    )
                elif not client.is_open:
                    await client.reconnect()
                target = Partitioning.partition(partition)
                sent = await client.send("s", "t", target, [Message(one) for one in payloads])
                history.told(partition, sent.base_offset, payloads)
            except LinkError as error:
                history.trouble(error)
        if client is not None:
            await client.close()

    asyncio.run(run())


def produce_officially(address: str, history: History, name: str, batches: int) -> None:
    async def run() -> None:
        client: IggyClient | None = None
        for number in range(batches):
            partition, payloads = batch_of(name, number)
            history.ask(payloads)
            texts = [SendMessage(one.decode()) for one in payloads]
            try:
                if client is None:
                    login = AutoLogin.username_password(USERNAME, PASSWORD)
                    again = TcpReconnectionConfig(
                        interval=timedelta(milliseconds=20), reestablish_after=timedelta(0)
                    )
                    client = IggyClient(
                        TcpConfig(server_address=address, auto_login=login, reconnection=again)
                    )
                    await asyncio.wait_for(client.connect(), TIMEOUT_S)
                answer = await asyncio.wait_for(
                    client.send_messages("s", "t", partition, texts), TIMEOUT_S
                )
                (confirmation,) = answer.confirmations
                history.told(partition, confirmation.base_offset, payloads)
            except (RuntimeError, TimeoutError) as error:
                history.trouble(error)
                client = None

    asyncio.run(run())


class Member:
    """A member of the group `g`, who reads and commits, and joins again after every cut."""

    def __init__(self, address: str, history: History) -> None:
        self._address = address
        self._history = history
        self._client: Any = None  # of either kind
        self._is_joined = False

    def run(self, over: threading.Event) -> None:
        """Read until it is over."""
        while not over.is_set():
            try:
                if not self._read(self._joined()):
                    over.wait(0.002)
            except LinkError as error:
                self._history.trouble(error)
            except ClientError as error:  # its partition went to somebody else meanwhile
                self._history.trouble(error)
                self._is_joined = False
        if self._client is not None:
            self._client.close()

    def _connect(self) -> Any:
        return Client.connect(self._address, USERNAME, PASSWORD, timeout_s=TIMEOUT_S)

    def _joined(self) -> Any:
        if self._client is None:
            self._client = self._connect()
        elif not self._client.is_open:
            self._is_joined = False
            self._client.reconnect()
        if not self._is_joined:
            self._client.join_group("s", "t", "g")
            self._is_joined = True
        return self._client

    def _read(self, client: Any) -> int:
        assignment = client.sync_group("s", "t", "g")
        if assignment is None:
            self._is_joined = False
            return 0
        return sum(self._read_partition(client, number) for number in assignment.partitions)

    def _read_partition(self, client: Any, number: int) -> int:
        group = Consumer.group("g")
        polled = client.poll("s", "t", number, consumer=group, count=20)
        last = -1
        for message in messages(polled):
            self._history.handed_out(number, message.offset, bytes(message.payload))
            last = message.offset
        if polled.count:
            client.store_offset(group, "s", "t", number, last)
        return int(polled.count)


class AsyncMember(Member):
    """The same with the async client."""

    def run(self, over: threading.Event) -> None:
        """Read until it is over, on a loop of its own."""
        with asyncio.Runner() as self._runner:
            super().run(over)

    def _connect(self) -> Any:
        connecting = AsyncClient.connect(self._address, USERNAME, PASSWORD, timeout_s=TIMEOUT_S)
        return Awaited(self._runner, self._runner.run(connecting))


PRODUCERS: dict[str, Callable[[str, History, str, int], None]] = {
    "blocking": produce_blocking,
    "async": produce_async,
    "official": produce_officially,
}


def read_all(client: Client) -> dict[Place, bytes]:
    """Everything that is stored; offsets are dense."""
    found: dict[Place, bytes] = {}
    for partition in range(PARTITIONS):
        offset = 0
        while True:
            strategy = PollingStrategy.offset(offset)
            polled = client.poll("s", "t", partition, strategy=strategy, count=1000)
            if not polled.count:
                break
            for message in messages(polled):
                assert message.offset == offset, "offsets are dense"
                found[partition, offset] = bytes(message.payload)
                offset += 1
    return found

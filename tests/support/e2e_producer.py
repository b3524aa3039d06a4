"""A producer on the released client `apache-iggy` that remembers what it was told, and a reader."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from apache_iggy import (
    AutoLogin,
    Consumer,
    IggyClient,
    Partitioning,
    PollingStrategy,
    SendMessage,
    TcpConfig,
    TcpReconnectionConfig,
)

from e2e_kubectl import Kubectl

RETRY_S = 0.1
READ_AT_ONCE = 1000
HEARTBEAT = timedelta(seconds=1)

Place = tuple[int, int]  # partition and offset


@dataclass(frozen=True, slots=True)
class Login:
    """Where the broker is and who sends."""

    address: str
    username: str
    password: str


@dataclass(frozen=True, slots=True)
class Batch:
    """Payloads that are sent together; the key chooses their partition."""

    key: str
    payloads: list[bytes]


class Producer:
    """Sends batches in a thread of its own, each again until it is acknowledged.

    `acknowledged` only grows. A payload of `unanswered` was sent so often without an answer: each
    time it may have been stored, or not.
    """

    def __init__(self, login: Login, stream: str, topic: str, batches: Iterable[Batch]) -> None:
        self.acknowledged: dict[Place, bytes] = {}
        self.unanswered: Counter[bytes] = Counter()
        self.error: Exception | None = None
        self._login = login
        self._target = (stream, topic)
        self._batches = batches
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="producer", daemon=True)

    def start(self) -> Producer:
        self._thread.start()
        return self

    @property
    def is_done(self) -> bool:
        """Everything is sent, or it was stopped. Raises what made it give up."""
        if self.error is not None:
            raise AssertionError(f"the producer gave up: {self.error}") from self.error
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Begin no further batch; returns when the last one is answered or given up."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._send_all())
        except Exception as error:  # noqa: BLE001 -- handed to the main thread, which raises it
            self.error = error

    async def _send_all(self) -> None:
        client = await self._connect()
        for batch in self._batches:
            while not await self._send(client, batch):
                if self._stop.is_set():
                    return
                await asyncio.sleep(RETRY_S)
            if self._stop.is_set():
                return

    async def _connect(self) -> IggyClient:
        """A client that reconnects and logs in again by itself."""
        retry = TcpReconnectionConfig(
            interval=timedelta(seconds=RETRY_S), reestablish_after=timedelta(0)
        )
        client = IggyClient(
            TcpConfig(
                server_address=self._login.address,
                auto_login=AutoLogin.username_password(self._login.username, self._login.password),
                reconnection=retry,
                heartbeat_interval=HEARTBEAT,
                nodelay=True,
            )
        )
        await client.connect()
        return client

    async def _send(self, client: IggyClient, batch: Batch) -> bool:
        key = Partitioning.messages_key(batch.key)
        messages = [SendMessage(payload) for payload in batch.payloads]
        try:
            answer = await client.send_messages(*self._target, key, messages)
        except RuntimeError:
            # The link broke: whether it was stored, nobody told us.
            self.unanswered.update(batch.payloads)
            return False
        (landed,) = answer.confirmations
        for place, payload in enumerate(batch.payloads):
            self.note((landed.partition_id, landed.base_offset + place), payload)
        return True

    def note(self, at: Place, payload: bytes) -> None:
        """A message is acknowledged."""
        assert at not in self.acknowledged, f"{at} was given to two messages"
        self.acknowledged[at] = payload


def official_read(login: Login, stream: str, topic: str, partitions: int) -> dict[Place, bytes]:
    """All that a topic holds, as the released client reads it."""

    async def run() -> dict[Place, bytes]:
        client = IggyClient(TcpConfig(server_address=login.address))
        await client.connect()
        await client.login_user(login.username, login.password)
        found: dict[Place, bytes] = {}
        for partition in range(partitions):
            first = 0
            while polled := await client.poll_messages(
                stream,
                topic,
                consumer=Consumer.Single("reader"),
                polling_strategy=PollingStrategy.Offset(first),
                count=READ_AT_ONCE,
                auto_commit=False,
                partition_id=partition,
            ):
                found |= {(partition, one.offset()): one.payload() for one in polled}
                first = polled[-1].offset() + 1
        return found

    return asyncio.run(run())


@contextmanager
def producing(producer: Producer) -> Iterator[Producer]:
    """For the length of a block."""
    try:
        yield producer.start()
    finally:
        producer.stop()


def numbered(keys: int, rows: int = 100) -> Iterator[Batch]:
    """Batches without an end: rows {"id": …}, each id once, for a topic of `id BIGINT`."""
    batch = 0
    while True:
        first = batch * rows
        yield Batch(f"k{batch % keys}", [b'{"id": %d}' % (first + row) for row in range(rows)])
        batch += 1


def login_of(kubectl: Kubectl, secret: str, address: str) -> Login:
    """With the Secret of an IggyUser, or of a broker's root."""
    data = kubectl.get("secret", secret)["data"]
    username, password = (base64.b64decode(data[key]).decode() for key in ("username", "password"))
    return Login(address, username, password)


def service_address(kubectl: Kubectl, service: str, port: int = 8090) -> str:
    """Address inside the cluster, which stays when the pod goes: for a machine that is a node."""
    return f"{kubectl.get('service', service)['spec']['clusterIP']}:{port}"

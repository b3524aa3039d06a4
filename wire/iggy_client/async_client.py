"""The client for asyncio: one connection, one request at a time; others wait for their turn.

Stream, topic, group and consumer arguments are numbers or names. A refusal raises `ClientError`, a
lost link `LinkError` (a `ConnectionError`), a value that does not fit its field `WireError`.
Nothing is retried on a new connection by itself: call `reconnect()` when that is right.
"""

import asyncio
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self, TypeVar

from iggy_client import calls
from iggy_client.access import AsyncAccessMethods
from iggy_client.async_link import AsyncLink
from iggy_client.calls import ConsumerLike, OptionsLike
from iggy_client.errors import ClientError, LinkError, SessionLostError
from iggy_client.membership import AsyncMembershipMethods
from iggy_client.session import (
    RETRY_PAUSE_S,
    Call,
    Session,
    login_request,
    logout_request,
    token_request,
)
from iggy_client.tls import Tls
from iggy_wire import batch as batches
from iggy_wire.batch import Message
from iggy_wire.buffer import Buffer
from iggy_wire.primitives import IdentifierLike, Partitioning, PollingStrategy
from iggy_wire.replies import (
    ClientDetails,
    Cluster,
    Confirmation,
    Group,
    GroupDetails,
    LoginReply,
    Polled,
    Stats,
    StoredOffset,
    Stream,
    StreamDetails,
    TopicDetails,
    TopicHeader,
)
from iggy_wire.request_base import Request
from iggy_wire.requests import Login, LoginWithToken

__all__ = ["AsyncClient", "Message", "Polled"]

TIMEOUT_S = 30.0  # as other Iggy clients of protocol 0.11

T = TypeVar("T")


class AsyncClient(AsyncAccessMethods, AsyncMembershipMethods):
    """A connection to one Iggy server. Tasks may share it: they take turns.

    When the server ends the session (`SessionLostError`) or the link breaks (`LinkError`), the
    connection closes; `reconnect()` makes a new one. So does a task cancelled while it waits.
    """

    def __init__(self, link: AsyncLink, timeout_s: float, tls: Tls | None = None) -> None:
        """Made by `open` and `connect`."""
        self._timeout_s = timeout_s
        self._tls = tls
        self._link = link
        self._session = Session()
        self._credentials: Login | LoginWithToken | None = None
        self._turn = asyncio.Lock()

    @classmethod
    async def open(
        cls, address: str, *, timeout_s: float = TIMEOUT_S, tls: Tls | None = None
    ) -> Self:
        """Connect to `HOST:PORT` without logging in. `tls` None: unencrypted."""
        return cls(await AsyncLink.open(address, timeout_s, tls), timeout_s, tls)

    @classmethod
    async def connect(
        cls,
        address: str,
        username: str,
        password: str,
        *,
        timeout_s: float = TIMEOUT_S,
        tls: Tls | None = None,
    ) -> Self:
        """Connect to `HOST:PORT` and log in."""
        client = await cls.open(address, timeout_s=timeout_s, tls=tls)
        try:
            await client.login(username, password)
        except BaseException:
            await client.close()
            raise
        return client

    async def __aenter__(self) -> Self:
        """The client itself; closed at the end of the block."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        await self.close()

    @property
    def is_open(self) -> bool:
        """Whether the connection can be used. It closes itself at every `LinkError`."""
        return self._link.is_open

    async def close(self) -> None:
        """Close the connection, which ends the session too. May be repeated."""
        self._link.close()
        await self._link.wait_closed()

    def trust(self, tls: Tls) -> None:
        """From the next `reconnect` on; the connection that is open goes on."""
        self._tls = tls

    async def reconnect(self) -> None:
        """A new connection and a new session, logged in as before."""
        async with self._turn:
            await self.close()
            self._link = await AsyncLink.open(self._link.address, self._timeout_s, self._tls)
            self._session = Session()
        if self._credentials is not None:
            await self._login(self._credentials)

    async def login(self, username: str, password: str, *, context: str = "") -> LoginReply:
        """Begin a session by name and password. `context` tells the server who this is."""
        return await self._login(login_request(username, password, context))

    async def login_with_token(self, token: str, *, context: str = "") -> LoginReply:
        """Begin a session by personal access token."""
        return await self._login(token_request(token, context))

    async def logout(self) -> None:
        """End the session; the connection stays."""
        await self._exchange(logout_request())
        self._credentials = None

    async def call(self, call: Call[T]) -> T:
        """Any command of `iggy_client.calls`; the methods below are short for this."""
        return call.read(await self._exchange(call.request))

    async def ping(self) -> None:
        """Whether the server is there."""
        await self.call(calls.ping())

    async def get_stats(self) -> Stats:
        """How the server is doing."""
        return await self.call(calls.get_stats())

    async def get_cluster_metadata(self) -> Cluster:
        """Which nodes there are."""
        return await self.call(calls.get_cluster_metadata())

    async def get_me(self) -> ClientDetails:
        """How the server sees this connection."""
        return await self.call(calls.get_me())

    async def get_streams(self) -> tuple[Stream, ...]:
        """All streams."""
        return await self.call(calls.get_streams())

    async def get_stream(self, stream: IdentifierLike) -> StreamDetails | None:
        """One stream with its topics; None if there is none."""
        return await self.call(calls.get_stream(stream))

    async def create_stream(self, name: str) -> Stream:
        """A new stream."""
        return await self.call(calls.create_stream(name))

    async def update_stream(self, stream: IdentifierLike, name: str) -> None:
        """Rename a stream."""
        await self.call(calls.update_stream(stream, name))

    async def delete_stream(self, stream: IdentifierLike) -> None:
        """Remove a stream with everything in it."""
        await self.call(calls.delete_stream(stream))

    async def purge_stream(self, stream: IdentifierLike) -> None:
        """Remove all messages and stored offsets of a stream."""
        await self.call(calls.purge_stream(stream))

    async def get_topics(self, stream: IdentifierLike) -> tuple[TopicHeader, ...]:
        """All topics of a stream; none if there is no such stream."""
        return await self.call(calls.get_topics(stream))

    async def get_topic(self, stream: IdentifierLike, topic: IdentifierLike) -> TopicDetails | None:
        """One topic with its partitions; None if there is none."""
        return await self.call(calls.get_topic(stream, topic))

    async def create_topic(
        self, stream: IdentifierLike, name: str, partitions_count: int, options: OptionsLike = ()
    ) -> TopicDetails:
        """A new topic. `options`: a mapping such as `{"durability": "persisted"}`."""
        return await self.call(calls.create_topic(stream, name, partitions_count, options))

    async def update_topic(
        self, stream: IdentifierLike, topic: IdentifierLike, name: str, options: OptionsLike = ()
    ) -> None:
        """A new name (or the same) and new values for the options given."""
        await self.call(calls.update_topic(stream, topic, name, options))

    async def delete_topic(self, stream: IdentifierLike, topic: IdentifierLike) -> None:
        """Remove a topic with everything in it."""
        await self.call(calls.delete_topic(stream, topic))

    async def purge_topic(self, stream: IdentifierLike, topic: IdentifierLike) -> None:
        """Remove all messages and stored offsets of a topic."""
        await self.call(calls.purge_topic(stream, topic))

    async def create_partitions(
        self, stream: IdentifierLike, topic: IdentifierLike, count: int
    ) -> None:
        """Add `count` partitions."""
        await self.call(calls.create_partitions(stream, topic, count))

    async def delete_partitions(
        self, stream: IdentifierLike, topic: IdentifierLike, count: int
    ) -> None:
        """Remove the `count` highest partitions with their messages."""
        await self.call(calls.delete_partitions(stream, topic, count))

    async def send_batch(
        self, stream: IdentifierLike, topic: IdentifierLike, partition_id: int, batch: Buffer
    ) -> int | None:
        """Append a ready batch; the offset of its first message. None: see `send`."""
        target = Partitioning.partition(partition_id)
        landed = await self.call(calls.send_batch(stream, topic, target, batch))
        return None if landed is None else landed.base_offset

    async def send(
        self,
        stream: IdentifierLike,
        topic: IdentifierLike,
        partitioning: Partitioning,
        messages: Sequence[Message],
    ) -> Confirmation | None:
        """Append messages as one batch; where it landed. Who has no id gets a random one.

        None: the topic leaves out what it has already, and has all of them.
        """
        origin_us = time.time_ns() // 1000
        batch = batches.build(calls.with_ids(messages), origin_timestamp_us=origin_us)
        return await self.call(calls.send_batch(stream, topic, partitioning, batch))

    async def poll(  # noqa: PLR0913 -- one argument per field of the command
        self,
        stream: IdentifierLike,
        topic: IdentifierLike,
        partition_id: int | None,
        *,
        consumer: ConsumerLike = 0,
        strategy: PollingStrategy | None = None,
        count: int,
        auto_commit: bool = False,
    ) -> Polled:
        """Up to `count` messages as whole batches, not decoded. Without `strategy`: the next ones.

        `region` has memory of its own.
        """
        return await self.call(
            calls.poll(
                stream,
                topic,
                partition_id,
                consumer=consumer,
                strategy=strategy or PollingStrategy.next(),
                count=count,
                auto_commit=auto_commit,
            )
        )

    async def store_offset(
        self,
        consumer: ConsumerLike,
        stream: IdentifierLike,
        topic: IdentifierLike,
        partition_id: int,
        offset: int,
    ) -> None:
        """The consumer is done with everything up to and including `offset`."""
        await self.call(calls.store_offset(consumer, stream, topic, partition_id, offset))

    async def get_offset(
        self,
        consumer: ConsumerLike,
        stream: IdentifierLike,
        topic: IdentifierLike,
        partition_id: int,
    ) -> StoredOffset | None:
        """What a consumer has stored; None if nothing."""
        return await self.call(calls.get_offset(consumer, stream, topic, partition_id))

    async def delete_offset(
        self,
        consumer: ConsumerLike,
        stream: IdentifierLike,
        topic: IdentifierLike,
        partition_id: int,
    ) -> None:
        """Forget what a consumer has stored."""
        await self.call(calls.delete_offset(consumer, stream, topic, partition_id))

    async def create_group(
        self, stream: IdentifierLike, topic: IdentifierLike, name: str
    ) -> GroupDetails:
        """A new consumer group."""
        return await self.call(calls.create_group(stream, topic, name))

    async def get_group(
        self, stream: IdentifierLike, topic: IdentifierLike, group: IdentifierLike
    ) -> GroupDetails | None:
        """One consumer group with its members; None if there is none."""
        return await self.call(calls.get_group(stream, topic, group))

    async def get_groups(self, stream: IdentifierLike, topic: IdentifierLike) -> tuple[Group, ...]:
        """All consumer groups of a topic."""
        return await self.call(calls.get_groups(stream, topic))

    async def delete_group(
        self, stream: IdentifierLike, topic: IdentifierLike, group: IdentifierLike
    ) -> None:
        """Remove a consumer group."""
        await self.call(calls.delete_group(stream, topic, group))

    async def _login(self, request: Login | LoginWithToken) -> LoginReply:
        if self._session.number:  # a login on top of another would keep the first one's session
            await self._exchange(logout_request())
        login = LoginReply.decode(await self._exchange(request))
        self._credentials = request
        return login

    async def _exchange(self, request: Request) -> memoryview:
        async with self._turn:
            pending = self._session.start(request)
            started = time.monotonic()
            while True:
                frame = await self._link.exchange(pending.parts)
                try:
                    return self._session.finish(pending, frame)
                except ClientError as error:
                    if time.monotonic() - started >= pending.retries_for_s(error):
                        self._drop_after(error)
                        raise
                except LinkError:
                    self._link.close()
                    raise
                await asyncio.sleep(RETRY_PAUSE_S)

    def _drop_after(self, error: ClientError) -> None:
        """An eviction may have come unasked, with the reply still behind it."""
        if isinstance(error, SessionLostError):
            self._link.close()

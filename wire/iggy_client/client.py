"""The blocking client: one connection, one request at a time, the calling thread waits.

Stream, topic, group and consumer arguments are numbers or names. A refusal raises `ClientError`, a
lost link `LinkError` (a `ConnectionError`), a value that does not fit its field `WireError`.
Nothing is retried on a new connection by itself: call `reconnect()` when that is right.
"""

import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self, TypeVar

from iggy_client import calls
from iggy_client.access import AccessMethods
from iggy_client.calls import ConsumerLike, OptionsLike
from iggy_client.errors import ClientError, LinkError, SessionLostError
from iggy_client.link import Link
from iggy_client.membership import MembershipMethods
from iggy_client.session import (
    RETRY_PAUSE_S,
    Call,
    Pending,
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

__all__ = ["Client", "Message", "Polled"]

TIMEOUT_S = 30.0  # as other Iggy clients of protocol 0.11

T = TypeVar("T")


class Client(AccessMethods, MembershipMethods):
    """A connection to one Iggy server. Not for use by two threads at a time.

    When the server ends the session (`SessionLostError`) or the link breaks (`LinkError`), the
    connection closes; `reconnect()` makes a new one.
    """

    def __init__(
        self,
        address: str,
        *,
        timeout_s: float = TIMEOUT_S,
        reuse_memory: bool = False,
        tls: Tls | None = None,
    ) -> None:
        """Connect, without logging in. Most callers want `Client.connect`. `tls` None: unencrypted.

        `reuse_memory`: what `poll` returned is valid only until the next call. Faster for those who
        are done with one reply before they ask for the next.
        """
        self._timeout_s = timeout_s
        self._reuse_memory = reuse_memory
        self._tls = tls
        self._link = Link(address, timeout_s, tls)
        self._session = Session()
        self._credentials: Login | LoginWithToken | None = None

    @classmethod
    def connect(
        cls,
        address: str,
        username: str,
        password: str,
        *,
        timeout_s: float = TIMEOUT_S,
        reuse_memory: bool = False,
        tls: Tls | None = None,
    ) -> Self:
        """Connect to `HOST:PORT` and log in."""
        client = cls(address, timeout_s=timeout_s, reuse_memory=reuse_memory, tls=tls)
        try:
            client.login(username, password)
        except BaseException:
            client.close()
            raise
        return client

    def __enter__(self) -> Self:
        """The client itself; closed at the end of the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()

    @property
    def is_open(self) -> bool:
        """Whether the connection can be used. It closes itself at every `LinkError`."""
        return self._link.is_open

    def close(self) -> None:
        """Close the connection, which ends the session too. May be repeated."""
        self._link.close()

    def trust(self, tls: Tls) -> None:
        """From the next `reconnect` on; the connection that is open goes on."""
        self._tls = tls

    def reconnect(self) -> None:
        """A new connection and a new session, logged in as before."""
        self.close()
        self._link = Link(self._link.address, self._timeout_s, self._tls)
        self._session = Session()
        if self._credentials is not None:
            self._login(self._credentials)

    def login(self, username: str, password: str, *, context: str = "") -> LoginReply:
        """Begin a session by name and password. `context` tells the server who this is."""
        return self._login(login_request(username, password, context))

    def login_with_token(self, token: str, *, context: str = "") -> LoginReply:
        """Begin a session by personal access token."""
        return self._login(token_request(token, context))

    def logout(self) -> None:
        """End the session; the connection stays."""
        self._exchange(logout_request())
        self._credentials = None

    def call(self, call: Call[T]) -> T:
        """Any command of `iggy_client.calls`; the methods below are short for this."""
        return call.read(self._exchange(call.request))

    def ping(self) -> None:
        """Whether the server is there."""
        self.call(calls.ping())

    def get_stats(self) -> Stats:
        """How the server is doing."""
        return self.call(calls.get_stats())

    def get_cluster_metadata(self) -> Cluster:
        """Which nodes there are."""
        return self.call(calls.get_cluster_metadata())

    def get_me(self) -> ClientDetails:
        """How the server sees this connection."""
        return self.call(calls.get_me())

    def get_streams(self) -> tuple[Stream, ...]:
        """All streams."""
        return self.call(calls.get_streams())

    def get_stream(self, stream: IdentifierLike) -> StreamDetails | None:
        """One stream with its topics; None if there is none."""
        return self.call(calls.get_stream(stream))

    def create_stream(self, name: str) -> Stream:
        """A new stream."""
        return self.call(calls.create_stream(name))

    def update_stream(self, stream: IdentifierLike, name: str) -> None:
        """Rename a stream."""
        self.call(calls.update_stream(stream, name))

    def delete_stream(self, stream: IdentifierLike) -> None:
        """Remove a stream with everything in it."""
        self.call(calls.delete_stream(stream))

    def purge_stream(self, stream: IdentifierLike) -> None:
        """Remove all messages and stored offsets of a stream."""
        self.call(calls.purge_stream(stream))

    def get_topics(self, stream: IdentifierLike) -> tuple[TopicHeader, ...]:
        """All topics of a stream; none if there is no such stream."""
        return self.call(calls.get_topics(stream))

    def get_topic(self, stream: IdentifierLike, topic: IdentifierLike) -> TopicDetails | None:
        """One topic with its partitions; None if there is none."""
        return self.call(calls.get_topic(stream, topic))

    def create_topic(
        self, stream: IdentifierLike, name: str, partitions_count: int, options: OptionsLike = ()
    ) -> TopicDetails:
        """A new topic. `options`: a mapping such as `{"durability": "persisted"}`."""
        return self.call(calls.create_topic(stream, name, partitions_count, options))

    def update_topic(
        self, stream: IdentifierLike, topic: IdentifierLike, name: str, options: OptionsLike = ()
    ) -> None:
        """A new name (or the same) and new values for the options given."""
        self.call(calls.update_topic(stream, topic, name, options))

    def delete_topic(self, stream: IdentifierLike, topic: IdentifierLike) -> None:
        """Remove a topic with everything in it."""
        self.call(calls.delete_topic(stream, topic))

    def purge_topic(self, stream: IdentifierLike, topic: IdentifierLike) -> None:
        """Remove all messages and stored offsets of a topic."""
        self.call(calls.purge_topic(stream, topic))

    def create_partitions(self, stream: IdentifierLike, topic: IdentifierLike, count: int) -> None:
        """Add `count` partitions."""
        self.call(calls.create_partitions(stream, topic, count))

    def delete_partitions(self, stream: IdentifierLike, topic: IdentifierLike, count: int) -> None:
        """Remove the `count` highest partitions with their messages."""
        self.call(calls.delete_partitions(stream, topic, count))

    def send_batch(
        self, stream: IdentifierLike, topic: IdentifierLike, partition_id: int, batch: Buffer
    ) -> int | None:
        """Append a ready batch; the offset of its first message. The bytes are not copied.

        None: the topic leaves out what it has already, and has all of it.
        """
        target = Partitioning.partition(partition_id)
        landed = self.call(calls.send_batch(stream, topic, target, batch))
        return None if landed is None else landed.base_offset

    def send(
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
        return self.call(calls.send_batch(stream, topic, partitioning, batch))

    def poll(  # noqa: PLR0913 -- one argument per field of the command
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

        `region` has memory of its own, except with `reuse_memory`: then until the next call.
        """
        return self.call(
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

    def store_offset(
        self,
        consumer: ConsumerLike,
        stream: IdentifierLike,
        topic: IdentifierLike,
        partition_id: int,
        offset: int,
    ) -> None:
        """The consumer is done with everything up to and including `offset`."""
        self.call(calls.store_offset(consumer, stream, topic, partition_id, offset))

    def get_offset(
        self,
        consumer: ConsumerLike,
        stream: IdentifierLike,
        topic: IdentifierLike,
        partition_id: int,
    ) -> StoredOffset | None:
        """What a consumer has stored; None if nothing."""
        return self.call(calls.get_offset(consumer, stream, topic, partition_id))

    def delete_offset(
        self,
        consumer: ConsumerLike,
        stream: IdentifierLike,
        topic: IdentifierLike,
        partition_id: int,
    ) -> None:
        """Forget what a consumer has stored."""
        self.call(calls.delete_offset(consumer, stream, topic, partition_id))

    def create_group(
        self, stream: IdentifierLike, topic: IdentifierLike, name: str
    ) -> GroupDetails:
        """A new consumer group."""
        return self.call(calls.create_group(stream, topic, name))

    def get_group(
        self, stream: IdentifierLike, topic: IdentifierLike, group: IdentifierLike
    ) -> GroupDetails | None:
        """One consumer group with its members; None if there is none."""
        return self.call(calls.get_group(stream, topic, group))

    def get_groups(self, stream: IdentifierLike, topic: IdentifierLike) -> tuple[Group, ...]:
        """All consumer groups of a topic."""
        return self.call(calls.get_groups(stream, topic))

    def delete_group(
        self, stream: IdentifierLike, topic: IdentifierLike, group: IdentifierLike
    ) -> None:
        """Remove a consumer group."""
        self.call(calls.delete_group(stream, topic, group))

    def _login(self, request: Login | LoginWithToken) -> LoginReply:
        if self._session.number:  # a login on top of another would keep the first one's session
            self._exchange(logout_request())
        login = LoginReply.decode(self._exchange(request))
        self._credentials = request
        return login

    def _exchange(self, request: Request) -> memoryview:
        pending = self._session.start(request)
        started = time.monotonic()
        return self._answer(pending, self._link.exchange(pending.parts), started)

    def _answer(self, pending: Pending, frame: memoryview, started: float) -> memoryview:
        """What `frame` answers; `pending` is sent again for as long as it may be."""
        while True:
            if not self._reuse_memory:
                frame = self._link.keep(frame)
            try:
                return self._session.finish(pending, frame)
            except ClientError as error:
                if time.monotonic() - started >= pending.retries_for_s(error):
                    self._drop_after(error)
                    raise
                time.sleep(RETRY_PAUSE_S)
            except LinkError:
                self.close()
                raise
            frame = self._link.exchange(pending.parts)

    def _drop_after(self, error: ClientError) -> None:
        """An eviction may have come unasked, with the reply still behind it."""
        if isinstance(error, SessionLostError):
            self.close()


def messages(polled: Polled) -> Iterable[Message]:
    """The messages of a poll, one by one: convenient, not fast."""
    return batches.messages(polled.region)

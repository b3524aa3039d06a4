"""One broker connection per worker process, and calls on it that outlive a lost broker.

Only this module, `membership` and `start_mark` talk to the broker. Spark's Python workers live on
across batches, so the cache below is hit by every task after the first.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, TypeVar

from iggy_client import Client, ClientError, SessionLostError, calls
from iggy_client.ahead import AheadClient
from iggy_client.session import Call
from iggy_spark.errors import BrokerRefused, BrokerUnavailable, CorruptReply
from iggy_spark.login import Login
from iggy_spark.offsets import OFFSET_MAX, Incarnation, Kept, TopicState
from iggy_spark.options import ReadOptions
from iggy_spark.selection import TopicName
from iggy_wire import kernel
from iggy_wire.errors import ErrorCode, WireError
from iggy_wire.primitives import EXPIRY_NEVER, Consumer, PollingStrategy
from iggy_wire.replies import Polled, TopicDetails

T = TypeVar("T")

CONNECTIONS_MAX = 8  # per process; the oldest is closed when a ninth is wanted
CONNECT_TIMEOUT_S = 10.0
PAUSE_FIRST_S, PAUSE_LAST_S = 0.05, 2.0  # between attempts to reach a lost broker
READER_NAME = "iggy-spark"  # the plain consumer that polls; it never stores an offset

_TRANSIENT = frozenset(
    (ErrorCode.TRANSIENT_NOT_COMMITTED, ErrorCode.TRANSIENT_NOT_ACCEPTED, ErrorCode.STALE_CLIENT)
)
_LOGIN = frozenset(
    (
        ErrorCode.INVALID_CREDENTIALS,
        ErrorCode.UNAUTHENTICATED,
        ErrorCode.INVALID_PERSONAL_ACCESS_TOKEN,
        ErrorCode.PERSONAL_ACCESS_TOKEN_EXPIRED,
    )
)
_clients: dict[tuple[object, ...], AheadClient] = {}


class Reach(Protocol):
    """How a broker is reached: part of the options of readers, and of those of writers."""

    @property
    def servers(self) -> tuple[str, ...]:
        """`host:port` of each, at least one."""

    @property
    def login(self) -> Login:
        """Who calls."""

    @property
    def retry_timeout_ms(self) -> int:
        """How long a lost broker is tried again."""


class Calls:
    """Calls through the process's one connection with this login, for this use."""

    def __init__(self, reach: Reach, *, use: str = "read") -> None:
        """Connects at the first call, and again after a loss. What one use was answered lies in
        memory that its next call overwrites, so each use has a connection of its own.
        """
        self._reach = reach
        self._key = (os.getpid(), reach.servers, reach.login, use)

    def call(self, work: Callable[[Client], T]) -> T:
        """The result of `work`, which is done again whenever the broker was lost meanwhile.

        Raises:
            BrokerRefused: the broker said no.
            BrokerUnavailable: not reached within `retryTimeoutMs`.
            CorruptReply: it spoke nonsense.
        """
        return retrying(self._reach, lambda: work(self._client()), drop=self._drop)

    @property
    def link(self) -> object | None:
        """The connection as it is: another object after a loss, None as long as there is none."""
        return _clients.get(self._key)

    def ask(self, call: Call[T]) -> Callable[[], T]:
        """Send a command that may be done twice; what this returns waits for its answer.

        Raises, when the answer is taken: as `call`.
        """
        asked, answer = _clients.get(self._key), None
        if asked is not None:
            with suppress(OSError):  # a lost broker shows again when the answer is taken
                answer = asked.ask(call)

        def take(client: Client) -> T:
            return answer() if answer is not None and client is asked else client.call(call)

        return lambda: self.call(take)

    def _client(self) -> AheadClient:
        client = _clients.get(self._key)
        if client is None:
            client = connect(self._reach, reuse_memory=True)
            while len(_clients) >= CONNECTIONS_MAX:
                _clients.pop(next(iter(_clients))).close()
            _clients[self._key] = client
        return client

    def _drop(self) -> None:
        client = _clients.pop(self._key, None)
        if client is not None:
            client.close()


class Connection(Calls):
    """What the readers ask of a broker, for the one topic that their options name."""

    def __init__(self, options: ReadOptions) -> None:
        """Connects at the first call, and again after a loss."""
        super().__init__(options)
        self._options = options

    def topic_state(self) -> TopicState:
        """Incarnation and partition ends.

        Raises:
            BrokerRefused: no such stream or topic, or no permission.
            BrokerUnavailable: not reached within `retryTimeoutMs`.
        """
        options = self._options
        found = self.find_topic()
        if found is None:
            raise BrokerRefused(
                f"topic {options.topic!r} in stream {options.stream!r} does not exist on "
                f"{','.join(options.servers)}: check the names, or create it first"
            )
        return found

    def find_topic(self) -> TopicState | None:
        """The same; None if there is no such topic."""
        options = self._options
        found = self.call(lambda client: client.get_topic(options.stream, options.topic))
        if found is None:
            return None
        # Iggy protocol 0.11: the current offset is that of the last message, and 0 both for an
        # empty partition and for one with a single message.
        ends = {
            item.id: item.current_offset + 1 if item.messages_count or item.current_offset else 0
            for item in found.partitions
        }
        expiry_us = found.topic.message_expiry_us
        return TopicState(
            options.topic_name,
            incarnation_of(found),
            dict(sorted(ends.items())),
            {item.id: Kept(item.messages_count, item.size_bytes) for item in found.partitions},
            expiry_us=expiry_us if 0 < expiry_us < EXPIRY_NEVER else None,
        )

    def earliest(self, partition: int) -> int | None:
        """Offset of the oldest message that is kept; None if there is none."""
        return self._first(partition, PollingStrategy.first())

    def at_time(self, partition: int, timestamp_us: int) -> int | None:
        """Offset of the first message that was taken at or after a time; None if there is none."""
        return self._first(partition, PollingStrategy.timestamp(timestamp_us))

    def _first(self, partition: int, strategy: PollingStrategy) -> int | None:
        polled = self.poll(partition, strategy, count=1)
        if not polled.count:
            return None
        columns = kernel.columns(polled.region, 0, OFFSET_MAX)
        return int.from_bytes(columns.offsets[:8], "little")

    def taken_us(self, partition: int, offset: int) -> int | None:
        """When the broker took a message, microseconds since 1970; None if it is not there."""
        polled = self.poll(partition, PollingStrategy.offset(offset), count=1)
        # Iggy protocol 0.11: a poll below the oldest message silently starts at that one.
        columns = kernel.columns(polled.region, offset, offset + 1)
        return int.from_bytes(columns.timestamps_us[:8], "little") if columns.count else None

    def message_bytes(self, partition: int, offset: int, *, count: int) -> float | None:
        """Size of a message as it is on the wire, of `count` from `offset` on; None without any."""
        polled = self.poll(partition, PollingStrategy.offset(offset), count=count)
        return len(polled.region) / polled.count if polled.count else None

    def poll(self, partition: int, strategy: PollingStrategy, *, count: int) -> Polled:
        """Messages of one partition; stores no offset."""
        call = self._poll(partition, strategy, count)
        return self.call(lambda client: client.call(call))

    def ask_poll(
        self, partition: int, strategy: PollingStrategy, *, count: int
    ) -> Callable[[], Polled]:
        """The same, asked now and answered when what this returns is called."""
        return self.ask(self._poll(partition, strategy, count))

    def _poll(self, partition: int, strategy: PollingStrategy, count: int) -> Call[Polled]:
        return calls.poll(
            self._options.stream,
            self._options.topic,
            partition,
            consumer=Consumer.plain(READER_NAME),
            strategy=strategy,
            count=count,
            auto_commit=False,
        )

    def stored(self, group: str, partition: int) -> int | None:
        """Offset of the last message that `group` is done with; None if nothing is stored.

        Reading needs no membership. Who cannot join stores as a plain consumer of the same name.
        """
        found = self.stored_by(Consumer.group(group), partition)
        return self.stored_by(Consumer.plain(group), partition) if found is None else found

    def stored_by(self, consumer: Consumer, partition: int) -> int | None:
        """The same for one kind of consumer."""
        options = self._options
        found = self.call(
            lambda client: client.get_offset(consumer, options.stream, options.topic, partition)
        )
        return None if found is None else found.stored_offset

    def store_plain(self, consumer: str, partition: int, offset: int | None) -> None:
        """Say what a plain consumer is done with; None forgets it."""
        target = (Consumer.plain(consumer), self._options.stream, self._options.topic, partition)
        self.call(lambda client: move_offset(client, *target, offset))

    def forget_group(self, group: str) -> None:
        """Delete a consumer group, unless it has members or is not there."""
        options = self._options

        def work(client: Client) -> None:
            found = client.get_group(options.stream, options.topic, group)
            if found is not None and not found.group.members_count:
                client.delete_group(options.stream, options.topic, group)

        self.call(work)


def topic_names(reach: Reach) -> list[TopicName]:
    """All topics that this login may see.

    Raises:
        BrokerRefused, BrokerUnavailable, CorruptReply: as `Calls.call`.
    """

    def look(client: Client) -> list[TopicName]:
        return [
            TopicName(stream.name, topic.name)
            for stream in client.get_streams()
            for topic in client.get_topics(stream.id)
        ]

    return Calls(reach).call(look)


def connect(options: Reach, *, reuse_memory: bool = False) -> AheadClient:
    """A new connection to the first server that answers, logged in.

    Raises:
        ClientError: the login is refused.
        OSError: none answers.
    """
    failure: OSError | None = None
    for server in options.servers:
        try:
            return _logged_in(server, options.login, reuse_memory=reuse_memory)
        except OSError as error:
            failure = error
    assert failure is not None, "options hold at least one server"
    raise failure


def _logged_in(server: str, login: Login, *, reuse_memory: bool) -> AheadClient:
    secret = login.read()
    tls = None if login.tls is None else login.tls.read()
    client = AheadClient(server, timeout_s=CONNECT_TIMEOUT_S, reuse_memory=reuse_memory, tls=tls)
    try:
        if isinstance(secret, str):
            client.login_with_token(secret, context=login.client_name)
        else:
            client.login(*secret, context=login.client_name)
    except BaseException:
        client.close()
        raise
    return client


def move_offset(
    client: Client, consumer: Consumer, stream: str, topic: str, partition: int, offset: int | None
) -> None:
    """Store the last offset that a consumer is done with, or forget that there is one."""
    if offset is not None:
        client.store_offset(consumer, stream, topic, partition, offset)
        return
    try:
        client.delete_offset(consumer, stream, topic, partition)
    except ClientError as error:
        if error.code != ErrorCode.CONSUMER_OFFSET_NOT_FOUND:
            raise


def incarnation_of(topic: TopicDetails) -> Incarnation:
    """Which life of a topic this is."""
    return Incarnation(topic.topic.id, topic.topic.created_at_us)


def retrying(options: Reach, attempt: Callable[[], T], *, drop: Callable[[], None]) -> T:
    """Run `attempt`, after a loss `drop` and run it again, for as long as `retryTimeoutMs` allows.

    Raises:
        BrokerRefused: the broker said no.
        BrokerUnavailable: it was lost and did not come back in time.
        CorruptReply: it spoke nonsense.
    """
    deadline = time.monotonic() + options.retry_timeout_ms / 1000
    pause_s = PAUSE_FIRST_S
    while True:
        try:
            return attempt()
        except ClientError as error:
            ended = isinstance(error, SessionLostError) and error.code not in _LOGIN
            if error.code not in _TRANSIENT and not ended:
                raise BrokerRefused(_refusal(options, error)) from error
            reason: Exception = error
        except WireError as error:
            raise CorruptReply(f"{_where(options)}: {error}") from error
        except OSError as error:
            reason = error
        drop()
        if time.monotonic() + pause_s > deadline:
            waited = f"within {options.retry_timeout_ms / 1000:g} s"
            raise BrokerUnavailable(
                f"{_where(options)} was not reached {waited}: {reason or type(reason).__name__}"
            ) from reason
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, PAUSE_LAST_S)


def _where(options: Reach) -> str:
    return f"broker {','.join(options.servers)}"


def _refusal(options: Reach, error: ClientError) -> str:
    if error.code in _LOGIN:
        return f"{_where(options)} refuses the login: check username and password, or the token"
    return f"{_where(options)} refuses: {error}"


def close_all() -> None:
    """Close the connections of this process."""
    while _clients:
        _clients.popitem()[1].close()

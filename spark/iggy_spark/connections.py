"""One broker connection per worker process, and calls on it that outlive a lost broker.

The only module that talks to the broker. Spark's Python workers live on across batches, so the
cache below is hit by every task after the first.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

from iggy_client import Client, ClientError, SessionLostError
from iggy_spark.errors import BrokerRefused, BrokerUnavailable, CorruptReply
from iggy_spark.offsets import OFFSET_MAX, Incarnation, TopicState
from iggy_spark.options import ReadOptions
from iggy_wire import kernel
from iggy_wire.errors import ErrorCode, WireError
from iggy_wire.primitives import Consumer, PollingStrategy
from iggy_wire.replies import Polled

T = TypeVar("T")

CONNECTIONS_MAX = 8  # per process; the oldest is closed when a ninth is wanted
CONNECT_TIMEOUT_S = 10.0
PAUSE_FIRST_S, PAUSE_LAST_S = 0.05, 2.0  # between attempts to reach a lost broker
READER_NAME = "iggy-spark"  # the plain consumer that polls; it never stores an offset

_TRANSIENT = frozenset(
    (ErrorCode.TRANSIENT_NOT_COMMITTED, ErrorCode.TRANSIENT_NOT_ACCEPTED, ErrorCode.STALE_CLIENT)
)
_LOGIN = frozenset((ErrorCode.INVALID_CREDENTIALS, ErrorCode.UNAUTHENTICATED))
_clients: dict[tuple[object, ...], Client] = {}


class Connection:
    """What the readers ask of a broker, for the one topic that their options name."""

    def __init__(self, options: ReadOptions) -> None:
        """Connects at the first call, and again after a loss."""
        self._options = options
        self._key = (os.getpid(), options.servers, options.login)

    def topic_state(self) -> TopicState:
        """Incarnation and partition ends.

        Raises:
            BrokerRefused: no such stream or topic, or no permission.
            BrokerUnavailable: not reached within `retryTimeoutMs`.
        """
        options = self._options
        found = self._call(lambda client: client.get_topic(options.stream, options.topic))
        if found is None:
            raise BrokerRefused(
                f"topic {options.topic!r} in stream {options.stream!r} does not exist on "
                f"{','.join(options.servers)}: check the names, or create it first"
            )
        # Iggy protocol 0.11: the current offset is that of the last message, and 0 both for an
        # empty partition and for one with a single message.
        ends = {
            item.id: item.current_offset + 1 if item.messages_count or item.current_offset else 0
            for item in found.partitions
        }
        incarnation = Incarnation(found.topic.id, found.topic.created_at_us)
        return TopicState(options.topic_name, incarnation, dict(sorted(ends.items())))

    def earliest(self, partition: int) -> int | None:
        """Offset of the oldest message that is kept; None if there is none."""
        polled = self.poll(partition, PollingStrategy.first(), count=1)
        if not polled.count:
            return None
        columns = kernel.columns(polled.region, 0, OFFSET_MAX)
        return int.from_bytes(columns.offsets[:8], "little")

    def poll(self, partition: int, strategy: PollingStrategy, *, count: int) -> Polled:
        """Messages of one partition; stores no offset."""
        options = self._options
        return self._call(
            lambda client: client.poll(
                options.stream,
                options.topic,
                partition,
                consumer=Consumer.plain(READER_NAME),
                strategy=strategy,
                count=count,
                auto_commit=False,
            )
        )

    def stored(self, consumer: str, partition: int) -> int | None:
        """Offset of the last message that `consumer` is done with; None if nothing is stored."""
        options = self._options
        found = self._call(
            lambda client: client.get_offset(
                Consumer.plain(consumer), options.stream, options.topic, partition
            )
        )
        return None if found is None else found.stored_offset

    def store(self, consumer: str, partition: int, offset: int) -> None:
        """Say that `consumer` is done with everything up to and including `offset`."""
        options = self._options
        self._call(
            lambda client: client.store_offset(
                Consumer.plain(consumer), options.stream, options.topic, partition, offset
            )
        )

    def _call(self, work: Callable[[Client], T]) -> T:
        """Run `work`, connecting anew as long as the broker is lost and time is left."""
        deadline = time.monotonic() + self._options.retry_timeout_ms / 1000
        pause_s = PAUSE_FIRST_S
        while True:
            try:
                return work(self._client())
            except ClientError as error:
                ended = isinstance(error, SessionLostError) and error.code not in _LOGIN
                if error.code not in _TRANSIENT and not ended:
                    raise BrokerRefused(self._refusal(error)) from error
                reason: Exception = error
            except WireError as error:
                raise CorruptReply(f"{self._where()}: {error}") from error
            except OSError as error:
                reason = error
            self._drop()
            if time.monotonic() + pause_s > deadline:
                waited = f"within {self._options.retry_timeout_ms / 1000:g} s"
                raise BrokerUnavailable(
                    f"{self._where()} was not reached {waited}: {reason or type(reason).__name__}"
                ) from reason
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_LAST_S)

    def _client(self) -> Client:
        client = _clients.get(self._key)
        if client is None:
            client = self._connect()
            while len(_clients) >= CONNECTIONS_MAX:
                _clients.pop(next(iter(_clients))).close()
            _clients[self._key] = client
        return client

    def _connect(self) -> Client:
        username, password = self._options.login.read()
        failure: OSError | None = None
        for server in self._options.servers:
            try:
                return Client.connect(
                    server, username, password, timeout_s=CONNECT_TIMEOUT_S, reuse_memory=True
                )
            except OSError as error:
                failure = error
        assert failure is not None, "options hold at least one server"
        raise failure

    def _drop(self) -> None:
        client = _clients.pop(self._key, None)
        if client is not None:
            client.close()

    def _where(self) -> str:
        return f"broker {','.join(self._options.servers)}"

    def _refusal(self, error: ClientError) -> str:
        if error.code in _LOGIN:
            return f"{self._where()} refuses the login: check username and password"
        return f"{self._where()} refuses: {error}"


def close_all() -> None:
    """Close the connections of this process."""
    while _clients:
        _clients.popitem()[1].close()

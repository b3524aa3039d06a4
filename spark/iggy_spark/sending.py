"""Sending columns of messages to any topic, without Spark: for writers, copies and dead letters.

    receipts = []                               # where everything is that was acknowledged
    sender = Sender(options, on_receipt=receipts.append)     # servers, login, ...: see `Reach`
    messages = Outgoing.of(payloads, ids=ids, headers=headers)       # Arrow arrays
    sender.send("shop", "orders", messages, partitions=3)            # all into partition 3
    sender.send("shop", "orders", messages, partitions=column)       # int32 per row, null: any
    sender.send("shop", "orders", messages, keys=column)             # by the hash of a key
    sender.send("shop", "orders", messages)                          # the broker takes turns

`send` returns when the broker has acknowledged every message. A lost broker is retried for
`retry_timeout_ms` with the very same bytes, so with the same ids: a message whose answer was lost
can be there twice, and is recognised by its id.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iggy_client import Client, ClientError, LinkError, LinkTimeoutError, calls
from iggy_spark import encode
from iggy_spark.connections import Calls, Reach
from iggy_spark.encode import Outgoing
from iggy_spark.errors import BadRow, BrokerRefused
from iggy_wire.errors import ErrorCode
from iggy_wire.primitives import Partitioning, partition_of_key
from iggy_wire.replies import Confirmation

__all__ = ["Outgoing", "Receipt", "Sender"]

BATCH_BYTES = 1 << 20
BATCH_MESSAGES = 1000
KEY_BYTES_MAX = 255  # Iggy protocol 0.11
BREAKS_MAX = 5  # of the connection by one request, from a broker that answers all others
_BALANCED = -1  # in a column of targets

_EXISTS = frozenset((ErrorCode.STREAM_NAME_ALREADY_EXISTS, ErrorCode.TOPIC_NAME_ALREADY_EXISTS))

Rows = np.ndarray[Any, np.dtype[np.int64]]


class Receipt(NamedTuple):
    """Where one request landed: offsets of its first and its last message."""

    stream: str
    topic: str
    partition: int
    first: int
    last: int


class Sender:
    """Sends over the process's one connection with this login. Not for two threads at a time."""

    def __init__(
        self,
        reach: Reach,
        *,
        batch_bytes: int = BATCH_BYTES,
        batch_messages: int = BATCH_MESSAGES,
        on_receipt: Callable[[Receipt], None] | None = None,
    ) -> None:
        """Connects at the first call. A request has at most `batch_messages`, and `batch_bytes`
        unless a single message has more. `on_receipt` is told of each one that is acknowledged.
        """
        self._calls = Calls(reach, use="write")
        self._batch_bytes = batch_bytes
        self._batch_messages = batch_messages
        self._on_receipt = on_receipt

    def send(
        self,
        stream: str,
        topic: str,
        messages: Outgoing,
        *,
        partitions: int | pa.Array | None = None,
        keys: pa.Array | None = None,
    ) -> None:
        """Append all messages; those of one partition in their order.

        `partitions`: one for all, or one per message, where null leaves it to the broker. `keys`:
        binary or string of 1 to 255 bytes per message, where null leaves it to the broker; the same
        key goes to the same partition as with every Iggy client.

        Raises:
            BadRow: a key is too long or empty, or a partition is not there. Nothing was sent.
            BrokerRefused: no such stream or topic, no permission, the message is too big.
            BrokerUnavailable: not reached within `retry_timeout_ms`. What was acknowledged stays.
        """
        if keys is not None and partitions is not None:
            raise ValueError("keys and partitions exclude each other")
        if isinstance(partitions, int):
            self._send_all(stream, topic, Partitioning.partition(partitions), messages)
        elif partitions is None and keys is None:
            self._send_all(stream, topic, Partitioning.balanced(), messages)
        elif len(messages):
            count = self.partitions_count(stream, topic)
            if keys is not None:
                targets = partitions_of_keys(keys, count)
            else:
                targets = _checked_partitions(partitions, count, f"{stream}/{topic}")
            for target, rows in groups(targets):
                partitioning = (
                    Partitioning.balanced() if target < 0 else Partitioning.partition(target)
                )
                chosen = messages if rows is None else messages.take(rows)
                self._send_all(stream, topic, partitioning, chosen)

    def partitions_count(self, stream: str, topic: str) -> int:
        """How many partitions the topic has now.

        Raises:
            BrokerRefused: no such stream or topic, or no permission.
        """
        found = self._calls.call(lambda client: client.get_topic(stream, topic))
        if found is None:
            raise BrokerRefused(
                f"topic {topic!r} in stream {stream!r} does not exist: check the names, or create "
                "it first"
            )
        if not found.partitions:
            raise BrokerRefused(f"topic {topic!r} in stream {stream!r} has no partition: add some")
        return len(found.partitions)

    def ensure_topic(
        self,
        stream: str,
        topic: str,
        partitions_count: int,
        topic_options: Mapping[str, int | str] | None = None,
    ) -> None:
        """Make the topic, and its stream, if they are missing; one that is there stays as it is.

        Raises:
            BrokerRefused: no permission, or a value that the broker does not take.
        """
        self._calls.call(
            lambda client: _ensure(client, stream, topic, partitions_count, topic_options or {})
        )

    def _send_all(
        self, stream: str, topic: str, partitioning: Partitioning, messages: Outgoing
    ) -> None:
        for part in encode.requests(
            messages, bytes_max=self._batch_bytes, count_max=self._batch_messages
        ):
            data = encode.batch(part, origin_timestamp_us=time.time_ns() // 1000)
            receipt = self._send_one(stream, topic, partitioning, data, len(part))
            if self._on_receipt is not None and receipt is not None:
                self._on_receipt(receipt)

    def _send_one(
        self, stream: str, topic: str, partitioning: Partitioning, data: bytearray, count: int
    ) -> Receipt | None:
        """None: the topic has all of it already, and leaves it out."""
        request = calls.send_batch(stream, topic, partitioning, data)
        breaks = 0

        def attempt(client: Client) -> Confirmation | None:
            nonlocal breaks
            try:
                return client.call(request)
            except LinkTimeoutError:
                raise
            except LinkError as error:
                breaks += _answers(client)
                if breaks == BREAKS_MAX:
                    raise BrokerRefused(_too_large(f"{stream}/{topic}", data, count)) from error
                raise

        landed = self._calls.call(attempt)
        if landed is None:
            return None
        first = landed.base_offset
        return Receipt(stream, topic, landed.partition_id, first, first + count - 1)


def _answers(client: Client) -> bool:
    """Whether the broker is there, just after it broke the connection."""
    try:
        client.reconnect()
        client.ping()
    except (OSError, ClientError):
        return False
    return True


def _too_large(topic: str, data: bytearray, count: int) -> str:
    # A broker closes the connection on a frame above its limit, and nowhere tells the limit.
    what = f"a message that takes {len(data)}" if count == 1 else f"{count} messages of {len(data)}"
    fix = "leave it out" if count == 1 else "lower batchBytes"
    return (
        f"the broker closes the connection whenever {what} bytes are sent to {topic}, so they are "
        f"more than its limit, message_bus.max_message_size: raise that, or {fix}"
    )


def partitions_of_keys(keys: pa.Array, count: int) -> Rows:
    """The partition of each key, -1 for a null.

    Raises:
        BadRow: a key has not 1 to 255 bytes.
    """
    encoded = keys.cast(encode.BYTES).dictionary_encode()
    distinct = encoded.dictionary.to_pylist()
    for key in distinct:
        if not 1 <= len(key) <= KEY_BYTES_MAX:
            raise BadRow(f"key has {len(key)} bytes, a key takes 1 to {KEY_BYTES_MAX}: change it")
    targets = np.array([partition_of_key(key, count) for key in distinct], dtype=np.int64)
    chosen = pa.array(targets, pa.int64()).take(encoded.indices)
    rows: Rows = pc.fill_null(chosen, _BALANCED).to_numpy()
    return rows


def _checked_partitions(partitions: pa.Array, count: int, topic: str) -> Rows:
    least, most = pc.min_max(partitions).as_py().values()
    if least is not None and (least < 0 or most >= count):
        wrong = least if least < 0 else most
        raise BadRow(
            f"partition {wrong} is not there: {topic} has {count}, counted from 0: change it"
        )
    rows: Rows = pc.fill_null(partitions.cast(pa.int64()), _BALANCED).to_numpy()
    return rows


def groups(targets: Rows) -> Iterator[tuple[int, Rows | None]]:
    """Each target with its rows in their order; rows None: all of them."""
    if len(targets) and (targets == targets[0]).all():
        yield int(targets[0]), None
        return
    order = np.argsort(targets, kind="stable")
    found, starts = np.unique(targets[order], return_index=True)
    for target, rows in zip(found, np.split(order, starts[1:]), strict=True):
        yield int(target), rows


def _ensure(
    client: Client, stream: str, topic: str, partitions_count: int, options: Mapping[str, int | str]
) -> None:
    if client.get_topic(stream, topic) is not None:
        return
    try:
        client.create_topic(stream, topic, partitions_count, options)
    except ClientError as error:
        if error.code == ErrorCode.STREAM_ID_NOT_FOUND:
            _create(lambda: client.create_stream(stream))
            _create(lambda: client.create_topic(stream, topic, partitions_count, options))
        elif error.code not in _EXISTS:
            raise


def _create(make: Callable[[], object]) -> None:
    """Make something, or find that another task was faster."""
    try:
        make()
    except ClientError as error:
        if error.code not in _EXISTS:
            raise

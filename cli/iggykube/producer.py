"""Messages collected into batches, sent, and counted when they were acknowledged."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from iggy_client.client import Client, Message
from iggy_client.errors import ClientError, LinkError
from iggy_client.keep_alive import KeptAlive
from iggy_wire.errors import ErrorCode
from iggy_wire.primitives import Partitioning, partition_of_key
from iggykube.connection import BrokerProblem
from iggykube.option_types import KEY_BYTES_MAX
from iggykube.records import InputProblem

PARTITIONS_REFRESH_S: Final = 5.0
"""So long may a topic that got more partitions see keys in their former ones."""

Route: TypeAlias = Callable[[bytes], Partitioning]
"""Where a message goes, by its payload."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When a batch goes out: whichever is reached first."""

    messages: int
    size_bytes: int
    linger_s: float


class Offsets(msgspec.Struct):
    """The first and the last offset that a partition gave to our messages."""

    first: int
    last: int


class Report(msgspec.Struct):
    """What became of the messages."""

    acknowledged: int = 0
    """Messages that the broker has confirmed."""
    acknowledged_bytes: int = 0
    """Of their payloads."""
    unanswered: int = 0
    """Messages that were sent and got no answer: they are there or not."""
    left_out: int = 0
    """Empty lines: a message has at least one byte."""
    is_interrupted: bool = msgspec.field(default=False, name="interrupted")
    partitions: dict[int, Offsets] = {}
    error: str = ""

    def told(self) -> str:
        """For people, in one line."""
        parts = [f"{_messages(self.acknowledged)} acknowledged"]
        if self.unanswered:
            parts.append(f"{_messages(self.unanswered)} sent without an answer")
        if self.left_out:
            lines = "1 empty line" if self.left_out == 1 else f"{self.left_out:,} empty lines"
            parts.append(f"{lines} left out")
        return ", ".join(parts)


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count:,} messages"


class Producer:
    """One topic's batches. Holds at most one batch, or one message that is larger."""

    def __init__(self, kept: KeptAlive, stream: str, topic: str, limits: Limits) -> None:
        """Sends nothing yet."""
        self.report = Report(partitions={})
        self._kept = kept
        self._place = stream, topic
        self._limits = limits
        self._waiting: dict[Partitioning, list[Message]] = {}
        self._count = 0
        self._bytes = 0
        self._due_s: float | None = None

    def due_in_s(self) -> float | None:
        """How long what is collected may still wait; None if there is nothing."""
        return None if self._due_s is None else max(0.0, self._due_s - time.monotonic())

    def add(self, message: Message, partitioning: Partitioning) -> None:
        """Collect a message; send what is full. Raises BrokerProblem."""
        size_bytes = len(message.payload) + len(message.headers)
        if self._count and self._bytes + size_bytes > self._limits.size_bytes:
            self.flush()
        self._waiting.setdefault(partitioning, []).append(message)
        self._count += 1
        self._bytes += size_bytes
        self._due_s = self._due_s or time.monotonic() + self._limits.linger_s
        if self._count >= self._limits.messages or self._bytes >= self._limits.size_bytes:
            self.flush()

    def flush_if_due(self) -> None:
        """Send what has waited long enough. Raises BrokerProblem."""
        if self._due_s is not None and time.monotonic() >= self._due_s:
            self.flush()

    def flush(self) -> None:
        """Send everything, and wait for the answers. Raises BrokerProblem."""
        waiting, self._waiting = self._waiting, {}
        self._count, self._bytes, self._due_s = 0, 0, None
        for partitioning, messages in waiting.items():
            self._send(partitioning, messages)

    def _send(self, partitioning: Partitioning, messages: list[Message]) -> None:
        report = self.report
        report.unanswered = len(messages)
        try:
            with self._kept.use() as client:
                landed = client.send(*self._place, partitioning, messages)
        except ClientError as error:
            report.unanswered = 0
            raise BrokerProblem(str(error)) from error
        except LinkError as error:
            raise BrokerProblem(str(error)) from error
        report.unanswered = 0
        report.acknowledged += len(messages)
        report.acknowledged_bytes += sum(len(message.payload) for message in messages)
        if landed is None:  # the topic has all of them already
            return
        last = landed.base_offset + len(messages) - 1
        known = report.partitions.setdefault(landed.partition_id, Offsets(landed.base_offset, last))
        known.last = last


class KeyField:
    """Routes by a field of JSON payloads: equal values go to one partition, in their order.

    The partition is computed here, so that messages of many keys travel in one batch. Who may send
    and may not look at the topic sends a batch for each key, and the broker does the same.
    """

    def __init__(self, kept: KeptAlive, stream: str, topic: str, field: str) -> None:
        """Asks nothing yet."""
        self._kept = kept
        self._place = stream, topic
        self._field = field
        self._partitions_count: int | None = None
        self._due_s = 0.0

    def __call__(self, payload: bytes) -> Partitioning:
        """Where a payload goes. Raises InputProblem if the field is missing, and BrokerProblem."""
        key = _key_of(payload, self._field)
        if time.monotonic() >= self._due_s:
            with self._kept.use() as client:
                self._partitions_count = _partitions_count(client, *self._place)
            self._due_s = time.monotonic() + PARTITIONS_REFRESH_S
        if self._partitions_count is None:
            return Partitioning.key(key)
        return Partitioning.partition(partition_of_key(key, self._partitions_count))


def _partitions_count(client: Client, stream: str, topic: str) -> int | None:
    """None: this user may not know. Raises BrokerProblem."""
    try:
        details = client.get_topic(stream, topic)
    except (ClientError, LinkError) as error:
        if isinstance(error, ClientError) and error.code == ErrorCode.UNAUTHORIZED:
            return None
        raise BrokerProblem(str(error)) from error
    if details is None:
        raise BrokerProblem(f"there is no topic {stream}/{topic}: create it first")
    if not details.topic.partitions_count:
        raise BrokerProblem(f"topic {stream}/{topic} has no partitions: add one first")
    return details.topic.partitions_count


def _key_of(payload: bytes, field: str) -> bytes:
    """The key in a payload: a text as it is, anything else as JSON writes it."""
    try:
        value: Any = msgspec.json.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputProblem(f"--key-field {field!r}: this is not JSON: {error}") from error
    found = value.get(field) if isinstance(value, dict) else None
    if found is None or isinstance(found, dict | list):
        raise InputProblem(f"--key-field {field!r}: no text, number or truth value of that name")
    key = found.encode() if isinstance(found, str) else msgspec.json.encode(found)
    if not 1 <= len(key) <= KEY_BYTES_MAX:
        expected = f"must have 1 to {KEY_BYTES_MAX} bytes, has {len(key)}"
        raise InputProblem(f"--key-field {field!r}: its value {expected}")
    return key

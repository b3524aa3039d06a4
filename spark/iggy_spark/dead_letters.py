"""Dead letters: messages that cannot be written, kept byte for byte in a topic of their own.

A dead letter is the message itself with its own headers, and headers `iggy.dlq.…` that say where it
was and what is wrong with it. Its id is a hash of sink and place: a batch that is repeated sends
the same letter again, and whoever reads it knows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from iggy_spark import arrow
from iggy_spark.connections import Reach
from iggy_spark.encode import Outgoing
from iggy_spark.job_config import JobConfig
from iggy_spark.messages import ID_BYTES, Messages
from iggy_spark.sending import Sender
from iggy_spark.sinks.base import Refusal
from iggy_wire.kernel_types import HEADERS_BYTES_MAX
from iggy_wire.options import Option, Value, ValueKind, options_bytes

PREFIX: Final = "iggy.dlq."
VALUE_BYTES_MAX: Final = 255  # of a header; Iggy protocol 0.11
PARTITIONS: Final = 1  # of a topic that is made for dead letters
EXPIRY_US: Final = 30 * 24 * 3600 * 1_000_000  # and how long it keeps them
HELD_MAX: Final = 10_000  # letters of a task that wait for the others; then they are sent


NO_ATTEMPTS: Final[Mapping[bytes, int]] = MappingProxyType({})
NO_JOB: Final[Mapping[str, Value]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Letter:
    """One message and what is wrong with it."""

    payload: bytes
    id: bytes
    headers: bytes


class DeadLetters:
    """Collects letters and sends them to a topic."""

    def __init__(
        self, reach: Reach, *, stream: str, topic: str, sink: str, job: Mapping[str, Value] = NO_JOB
    ) -> None:
        """`sink` is the sink's name, `job` what else letters tell of who sets messages aside.
        Connects when the first letters are sent.
        """
        self._sender, self._job = Sender(reach), job
        self._stream, self._topic = stream, topic
        self._held: list[Letter] = []
        self.sink = sink
        self.attempts: dict[bytes, int] = {}
        """How often a letter, by its id, was tried before. Filled by who redrives them."""

    @classmethod
    def of(cls, config: JobConfig, reach: Reach, *, batch: int | None = None) -> DeadLetters | None:
        """Where bad messages of a job go; None if its settings name no place. `batch` is the one
        whose messages they are.
        """
        block = config.sink.errors.dead_letter
        if block is None:
            return None
        known = {"sink_uid": config.uid, "batch": batch, "job_version": version("iggykube")}
        return cls(
            reach,
            stream=block.stream or config.stream,
            topic=block.topic,
            sink=config.name,
            job={name: value for name, value in known.items() if value is not None},
        )

    def make_topic(self) -> None:
        """Make the topic if it is missing.

        Raises:
            BrokerRefused: it is missing, and this user may not make it.
        """
        options = {"message_expiry": EXPIRY_US}
        self._sender.ensure_topic(self._stream, self._topic, PARTITIONS, options)

    def add(self, messages: Messages, refusals: Sequence[Refusal]) -> None:
        """Take letters of some messages; they are sent later, or now if there are many."""
        found = letters(messages, refusals, sink=self.sink, attempts=self.attempts, job=self._job)
        self.take(found)

    def take(self, ready: Iterable[Letter]) -> None:
        """Take letters as they are."""
        self._held += ready
        if len(self._held) >= HELD_MAX:
            self.send()

    def send(self) -> None:
        """Send what was collected. All of it is acknowledged when this returns.

        Raises:
            BrokerRefused: the topic is missing, or this user may not send to it.
            BrokerUnavailable: the broker is away.
        """
        if not self._held:
            return
        outgoing = Outgoing.of(
            pa.array([letter.payload for letter in self._held], pa.large_binary()),
            ids=pa.array([letter.id for letter in self._held], pa.large_binary()),
            headers=pa.array([letter.headers for letter in self._held], pa.large_binary()),
        )
        self._sender.send(self._stream, self._topic, outgoing)
        self._held = []


def letters(
    messages: Messages,
    refusals: Sequence[Refusal],
    *,
    sink: str,
    attempts: Mapping[bytes, int] = NO_ATTEMPTS,
    job: Mapping[str, Value] = NO_JOB,
) -> Iterator[Letter]:
    """The letters of refused messages; `attempts` and `job` as those of `DeadLetters`."""
    if not refusals:
        return
    row_of = {offset: row for row, offset in enumerate(messages.offsets)}
    rows = [row_of[bad.offset] for bad in refusals]
    payloads = arrow.payloads(messages.columns).take(pa.array(rows, pa.int64())).to_pylist()
    for row, bad, payload in zip(rows, refusals, payloads, strict=True):
        name = letter_id(sink, messages, bad.offset)
        attempt = attempts.get(name, 0) + 1
        context = {**_context(messages, row, bad), "sink": sink, **job, "attempt": attempt}
        yield Letter(payload, name, _headers(messages.raw_headers(row), context))


def letter_id(sink: str, messages: Messages, offset: int) -> bytes:
    """The same for one message of one sink, whenever it is set aside."""
    place = f"{sink}\n{messages.incarnation}\n{messages.partition}\n{offset}"
    return hashlib.blake2b(place.encode(), digest_size=ID_BYTES).digest()


def _context(messages: Messages, row: int, bad: Refusal) -> dict[str, Value]:
    found: dict[str, Value] = {
        "stream": messages.stream,
        "topic": messages.topic,
        "partition": messages.partition,
        "offset": bad.offset,
        "timestamp": messages.timestamps_us[row],
        "id": messages.ids[row],
        "incarnation": messages.incarnation,
        "origin_timestamp": messages.origin_timestamps_us[row],
        "stage": bad.stage,
        "error_class": bad.kind,
        "error": bad.message,
    }
    if bad.transform is not None:
        found["transform_index"] = bad.transform
    return found


def _headers(own: bytes, context: dict[str, Value]) -> bytes:
    """The message's own headers, then ours. Own ones that leave no room are left out, and said."""
    ours = options_bytes(tuple(_option(name, value) for name, value in context.items()))
    if len(own) + len(ours) <= HEADERS_BYTES_MAX:
        return own + ours
    return ours + options_bytes((_option("headers_left_out", True),))


def _option(name: str, value: Value) -> Option:
    if isinstance(value, bool):
        return Option.of(PREFIX + name, value, ValueKind.BOOL)
    if isinstance(value, int):
        return Option.of(PREFIX + name, value, ValueKind.UINT64)
    # An empty value is none to the protocol; a long one is cut between two characters.
    text = str(value).encode()[:VALUE_BYTES_MAX].decode(errors="ignore") or "-"
    return Option.of(PREFIX + name, text)

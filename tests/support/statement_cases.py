"""How an answer told its outcome, and places to try statements in."""

from __future__ import annotations

import uuid
from typing import NamedTuple

from iggy_client.client import Client
from iggy_wire.batch import Message, build
from iggy_wire.codes import is_result_framed
from iggy_wire.header import EvictionHeader, EvictionReason
from iggy_wire.primitives import Identifier, Partitioning
from iggy_wire.request_base import Request
from iggy_wire.results import split_result
from raw_frames import Header, RawClient

TOPIC = "t"
PARTITIONS = 4  # both shards own some


class Outcome(NamedTuple):
    """Where an answer says how it went, and the number there; 0: a success."""

    where: str  # "status", "result", "eviction"
    code: int


def outcome(header: Header, body: bytes) -> Outcome:
    """The outcome of an answer, and that a refusal has nothing else in its body."""
    if isinstance(header, EvictionHeader):
        return Outcome("eviction", header.reason)
    if header.status:
        assert body == b"", "a refusal by status has no body"
        return Outcome("status", header.status)
    if not is_result_framed(header.operation, len(body)):
        return Outcome("status", 0)
    code, rest = split_result(body)
    assert not code or not rest
    return Outcome("result", code)


def asked(raw: RawClient, request: Request) -> Outcome:
    """The outcome of one request."""
    return outcome(*raw.ask(request))


def denied(code: int) -> Outcome:
    """A refusal by the status word."""
    return Outcome("status", code)


def rejected(code: int) -> Outcome:
    """A refusal as the outcome of a change."""
    return Outcome("result", code)


def evicted(reason: EvictionReason) -> Outcome:
    """The end of a session."""
    return Outcome("eviction", reason)


def new_name(what: str = "stated") -> str:
    """A name that nobody has."""
    return f"{what}-{uuid.uuid4().hex[:8]}"


def new_stream(client: Client, *, partitions: int = PARTITIONS, **options: object) -> str:
    """A stream with a topic `t`; its name."""
    stream = new_name()
    client.create_stream(stream)
    client.create_topic(stream, TOPIC, partitions, options)  # type: ignore[arg-type]
    return stream


def send(client: Client, stream: str, partition: int, *payloads: bytes, topic: str = TOPIC) -> int:
    """Send one batch; the offset of its first message."""
    sent = [Message(payload) for payload in payloads]
    return client.send(stream, topic, Partitioning.partition(partition), sent).base_offset


def batch_of(*payloads: bytes) -> bytes:
    """A batch as a producer sends it."""
    return bytes(build([Message(payload) for payload in payloads], origin_timestamp_us=1))


def ids(*values: int | str) -> tuple[Identifier, ...]:
    """The same as identifiers."""
    return tuple(Identifier(value) for value in values)

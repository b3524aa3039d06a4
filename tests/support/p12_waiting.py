"""A P12 client with requests that wait at the broker, and a topic for it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, Self

from iggy_broker.metadata.placement import pack, shard_of
from iggy_client.client import Client
from iggy_wire.batch import Message, build, messages
from iggy_wire.codes import Command, Operation
from iggy_wire.dialect import P12_2, Dialect
from iggy_wire.header import PartitionContext
from iggy_wire.primitives import Consumer, Identifier, Partitioning, PollingStrategy
from iggy_wire.replies_waiting import Fetched
from iggy_wire.request_base import Request
from iggy_wire.requests import PollMessages, SendMessages
from iggy_wire.requests_waiting import (
    CancelDeferred,
    FetchMessages,
    FetchTarget,
    GetPartitionRoute,
    PollMessagesDeferred,
)
from p12_client import Answer, P12Client

LONG_US = 60_000_000  # no test waits so long
SHORT_US = 20_000
PARTITIONS = 4
TOPIC = Identifier("orders")


class WaitingClient(P12Client):
    """Root, who reads and writes one topic."""

    def __init__(self, port: int, stream: str, dialect: Dialect = P12_2) -> None:
        super().__init__(port, dialect)
        self.stream = Identifier(stream)
        self.lives: dict[int, int] = {}

    def __enter__(self) -> Self:
        self.login()
        return self

    def begin(self, request: Request, life: int = 0, number: int | None = None) -> int:
        """Send a request and do not wait for its answer: its number."""
        if number is None:
            self.number += 1
            number = self.number
        body = request.encode()
        header = self.raw.header(
            Operation.NON_REPLICATED, body, code=request.command, request=number,
            session=self.raw.session,
        )  # fmt: skip
        context = PartitionContext(life).encode()
        self.raw.send(header.encode()[:200] + context + bytes(32) + body)
        return number

    def cancel(self, number: int) -> None:
        self.begin(CancelDeferred(), number=number)

    def answers(self, count: int) -> dict[int, Answer]:
        """The next answers, by number."""
        found = [self.answer() for _ in range(count)]
        assert len({one.header.request for one in found}) == count
        return {one.header.request: one for one in found}

    def life(self, partition_id: int) -> int:
        """The incarnation of a partition."""
        if partition_id not in self.lives:
            route = self.read(GetPartitionRoute(self.stream, TOPIC, partition_id))
            self.lives[partition_id] = route.incarnation
        return self.lives[partition_id]

    def append(self, partition_id: int, *payloads: bytes) -> None:
        batch = bytes(build([Message(one) for one in payloads], origin_timestamp_us=1))
        where = Partitioning.partition(partition_id)
        send = SendMessages(self.stream, TOPIC, where, len(payloads), batch)
        assert not self.ask(send, PartitionContext(self.life(partition_id))).code

    def poll(  # noqa: PLR0913 -- fields of the request
        self,
        partition_id: int,
        *,
        strategy: PollingStrategy = PollingStrategy.next(),  # noqa: B008 -- frozen
        wait_us: int = LONG_US,
        least: int = 1,
        max_bytes: int = 1 << 20,
        auto_commit: bool = False,
        consumer: Consumer = Consumer.plain(1),  # noqa: B008 -- frozen
    ) -> int:
        """Begin a poll that waits: its number."""
        poll = PollMessages(consumer, self.stream, TOPIC, partition_id, strategy, 100, auto_commit)
        timeout_us = wait_us + 10_000_000
        request = PollMessagesDeferred(poll, wait_us, least, max_bytes, timeout_us)
        return self.begin(request, self.life(partition_id))

    def target(self, partition_id: int, **changes: Any) -> FetchTarget:
        right = {"strategy": PollingStrategy.next(), "max_bytes": 1 << 20} | changes
        if "incarnation" not in changes:
            right["incarnation"] = self.life(partition_id)
        return FetchTarget(partition_id, owner_generation=0, **right)

    def fetch(
        self,
        targets: Sequence[FetchTarget],
        *,
        wait_us: int = LONG_US,
        least: int = 1,
        count: int = 100,
        max_bytes: int = 1 << 20,
        auto_commit: bool = False,
    ) -> int:
        """Begin a fetch: its number."""
        request = FetchMessages(
            Consumer.plain(1), self.stream, TOPIC, wait_us, wait_us + 10_000_000, least, count,
            max_bytes, auto_commit, tuple(targets),
        )  # fmt: skip
        return self.begin(request)


def payloads_of(answer: Answer) -> list[bytes]:
    """What a poll brought."""
    assert not answer.code, answer.code
    polled = P12_2.replies[Command.POLL_MESSAGES].decode(answer.payload)
    found = [bytes(one.payload) for one in messages(polled.region)]  # type: ignore[attr-defined]
    assert len(found) == polled.count  # type: ignore[attr-defined]
    return found


def fetched(answer: Answer) -> tuple[Fetched, dict[int, list[bytes]]]:
    """What a fetch brought, and its payloads by partition."""
    assert not answer.code, answer.code
    reply, found, at = Fetched.decode(answer.payload), {}, 0
    for section in reply.sections:
        region = bytes(reply.records)[at : at + section.records_bytes]
        at += section.records_bytes
        found[section.partition_id] = [bytes(one.payload) for one in messages(region)]
        assert len(found[section.partition_id]) == section.messages_count
    return reply, found


def new_stream(admin: Client) -> str:
    """A stream with the topic, of whose partitions each of two shards owns some."""
    owners: set[int] = set()
    while owners != {0, 1}:
        name = f"stream-{uuid.uuid4().hex[:8]}"
        number = admin.create_stream(name).id
        owners = {shard_of(pack(number, 0, partition), 2) for partition in range(PARTITIONS)}
    admin.create_topic(name, str(TOPIC), PARTITIONS)
    return name

"""A load generator that costs little: prebuilt frames, blocking sockets, one process per client.

A client is lock-step, as the official ones are: one request in flight. Nothing is decoded but what
must be looked at: the length of a reply, its status, and how many messages a poll brought.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from struct import Struct
from typing import Any

from iggy_bench.processes import PASSWORD, USERNAME
from iggy_wire import batch
from iggy_wire.codes import Command, Operation
from iggy_wire.header import HEADER_BYTES, ReplyHeader, RequestHeader
from iggy_wire.primitives import Consumer, Identifier, Partitioning, PollingStrategy
from iggy_wire.requests_messages import PollMessages, SendMessages
from iggy_wire.requests_system import Login

STREAM = "bench"
PROTOCOL_VERSION = 11 << 10  # 0.11.0, packed
TIMEOUT_S = 60.0
SIZE_AT, RELEASE_AT, REQUEST_AT, USER_AT, STATUS_AT = 48, 56, 168, 192, 216
_U32 = Struct("<I")
_U64 = Struct("<Q")
_POLL_HEAD = Struct("<IQI")
_REPLY_BYTES_MAX = 8 << 20


@dataclass(frozen=True, slots=True)
class Work:
    """What every client does: `requests` times `messages` messages of `payload_bytes` each."""

    requests: int
    messages: int
    payload_bytes: int

    @property
    def payload_total_bytes(self) -> int:
        """Bytes of payload that one client moves."""
        return self.requests * self.messages * self.payload_bytes


@dataclass(frozen=True, slots=True)
class Target:
    """Where one client works. `number` tells the clients of a run apart."""

    port: int
    topic: str
    number: int
    partition_id: int = 0
    bare: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """What one client saw, on a clock that all processes of the machine share."""

    began_s: float
    ended_s: float
    latencies_s: list[float]


class Link:
    """One connection that is logged in (or bare, where there is nobody to log in to)."""

    def __init__(self, target: Target) -> None:
        self._socket = socket.create_connection(("127.0.0.1", target.port), TIMEOUT_S)
        # Blocking for good: a timeout would make every call a poll and a read.
        self._socket.settimeout(None)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._client = os.urandom(16)
        self._session = 0
        self._reply = memoryview(bytearray(_REPLY_BYTES_MAX))
        if not target.bare:
            login = Login(PROTOCOL_VERSION, "bench", "0", USERNAME, PASSWORD)
            self.call(self.frame(Operation.REGISTER, login.encode(), request=0))
            self._session = ReplyHeader.decode(self._reply).op

    def frame(
        self, operation: int, body: bytes | bytearray, *, code: int = 0, request: int = 1
    ) -> bytearray:
        """A whole request frame."""
        header = RequestHeader(
            operation=operation,
            client=self._client,
            size=HEADER_BYTES + len(body),
            request=request,
            session=self._session,
            code=code,
        )
        return bytearray(header.encode() + body)

    def call(self, frame: bytearray) -> memoryview:
        """Send a frame, wait for its reply, return its body, which lives until the next call."""
        self._socket.sendall(frame)
        reply = self._reply
        filled = self._socket.recv_into(reply)
        while filled < HEADER_BYTES:
            filled += self._receive(reply[filled:])
        size = _U32.unpack_from(reply, SIZE_AT)[0]
        if filled < size:
            self._receive(reply[filled:size], all_of_it=True)
        status = _U32.unpack_from(reply, STATUS_AT)[0]
        if status:
            raise RuntimeError(f"the server answered with status {status}")
        return reply[HEADER_BYTES:size]

    def _receive(self, into: memoryview, *, all_of_it: bool = False) -> int:
        count = self._socket.recv_into(into, 0, socket.MSG_WAITALL if all_of_it else 0)
        if not count or (all_of_it and count < len(into)):
            raise ConnectionError("the server closed the connection")
        return count

    def take_socket(self) -> socket.socket:
        """The connection itself, for a caller that drives it in its own way."""
        return self._socket

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


def sealed_batch(messages: int, payload_bytes: int) -> bytearray:
    """A batch as a producer sends it."""
    payload = bytes(payload_bytes)
    one = [batch.Message(payload, id=number + 1) for number in range(messages)]
    return batch.build(one, origin_timestamp_us=time.time_ns() // 1000)


def send_frame(link: Link, target: Target, work: Work) -> bytearray:
    """One whole send, made once and sent again and again."""
    body = SendMessages(
        Identifier(STREAM),
        Identifier(target.topic),
        Partitioning.partition(target.partition_id),
        work.messages,
        sealed_batch(work.messages, work.payload_bytes),
    )
    frame = link.frame(Operation.SEND_MESSAGES, body.encode())
    _U32.pack_into(frame, USER_AT, target.number)  # the bare server names its file by it
    return frame


def produce(target: Target, work: Work, ready: Callable[[], None]) -> Done:
    """Send, wait, send."""
    link = Link(target)
    frame = send_frame(link, target, work)
    latencies_s = []
    ready()
    began = before = time.monotonic()
    for number in range(work.requests):
        _U64.pack_into(frame, REQUEST_AT, number + 1)
        link.call(frame)
        now = time.monotonic()
        latencies_s.append(now - before)
        before = now
    link.close()
    return Done(began, before, latencies_s)


def consume(target: Target, work: Work, ready: Callable[[], None]) -> Done:
    """Poll from the first message on, as many messages a request as were sent in one."""
    link = Link(target)
    poll = PollMessages(
        Consumer.plain(target.number + 1),
        Identifier(STREAM),
        Identifier(target.topic),
        target.partition_id,
        PollingStrategy.offset(0),
        work.messages,
    )
    frame = link.frame(Operation.NON_REPLICATED, poll.encode(), code=Command.POLL_MESSAGES)
    _U32.pack_into(frame, USER_AT, target.number)
    if target.bare:
        one = len(sealed_batch(work.messages, work.payload_bytes))
        _U32.pack_into(frame, RELEASE_AT, one)  # the bare server has no index: tell it
    offset_at = len(frame) - 13  # the offset, count and flag end the body
    latencies_s = []
    ready()
    began = before = time.monotonic()
    for number in range(work.requests):
        _U64.pack_into(frame, offset_at, number * work.messages)
        body = link.call(frame)
        count = _POLL_HEAD.unpack_from(body)[2]
        if count != work.messages:
            raise RuntimeError(f"poll {number} brought {count} messages, not {work.messages}")
        now = time.monotonic()
        latencies_s.append(now - before)
        before = now
    link.close()
    return Done(began, before, latencies_s)


Role = Callable[[Target, Work, Callable[[], None]], Done]


def run_clients(role: Role, targets: Sequence[Target], work: Work) -> list[Done]:
    """One process per target. They connect, wait for each other, and start together."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(len(targets))
    pipes: list[Connection] = []
    clients = []
    for target in targets:
        here, there = context.Pipe(duplex=False)
        client = context.Process(
            target=_client, args=(role, target, work, barrier, there), daemon=True
        )
        client.start()
        there.close()
        pipes.append(here)
        clients.append(client)
    try:
        results = [pipe.recv() for pipe in pipes]
    except EOFError:
        raise RuntimeError("a client of the load generator died: see its traceback above") from None
    finally:
        for client in clients:
            client.join(1)
            if client.is_alive():
                client.terminate()
    return results


def _client(role: Role, target: Target, work: Work, barrier: Any, pipe: Connection) -> None:
    try:
        pipe.send(role(target, work, lambda: barrier.wait(TIMEOUT_S)))
    except BaseException:
        barrier.abort()
        raise
    finally:
        pipe.close()

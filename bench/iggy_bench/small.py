"""Many lock-step producers of small requests, driven by one thread with epoll: 20 µs a request."""

from __future__ import annotations

import select
import socket
import time
from struct import Struct

from iggy_bench.load import (
    REQUEST_AT,
    SIZE_AT,
    STATUS_AT,
    Done,
    Link,
    Target,
    Work,
    send_frame,
)

_U32 = Struct("<I")
_U64 = Struct("<Q")
REPLY_BYTES_MAX = 4096


class _Producer:
    """One connection with one request in flight."""

    __slots__ = ("frame", "number", "sent_s", "socket")

    def __init__(self, target: Target, work: Work) -> None:
        link = Link(target)
        self.socket: socket.socket = link.take_socket()
        self.frame = send_frame(link, target, work)
        self.number = 0
        self.sent_s = 0.0

    def send(self) -> None:
        """The next request. It is small and the connection is idle, so it goes out whole."""
        self.number += 1
        _U64.pack_into(self.frame, REQUEST_AT, self.number)
        self.sent_s = time.monotonic()
        sent = self.socket.send(self.frame)
        assert sent == len(self.frame), "a small request did not fit the socket's buffer"


def produce_many(targets: list[Target], work: Work) -> Done:
    """`work.requests` requests over all connections together."""
    producers = {}
    epoll = select.epoll()
    for target in targets:
        producer = _Producer(target, work)
        producers[producer.socket.fileno()] = producer
        epoll.register(producer.socket, select.EPOLLIN)
    reply = bytearray(REPLY_BYTES_MAX)
    latencies_s: list[float] = []
    left = work.requests
    began = time.monotonic()
    for producer in producers.values():
        producer.send()
        left -= 1
    waiting = len(producers)
    while waiting:
        for fd, _event in epoll.poll(60.0):
            producer = producers[fd]
            _take_reply(producer.socket, reply)
            latencies_s.append(time.monotonic() - producer.sent_s)
            if left:
                producer.send()
                left -= 1
            else:
                waiting -= 1
    ended = time.monotonic()
    for producer in producers.values():
        producer.socket.close()
    return Done(began, ended, latencies_s)


def _take_reply(connection: socket.socket, reply: bytearray) -> None:
    filled = connection.recv_into(reply)
    while filled < STATUS_AT + 4 or filled < _U32.unpack_from(reply, SIZE_AT)[0]:
        count = connection.recv_into(memoryview(reply)[filled:])
        if not count:
            raise ConnectionError("the server closed the connection")
        filled += count
    status = _U32.unpack_from(reply, STATUS_AT)[0]
    if status:
        raise RuntimeError(f"the server answered with status {status}")

"""A client of the protocol up to 0.8, as small as can be: for tests of the broker."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple, Self

from broker_process import PASSWORD, USERNAME
from iggy_wire.codes import Command
from iggy_wire.cursor import name_bytes, text8_bytes, text32_bytes
from iggy_wire.primitives import Consumer, Identifier, Partitioning, PollingStrategy
from iggy_wire.requests import PollMessages
from iggy_wire.v08 import frames

HEADER = Struct("<Q16sQQQIIQ")
V06_HEADER = Struct("<Q16sQQQII")
INDEX = Struct("<IIQ")
TIMEOUT_S = 30.0


class V08Error(Exception):
    """A status that is not 0."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Read(NamedTuple):
    """What of a message a test compares."""

    offset: int
    payload: bytes


class Polled(NamedTuple):
    """The reply to a poll."""

    partition: int
    current_offset: int
    messages: list[Read]


class V08Client:
    """One connection."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Go."""
        self.socket.close()

    def ask(self, code: int, payload: bytes = b"") -> bytes:
        """The payload of the reply. V08Error."""
        self.write(frames.encode_request(code, payload))
        return self.answer()

    def write(self, data: bytes) -> None:
        """Bytes of requests."""
        self.socket.sendall(data)

    def answer(self) -> bytes:
        """Of a request that was sent."""
        status, length = frames.decode_reply_head(self._take(frames.HEAD_BYTES))
        payload = self._take(length)
        if status:
            raise V08Error(status)
        return payload

    def _take(self, length: int) -> bytes:
        found = b""
        while len(found) < length:
            part = self.socket.recv(length - len(found))
            if not part:
                raise ConnectionError(f"closed after {len(found)} of {length} bytes")
            found += part
        return found

    def login(
        self, username: str = USERNAME, password: str = PASSWORD, version: str = "0.10.0"
    ) -> int:
        """The user's id. `version`: of the Rust library, 0.8 in a client of servers up to 0.6."""
        login = name_bytes(username, "user") + text8_bytes(password, "password")
        more = text32_bytes(version, "version") + text32_bytes("", "context")
        return int.from_bytes(self.ask(Command.LEGACY_LOGIN, login + more), "little")

    def send(
        self, stream: str, topic: str, partitioning: Partitioning, payloads: Sequence[bytes]
    ) -> None:
        """Messages without ids, origin times or headers."""
        self.ask(Command.SEND_MESSAGES, send_payload(stream, topic, partitioning, payloads))

    def poll(  # noqa: PLR0913 -- one argument per field
        self,
        stream: str,
        topic: str,
        partition: int | None,
        *,
        consumer: Consumer | None = None,
        strategy: PollingStrategy | None = None,
        count: int = 100,
        auto_commit: bool = False,
    ) -> Polled:
        """As it is asked for."""
        request = PollMessages(
            consumer or Consumer.plain(1),
            Identifier(stream),
            Identifier(topic),
            partition,
            strategy or PollingStrategy.next(),
            count,
            auto_commit,
        )
        return decode_poll(self.ask(Command.POLL_MESSAGES, request.encode()))


def send_payload(
    stream: str, topic: str, partitioning: Partitioning, payloads: Sequence[bytes]
) -> bytes:
    """Of a send."""
    place = Identifier(stream).encode() + Identifier(topic).encode() + partitioning.encode()
    metadata = place + len(payloads).to_bytes(4, "little")
    index, messages = b"", b""
    for payload in payloads:
        messages += HEADER.pack(0, bytes(16), 0, 0, 0, 0, len(payload), 0) + payload
        index += INDEX.pack(0, len(messages), 0)
    return len(metadata).to_bytes(4, "little") + metadata + index + messages


def decode_poll(payload: bytes) -> Polled:
    """The reply to a poll."""
    found = []
    at = 16
    while at < len(payload):
        _, _, offset, _, _, headers_bytes, payload_bytes, _ = HEADER.unpack_from(payload, at)
        at += HEADER.size
        found.append(Read(offset, payload[at : at + payload_bytes]))
        at += payload_bytes + headers_bytes
    partition, current, count = Struct("<IQI").unpack_from(payload)
    assert count == len(found)
    return Polled(partition, current, found)

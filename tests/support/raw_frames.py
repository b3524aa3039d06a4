"""A client that sends exactly the bytes it is told to, right or wrong, and reads whole frames."""

from __future__ import annotations

import secrets
import socket
import struct
from types import TracebackType
from typing import Self

from broker_process import PASSWORD, USERNAME
from iggy_wire.codes import Operation
from iggy_wire.dialect import P11
from iggy_wire.header import (
    HEADER_BYTES,
    EvictionHeader,
    ReplyHeader,
    RequestHeader,
    frame_bytes,
    frame_kind,
)
from iggy_wire.request_base import Request
from iggy_wire.requests import Login
from iggy_wire.results import split_result

ANSWER_S = 10.0  # nothing may stay unanswered for longer

Header = ReplyHeader | EvictionHeader


class RawClient:
    """One connection. `login` first, unless the test is about what happens without."""

    def __init__(self, port: int, *, client: bytes | None = None) -> None:
        self.client = client or secrets.token_bytes(16)
        self.session = 0
        self.request = 0
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.socket.close()

    def login(self, username: str = USERNAME, password: str = PASSWORD) -> Header:
        body = Login(P11.version, "tests", "1", username, password).encode()
        header, payload = self.exchange(Operation.REGISTER, body)
        if isinstance(header, ReplyHeader) and header.status == 0:
            self.session = struct.unpack_from("<Q", split_result(payload)[1], 4)[0]
        return header

    def header(self, operation: int, body: bytes, **fields: int | bytes) -> RequestHeader:
        """A right header for `body`, except for the `fields` given."""
        numbered = operation not in (Operation.REGISTER, Operation.NON_REPLICATED)
        if numbered:
            self.request += 1
        right: dict[str, int | bytes] = {
            "client": self.client,
            "size": HEADER_BYTES + len(body),
            "request": self.request if numbered else 0,
            "session": self.session,
        }
        return RequestHeader(operation, **(right | fields))  # type: ignore[arg-type]

    def frame(self, request: Request) -> bytes:
        """The whole frame of a request."""
        body = request.encode()
        operation = request.operation()
        code = request.command if operation == Operation.NON_REPLICATED else 0
        return self.header(operation, body, code=code).encode() + body

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def exchange(
        self, operation: int, body: bytes = b"", **fields: int | bytes
    ) -> tuple[Header, bytes]:
        """Send one frame and read its answer."""
        self.send(self.header(operation, body, **fields).encode() + body)
        return self.receive()

    def ask(self, request: Request) -> tuple[Header, bytes]:
        """Send one right request and read its answer."""
        self.send(self.frame(request))
        return self.receive()

    def receive(self) -> tuple[Header, bytes]:
        """The next frame. ConnectionError at the end of the stream, TimeoutError for silence."""
        head, body = self.receive_bytes()
        is_eviction = frame_kind(head) == 13
        return (EvictionHeader if is_eviction else ReplyHeader).decode(head), body

    def receive_bytes(self) -> tuple[bytes, bytes]:
        """Header and body of the next frame as they came."""
        head = self._read(HEADER_BYTES)
        return head, self._read(frame_bytes(head) - HEADER_BYTES)

    def is_closed(self) -> bool:
        """Whether the server closes the connection, having sent nothing more."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def _read(self, length: int) -> bytes:
        parts = []
        while length:
            part = self.socket.recv(min(length, 1 << 20))
            if not part:
                raise ConnectionError("closed by the server")
            parts.append(part)
            length -= len(part)
        return b"".join(parts)

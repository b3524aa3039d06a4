"""A client of P12 that sends what it is told to: contexts, secrets, numbers of requests."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

from broker_process import PASSWORD, USERNAME
from iggy_wire.codes import FrameKind, Operation, is_metadata, is_result_framed
from iggy_wire.dialect import P12_2, Dialect
from iggy_wire.errors import ErrorCode
from iggy_wire.header import (
    ZERO_16,
    EvictionHeader,
    PartitionContext,
    ReplyHeader,
    frame_kind,
    outcome,
)
from iggy_wire.replies import LoginReply
from iggy_wire.request_base import Request
from iggy_wire.requests_p12 import BindSession, Login
from iggy_wire.results import split_result
from raw_frames import RawClient

NO_CONTEXT = PartitionContext()


@dataclass(frozen=True)
class Answer:
    """A reply: its header, what P12 adds to it, and the code and the payload of its body."""

    header: ReplyHeader
    committed: bool
    incarnation: int
    code: int  # of the status or the result section
    payload: bytes


class P12Client:
    """One connection in one step of P12. Every request of a session has a number of its own."""

    def __init__(
        self, port: int, dialect: Dialect = P12_2, *, client: bytes = b"", secret: bytes = b""
    ) -> None:
        self.dialect = dialect
        self.secret = secret or secrets.token_bytes(32)
        self.raw = RawClient(port, client=client or secrets.token_bytes(16))
        self.number = 0
        self.sent = b""

    def __enter__(self) -> P12Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.raw.socket.close()

    def login(self, username: str = USERNAME, password: str = PASSWORD) -> Answer:
        """Log in with a random request checksum, as these clients do."""
        request = Login(self.dialect.version, "tests", "1", self.secret, username, password)
        answer = self.ask(request, checksum=secrets.token_bytes(16), number=0)
        if not answer.code:
            self.raw.session = LoginReply.decode(answer.payload).session
        return answer

    def bind(self, session: int, *, secret: bytes | None = None) -> Answer:
        """Go on with a session of this client id."""
        request = BindSession(
            self.dialect.version, "tests", "1", self.raw.client, session, 0, secret or self.secret
        )
        self.raw.session = session
        return self.ask(request)

    def ask(
        self,
        request: Request,
        context: PartitionContext = NO_CONTEXT,
        *,
        checksum: bytes | None = None,
        number: int | None = None,
    ) -> Answer:
        """One exchange. `number`: of an earlier request, for a retry."""
        operation = request.operation()
        if number is None:
            self.number += 1
            number = self.number
        if checksum is None:
            checksum = secrets.token_bytes(16) if is_metadata(operation) else ZERO_16
        body = request.encode()
        code = request.command if operation == Operation.NON_REPLICATED else 0
        session = 0 if operation == Operation.REGISTER else self.raw.session
        header = self.raw.header(
            operation, body, code=code, request=number, session=session, request_checksum=checksum
        )
        self.sent = header.encode()[:200] + context.encode() + bytes(32) + body
        return self.again()

    def again(self) -> Answer:
        """Send the last frame once more, byte for byte, and read the answer."""
        self.raw.send(self.sent)
        return self.answer()

    def answer(self) -> Answer:
        """The next reply."""
        head, body = self.raw.receive_bytes()
        if frame_kind(head) == FrameKind.EVICTION:
            raise ConnectionRefusedError(EvictionHeader.decode(head).reason)
        header = ReplyHeader.decode(head)
        committed, incarnation = outcome(head)
        code, payload = header.status, body
        if not code and is_result_framed(header.operation, len(body)):
            code, rest = split_result(body)
            payload = bytes(rest)
        return Answer(header, committed, incarnation, code, payload)

    def read(self, request: Request, context: PartitionContext = NO_CONTEXT) -> Any:
        """The decoded reply to a request that succeeds."""
        answer = self.ask(request, context)
        assert answer.code == 0, ErrorCode(answer.code).name
        return self.dialect.replies[request.command].decode(answer.payload)

"""One client's session: who it is, and what must hold before a request is looked at. Sans-IO.

Iggy protocol 0.11, chapters on header checks, login and duplicate detection. Where the original
swallows a wrong request (and a client waits 30 s), we refuse it with a status: nothing that has a
readable header stays unanswered.
"""

from __future__ import annotations

import asyncio
import enum
from typing import Final

from iggy_broker.errors import Reject
from iggy_wire.buffer import Buffer
from iggy_wire.codes import (
    LEGACY_LOGIN_CODES,
    Command,
    FrameKind,
    Operation,
    is_internal,
    is_metadata,
    is_partition,
)
from iggy_wire.dialect import P11, Dialect
from iggy_wire.errors import ErrorCode
from iggy_wire.header import (
    ZERO_16,
    EvictionReason,
    RequestHeader,
    encode_eviction,
    encode_reply,
)
from iggy_wire.kernel import xxh3_64
from iggy_wire.requests import login_version

REPLIES_KEPT: Final = (
    5  # per client: a retry of an older change is answered REQUEST_ALREADY_APPLIED
)


SENDS_KEPT: Final = 256  # per P12 client: so many requests may be on their way when a link breaks
VERSION_BYTES: Final = 4  # of the protocol version that a login starts with
BEFORE_LOGIN: Final = frozenset({Command.PING, Command.BIND_SESSION})


class Transport(enum.IntEnum):
    """How a client reaches the broker; the numbers of Iggy protocol 0.11, list of clients."""

    TCP = 1
    QUIC = 2
    HTTP = 3
    WEBSOCKET = 4


class ReplyMemory:
    """The last replies to changes, so that a retry gets the same bytes and changes nothing."""

    __slots__ = ("_settled", "highest", "replies", "sends", "serving")

    def __init__(
        self,
        highest: int = 0,
        replies: dict[int, tuple[bytes, bytes]] | None = None,
        sends: dict[int, bytes] | None = None,
    ) -> None:
        """Nothing seen yet, unless it comes from elsewhere."""
        self.highest = highest
        self.replies = replies or {}  # request → (checksum, reply), oldest first
        self.sends = sends or {}  # of P12 clients: request → body of the reply, oldest first
        self.serving = False  # a change, of which a connection has one at a time, or its login
        self._settled: asyncio.Event | None = None  # made when somebody waits; sessions are many

    def recall(self, header: RequestHeader) -> bytes | ErrorCode | None:
        """The stored reply of a retry, a refusal, or None if the request is new."""
        if header.request > self.highest:
            return None
        stored = self.replies.get(header.request)
        if stored is None:
            return ErrorCode.REQUEST_ALREADY_APPLIED
        checksum, reply = stored
        if header.request_checksum not in (ZERO_16, checksum):
            return ErrorCode.REQUEST_ALREADY_APPLIED
        return reply

    def recall_send(self, request: int) -> bytes | None:
        """The body of the reply to a send that comes again; REQUEST_TOO_OLD if it is forgotten."""
        stored = self.sends.get(request)
        if stored is None and len(self.sends) == SENDS_KEPT and request < next(iter(self.sends)):
            detail = f"request {request} is older than the last {SENDS_KEPT} sends"
            raise Reject(ErrorCode.REQUEST_TOO_OLD, detail)
        return stored

    def keep_send(self, request: int, body: bytes) -> None:
        """The reply to a send, for its retries; the oldest is forgotten."""
        self.sends[request] = body
        if len(self.sends) > SENDS_KEPT:
            del self.sends[next(iter(self.sends))]

    def begin(self, request: int) -> None:
        """A new request is being served."""
        self.highest = max(self.highest, request)
        self.serving = True

    def keep(self, request: int, checksum: bytes, reply: bytes) -> None:
        """The reply to a request that is served, for its retries; the oldest is forgotten."""
        self.highest = max(self.highest, request)
        self.replies[request] = (checksum, reply)
        while len(self.replies) > REPLIES_KEPT:
            del self.replies[next(iter(self.replies))]
        self.settle()

    def settle(self) -> None:
        """Nothing is being served any more."""
        self.serving = False
        if self._settled is not None:
            self._settled.set()

    async def settled(self) -> None:
        """Return when nothing is being served. For one who takes over."""
        if self.serving:
            self._settled = asyncio.Event()
            await self._settled.wait()


class Session:
    """Login state of one connection. `user_id` is None while nobody is logged in."""

    __slots__ = (
        "address",
        "bind_secret",
        "client",
        "client_number",
        "dialect",
        "is_plain",
        "memory",
        "number",
        "transport",
        "user_id",
        "user_since_us",
    )

    def __init__(
        self, *, client_number: int, address: str, transport: Transport = Transport.TCP
    ) -> None:
        """A connection that has not logged in. `client_number` is the broker's own, from 1."""
        self.client = ZERO_16
        self.client_number = client_number
        self.address = address
        self.transport = transport
        self.number = 0
        self.user_id: int | None = None
        self.user_since_us = 0
        self.dialect = P11  # of the login; before one, all are alike
        self.bind_secret = b""  # with which a P12 client may go on on another connection
        self.is_plain = False  # logged in with P11: sends and polls need not say more than that
        self.memory = ReplyMemory()

    def bind(
        self,
        *,
        client: bytes,
        number: int,
        user_id: int,
        user_since_us: int = 0,
        dialect: Dialect = P11,
        bind_secret: bytes = b"",
    ) -> None:
        """Log in. `user_since_us`: when the user was made, since ids of users are given again."""
        self.client = client
        self.number = number
        self.user_id = user_id
        self.user_since_us = user_since_us
        self.dialect = dialect
        self.bind_secret = bind_secret
        self.is_plain = not dialect.is_p12

    def unbind(self) -> None:
        """Log out; the next login starts with an empty memory."""
        self.client = ZERO_16
        self.number = 0
        self.user_id = None
        self.user_since_us = 0
        self.dialect = P11
        self.bind_secret = b""
        self.is_plain = False
        self.memory = ReplyMemory()

    def refuse(self, header: RequestHeader, body: Buffer) -> bytes | None:
        """The frame that answers a request which must not be served; None if it may be."""
        if header.command != FrameKind.REQUEST or header.client == ZERO_16:
            return deny(header, ErrorCode.INVALID_COMMAND)
        if self._hashes(header, body) and not checksum_matches(header, body):
            return deny(header, ErrorCode.INVALID_FORMAT)
        if header.operation == Operation.REGISTER:
            wrong = header.session != 0 or header.request != 0
            return deny(header, ErrorCode.INVALID_COMMAND) if wrong else None
        if header.operation == Operation.NON_REPLICATED:
            return self._refuse_read(header)
        return self._refuse_change(header)

    def _hashes(self, header: RequestHeader, body: Buffer) -> bool:
        """Whether the request checksum is one: since P12 it is a name that retries have, too."""
        if header.operation == Operation.REGISTER:
            return len(body) < VERSION_BYTES or login_version(body) == P11.version
        return not self.dialect.is_p12

    def _refuse_read(self, header: RequestHeader) -> bytes | None:
        if header.code in LEGACY_LOGIN_CODES:
            return encode_eviction(header.client, EvictionReason.MALFORMED_LOGIN)
        if self.user_id is None and header.code not in BEFORE_LOGIN:
            return deny(header, ErrorCode.UNAUTHENTICATED)
        return None

    def _refuse_change(self, header: RequestHeader) -> bytes | None:
        operation = header.operation
        known = operation == Operation.LOGOUT or any(
            check(operation) for check in (is_internal, is_metadata, is_partition)
        )
        if not known:
            return deny(header, ErrorCode.INVALID_COMMAND)
        if operation == Operation.LOGOUT:
            numbered = header.session > 0 and header.request > 0
            return None if numbered else deny(header, ErrorCode.INVALID_COMMAND)
        if self.user_id is None:
            return encode_eviction(header.client, EvictionReason.NO_SESSION)
        if is_internal(operation):
            return encode_eviction(header.client, EvictionReason.INVALID_OPERATION)
        if header.session == 0 or header.request == 0:
            return deny(header, ErrorCode.INVALID_COMMAND)
        return None


def checksum_matches(header: RequestHeader, body: Buffer) -> bool:
    """Whether the request checksum is absent (0) or the body's XXH3-64, whatever the operation."""
    if header.request_checksum == ZERO_16:
        return True
    return header.request_checksum == xxh3_64(body).to_bytes(16, "little")


def deny(header: RequestHeader, code: ErrorCode, *, commit: int = 0) -> bytes:
    """A reply that refuses with a status word and has no body."""
    return encode_reply(header, status=code, commit=commit)

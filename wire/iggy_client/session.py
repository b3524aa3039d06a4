"""The client's side of a session, without any input or output: requests to bytes, bytes to replies.

One request is in flight at a time. The order in which a reply is judged is the protocol's own:
eviction, size, status, operation, result section (Iggy protocol 0.11, client checklist).
"""

import secrets
from collections.abc import Callable
from typing import Final, Generic, TypeVar

import msgspec

from iggy_client.errors import ClientError, LinkError, SessionLostError
from iggy_wire import kernel
from iggy_wire.buffer import Buffer
from iggy_wire.codes import FrameKind, Operation, is_metadata, is_result_framed
from iggy_wire.dialect import P11, version_text
from iggy_wire.errors import ErrorCode, WireError
from iggy_wire.header import (
    HEADER_BYTES,
    ZERO_16,
    EvictionHeader,
    ReplyHeader,
    RequestHeader,
    eviction_error,
    frame_kind,
)
from iggy_wire.replies import LoginReply
from iggy_wire.request_base import Request
from iggy_wire.requests import Login, LoginWithToken, Logout, SendMessages
from iggy_wire.results import split_result

REPLY_BYTES_MAX: Final = 64 << 20  # also what other Iggy clients take at most

# Servers close the connection on a larger frame; their own limit may be up to 256 MiB.
REQUEST_BYTES_USUAL: Final = 64 << 20
REQUEST_BYTES_MAX: Final = 256 << 20

SDK_NAME: Final = "iggykube"
SDK_VERSION: Final = "0.1.0"

# Iggy protocol 0.11, transient codes: resend the identical frame in this rhythm, for so long.
RETRY_PAUSE_S: Final = 0.05
_RETRY_TIME_S: Final[dict[int, float]] = {
    ErrorCode.TRANSIENT_NOT_COMMITTED: 30.0,
    ErrorCode.TRANSIENT_NOT_ACCEPTED: 2.0,
}

_OPERATIONS: Final = frozenset(Operation)

# What an error says of its request, in this order. Never a secret.
_TOLD: Final = (
    "stream", "topic", "name", "group", "partition_id", "partitioning", "user", "username"
)  # fmt: skip

T = TypeVar("T")


class Call(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One command: what to send, and how to read the payload of its reply."""

    request: Request
    read: Callable[[memoryview], T]


class Pending(msgspec.Struct, frozen=True, gc=False):
    """A request on its way. `parts` are the bytes to send, in order, not joined."""

    request: Request
    header: RequestHeader
    parts: tuple[Buffer, ...]

    def retries_for_s(self, error: ClientError) -> float:
        """How long after its first try this request may be sent again because of `error`."""
        return _RETRY_TIME_S.get(error.code, 0.0)


class Session:
    """Client id, session number and request numbers of one connection."""

    def __init__(self) -> None:
        """Not logged in yet."""
        self.client = _new_client_id()
        self.number = 0  # session number, 0: not logged in
        self._next_request = 1

    def start(self, request: Request) -> Pending:
        """Number and frame `request`. Raises `WireError` if a field does not fit."""
        operation = request.operation()
        if isinstance(request, SendMessages):
            body: tuple[Buffer, ...] = (request.encode_head(), request.batch)
        else:
            body = (request.encode(),)
        size = HEADER_BYTES
        for part in body:
            size += len(part)
        if size > REQUEST_BYTES_MAX:
            detail = f"request: at most {REQUEST_BYTES_MAX} bytes, has {size}: send smaller batches"
            raise WireError(ErrorCode.INVALID_SIZE_BYTES, detail)
        if operation == Operation.REGISTER:
            number = session = 0
        else:
            number, session = self._next_request, self.number
        code = int(request.command) if operation == Operation.NON_REPLICATED else 0
        stamp = _stamp(operation, body[0])
        header = RequestHeader(operation, self.client, size, number, session, code, stamp)
        if operation not in (Operation.REGISTER, Operation.NON_REPLICATED):
            self._next_request += 1
        return Pending(request, header, (header.encode() + body[0], *body[1:]))

    def finish(self, pending: Pending, frame: memoryview) -> memoryview:
        """The payload of the reply to `pending`, a view into `frame`.

        Raises:
            ClientError: the server refuses.
            LinkError: this is no reply to `pending`; the connection cannot be used any more.
            WireError: the reply does not decode.
        """
        kind = frame_kind(frame)
        if kind == FrameKind.EVICTION:
            raise self._evicted(pending, EvictionHeader.decode(frame))
        if kind != FrameKind.REPLY:
            raise LinkError(f"the server sent a frame of kind {kind}: not the Iggy protocol")
        header = ReplyHeader.decode(frame)
        _check_belongs(header, pending)
        if header.status:
            raise ClientError(header.status, describe(pending.request))
        payload = frame[HEADER_BYTES:]
        if is_result_framed(header.operation, len(payload)):
            code, payload = split_result(payload)
            if code:
                raise ClientError(code, describe(pending.request))
        self._follow(pending, payload)
        return payload

    def _follow(self, pending: Pending, payload: memoryview) -> None:
        operation = pending.header.operation
        if operation == Operation.REGISTER:
            login = LoginReply.decode(payload)
            if login.session != self.number:  # repeating a login keeps the session as it is
                self.number, self._next_request = login.session, 1
        elif operation == Operation.LOGOUT:
            self.number, self._next_request = 0, 1
            self.client = _new_client_id()

    def _evicted(self, pending: Pending, header: EvictionHeader) -> ClientError:
        code = eviction_error(header.reason)
        detail = describe(pending.request)
        if code == ErrorCode.INCOMPATIBLE_PROTOCOL_VERSION:
            low, high = version_text(header.version_min), version_text(header.version_max)
            detail += f": we speak {version_text(P11.version)}, the server {low} to {high}"
        if pending.header.operation == Operation.REGISTER:
            return ClientError(code, detail)
        self.number = 0
        return SessionLostError(code, detail)


def login_request(username: str, password: str, context: str = "") -> Login:
    """The login of this client by name and password; `context` is any text about who this is."""
    return Login(P11.version, SDK_NAME, SDK_VERSION, username, password, context)


def token_request(token: str, context: str = "") -> LoginWithToken:
    """The login of this client by personal access token."""
    return LoginWithToken(P11.version, SDK_NAME, SDK_VERSION, token, context)


def logout_request() -> Logout:
    """The end of the session."""
    return Logout()


def describe(request: Request) -> str:
    """A request for people: the command and what it is about, never a secret."""
    told = [request.command.name.lower()]
    for field in _TOLD:
        value = getattr(request, field, None)
        if field == "partitioning" and value is not None:
            told.append(f"partitioning={value.kind.name.lower()} {value.value.hex()}".rstrip())
        elif value is not None:
            told.append(f"{field}={value}")
    return " ".join(told)


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT` or `[IPV6]:PORT`. Raises ValueError naming the field."""
    host, separator, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not separator or not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise ValueError(f"address: must be HOST:PORT such as 127.0.0.1:8090, is {address!r}")
    return host, int(port)


def _check_belongs(header: ReplyHeader, pending: Pending) -> None:
    if header.request != pending.header.request:
        asked = pending.header.request
        raise LinkError(f"the server answered request {header.request} instead of {asked}")
    if header.operation not in _OPERATIONS:
        raise LinkError(f"the server answered with an unknown operation {header.operation}")


def _stamp(operation: Operation, body: Buffer) -> bytes:
    """XXH3 of the body, on the operations where other clients stamp it too."""
    if operation in (Operation.REGISTER, Operation.LOGOUT) or is_metadata(operation):
        return kernel.xxh3_64(body).to_bytes(16, "little")
    return ZERO_16


def _new_client_id() -> bytes:
    while (client := secrets.token_bytes(16)) == ZERO_16:
        pass
    return client

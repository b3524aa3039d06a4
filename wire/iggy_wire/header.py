"""The 256-byte headers: request, reply, eviction. One `struct` call each way.

All integers are little-endian. The 128-bit fields stay 16 raw bytes: they are only compared and
echoed. Client-facing frames are not sealed, so the checksums of the header itself (bytes 0..32) are
neither read nor written (Iggy protocol 0.11, chapter on header layouts).
"""

import struct
from enum import IntEnum
from struct import Struct
from typing import Any, Final, NamedTuple, Self

import msgspec

from iggy_wire.buffer import Buffer
from iggy_wire.codes import FrameKind
from iggy_wire.errors import ErrorCode, WireError

HEADER_BYTES: Final = 256
ZERO_16: Final = bytes(16)

# cluster, size, view, release, command, replica | client, request_checksum, timestamp, request,
# operation, session, user_id, code
_REQUEST: Final = Struct("<32x16sIIIBB66x16s16sQQB7xQII56x")
# ... | request_checksum, context, client, op, commit, timestamp, request, operation, status
_REPLY: Final = Struct("<32x16sIIIBB66x16s16s16sQQQQB7xI36x")
# ... | client, version, version_min, reason
_EVICTION: Final = Struct("<32x16sIIIBB66x16sII103xB")
_SIZE: Final = Struct("<48xI8xB")
_CONTEXT: Final = Struct("<QQQ")
_SCOPE: Final = Struct("<200xQQQ32x")  # what P12 has in the reserved bytes of a request
_OUTCOME: Final = Struct("<B3xQ")  # and in those of a reply: committed, incarnation
_OUTCOME_AT_BYTES: Final = 220
_CHECKSUM_AT_BYTES: Final = 128
_PLACE: Final = Struct("<QQ")
_PLACE_AT_BYTES: Final = 176
_SESSION: Final = Struct("<Q")
_SESSION_AT_BYTES: Final = 184  # of the session number in a request header


class EvictionReason(IntEnum):
    """Last byte of an eviction: why the session ended or never began."""

    NO_SESSION = 1
    RELEASE_TOO_LOW = 2
    RELEASE_TOO_HIGH = 3
    INVALID_OPERATION = 4
    INVALID_BODY = 5
    INVALID_BODY_SIZE = 6
    SESSION_TOO_LOW = 7
    SESSION_RELEASE_MISMATCH = 8
    INVALID_CREDENTIALS = 9
    INVALID_TOKEN = 10
    USER_INACTIVE = 11
    SESSION_ERROR = 12
    STALE_CLIENT = 13
    INCOMPATIBLE_PROTOCOL = 14
    MALFORMED_LOGIN = 15


_EVICTION_ERRORS: Final[dict[int, ErrorCode]] = {
    EvictionReason.NO_SESSION: ErrorCode.UNAUTHENTICATED,
    EvictionReason.SESSION_TOO_LOW: ErrorCode.UNAUTHENTICATED,
    EvictionReason.SESSION_RELEASE_MISMATCH: ErrorCode.UNAUTHENTICATED,
    EvictionReason.INVALID_CREDENTIALS: ErrorCode.INVALID_CREDENTIALS,
    EvictionReason.INVALID_TOKEN: ErrorCode.INVALID_PERSONAL_ACCESS_TOKEN,
    EvictionReason.USER_INACTIVE: ErrorCode.UNAUTHENTICATED,
    EvictionReason.SESSION_ERROR: ErrorCode.UNAUTHENTICATED,
    EvictionReason.STALE_CLIENT: ErrorCode.STALE_CLIENT,
    EvictionReason.INCOMPATIBLE_PROTOCOL: ErrorCode.INCOMPATIBLE_PROTOCOL_VERSION,
    EvictionReason.MALFORMED_LOGIN: ErrorCode.INVALID_FORMAT,
}


def eviction_error(reason: int) -> ErrorCode:
    """The error that a client reports for an eviction (Iggy protocol 0.11, eviction header)."""
    return _EVICTION_ERRORS.get(reason, ErrorCode.INVALID_COMMAND)


def frame_bytes(header: Buffer, at: int = 0) -> int:
    """Length of the frame whose header starts at `at`, header and body, as it says: unchecked."""
    size: int = _SIZE.unpack_from(header, at)[0]
    return size


def stamp_session(frame: memoryview, session: int) -> None:
    """Write the session number into a request frame, in place."""
    _SESSION.pack_into(frame, _SESSION_AT_BYTES, session)


def stamped(frame: bytes, session: int) -> bytes:
    """A copy of a request frame with this session number."""
    rest = _SESSION_AT_BYTES + _SESSION.size
    return frame[:_SESSION_AT_BYTES] + _SESSION.pack(session) + frame[rest:]


class PartitionContext(NamedTuple):
    """Which life of a partition, who owns it in a group (0: nobody), and as of which change.

    P12 only. In a request: what the client knows, 0 if nothing; the last is the least that the
    server must know. In a reply: what it was served with.
    """

    incarnation: int = 0
    owner_generation: int = 0
    metadata_op: int = 0

    @classmethod
    def of_request(cls, header: Buffer) -> Self:
        """What a P12 request says behind the fields that P11 has, too."""
        return cls(*_unpack(_SCOPE, header))

    def encode(self) -> bytes:
        """24 bytes, as in bodies."""
        return _CONTEXT.pack(*self)


def stamp_reply(reply: bytearray, *, checksum: bytes, op: int | None, incarnation: int) -> None:
    """Make a reply frame one of P12, in place: P11 leaves these bytes 0.

    `op`: where the operation was logged, if the reply is its final outcome.
    """
    reply[_CHECKSUM_AT_BYTES : _CHECKSUM_AT_BYTES + len(checksum)] = checksum
    if op is not None:
        _PLACE.pack_into(reply, _PLACE_AT_BYTES, op, op)
    _OUTCOME.pack_into(reply, _OUTCOME_AT_BYTES, op is not None, incarnation)


def outcome(reply: Buffer) -> tuple[bool, int]:
    """Whether a P12 reply is the outcome of a logged operation, and which incarnation it names."""
    committed, incarnation = _OUTCOME.unpack_from(reply, _OUTCOME_AT_BYTES)
    return committed == 1, incarnation


class RequestHeader(msgspec.Struct, frozen=True, gc=False):
    """What a client says about its body. `size` counts header and body."""

    operation: int
    client: bytes
    size: int = HEADER_BYTES
    request: int = 0
    session: int = 0
    code: int = 0
    request_checksum: bytes = ZERO_16
    timestamp: int = 0
    command: int = FrameKind.REQUEST
    cluster: bytes = ZERO_16
    view: int = 0
    release: int = 0
    replica: int = 0
    user_id: int = 0

    @classmethod
    def decode(cls, buffer: Buffer) -> Self:
        """Read the first 256 bytes; no value is judged, except that there are enough bytes."""
        (cluster, size, view, release, command, replica, client, checksum, timestamp, request,
         operation, session, user_id, code) = _unpack(_REQUEST, buffer)  # fmt: skip
        return cls(operation, client, size, request, session, code, checksum, timestamp, command,
                   cluster, view, release, replica, user_id)  # fmt: skip

    def encode(self) -> bytes:
        """The 256 bytes as a client sends them."""
        return _REQUEST.pack(
            self.cluster, self.size, self.view, self.release, self.command, self.replica,
            self.client, self.request_checksum, self.timestamp, self.request, self.operation,
            self.session, self.user_id, self.code,
        )  # fmt: skip


class ReplyHeader(msgspec.Struct, frozen=True, gc=False):
    """What a server says about its body: whose reply it is, and `status` 0 or an error number."""

    operation: int
    client: bytes
    size: int = HEADER_BYTES
    request: int = 0
    status: int = 0
    op: int = 0
    commit: int = 0
    timestamp: int = 0
    request_checksum: bytes = ZERO_16
    context: bytes = ZERO_16
    command: int = FrameKind.REPLY
    cluster: bytes = ZERO_16
    view: int = 0
    release: int = 0
    replica: int = 0

    @classmethod
    def decode(cls, buffer: Buffer) -> Self:
        """Read the first 256 bytes; no value is judged, except that there are enough bytes."""
        (cluster, size, view, release, command, replica, checksum, context, client, op, commit,
         timestamp, request, operation, status) = _unpack(_REPLY, buffer)  # fmt: skip
        return cls(operation, client, size, request, status, op, commit, timestamp, checksum,
                   context, command, cluster, view, release, replica)  # fmt: skip

    def encode(self) -> bytes:
        """The 256 bytes as a server sends them."""
        return _REPLY.pack(
            self.cluster, self.size, self.view, self.release, self.command, self.replica,
            self.request_checksum, self.context, self.client, self.op, self.commit,
            self.timestamp, self.request, self.operation, self.status,
        )  # fmt: skip


class EvictionHeader(msgspec.Struct, frozen=True, gc=False):
    """The end of a session. Versions are packed and given only for `INCOMPATIBLE_PROTOCOL`."""

    reason: int
    client: bytes
    version_max: int = 0
    version_min: int = 0
    size: int = HEADER_BYTES
    command: int = FrameKind.EVICTION
    cluster: bytes = ZERO_16
    view: int = 0
    release: int = 0
    replica: int = 0

    @classmethod
    def decode(cls, buffer: Buffer) -> Self:
        """Read the first 256 bytes; no value is judged, except that there are enough bytes."""
        (cluster, size, view, release, command, replica, client, version_max, version_min,
         reason) = _unpack(_EVICTION, buffer)  # fmt: skip
        return cls(reason, client, version_max, version_min, size, command, cluster, view,
                   release, replica)  # fmt: skip

    def encode(self) -> bytes:
        """The 256 bytes as a server sends them."""
        return _EVICTION.pack(
            self.cluster, self.size, self.view, self.release, self.command, self.replica,
            self.client, self.version_max, self.version_min, self.reason,
        )  # fmt: skip


def frame_kind(frame: Buffer) -> int:
    """Byte 60 of a frame: a `FrameKind` number, or one that nobody knows."""
    kind: int = _unpack(_SIZE, frame)[1]
    return kind


def encode_reply_header(  # noqa: PLR0913 -- one argument per field of the header
    request: RequestHeader,
    body_bytes: int,
    *,
    status: int = 0,
    operation: int | None = None,
    op: int = 0,
    commit: int = 0,
    timestamp: int = 0,
) -> bytes:
    """Only the header of a reply to `request`, for a body of `body_bytes` that is sent apart."""
    return _REPLY.pack(
        request.cluster, HEADER_BYTES + body_bytes, request.view, request.release,
        FrameKind.REPLY, request.replica, request.request_checksum, ZERO_16, request.client,
        op, commit, timestamp, request.request,
        request.operation if operation is None else operation, status,
    )  # fmt: skip


def encode_reply(  # noqa: PLR0913 -- one argument per field of the header
    request: RequestHeader,
    body: bytes = b"",
    *,
    status: int = 0,
    operation: int | None = None,
    op: int = 0,
    commit: int = 0,
    timestamp: int = 0,
) -> bytes:
    """A whole reply frame to `request`, with everything echoed that clients look at."""
    return (
        encode_reply_header(
            request,
            len(body),
            status=status,
            operation=operation,
            op=op,
            commit=commit,
            timestamp=timestamp,
        )
        + body
    )


def encode_eviction(
    client: bytes, reason: EvictionReason, *, version_min: int = 0, version_max: int = 0
) -> bytes:
    """A whole eviction frame for the client id `client` (16 bytes, not all zero)."""
    return EvictionHeader(
        reason=reason, client=client, version_max=version_max, version_min=version_min
    ).encode()


def _unpack(layout: Struct, buffer: Buffer) -> tuple[Any, ...]:
    try:
        return layout.unpack_from(buffer)
    except struct.error:
        detail = f"header: {HEADER_BYTES} bytes needed, {len(buffer)} given"
        raise WireError(ErrorCode.INVALID_SIZE_BYTES, detail) from None

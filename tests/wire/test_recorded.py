"""Every recorded frame decodes, and what was decoded encodes to the same bytes."""

import pytest

from iggy_wire.codes import (
    CODES_OF_OTHER_OPERATIONS,
    LEGACY_LOGIN_CODES,
    Command,
    FrameKind,
    is_internal,
    is_result_framed,
)
from iggy_wire.dialect import P12_0, Dialect
from iggy_wire.errors import ErrorCode, WireError
from iggy_wire.framing import FrameReader
from iggy_wire.header import (
    HEADER_BYTES,
    EvictionHeader,
    EvictionReason,
    PartitionContext,
    ReplyHeader,
    RequestHeader,
    eviction_error,
    frame_kind,
    outcome,
    stamp_reply,
)
from iggy_wire.requests import command_of, decode_request
from iggy_wire.results import rejection_bytes, split_result, success_bytes
from recorded import Exchange, exchange, exchanges, session

EXCHANGES = [*exchanges(), *exchanges(P12_0)]
REQUESTS = [one for one in EXCHANGES if one.request is not None]
REPLIES = [one for one in EXCHANGES if one.reply is not None and one.request is not None]

# Recorded to show refusals: their bodies or numbers are wrong on purpose.
REFUSED = {
    "raw/006_login_p12_version_evicted": ErrorCode.INVALID_FORMAT,
    "raw/007_login_malformed_evicted": ErrorCode.INVALID_FORMAT,
    "raw/015_create_stream_malformed_denied": ErrorCode.INVALID_COMMAND,
    "raw/018_op2_replicated_code": ErrorCode.FEATURE_UNAVAILABLE,
    "raw/019_op2_code_zero": ErrorCode.INVALID_COMMAND,
    "raw/020_op2_malformed_body": ErrorCode.INVALID_COMMAND,
    "raw/021_internal_op_evicted": ErrorCode.INVALID_COMMAND,
    "raw/030_poll_malformed": ErrorCode.INVALID_COMMAND,
    "real/054_unknown_command": ErrorCode.INVALID_COMMAND,
    "p12/053_unknown_command": ErrorCode.INVALID_COMMAND,
}
# Commands that have no body layout here: the broker answers them with an eviction.
UNBUILT = {Command.LEGACY_LOGIN}


def by_name(one: Exchange) -> str:
    return one.name


@pytest.mark.parametrize("one", REQUESTS, ids=by_name)
def test_a_recorded_request_encodes_to_the_same_bytes(one: Exchange) -> None:
    assert one.request is not None
    header = RequestHeader.decode(one.request)
    body = one.request[HEADER_BYTES:]

    assert _whole_request_header(one.request, header) == one.request[:HEADER_BYTES]
    assert header.size == len(one.request)
    if one.name in REFUSED:
        with pytest.raises(WireError) as refusal:
            decode_request(one.dialect, header, body)
        assert refusal.value.code == REFUSED[one.name]
    elif command_of(header) in UNBUILT:
        with pytest.raises(WireError, match="FEATURE_UNAVAILABLE"):
            decode_request(one.dialect, header, body)
    else:
        assert decode_request(one.dialect, header, body).encode() == body


@pytest.mark.parametrize("one", REPLIES, ids=by_name)
def test_a_recorded_reply_encodes_to_the_same_bytes(one: Exchange) -> None:
    assert one.reply is not None
    assert one.request is not None
    if frame_kind(one.reply) == FrameKind.EVICTION:
        assert EvictionHeader.decode(one.reply).encode() == one.reply
        return
    header = ReplyHeader.decode(one.reply)
    body = one.reply[HEADER_BYTES:]

    assert _whole_reply_header(one.reply, header) == one.reply[:HEADER_BYTES]
    assert header.size == len(one.reply)
    if header.status:
        assert body == b""
        ErrorCode(header.status)
        return
    assert _encoded_again(one.dialect, one.request, header, body) == body


def _whole_request_header(frame: bytes, header: RequestHeader) -> bytes:
    """With the fields that P12 has in the reserved bytes of P11."""
    context = PartitionContext.of_request(frame).encode()
    return header.encode()[:200] + context + bytes(32)


def _whole_reply_header(frame: bytes, header: ReplyHeader) -> bytes:
    whole = bytearray(header.encode())
    committed, incarnation = outcome(frame)
    op = header.op if committed else None
    stamp_reply(whole, checksum=header.request_checksum, op=op, incarnation=incarnation)
    return bytes(whole)


def _encoded_again(dialect: Dialect, request: bytes, header: ReplyHeader, body: bytes) -> bytes:
    payload: bytes | memoryview = body
    framed = is_result_framed(header.operation, len(body))
    if framed:
        code, payload = split_result(body)
        if code:
            assert len(payload) == 0
            ErrorCode(code)
            return rejection_bytes(code)
    command = command_of(RequestHeader.decode(request))
    if command in UNBUILT or len(payload) == 0:
        return success_bytes(bytes(payload)) if framed else bytes(payload)
    encoded = dialect.replies[command].decode(payload).encode()
    return success_bytes(encoded) if framed else encoded


def test_the_stale_client_eviction_is_read() -> None:
    frame = exchange("raw/900_stale_client_eviction").reply
    assert frame is not None

    eviction = EvictionHeader.decode(frame)

    assert eviction.reason == EvictionReason.STALE_CLIENT
    assert eviction_error(eviction.reason) == ErrorCode.STALE_CLIENT
    assert eviction.encode() == frame


@pytest.mark.parametrize("chunk_bytes", [1, 7, 255, 256, 257, 4096, 1 << 20])
@pytest.mark.parametrize("direction", ["c2s", "s2c"])
def test_a_recorded_connection_falls_into_its_frames(direction: str, chunk_bytes: int) -> None:
    stream = session(direction)
    reader = FrameReader(1 << 20)

    frames = [
        bytes(frame)
        for at in range(0, len(stream), chunk_bytes)
        for frame in reader.feed(stream[at : at + chunk_bytes])
    ]

    assert len(frames) == 64
    assert b"".join(frames) == stream
    assert reader.pending_bytes == 0


def test_codes_that_must_come_otherwise_are_known() -> None:
    assert Command.SEND_MESSAGES in CODES_OF_OTHER_OPERATIONS
    assert Command.UPDATE_USER in CODES_OF_OTHER_OPERATIONS
    assert Command.PING not in CODES_OF_OTHER_OPERATIONS
    assert {38, 44} == LEGACY_LOGIN_CODES
    assert is_internal(64)
    assert is_internal(127)
    assert not is_internal(128)

"""Headers: every field at its place, and nothing but WireError for what is no header."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iggy_wire.codes import (
    COMMAND_OF_OPERATION,
    OPERATION_OF_COMMAND,
    Command,
    FrameKind,
    Operation,
    is_metadata,
    is_partition,
    is_result_framed,
)
from iggy_wire.errors import ErrorCode, WireError
from iggy_wire.header import (
    HEADER_BYTES,
    EvictionHeader,
    EvictionReason,
    ReplyHeader,
    RequestHeader,
    encode_eviction,
    encode_reply,
    encode_reply_header,
    eviction_error,
    frame_bytes,
    frame_kind,
)

CLIENT = bytes(range(1, 17))
CHECKSUM = bytes(range(17, 33))


def test_a_request_header_has_its_fields_where_the_protocol_puts_them() -> None:
    header = RequestHeader(
        operation=Operation.CREATE_STREAM,
        client=CLIENT,
        size=300,
        request=7,
        session=9,
        code=0,
        request_checksum=CHECKSUM,
        user_id=3,
    )

    raw = header.encode()

    assert len(raw) == HEADER_BYTES
    assert raw[48:52] == (300).to_bytes(4, "little")
    assert raw[60] == FrameKind.REQUEST
    assert raw[128:144] == CLIENT
    assert raw[144:160] == CHECKSUM
    assert raw[168:176] == (7).to_bytes(8, "little")
    assert raw[176] == 128
    assert raw[184:192] == (9).to_bytes(8, "little")
    assert raw[192:196] == (3).to_bytes(4, "little")
    assert RequestHeader.decode(raw) == header


def test_a_reply_echoes_what_clients_look_at() -> None:
    request = RequestHeader(
        Operation.DELETE_SEGMENTS, CLIENT, request=7, session=9, request_checksum=CHECKSUM
    )

    frame = encode_reply(
        request, b"body", status=0, operation=Operation.TRUNCATE_PARTITION, op=5, commit=6,
        timestamp=8,
    )  # fmt: skip

    header = ReplyHeader.decode(frame)
    assert frame_bytes(frame) == len(frame) == HEADER_BYTES + 4
    assert (header.client, header.request, header.request_checksum) == (CLIENT, 7, CHECKSUM)
    assert (header.operation, header.op, header.commit, header.timestamp) == (68, 5, 6, 8)
    assert frame[:HEADER_BYTES] == header.encode()


def test_a_denial_carries_the_requests_own_operation_and_no_body() -> None:
    request = RequestHeader(Operation.CREATE_TOPIC, CLIENT, request=7)

    frame = encode_reply(request, status=ErrorCode.TOO_MANY_PARTITIONS)

    header = ReplyHeader.decode(frame)
    assert (header.operation, header.status, header.size) == (132, 2015, HEADER_BYTES)


def test_a_reply_header_may_announce_a_body_that_is_sent_apart() -> None:
    head = encode_reply_header(RequestHeader(Operation.NON_REPLICATED, CLIENT), 1000)

    assert ReplyHeader.decode(head).size == HEADER_BYTES + 1000


def test_an_eviction_names_reason_and_window() -> None:
    frame = encode_eviction(
        CLIENT, EvictionReason.INCOMPATIBLE_PROTOCOL, version_min=11264, version_max=12290
    )

    eviction = EvictionHeader.decode(frame)
    assert frame_kind(frame) == FrameKind.EVICTION
    assert frame[255] == 14
    assert (eviction.version_min, eviction.version_max) == (11264, 12290)
    assert eviction.client == CLIENT


@pytest.mark.parametrize("reason", [*EvictionReason, 0, 16, 255])
def test_every_eviction_means_an_error(reason: int) -> None:
    assert eviction_error(reason) in ErrorCode


@pytest.mark.parametrize("layout", [RequestHeader, ReplyHeader, EvictionHeader])
@given(raw=st.binary(min_size=HEADER_BYTES, max_size=HEADER_BYTES + 8))
def test_any_256_bytes_decode(
    layout: type[RequestHeader | ReplyHeader | EvictionHeader], raw: bytes
) -> None:
    header = layout.decode(raw)

    assert layout.decode(header.encode()) == header


@pytest.mark.parametrize("layout", [RequestHeader, ReplyHeader, EvictionHeader])
@pytest.mark.parametrize("length", [0, 1, 61, 255])
def test_fewer_bytes_are_refused(
    layout: type[RequestHeader | ReplyHeader | EvictionHeader], length: int
) -> None:
    with pytest.raises(WireError, match="header: 256 bytes needed"):
        layout.decode(bytes(length))


def test_operations_and_codes_map_onto_each_other() -> None:
    assert COMMAND_OF_OPERATION[Operation.SEND_MESSAGES] is Command.SEND_MESSAGES
    assert OPERATION_OF_COMMAND[Command.LOGIN] is Operation.REGISTER
    assert OPERATION_OF_COMMAND[Command.CREATE_TOPIC] is Operation.CREATE_TOPIC
    assert Command.GET_STATS not in OPERATION_OF_COMMAND
    assert is_metadata(Operation.LEAVE_CONSUMER_GROUP)
    assert not is_metadata(Operation.SEND_MESSAGES)
    assert is_partition(Operation.DELETE_CONSUMER_OFFSET)


@pytest.mark.parametrize(
    ("operation", "body_bytes", "framed"),
    [
        (1, 33, True), (1, 0, False), (2, 8, False), (3, 0, False), (64, 9, True), (68, 4, True),
        (128, 4, True), (138, 4, False), (149, 4, True), (160, 24, False), (161, 4, True),
        (162, 4, True),
    ],
)  # fmt: skip
def test_the_reply_operation_decides_on_the_result_section(
    operation: int, body_bytes: int, framed: bool
) -> None:
    assert is_result_framed(operation, body_bytes) is framed

"""WebSocket without sockets: frames however they are cut, what is refused, the handshake."""

from __future__ import annotations

import random

import pytest

from iggy_broker.net.websocket_frames import (
    CloseCode,
    Control,
    Limits,
    Opcode,
    Reader,
    Violation,
    closing,
    head_of,
)
from iggy_broker.net.websocket_upgrade import UpgradeError, answer
from raw_websocket import BINARY, CLOSE, CONTINUATION, PING, TEXT, frame, upgrade

LIMITS = Limits(message_bytes=1000, frame_bytes=500)
KEY = "dGhlIHNhbXBsZSBub25jZQ=="  # of RFC 6455, 1.3


def read(reader: Reader, data: bytes) -> tuple[bytes, list[Control | Violation]]:
    """Payload and the rest of what is in `data`."""
    events = reader.read(memoryview(bytearray(data)))
    payload = b"".join(one for one in events if isinstance(one, memoryview))
    return payload, [one for one in events if not isinstance(one, memoryview)]


def test_any_cut_of_a_stream_has_the_same_payload_and_control_frames() -> None:
    chance = random.Random(7)
    sizes = [0, 1, 5, 125, 126, 300, 499]
    payloads = [chance.randbytes(size) for size in sizes]
    stream = b"".join(frame(payload) for payload in payloads)
    stream += frame(b"a" * 200, is_final=False) + frame(b"ping", PING)
    stream += frame(b"b" * 200, CONTINUATION, is_final=False) + frame(b"c", CONTINUATION)
    stream += frame(b"\x03\xe8", CLOSE)
    whole = b"".join(payloads) + b"a" * 200 + b"b" * 200 + b"c"

    for piece in (1, 2, 3, 7, 64, len(stream)):
        reader, found, told = Reader(LIMITS), b"", []
        for at in range(0, len(stream), piece):
            payload, others = read(reader, stream[at : at + piece])
            found += payload
            told += others

        assert found == whole, piece
        assert told == [Control(Opcode.PING, b"ping"), Control(Opcode.CLOSE, b"\x03\xe8")]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(b"x", is_masked=False), CloseCode.PROTOCOL_ERROR),
        (frame(b"x", 3), CloseCode.PROTOCOL_ERROR),
        (frame(b"x", BINARY | 0x40), CloseCode.PROTOCOL_ERROR),
        (frame(b"x", TEXT), CloseCode.UNSUPPORTED_DATA),
        (frame(b"x", CONTINUATION), CloseCode.PROTOCOL_ERROR),
        (frame(b"x", is_final=False) + frame(b"y"), CloseCode.PROTOCOL_ERROR),
        (frame(b"x" * 126, PING), CloseCode.PROTOCOL_ERROR),
        (frame(b"x", PING, is_final=False), CloseCode.PROTOCOL_ERROR),
        (frame(b"x" * 501), CloseCode.TOO_BIG),
        (
            frame(b"x" * 500, is_final=False)
            + frame(b"x" * 500, CONTINUATION, is_final=False)
            + frame(b"x", CONTINUATION),
            CloseCode.TOO_BIG,
        ),
        (frame(bytes(70_000)), CloseCode.TOO_BIG),
    ],
)
def test_what_breaks_the_protocol_is_said_with_its_code(data: bytes, code: CloseCode) -> None:
    payload, told = read(Reader(LIMITS), frame(b"before") + data)

    assert payload.startswith(b"before")
    assert isinstance(told[-1], Violation)
    assert told[-1].code == code


def test_frames_without_a_mask_can_be_allowed() -> None:
    reader = Reader(LIMITS._replace(allow_unmasked=True))

    assert read(reader, frame(b"plain", is_masked=False) + frame(b"masked")) == (b"plainmasked", [])


@pytest.mark.parametrize("length", [0, 125, 126, 65_535, 65_536, 1 << 26])
def test_heads_say_how_long_a_message_is(length: int) -> None:
    head = head_of(length)

    assert head[0] == 0x80 | BINARY
    if length < 126:
        assert head[1:] == bytes([length])
    elif length < 1 << 16:
        assert head[1:] == b"\x7e" + length.to_bytes(2, "big")
    else:
        assert head[1:] == b"\x7f" + length.to_bytes(8, "big")


def test_a_close_frame_has_code_and_reason() -> None:
    assert closing(CloseCode.TOO_BIG, "too big") == b"\x88\x09\x03\xf1too big"
    assert len(closing(CloseCode.NORMAL, "x" * 500)) == 2 + 125


def test_the_sample_of_the_standard_is_answered() -> None:
    assert b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in answer(upgrade(KEY))
    assert answer(upgrade(KEY, "Origin: x", path="/any/path?x=1")).startswith(b"HTTP/1.1 101 ")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"\x00" * 256, b"400"),
        (b"hello\r\n\r\n", b"400"),
        (upgrade(KEY).replace(b"GET", b"POST"), b"405"),
        (upgrade(KEY).replace(b"Upgrade: WebSocket\r\n", b""), b"426"),
        (upgrade(KEY).replace(b", Upgrade", b""), b"426"),
        (upgrade(KEY).replace(b"Version: 13", b"Version: 8"), b"426"),
        (upgrade("short"), b"400"),
        (upgrade("!" * 24), b"400"),
        (upgrade("c2hvcnQ="), b"400"),
    ],
)
def test_what_is_no_handshake_is_answered_in_http(request_: bytes, status: bytes) -> None:
    with pytest.raises(UpgradeError) as caught:
        answer(request_)

    head, _, body = caught.value.response.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 " + status)
    assert b"Content-Length: %d" % len(body) in head
    assert body

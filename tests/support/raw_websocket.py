"""A `RawClient` over WebSocket that cuts its messages as it is told to. Written from RFC 6455."""

from __future__ import annotations

import base64
import hashlib
import itertools
import os
import ssl
import struct

from iggy_wire.header import HEADER_BYTES, EvictionHeader, ReplyHeader, frame_bytes, frame_kind
from raw_frames import Header, RawClient

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
FIN = 0x80
MASK = b"\xa1\x5e\x07\xf8"


def frame(
    payload: bytes, opcode: int = BINARY, *, is_final: bool = True, is_masked: bool = True
) -> bytes:
    """One frame of a client."""
    first = opcode | (FIN if is_final else 0)
    masked = 0x80 if is_masked else 0
    length = len(payload)
    if length < 126:
        head = struct.pack(">BB", first, masked | length)
    elif length < 1 << 16:
        head = struct.pack(">BBH", first, masked | 126, length)
    else:
        head = struct.pack(">BBQ", first, masked | 127, length)
    if not is_masked:
        return head + payload
    key = MASK
    wide = (key * (length // 4 + 1))[:length]
    number = int.from_bytes(payload, "big") ^ int.from_bytes(wide, "big")
    return head + key + number.to_bytes(length, "big")


class RawWebSocket(RawClient):
    """One connection, upgraded."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(port)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        self.pongs: list[bytes] = []  # that came before what was received
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(upgrade(key))
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self._read(1)
        digest = hashlib.sha1(f"{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()).digest()
        assert head.startswith(b"HTTP/1.1 101 "), head
        assert f"Sec-WebSocket-Accept: {base64.b64encode(digest).decode()}".encode() in head

    def send(self, data: bytes) -> None:
        """One message."""
        self.socket.sendall(frame(data))

    def send_cut(self, data: bytes, *places: int) -> None:
        """One message in frames that end at these places, with a ping between any two."""
        borders = [0, *places, len(data)]
        parts = [data[one:other] for one, other in itertools.pairwise(borders)]
        for place, part in enumerate(parts):
            opcode, is_final = CONTINUATION if place else BINARY, place + 1 == len(parts)
            self.socket.sendall(frame(part, opcode, is_final=is_final))
            if not is_final:
                self.socket.sendall(frame(b"still there?", PING))
                assert self.message() == (PONG, b"still there?")

    def message(self) -> tuple[int, bytes]:
        """The next message, which the server sends in one frame: opcode and payload."""
        first, length = self._read(2)
        assert first & FIN, "in parts"
        assert length < 128, "masked"
        if length == 126:
            (length,) = struct.unpack(">H", self._read(2))
        elif length == 127:
            (length,) = struct.unpack(">Q", self._read(8))
        return first & 15, self._read(length)

    def receive(self) -> tuple[Header, bytes]:
        """The next frame of the protocol, alone in its message."""
        opcode, data = self.message()
        while opcode == PONG:
            self.pongs.append(data)
            opcode, data = self.message()
        assert opcode == BINARY
        assert frame_bytes(data) == len(data)
        is_eviction = frame_kind(data) == 13
        header = (EvictionHeader if is_eviction else ReplyHeader).decode(data)
        return header, data[HEADER_BYTES:]


def upgrade(key: str, *more: str, path: str = "/") -> bytes:
    """A right request."""
    lines = [
        f"GET {path} HTTP/1.1",
        "Host: localhost",
        "Connection: keep-alive, Upgrade",
        "Upgrade: WebSocket",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {key}",
        *more,
    ]
    return "\r\n".join([*lines, "", ""]).encode()

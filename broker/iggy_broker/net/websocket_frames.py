"""WebSocket, the frames (RFC 6455, chapter 5), of a server. Sans-IO.

A message is a stream of bytes here: where frames and messages begin means nothing to what they
carry, so nothing waits for the end of one. Payloads are unmasked where they lie.
"""

from __future__ import annotations

import enum
from struct import Struct
from typing import Final, NamedTuple

from iggy_wire.kernel import unmask

CONTROL_BYTES_MAX: Final = 125  # payload of a ping, pong or close

_LENGTH_16: Final = 126  # in the place of a length: the length is in the next 2 bytes
_LENGTH_64: Final = 127  # 8 bytes
_SHORT: Final = Struct(">BB")
_MIDDLE: Final = Struct(">BBH")
_LONG: Final = Struct(">BBQ")
_FIN, _RESERVED, _OPCODE = 0x80, 0x70, 0x0F
_MASKED, _LENGTH = 0x80, 0x7F
_WORD: Final = 0xFFFF_FFFF
_LENGTH_16_MAX: Final = 0xFFFF


class Opcode(enum.IntEnum):
    """Kinds of frames."""

    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


_OPCODES: Final = frozenset(Opcode)


class CloseCode(enum.IntEnum):
    """Why a connection is closed (RFC 6455, 7.4.1)."""

    NORMAL = 1000
    GOING_AWAY = 1001
    PROTOCOL_ERROR = 1002
    UNSUPPORTED_DATA = 1003
    TOO_BIG = 1009


class Control(NamedTuple):
    """A whole control frame."""

    opcode: Opcode
    payload: bytes


class Violation(NamedTuple):
    """The client broke the protocol: close, with this code. Always the last event."""

    code: CloseCode
    why: str


Event = memoryview | Control | Violation


class Limits(NamedTuple):
    """What a client may send."""

    message_bytes: int
    frame_bytes: int
    allow_unmasked: bool = False


class Reader:
    """Takes the bytes of one client as they come, and gives payloads and control frames."""

    __slots__ = (
        "_control", "_head", "_in_message", "_key", "_left", "_limits",
        "_message_bytes", "_opcode",
    )  # fmt: skip

    def __init__(self, limits: Limits) -> None:
        """Nothing came yet."""
        self._limits = limits
        self._head = bytearray()  # of a frame whose payload has not begun
        self._left = -1  # of the payload; -1: a header is next
        self._key = 0
        self._opcode = 0
        self._in_message = False  # a message goes on in a continuation
        self._message_bytes = 0
        self._control = bytearray()  # of a control frame so far

    def read(self, data: memoryview) -> list[Event]:
        """What is in `data`; views are parts of it, unmasked in place."""
        events: list[Event] = []
        at = 0
        while True:
            if self._left < 0:
                at = self._read_head(data, at)
                if len(self._head) < self._head_bytes():
                    return events
                if violation := self._begin():
                    events.append(violation)
                    return events
            part = data[at : at + self._left]
            at += len(part)
            self._read_payload(part, events)
            if self._left >= 0:
                return events

    def _read_head(self, data: memoryview, at: int) -> int:
        """Take more of a header from `data`; where it ends."""
        head = self._head
        while at < len(data) and (missing := self._head_bytes() - len(head)):
            step = data[at : at + missing]
            head += step
            at += len(step)
        return at

    def _head_bytes(self) -> int:
        head = self._head
        if len(head) < _SHORT.size:
            return _SHORT.size
        more = {_LENGTH_16: 2, _LENGTH_64: 8}.get(head[1] & _LENGTH, 0)
        return _SHORT.size + more + (4 if head[1] & _MASKED else 0)

    def _begin(self) -> Violation | None:
        """The header is whole: begin its payload, or say what is wrong with it."""
        head = self._head
        first, second = head[0], head[1]
        short = second & _LENGTH
        length = short
        if short == _LENGTH_16:
            length = _MIDDLE.unpack_from(head)[2]
        elif short == _LENGTH_64:
            length = _LONG.unpack_from(head)[2]
        is_masked = bool(second & _MASKED)
        if violation := self._wrong(first, length, is_masked=is_masked):
            return violation
        self._key = int.from_bytes(head[-4:], "little") if is_masked else 0
        head.clear()
        self._left = length
        return None

    def _wrong(self, first: int, length: int, *, is_masked: bool) -> Violation | None:
        self._opcode = opcode = first & _OPCODE
        if opcode not in _OPCODES:
            return Violation(CloseCode.PROTOCOL_ERROR, f"opcode {opcode}")
        if first & _RESERVED:
            return Violation(CloseCode.PROTOCOL_ERROR, "an extension that nobody agreed on")
        if not is_masked and not self._limits.allow_unmasked:
            return Violation(CloseCode.PROTOCOL_ERROR, "a frame without a mask")
        is_final = bool(first & _FIN)
        if opcode < Opcode.CLOSE:
            return self._wrong_data(length, is_final=is_final)
        if length > CONTROL_BYTES_MAX or not is_final:
            return Violation(CloseCode.PROTOCOL_ERROR, "a control frame that is long or in parts")
        return None

    def _wrong_data(self, length: int, *, is_final: bool) -> Violation | None:
        if self._opcode == Opcode.TEXT:
            return Violation(CloseCode.UNSUPPORTED_DATA, "text: send binary messages")
        if (self._opcode == Opcode.CONTINUATION) != self._in_message:
            return Violation(CloseCode.PROTOCOL_ERROR, "parts of messages out of order")
        self._message_bytes = length + (self._message_bytes if self._in_message else 0)
        self._in_message = not is_final
        if length > self._limits.frame_bytes or self._message_bytes > self._limits.message_bytes:
            return Violation(CloseCode.TOO_BIG, f"a frame of {length} bytes")
        return None

    def _read_payload(self, part: memoryview, events: list[Event]) -> None:
        self._left -= len(part)
        if self._key and part:
            unmask(part, self._key)
            turn = 8 * (len(part) % 4)
            self._key = (self._key >> turn | self._key << (32 - turn)) & _WORD
        if self._opcode >= Opcode.CLOSE:
            self._control += part
            if not self._left:
                events.append(Control(Opcode(self._opcode), bytes(self._control)))
                self._control.clear()
        elif part:
            events.append(part)
        if not self._left:
            self._left = -1


def head_of(length_bytes: int, opcode: Opcode = Opcode.BINARY) -> bytes:
    """The header of a whole message from the server."""
    first = _FIN | opcode
    if length_bytes < _LENGTH_16:
        return _SHORT.pack(first, length_bytes)
    if length_bytes <= _LENGTH_16_MAX:
        return _MIDDLE.pack(first, _LENGTH_16, length_bytes)
    return _LONG.pack(first, _LENGTH_64, length_bytes)


def closing(code: CloseCode, why: str = "") -> bytes:
    """A close frame."""
    payload = code.to_bytes(2, "big") + why.encode()[: CONTROL_BYTES_MAX - 2]
    return head_of(len(payload), Opcode.CLOSE) + payload

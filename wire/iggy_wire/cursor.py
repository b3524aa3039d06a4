"""Walking over a body: `Reader` takes fields off the front, the `*_bytes` functions make them.

Every read checks that the bytes are there and names the field when they are not.
"""

import struct
from struct import Struct
from typing import Any, Final, NoReturn

from iggy_wire.buffer import Buffer
from iggy_wire.errors import CutShort, ErrorCode, WireError

NAME_BYTES_MAX: Final = 255
# No text with a 32-bit length (host names, addresses, contexts) comes near this.
TEXT_BYTES_MAX: Final = 1 << 16

_U8: Final = Struct("<B")
_U32: Final = Struct("<I")
_U64: Final = Struct("<Q")


class Reader:
    """A position in `data`. Wrong bytes raise `WireError` with the code given here.

    Iggy protocol 0.11: `INVALID_COMMAND` for most bodies, `RESOURCE_NOT_FOUND` for the targets of
    partition operations, `INVALID_FORMAT` for logins and for what a server sends.
    """

    __slots__ = ("at", "code", "data", "end")

    def __init__(self, data: Buffer, code: ErrorCode = ErrorCode.INVALID_COMMAND) -> None:
        """Start at the first byte of `data`."""
        self.data = memoryview(data)
        self.at = 0
        self.end = len(self.data)
        self.code = code

    @property
    def remaining(self) -> int:
        """Bytes not read yet."""
        return self.end - self.at

    def fail(self, detail: str) -> NoReturn:
        """Refuse these bytes: `detail` names the field and what would be right."""
        raise WireError(self.code, detail)

    def _cut_short(self, needed: int, field: str) -> NoReturn:
        unit = "byte" if needed == 1 else "bytes"
        raise CutShort(self.code, f"{field}: {needed} {unit} needed, {self.remaining} left")

    def take(self, length: int, field: str) -> memoryview:
        """The next `length` bytes, not copied."""
        at = self.at
        if length > self.end - at:
            self._cut_short(length, field)
        self.at = at + length
        return self.data[at : at + length]

    def unpack(self, layout: Struct, field: str) -> tuple[Any, ...]:
        """The next fields of one fixed layout."""
        try:
            values = layout.unpack_from(self.data, self.at)
        except struct.error:
            self._cut_short(layout.size, field)
        self.at += layout.size
        return values

    def u8(self, field: str) -> int:
        """One byte."""
        at = self.at
        if at >= self.end:
            self._cut_short(1, field)
        self.at = at + 1
        return self.data[at]

    def u32(self, field: str) -> int:
        """Four bytes."""
        value: int = self.unpack(_U32, field)[0]
        return value

    def u64(self, field: str) -> int:
        """Eight bytes."""
        value: int = self.unpack(_U64, field)[0]
        return value

    def flag(self, field: str) -> bool:
        """One byte, 0 or 1."""
        value = self.u8(field)
        if value > 1:
            self.fail(f"{field}: must be 0 or 1, is {value}")
        return value == 1

    def text(self, length: int, field: str) -> str:
        """The next `length` bytes as UTF-8."""
        try:
            return str(self.take(length, field), "utf-8")
        except UnicodeDecodeError:
            self.fail(f"{field}: must be UTF-8")

    def text8(self, field: str) -> str:
        """Text behind a one-byte length, maybe empty."""
        return self.text(self.u8(field), field)

    def text32(self, field: str) -> str:
        """Text behind a four-byte length, maybe empty, at most `TEXT_BYTES_MAX` bytes."""
        length = self.u32(field)
        if length > TEXT_BYTES_MAX:
            self.fail(f"{field}: at most {TEXT_BYTES_MAX} bytes, is {length}")
        return self.text(length, field)

    def name(self, field: str) -> str:
        """Text of 1 to 255 bytes behind a one-byte length."""
        length = self.u8(field)
        if length == 0:
            self.fail(f"{field}: must have 1 to {NAME_BYTES_MAX} bytes, has none")
        return self.text(length, field)

    def count(self, field: str, entry_bytes: int) -> int:
        """How many entries follow; refused if so many of at least `entry_bytes` cannot be there."""
        count = self.u32(field)
        if count * entry_bytes > self.remaining:
            self.fail(f"{field}: {count} announced, {self.remaining} bytes left")
        return count

    def rest(self) -> memoryview:
        """All that is left, not copied."""
        at, self.at = self.at, self.end
        return self.data[at:]

    def finish(self, what: str) -> None:
        """Refuse bytes behind the end of `what`."""
        if self.at != self.end:
            self.fail(f"{what}: {self.remaining} bytes too many at its end")


def pack(layout: Struct, what: str, *values: float) -> bytes:
    """The fields of one fixed layout."""
    try:
        return layout.pack(*values)
    except (struct.error, OverflowError) as error:
        detail = f"{what}: a number does not fit its field: {error}"
        raise WireError(ErrorCode.INVALID_NUMBER_ENCODING, detail) from None


def _number(layout: Struct, value: int, field: str) -> bytes:
    try:
        return layout.pack(value)
    except struct.error:
        detail = f"{field}: must be a number of {8 * layout.size} bits, is {value}"
        raise WireError(ErrorCode.INVALID_NUMBER_ENCODING, detail) from None


def u8_bytes(value: int, field: str) -> bytes:
    """One byte."""
    return _number(_U8, value, field)


def u32_bytes(value: int, field: str) -> bytes:
    """Four bytes."""
    return _number(_U32, value, field)


def u64_bytes(value: int, field: str) -> bytes:
    """Eight bytes."""
    return _number(_U64, value, field)


def text8_bytes(value: str, field: str) -> bytes:
    """Text behind a one-byte length, maybe empty."""
    encoded = _utf8(value, field)
    if len(encoded) > NAME_BYTES_MAX:
        detail = f"{field}: must have at most {NAME_BYTES_MAX} bytes, has {len(encoded)}"
        raise WireError(ErrorCode.INVALID_COMMAND, detail)
    return bytes((len(encoded),)) + encoded


def text32_bytes(value: str, field: str) -> bytes:
    """Text behind a four-byte length, maybe empty, at most `TEXT_BYTES_MAX` bytes."""
    encoded = _utf8(value, field)
    if len(encoded) > TEXT_BYTES_MAX:
        detail = f"{field}: must have at most {TEXT_BYTES_MAX} bytes, has {len(encoded)}"
        raise WireError(ErrorCode.INVALID_COMMAND, detail)
    return _U32.pack(len(encoded)) + encoded


def name_bytes(value: str, field: str) -> bytes:
    """Text of 1 to 255 bytes behind a one-byte length."""
    if not value:
        detail = f"{field}: must have 1 to {NAME_BYTES_MAX} bytes, has none"
        raise WireError(ErrorCode.INVALID_COMMAND, detail)
    return text8_bytes(value, field)


def _utf8(value: str, field: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise WireError(ErrorCode.INVALID_UTF8, f"{field}: cannot be written as UTF-8") from None

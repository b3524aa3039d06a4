"""The result section that stands in front of the payload of metadata and offset replies.

`u32 count`, then `count` entries of `u32 index, u32 result`. Success is count 0 and the payload;
a rejection is one entry and no payload (Iggy protocol 0.11, committed outcome).
"""

from struct import Struct
from typing import Final

from iggy_wire.buffer import Buffer
from iggy_wire.cursor import Reader
from iggy_wire.errors import ErrorCode

SUCCESS: Final = bytes(4)

_REJECTION: Final = Struct("<III")
_ENTRY_BYTES: Final = 8


def success_bytes(payload: bytes = b"") -> bytes:
    """The body of a result-framed success."""
    return SUCCESS + payload


def rejection_bytes(code: int) -> bytes:
    """The body of a result-framed refusal: exactly 12 bytes."""
    return _REJECTION.pack(1, 0, code)


def split_result(body: Buffer) -> tuple[int, memoryview]:
    """The first result (0: success) and the payload behind the section."""
    reader = Reader(body, ErrorCode.INVALID_FORMAT)
    count = reader.count("results", _ENTRY_BYTES)
    if count == 0:
        return 0, reader.rest()
    reader.u32("index of result")
    code = reader.u32("result")
    reader.take((count - 1) * _ENTRY_BYTES, "results")
    return code, reader.rest()

"""What the kernel answers with: both implementations make these same values."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

from iggy_wire.errors import ErrorCode, WireError

if TYPE_CHECKING:  # in the standard library only from Python 3.12 on
    from typing_extensions import Buffer as _Buffer

Buffer: TypeAlias = (
    "_Buffer"  # bytes, bytearray, memoryview, mmap: contiguous, any object with bytes
)

BATCH_HEADER_BYTES = 256
FRAME_HEADER_BYTES = 48
PAYLOAD_BYTES_MAX = 64_000_000  # of one message that is sent, and at least 1
HEADERS_BYTES_MAX = 100_000  # user headers of one message that is sent, encoded

# Offsets stay below this, so that adding a batch's messages never leaves a signed 64-bit number.
OFFSET_END_MAX = 1 << 62
# Arrow's 32-bit offsets reach this far; `columns` refuses a region with more message bytes.
COLUMN_BYTES_MAX = (1 << 31) - 1

# Why a walk stopped, besides the error codes of Iggy protocol 0.11.
CLEAN_END = 0
INCOMPLETE_TAIL = 1
INVALID_FORMAT = 4
INVALID_MESSAGES_COUNT = 4009
TOO_BIG_USER_HEADERS = 4017
TOO_BIG_MESSAGE_PAYLOAD = 4022
EMPTY_MESSAGE_PAYLOAD = 4024
INVALID_MESSAGE_CHECKSUM = 4027
INVALID_BATCH_CHECKSUM = 4039
INVALID_OFFSET = 4100
INVALID_RESERVED_FIELD = 4101


class BrokenBatchError(WireError, ValueError):
    """A stored or polled region holds a batch that was never admitted like this, or was damaged.

    `position` is the batch's first byte in the region.
    """

    def __init__(self, position: int, why: str, code: int = INVALID_FORMAT) -> None:
        """`why`: which field and what is wrong with it."""
        super().__init__(ErrorCode(code), f"batch at byte {position}: {why}")
        self.position = position
        self.why = why

    def __reduce__(self) -> tuple[type[BrokenBatchError], tuple[int, str, int]]:  # type: ignore[override]
        """Pickle by the three arguments."""
        return BrokenBatchError, (self.position, self.why, self.code.value)


class Scan(msgspec.Struct, frozen=True):
    """Result of a recovery walk over a region of stored batches."""

    end: int  # bytes of good batches: where the region should be cut
    next_offset: int  # offset after the last good message; the expected one if there was none
    last_timestamp_us: int  # highest base timestamp seen, 0 if there was no batch
    messages: int
    entries: list[tuple[int, int, int]]  # sparse index: (offset, timestamp_us, position)
    reason: int  # CLEAN_END, INCOMPLETE_TAIL or the error code of the first bad batch


class Selection(msgspec.Struct, frozen=True, gc=False):
    """Messages chosen from a region: `head + region[start:end] + tail` are whole, valid batches."""

    head: bytes  # first batch, rewritten because it was cut; b"" if not
    start: int
    end: int  # region[start:end] goes out unchanged, start == end if nothing does
    tail: bytes  # last batch, rewritten because it was cut; b"" if not
    count: int  # messages in all three parts
    last_offset: int  # offset of the last of them, -1 if count is 0


class Columns(msgspec.Struct, frozen=True, gc=False):
    """Messages as Arrow-ready little-endian buffers, one entry per message in each."""

    count: int
    offsets: bytes  # int64
    timestamps_us: bytes  # int64, broker's append time
    origin_timestamps_us: bytes  # int64, producer's time
    ids: bytes  # 16 bytes each, as on the wire (little-endian u128)
    payload_offsets: bytes  # int32, count + 1 of them
    payloads: bytes
    header_offsets: bytes  # int32, count + 1 of them
    headers: bytes  # user headers, encoded as on the wire

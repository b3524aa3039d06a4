"""The one batch layout of wire, log and poll: build one, read its header, go through its messages.

A batch is a 256-byte header and frames of 48 bytes each with payload, then user headers, behind
(Iggy protocol 0.11). This is the convenient way for clients and tests; `kernel` is the fast one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from struct import Struct

import msgspec

from iggy_wire import kernel
from iggy_wire.errors import ErrorCode, WireError
from iggy_wire.kernel_types import (
    BATCH_HEADER_BYTES,
    FRAME_HEADER_BYTES,
    HEADERS_BYTES_MAX,
    PAYLOAD_BYTES_MAX,
    BrokenBatchError,
    Buffer,
)

TIMESTAMP_DELTA_US_MAX = (1 << 32) - 1  # 71 minutes between the first message and any other

_HEADER = Struct("<QQQQQQI")
# checksum, id, offset_delta, timestamp_delta, user_headers_len, payload_len, reserved
_FRAME = Struct("<Q16sIIIIQ")


class Message(msgspec.Struct, frozen=True, gc=False):
    """One message. The broker's two fields are 0 until it was read back."""

    payload: bytes
    id: int = 0  # unsigned 128 bits, the producer's choice
    headers: bytes = b""  # user headers, encoded
    offset: int = 0
    timestamp_us: int = 0  # when the broker appended it; the same in the whole batch
    origin_timestamp_us: int = 0  # when the producer made it; 0 when building: with the batch


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """The fields of a batch header, in their order. All unsigned."""

    partition_id: int
    base_offset: int
    base_timestamp_us: int
    origin_timestamp_us: int
    length: int  # bytes of header and frames
    checksum: int
    count: int  # messages

    @classmethod
    def decode(cls, buffer: Buffer, at: int = 0) -> BatchHeader:
        """Read the header at byte `at`. Nothing in it is judged."""
        with memoryview(buffer) as view:
            if at < 0 or len(view) - at < BATCH_HEADER_BYTES:
                raise WireError(
                    ErrorCode.INVALID_FORMAT,
                    f"batch header at byte {at} needs {BATCH_HEADER_BYTES} of {len(view)} bytes",
                )
            return cls(*_HEADER.unpack_from(view, at))


def build(messages: Sequence[Message], *, origin_timestamp_us: int) -> bytearray:
    """One sealed batch, as a producer sends it: the broker's fields zero, checksums right.

    `origin_timestamp_us` is the time of the earliest message. Raises WireError with the code that
    Iggy's clients use when there is no message, or one too big or too far from that time.
    """
    if not messages:
        raise WireError(ErrorCode.INVALID_MESSAGES_COUNT, "a batch needs at least one message")
    batch = bytearray(BATCH_HEADER_BYTES)
    for delta, message in enumerate(messages):
        _check_sizes(message, delta)  # before anything is copied
        batch += _FRAME.pack(
            0,
            _id_bytes(message.id, delta),
            delta,
            _timestamp_delta(message, origin_timestamp_us, delta),
            len(message.headers),
            len(message.payload),
            0,
        )
        batch += message.payload
        batch += message.headers
    _HEADER.pack_into(batch, 0, 0, 0, 0, origin_timestamp_us, len(batch), 0, len(messages))
    kernel.seal(batch)
    return batch


def messages(region: Buffer) -> Iterator[Message]:
    """Go through whole batches, stored or polled, message by message.

    A cut batch starts with a delta above 0 (Iggy protocol 0.11), so offsets come from the frames.
    Raises WireError when lengths do not fit; checksums are not verified.
    """
    with memoryview(region) as view:
        at = 0
        while at < len(view):
            header = BatchHeader.decode(view, at)
            if not BATCH_HEADER_BYTES < header.length <= len(view) - at:
                raise BrokenBatchError(at, f"batch_length {header.length} does not fit the region")
            yield from _frames(view[at : at + header.length], header, at)
            at += header.length


def _frames(batch: memoryview, header: BatchHeader, position: int) -> Iterator[Message]:
    at = BATCH_HEADER_BYTES
    for _ in range(header.count):
        if len(batch) - at < FRAME_HEADER_BYTES:
            raise BrokenBatchError(position, "frames run over the end of the batch")
        _, id_bytes, delta, time_delta, headers_bytes, payload_bytes, _ = _FRAME.unpack_from(
            batch, at
        )
        at += FRAME_HEADER_BYTES
        end = at + payload_bytes + headers_bytes
        if end > len(batch):
            raise BrokenBatchError(position, "frames run over the end of the batch")
        yield Message(
            payload=bytes(batch[at : at + payload_bytes]),
            id=int.from_bytes(id_bytes, "little"),
            headers=bytes(batch[at + payload_bytes : end]),
            offset=header.base_offset + delta,
            timestamp_us=header.base_timestamp_us,
            origin_timestamp_us=header.origin_timestamp_us + time_delta,
        )
        at = end
    if at != len(batch):
        raise BrokenBatchError(position, "frames end before the batch does")


def _id_bytes(message_id: int, index: int) -> bytes:
    if not 0 <= message_id < 1 << 128:
        raise WireError(
            ErrorCode.INVALID_FORMAT, f"message {index}: id must be an unsigned 128-bit number"
        )
    return message_id.to_bytes(16, "little")


def _timestamp_delta(message: Message, origin_timestamp_us: int, index: int) -> int:
    if message.origin_timestamp_us == 0:
        return 0
    delta = message.origin_timestamp_us - origin_timestamp_us
    if not 0 <= delta <= TIMESTAMP_DELTA_US_MAX:
        raise WireError(
            ErrorCode.INVALID_MESSAGE_TIMESTAMP_DELTA,
            f"message {index}: origin_timestamp_us must be 0 to {TIMESTAMP_DELTA_US_MAX} µs "
            f"after the batch's, is {delta}",
        )
    return delta


def _check_sizes(message: Message, index: int) -> None:
    if not message.payload:
        raise WireError(
            ErrorCode.INVALID_MESSAGE_PAYLOAD_LENGTH,
            f"message {index}: a payload has at least one byte; leave the message out",
        )
    if len(message.payload) > PAYLOAD_BYTES_MAX:
        raise WireError(
            ErrorCode.TOO_BIG_MESSAGE_PAYLOAD,
            f"message {index}: payload has {len(message.payload)} bytes, "
            f"at most {PAYLOAD_BYTES_MAX} are allowed",
        )
    if len(message.headers) > HEADERS_BYTES_MAX:
        raise WireError(
            ErrorCode.TOO_BIG_USER_HEADERS,
            f"message {index}: headers have {len(message.headers)} bytes, "
            f"at most {HEADERS_BYTES_MAX} are allowed",
        )

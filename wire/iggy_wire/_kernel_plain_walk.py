"""How the plain kernel walks bytes: batch headers, frames, faults, checksums."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from struct import Struct
from typing import NamedTuple, NoReturn

from xxhash import xxh3_64_intdigest

from iggy_wire.kernel_types import (
    BATCH_HEADER_BYTES,
    CLEAN_END,
    EMPTY_MESSAGE_PAYLOAD,
    FRAME_HEADER_BYTES,
    HEADERS_BYTES_MAX,
    INCOMPLETE_TAIL,
    INVALID_BATCH_CHECKSUM,
    INVALID_FORMAT,
    INVALID_MESSAGE_CHECKSUM,
    INVALID_MESSAGES_COUNT,
    INVALID_OFFSET,
    INVALID_RESERVED_FIELD,
    OFFSET_END_MAX,
    PAYLOAD_BYTES_MAX,
    TOO_BIG_MESSAGE_PAYLOAD,
    TOO_BIG_USER_HEADERS,
    BrokenBatchError,
    Buffer,
)

# partition_id, base_offset, base_timestamp, origin_timestamp, batch_length, checksum, count
_BATCH = Struct("<QQQQQQI")
# checksum, offset_delta, timestamp_delta, user_headers_len, payload_len, reserved
_FRAME = Struct("<Q16xIIIIQ")
_U64 = Struct("<Q")
_U32 = Struct("<I")
_LENGTHS = Struct("<II")
_RESERVED = bytes(BATCH_HEADER_BYTES - _BATCH.size)
_ONE_FRAME_BATCH_BYTES = BATCH_HEADER_BYTES + FRAME_HEADER_BYTES


class Batch(NamedTuple):
    """A batch whose header makes sense; its frames are not looked at yet, except the first."""

    at: int
    end: int  # may lie behind the region's end
    base_offset: int
    timestamp_us: int
    origin_us: int
    messages: int
    delta: int  # of the first frame: more than 0 after a cut

    @property
    def first(self) -> int:
        return self.base_offset + self.delta

    @property
    def last(self) -> int:
        return self.base_offset + self.delta + self.messages - 1


def view_of(data: Buffer) -> memoryview:
    view = memoryview(data)
    if not view.c_contiguous:
        raise BufferError("memoryview: underlying buffer is not C-contiguous")
    return view if view.format == "B" and view.ndim == 1 else view.cast("B")


def broken(at: int, why: str, code: int = INVALID_FORMAT) -> NoReturn:
    raise BrokenBatchError(at, why, code)


def batch_at(view: memoryview, at: int) -> Batch | None:
    """Header of the batch at `at`; None when the region ends before its first frame header does."""
    if len(view) - at < _ONE_FRAME_BATCH_BYTES:
        return None
    _, base_offset, timestamp_us, origin_us, length, _, count = _BATCH.unpack_from(view, at)
    if length < _ONE_FRAME_BATCH_BYTES:
        broken(at, f"batch_length {length} has no room for a message")
    if not 0 < count <= (length - BATCH_HEADER_BYTES) // FRAME_HEADER_BYTES:
        broken(at, f"message_count {count} does not fit batch_length {length}")
    if base_offset >= OFFSET_END_MAX:
        broken(at, f"base_offset {base_offset} is beyond {OFFSET_END_MAX}")
    (delta,) = _U32.unpack_from(view, at + BATCH_HEADER_BYTES + 24)
    return Batch(at, at + length, base_offset, timestamp_us, origin_us, count, delta)


def frames_of(view: memoryview, batch: Batch) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """(start, end, header) of every frame of a whole batch; refused if they do not tile it."""
    at = batch.at + BATCH_HEADER_BYTES
    limit = batch.end - batch.messages * FRAME_HEADER_BYTES  # later frames need their headers too
    last_delta = batch.delta + batch.messages - 1
    for delta in range(batch.delta, last_delta + 1):
        frame = _FRAME.unpack_from(view, at)
        end = at + FRAME_HEADER_BYTES + frame[3] + frame[4]
        limit += FRAME_HEADER_BYTES
        if end > limit:
            broken(batch.at, "frames run over the end of the batch")
        if frame[1] != delta:
            broken(batch.at, f"offset_delta {frame[1]} where {delta} belongs")
        if delta == last_delta and end != batch.end:
            broken(batch.at, "frames end before the batch does")
        yield at, end, frame
        at = end


def incoming_fault(view: memoryview) -> tuple[int, bytes]:
    """(error code of exactly one batch from a producer, what its checksum covers if 0)."""
    if len(view) < BATCH_HEADER_BYTES or _U64.unpack_from(view, 32)[0] != len(view):
        return INVALID_FORMAT, b""
    return _fault(view, first_delta=0, hashed=True, limited=True)


def stored_fault(view: memoryview, at: int, expected_offset: int, hashed: bool) -> int:
    """Reason to stop a walk at the batch at `at`, CLEAN_END if there is none."""
    left = len(view) - at
    if left < BATCH_HEADER_BYTES:
        return INCOMPLETE_TAIL
    (length,) = _U64.unpack_from(view, at + 32)
    if length < _ONE_FRAME_BATCH_BYTES:
        return INVALID_FORMAT
    if length > left:
        return INCOMPLETE_TAIL
    (base_offset,) = _U64.unpack_from(view, at + 8)
    (delta,) = _U32.unpack_from(view, at + BATCH_HEADER_BYTES + 24)
    code, _ = _fault(view[at : at + length], first_delta=delta, hashed=hashed, limited=False)
    if code:
        return code
    if base_offset >= OFFSET_END_MAX or expected_offset not in (-1, base_offset + delta):
        return INVALID_OFFSET
    return CLEAN_END


def _fault(
    batch: memoryview, *, first_delta: int, hashed: bool, limited: bool
) -> tuple[int, bytes]:
    """The same for a batch whose batch_length is known to be its size.

    `limited`: the limits of one message count, too.
    """
    count = _U32.unpack_from(batch, 48)[0]
    if code := _header_fault(batch, count):
        return code, b""
    at = BATCH_HEADER_BYTES
    checksums = []
    for delta in range(first_delta, first_delta + count):
        end, frame_is_good = at, False
        if len(batch) - at >= FRAME_HEADER_BYTES:
            checksum, given, _, headers_bytes, payload_bytes, reserved = _FRAME.unpack_from(
                batch, at
            )
            end += FRAME_HEADER_BYTES + payload_bytes + headers_bytes
            frame_is_good = (
                end <= len(batch)
                and given == delta
                and not reserved
                and not (limited and _size_fault(headers_bytes, payload_bytes))
                and (not hashed or checksum == xxh3_64_intdigest(batch[at + 8 : end]))
            )
        if not frame_is_good:
            return _frame_fault(batch, at, delta, limited), b""
        checksums.append(checksum)
        at = end
    if at != len(batch):
        return INVALID_FORMAT, b""
    covered = batch[:40].tobytes() + batch[48:52] + Struct(f"<{count}Q").pack(*checksums)
    if _U64.unpack_from(batch, 40)[0] != xxh3_64_intdigest(covered):
        return INVALID_BATCH_CHECKSUM, b""
    return 0, covered


def _header_fault(batch: memoryview, count: int) -> int:
    if count == 0:
        return INVALID_MESSAGES_COUNT
    if count > (len(batch) - BATCH_HEADER_BYTES) // FRAME_HEADER_BYTES:
        return INVALID_FORMAT
    if bytes(batch[_BATCH.size : BATCH_HEADER_BYTES]) != _RESERVED:
        return INVALID_RESERVED_FIELD
    return 0


def _size_fault(headers_bytes: int, payload_bytes: int) -> int:
    if payload_bytes == 0:
        return EMPTY_MESSAGE_PAYLOAD
    if payload_bytes > PAYLOAD_BYTES_MAX:
        return TOO_BIG_MESSAGE_PAYLOAD
    return TOO_BIG_USER_HEADERS if headers_bytes > HEADERS_BYTES_MAX else 0


def _frame_fault(batch: memoryview, at: int, delta: int, limited: bool) -> int:
    """Which of its rules a bad frame breaks first."""
    if len(batch) - at < FRAME_HEADER_BYTES:
        return INVALID_FORMAT
    _, given, _, headers_bytes, payload_bytes, reserved = _FRAME.unpack_from(batch, at)
    if headers_bytes + payload_bytes > len(batch) - at - FRAME_HEADER_BYTES or given != delta:
        return INVALID_FORMAT
    if reserved:
        return INVALID_RESERVED_FIELD
    size_fault = _size_fault(headers_bytes, payload_bytes) if limited else 0
    return size_fault or INVALID_MESSAGE_CHECKSUM


def batch_checksum(batch: memoryview) -> int:
    """Over the stamped header fields and the stored checksum of every frame, in order."""
    covered = bytearray(batch[:40])
    covered += batch[48:52]
    at = BATCH_HEADER_BYTES
    while at < len(batch):
        headers_bytes, payload_bytes = _LENGTHS.unpack_from(batch, at + 32)
        covered += batch[at : at + 8]
        at += FRAME_HEADER_BYTES + headers_bytes + payload_bytes
    return xxh3_64_intdigest(covered)


def cut(view: memoryview, batch: Batch, skip: int, take: int) -> bytes:
    """`take` messages of a batch after the first `skip`, as a valid batch of their own."""
    frames = list(islice(frames_of(view, batch), skip, skip + take))
    start, end = frames[0][0], frames[-1][1]
    cut = bytearray(view[batch.at : batch.at + BATCH_HEADER_BYTES])
    cut += view[start:end]
    cut[32:40] = _U64.pack(len(cut))
    cut[48:52] = _U32.pack(take)
    with memoryview(cut) as whole:
        whole[40:48] = _U64.pack(batch_checksum(whole))
    return bytes(cut)

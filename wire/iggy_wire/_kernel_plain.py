"""The kernel in plain Python: reference for the compiled one, stand-in without a compiler.

Same functions, same answers, same refusals as `_kernel.pyx`; the tests run every case on both.
Bounds always come before hashes, so no length field is believed before it was compared.
"""

from __future__ import annotations

from struct import Struct

from xxhash import xxh3_64_intdigest

from iggy_wire._kernel_plain_walk import (
    Batch,
    batch_at,
    batch_checksum,
    broken,
    cut,
    frames_of,
    incoming_fault,
    stored_fault,
    view_of,
)
from iggy_wire.kernel_types import (
    BATCH_HEADER_BYTES,
    CLEAN_END,
    COLUMN_BYTES_MAX,
    FRAME_HEADER_BYTES,
    INVALID_MESSAGE_CHECKSUM,
    Buffer,
    Columns,
    Scan,
    Selection,
)

_U64 = Struct("<Q")
_XOR = [bytes(one ^ other for one in range(256)) for other in range(256)]
_I64_MAX = (1 << 63) - 1
_U64_MAX = (1 << 64) - 1


def xxh3_64(data: Buffer) -> int:
    """XXH3, 64 bits, seed 0."""
    with view_of(data) as view:
        return xxh3_64_intdigest(view)


def unmask(data: Buffer, key: int) -> None:
    """XOR with the key's 4 bytes, repeated, in place. The key's lowest byte is for the first."""
    with view_of(data) as view:
        for place, byte in enumerate(key.to_bytes(4, "little")):
            view[place::4] = bytes(view[place::4]).translate(_XOR[byte])


def verify(batch: Buffer) -> int:
    """Check exactly one batch as a producer may send it. 0, or the error code that refuses it.

    Iggy protocol 0.11: two XXH3-64 checksums, reserved bytes zero, offset deltas 0, 1, 2, ...
    """
    with view_of(batch) as view:
        return incoming_fault(view)[0]


def admit(batch: Buffer, partition_id: int, base_offset: int, base_timestamp_us: int) -> int:
    """`verify`, then stamp the three values and the new batch checksum in place.

    Nothing is written when the answer is not 0.
    """
    numbers = (partition_id, base_offset, base_timestamp_us)
    stamp = b"".join(number.to_bytes(8, "little") for number in numbers)
    with view_of(batch) as view:
        if view.readonly:
            raise BufferError("admit stamps in place and needs a writable buffer")
        code, covered = incoming_fault(view)
        if code == 0:
            view[: len(stamp)] = stamp
            view[40:48] = _U64.pack(xxh3_64_intdigest(stamp + covered[len(stamp) :]))
        return code


def seal(batch: Buffer) -> None:
    """Write every frame checksum and the batch checksum of one laid-out batch, in place.

    Raises BrokenBatchError when the frames do not tile the batch.
    """
    with view_of(batch) as view:
        if view.readonly:
            raise BufferError("seal writes checksums in place and needs a writable buffer")
        found = batch_at(view, 0)
        if found is None or found.end != len(view):
            broken(0, "length differs from the bytes given")
        for at, end, _ in frames_of(view, found):
            view[at : at + 8] = _U64.pack(xxh3_64_intdigest(view[at + 8 : end]))
        view[40:48] = _U64.pack(batch_checksum(view))


def scan(region: Buffer, expected_offset: int, *, frames: bool, index_bytes: int) -> Scan:
    """Walk stored batches from byte 0 and stop at the first that is torn or wrong.

    `expected_offset` is the offset the first message must have, -1 takes it as it comes.
    `frames` verifies every frame checksum too, not only the batch checksums. The first batch gets
    an index entry, then each that starts `index_bytes` or more behind the last one with an entry.
    """
    at, messages, last_timestamp_us, reason = 0, 0, 0, CLEAN_END
    entries: list[tuple[int, int, int]] = []
    with view_of(region) as view:
        while at < len(view):
            reason = stored_fault(view, at, expected_offset, frames)
            if reason != CLEAN_END:
                break
            batch = batch_at(view, at)
            assert batch is not None, "checked just above"
            if not entries or at - entries[-1][2] >= index_bytes:
                entries.append((batch.first, batch.timestamp_us, at))
            expected_offset = batch.last + 1
            last_timestamp_us = max(last_timestamp_us, batch.timestamp_us)
            messages += batch.messages
            at = batch.end
    return Scan(at, expected_offset, last_timestamp_us, messages, entries, reason)


def locate(region: Buffer, offset: int) -> int:
    """Position of the first batch whose last offset is at least `offset`, else the length.

    Looks at headers only, so the last batch may reach over the region's end.
    Raises BrokenBatchError at a broken header.
    """
    with view_of(region) as view:
        at = 0
        while (batch := batch_at(view, at)) is not None:
            if batch.last >= offset:
                return at
            at = batch.end
        return len(view)


def locate_time(region: Buffer, timestamp_us: int) -> int:
    """Position of the first batch with base timestamp >= `timestamp_us`, else the length.

    Same terms as `locate`.
    """
    wanted_us = min(timestamp_us, _U64_MAX)
    with view_of(region) as view:
        at = 0
        while (batch := batch_at(view, at)) is not None:
            if batch.timestamp_us >= wanted_us:
                return at
            at = batch.end
        return len(view)


def select(region: Buffer, offset: int, count: int) -> Selection:
    """Choose at most `count` messages with an offset of at least `offset`.

    `region` holds whole batches; an incomplete last one is left out. A batch that is needed only
    in part is rewritten: length, count and checksum change, everything else stays as stored.
    Raises BrokenBatchError at a broken batch.
    """
    head = tail = b""
    at = start = taken = 0
    last_offset = -1
    with view_of(region) as view:
        while taken < count and (batch := batch_at(view, at)) is not None:
            if batch.end > len(view):
                break
            at = batch.end
            if batch.last < offset:
                start = at
                continue
            skip = max(0, offset - batch.first)
            take = min(batch.messages - skip, count - taken)
            taken += take
            last_offset = batch.first + skip + take - 1
            if skip > 0:
                head, start = cut(view, batch, skip, take), at
            elif take < batch.messages:
                tail, at = cut(view, batch, 0, take), batch.at
        if taken == 0:
            start = at = 0
        return Selection(head, start, at, tail, taken, last_offset)


def columns(region: Buffer, first_offset: int, end_offset: int, *, verify: bool = False) -> Columns:
    """Lay out the messages with first_offset <= offset < end_offset as Arrow-ready buffers.

    `region` holds whole batches in rising order, as stored or polled. `verify` also checks the
    checksum of every frame taken. Timestamps beyond a signed 64-bit number become its maximum.
    Raises BrokenBatchError at a broken batch, ValueError when there are over 2 GiB - 1 to lay out.
    """
    wanted = range(first_offset, max(first_offset, end_offset))
    with view_of(region) as view:
        batches = _wanted_batches(view, wanted)
        collected = _Collected()
        for batch in batches:
            _collect(view, batch, wanted, verify, collected)
    return collected.columns()


def _wanted_batches(view: memoryview, offsets: range) -> list[Batch]:
    """Check the whole region's batch headers before anything is laid out."""
    wanted = []
    at = room = 0
    while at < len(view):
        batch = batch_at(view, at)
        if batch is None or batch.end > len(view):
            broken(at, "incomplete at the end of the region")
        if batch.first < offsets.stop and batch.last >= offsets.start:
            room += batch.end - at - BATCH_HEADER_BYTES - batch.messages * FRAME_HEADER_BYTES
            if room > COLUMN_BYTES_MAX:
                raise ValueError(
                    f"region holds over {COLUMN_BYTES_MAX} bytes of messages: split it"
                )
            wanted.append(batch)
        at = batch.end
    return wanted


class _Collected:
    """Columns while they grow."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.timestamps_us: list[int] = []
        self.origin_timestamps_us: list[int] = []
        self.ids = bytearray()
        self.payload_offsets = [0]
        self.payloads = bytearray()
        self.header_offsets = [0]
        self.headers = bytearray()

    def columns(self) -> Columns:
        count = len(self.offsets)
        return Columns(
            count,
            Struct(f"<{count}q").pack(*self.offsets),
            Struct(f"<{count}q").pack(*self.timestamps_us),
            Struct(f"<{count}q").pack(*self.origin_timestamps_us),
            bytes(self.ids),
            Struct(f"<{count + 1}i").pack(*self.payload_offsets),
            bytes(self.payloads),
            Struct(f"<{count + 1}i").pack(*self.header_offsets),
            bytes(self.headers),
        )


def _collect(view: memoryview, batch: Batch, wanted: range, verify: bool, into: _Collected) -> None:
    timestamp_us = min(batch.timestamp_us, _I64_MAX)
    offset = batch.first - 1
    for at, end, frame in frames_of(view, batch):
        offset += 1
        if offset not in wanted:
            continue
        if verify and frame[0] != xxh3_64_intdigest(view[at + 8 : end]):
            broken(
                batch.at, f"message {offset} does not match its checksum", INVALID_MESSAGE_CHECKSUM
            )
        split = at + FRAME_HEADER_BYTES + frame[4]
        into.offsets.append(offset)
        into.timestamps_us.append(timestamp_us)
        into.origin_timestamps_us.append(min(batch.origin_us + frame[2], _I64_MAX))
        into.ids += view[at + 8 : at + 24]
        into.payloads += view[at + FRAME_HEADER_BYTES : split]
        into.payload_offsets.append(len(into.payloads))
        into.headers += view[split:end]
        into.header_offsets.append(len(into.headers))

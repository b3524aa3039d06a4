"""Batches for tests, and what they mean, told once more by `struct` and `xxhash` alone."""

from __future__ import annotations

import struct
from typing import NamedTuple

from xxhash import xxh3_64_intdigest

HEADER = "<QQQQQQI204s"  # partition, offset, time, origin, length, checksum, count, reserved
FRAME = "<Q16sIIIIQ"  # checksum, id, delta, time delta, header bytes, payload bytes, reserved


class Body(NamedTuple):
    """What a test wants in one frame."""

    payload: bytes = b"x"
    headers: bytes = b""
    id: int = 0
    time_delta: int = 0


class Read(NamedTuple):
    """One message as it stands in a region."""

    offset: int
    timestamp_us: int
    origin_us: int
    id: bytes
    payload: bytes
    headers: bytes


def make_batch(
    bodies: list[Body], *, offset: int = 0, timestamp_us: int = 0, first_delta: int = 0
) -> bytearray:
    """A valid batch; with `first_delta` above 0 it looks like one that was cut."""
    frames = bytearray()
    checksums = b""
    for index, body in enumerate(bodies):
        rest = struct.pack(
            FRAME,
            0,
            body.id.to_bytes(16, "little"),
            first_delta + index,
            body.time_delta,
            len(body.headers),
            len(body.payload),
            0,
        )[8:]
        rest += body.payload + body.headers
        checksum = struct.pack("<Q", xxh3_64_intdigest(rest))
        checksums += checksum
        frames += checksum + rest
    length = 256 + len(frames)
    covered = struct.pack("<QQQQQ", 3, offset, timestamp_us, 77, length)
    covered += struct.pack("<I", len(bodies)) + checksums
    header = covered[:40] + struct.pack("<Q", xxh3_64_intdigest(covered)) + covered[40:44]
    return bytearray(header + bytes(204) + frames)


def reseal(batch: bytearray) -> bytearray:
    """Recompute all checksums of a batch whose frames tile it; otherwise leave it."""
    at, starts = 256, []
    while at + 48 <= len(batch):
        headers_bytes, payload_bytes = struct.unpack_from("<II", batch, at + 32)
        starts.append((at, at + 48 + headers_bytes + payload_bytes))
        at = starts[-1][1]
    if at != len(batch):
        return batch
    checksums = b""
    for start, end in starts:
        checksums += struct.pack("<Q", xxh3_64_intdigest(bytes(batch[start + 8 : end])))
        batch[start : start + 8] = checksums[-8:]
    covered = bytes(batch[:40] + batch[48:52]) + checksums
    batch[40:48] = struct.pack("<Q", xxh3_64_intdigest(covered))
    return batch


def expected_fault(data: bytes) -> int:  # noqa: C901, PLR0911, PLR0912 - one rule a line
    """What admission must answer, in the order of the rules, one field at a time."""
    if len(data) < 256 or struct.unpack_from("<Q", data, 32)[0] != len(data):
        return 4
    checksum, count = struct.unpack_from("<QI", data, 40)
    if count == 0:
        return 4009
    if count > (len(data) - 256) // 48:
        return 4
    if any(data[52:256]):
        return 4101
    at, checksums = 256, b""
    for index in range(count):
        if at + 48 > len(data):
            return 4
        own, _, delta, _, headers_bytes, payload_bytes, reserved = struct.unpack_from(
            FRAME, data, at
        )
        end = at + 48 + headers_bytes + payload_bytes
        if end > len(data) or delta != index:
            return 4
        if reserved:
            return 4101
        if payload_bytes == 0:
            return 4024
        if payload_bytes > 64_000_000:
            return 4022
        if headers_bytes > 100_000:
            return 4017
        if own != xxh3_64_intdigest(data[at + 8 : end]):
            return 4027
        checksums += data[at : at + 8]
        at = end
    if at != len(data):
        return 4
    covered = data[:40] + data[48:52] + checksums
    return 0 if checksum == xxh3_64_intdigest(covered) else 4039


def read_all(region: bytes) -> list[Read]:
    """Every message of a region of valid batches."""
    found, at = [], 0
    while at < len(region):
        _, base, timestamp, origin, length, _, count, _ = struct.unpack_from(HEADER, region, at)
        frame = at + 256
        for _ in range(count):
            _, id_, delta, time_delta, headers_bytes, payload_bytes, _ = struct.unpack_from(
                FRAME, region, frame
            )
            split = frame + 48 + payload_bytes
            end = split + headers_bytes
            found.append(
                Read(
                    base + delta,
                    timestamp,
                    origin + time_delta,
                    id_,
                    region[frame + 48 : split],
                    region[split:end],
                )
            )
            frame = end
        at += length
    return found

"""The three small files of a partition: fixed layouts with a checksum, read back or not believed.

All integers are little-endian; each file ends with the XXH3-64 of all bytes before.

    synced   magic "IKsy", version u16, zero u16, then u64: first offset of a segment, position in
             it, next offset, last timestamp in microseconds. Everything before is on the disk and
             was verified. Written in place, after the sync it speaks of; needs no sync itself,
             since an older one is as true and only makes the next recovery read more.
    clean    magic "IKcl", version u16, count of segments u16 (0 = more than fit, not written), then
             per segment five u64: first offset, length, next offset, last timestamp, XXH3 of the
             index; then two u64: position of the last batch, XXH3 of its header.
    life     magic "IKli", version u16, purging u16 (1 = a purge is under way), then u64:
             incarnation, purges. Synced by a purge.
"""

import itertools
from dataclasses import dataclass
from struct import Struct

from iggy_broker.storage.disk import Disk
from iggy_broker.storage.layout import CLEAN_FILE, LIFE_FILE, SYNCED_FILE
from iggy_wire import kernel

RECORD_BYTES_MAX = 4 * 1024 * 1024  # more is not one of these files
MARKED_SEGMENTS_MAX = 65_535  # a partition with more opens as after a crash

_VERSION = 1
_HEAD = Struct("<4sHH")
_CHECKSUM = Struct("<Q")
_SYNCED = Struct("<QQQQ")
_SEGMENT = Struct("<QQQQQ")
_TAIL = Struct("<QQ")
_LIFE = Struct("<QQ")


@dataclass(frozen=True, slots=True)
class Synced:
    """Up to here the log is on the disk and verified."""

    first_offset: int  # of the segment
    position: int
    next_offset: int
    last_timestamp_us: int

    def encode(self) -> bytes:
        """The file's bytes."""
        fields = (self.first_offset, self.position, self.next_offset, self.last_timestamp_us)
        return _seal(b"IKsy", 0, _SYNCED.pack(*fields))


@dataclass(frozen=True, slots=True)
class CleanSegment:
    """A segment as a clean stop left it."""

    first_offset: int
    length_bytes: int
    next_offset: int
    last_timestamp_us: int
    index_checksum: int  # 0: not known


@dataclass(frozen=True, slots=True)
class Clean:
    """Everything that a clean stop knew. The tail fields prove that the log is still that one."""

    segments: tuple[CleanSegment, ...]
    tail_position: int  # of the last batch in the last segment
    tail_checksum: int  # XXH3 of its header; 0 with no batch

    def encode(self) -> bytes:
        """The file's bytes."""
        entries = [
            _SEGMENT.pack(
                segment.first_offset,
                segment.length_bytes,
                segment.next_offset,
                segment.last_timestamp_us,
                segment.index_checksum,
            )
            for segment in self.segments
        ]
        tail = _TAIL.pack(self.tail_position, self.tail_checksum)
        return _seal(b"IKcl", len(entries), b"".join([*entries, tail]))


@dataclass(frozen=True, slots=True)
class Life:
    """Which partition these files belong to."""

    incarnation: int
    purges: int
    purging: bool

    def encode(self) -> bytes:
        """The file's bytes."""
        return _seal(b"IKli", int(self.purging), _LIFE.pack(self.incarnation, self.purges))


def read_synced(disk: Disk, folder: str) -> Synced | None:
    """The record, or None if there is none or it is damaged."""
    found = _read(disk, f"{folder}/{SYNCED_FILE}", b"IKsy")
    if found is None or len(found[1]) != _SYNCED.size:
        return None
    return Synced(*_SYNCED.unpack(found[1]))


def read_clean(disk: Disk, folder: str) -> Clean | None:
    """The record, or None if there is none or it is damaged."""
    found = _read(disk, f"{folder}/{CLEAN_FILE}", b"IKcl")
    if found is None:
        return None
    count, body = found
    if len(body) != count * _SEGMENT.size + _TAIL.size:
        return None
    fields = _SEGMENT.iter_unpack(body[: -_TAIL.size])
    segments = tuple(itertools.starmap(CleanSegment, fields))
    return Clean(segments, *_TAIL.unpack(body[-_TAIL.size :]))


def read_life(disk: Disk, folder: str) -> Life | None:
    """The record, or None if there is none or it is damaged."""
    found = _read(disk, f"{folder}/{LIFE_FILE}", b"IKli")
    if found is None or len(found[1]) != _LIFE.size:
        return None
    incarnation, purges = _LIFE.unpack(found[1])
    return Life(incarnation, purges, purging=bool(found[0]))


def _seal(magic: bytes, small: int, body: bytes) -> bytes:
    data = _HEAD.pack(magic, _VERSION, small) + body
    return data + _CHECKSUM.pack(kernel.xxh3_64(data))


def _read(disk: Disk, path: str, magic: bytes) -> tuple[int, bytes] | None:
    try:
        data = disk.read_file(path, bytes_max=RECORD_BYTES_MAX)
    except FileNotFoundError:
        return None
    if len(data) < _HEAD.size + _CHECKSUM.size:
        return None
    body, (checksum,) = data[: -_CHECKSUM.size], _CHECKSUM.unpack(data[-_CHECKSUM.size :])
    found, version, small = _HEAD.unpack_from(body)
    if found != magic or version != _VERSION or checksum != kernel.xxh3_64(body):
        return None
    return small, body[_HEAD.size :]

"""Walk a log file batch by batch and verify everything: recovery, rebuilt indexes, first reads."""

from dataclasses import dataclass, field
from struct import Struct

from iggy_broker.storage.disk import File
from iggy_broker.storage.sparse_index import INDEX_EVERY_BYTES
from iggy_wire import kernel, sealing

WINDOW_BYTES = 4 * 1024 * 1024  # read at once; a bigger batch gets a window of its own size
BATCH_BYTES_MAX = 256 * 1024 * 1024  # a longer batch is taken for garbage

_LENGTH = Struct("<Q")
_LENGTH_AT = 32  # batch_length in the batch header
HEADER = Struct("<QQQQQQI")  # partition, base offset, timestamp, origin, length, checksum, count
FIRST_DELTA_AT = kernel.BATCH_HEADER_BYTES + 24


@dataclass(slots=True)
class LogScan:
    """How far a log is whole."""

    end: int  # position behind the last good batch
    next_offset: int
    last_timestamp_us: int  # 0 if no batch was seen
    reason: int = kernel.CLEAN_END  # why it ended there: as in kernel.Scan
    entries: list[tuple[int, int, int]] = field(default_factory=list)  # offset, timestamp, position


def scan_log(
    file: File, start: int, stop: int, expected_offset: int, *, rewrite: bool = False
) -> LogScan:
    """Verify whole batches from byte `start` on, up to `stop`; stop at the first bad one.

    `rewrite` writes the good bytes again in place, so that the next sync really sends them to the
    disk: after a failed sync the page cache may claim that they are there.
    """
    found = LogScan(start, expected_offset, 0)
    window = WINDOW_BYTES
    while window and found.end < stop:
        window = scan_window(file, found, window, stop, rewrite=rewrite)
    return found


def scan_window(
    file: File, found: LogScan, window: int, stop: int, *, rewrite: bool = False
) -> int:
    """One step of a scan: `window` bytes from `found.end` on, which moves.

    How many bytes to read next; 0: the walk is over, `found.reason` says why.
    """
    at = found.end
    wanted = min(window, stop - at)
    region = file.read(wanted, at)
    part = sealing.scan(region, found.next_offset, frames=True, index_bytes=INDEX_EVERY_BYTES)
    if rewrite and part.end:
        file.write(memoryview(region)[: part.end], at)
    _take(found, part, region)
    if len(region) < wanted:  # the file ends before `stop`
        found.reason = part.reason or kernel.INCOMPLETE_TAIL
        return 0
    following = _next_window(part, region, stop - at)
    if not following:
        found.reason = part.reason
    return following


def _take(found: LogScan, part: kernel.Scan, region: bytes) -> None:
    if not part.end:
        return
    at = found.end
    ends = [entry[2] for entry in part.entries[1:]]
    ends.append(part.end)
    for entry, end in zip(part.entries, ends, strict=True):
        found.entries.append((entry[0], entry[1], at + entry[2]))
        if end - entry[2] >= 2 * INDEX_EVERY_BYTES:
            found.entries.extend(_big_batches(region, entry[2], end, at))
    found.end = at + part.end
    found.next_offset = part.next_offset
    found.last_timestamp_us = max(found.last_timestamp_us, part.last_timestamp_us)


def _big_batches(region: bytes, position: int, end: int, at: int) -> list[tuple[int, int, int]]:
    """Entries for big batches that stand behind small ones, which the kernel does not list."""
    entries = []
    first = position
    while position < end:
        _, base_offset, timestamp_us, _, length, _, _ = HEADER.unpack_from(region, position)
        if length >= INDEX_EVERY_BYTES and position != first:
            entries.append((base_offset, timestamp_us, at + position))
        position += length
    return entries


def _next_window(part: kernel.Scan, region: bytes, left: int) -> int:
    """Bytes to read next; 0 = the walk is over."""
    if part.reason == kernel.CLEAN_END:
        return WINDOW_BYTES
    if part.reason != kernel.INCOMPLETE_TAIL or len(region) >= left:
        return 0
    if part.end:
        return WINDOW_BYTES  # the batch was cut by the window, not by the file
    (length,) = _LENGTH.unpack_from(region, _LENGTH_AT)
    return length if len(region) < length <= min(left, BATCH_BYTES_MAX) else 0

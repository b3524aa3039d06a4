"""Check stored segments batch by batch, against rot, and fence what is damaged.

A read checks what it hands out, once. This looks at all bytes, also at those that nobody reads or
that this process has read before: at a start, or a step at a time in the background.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

from iggy_broker.logs import Note
from iggy_broker.storage.partition import Partition
from iggy_broker.storage.partition_table import PartitionTable
from iggy_broker.storage.scan import WINDOW_BYTES, LogScan, scan_window
from iggy_broker.storage.segment import Segment
from iggy_wire import kernel

STEP_BYTES = 1024 * 1024  # read and checked at once; a bigger batch is one step

_FOR_EVER_US = 1 << 63


@dataclass(frozen=True, slots=True)
class Damage:
    """The first batch of a segment that is not what was stored."""

    offset: int
    position: int  # bytes from the start of the segment
    why: str


class SegmentCheck:
    """A walk over what a segment holds now. `step` may run in a thread while the file is held."""

    __slots__ = ("_found", "_next_offset", "_stop", "_window", "segment")

    def __init__(self, segment: Segment) -> None:
        """Nothing is read yet. Of one that is damaged, what lies before the damage is checked."""
        damage = segment.damage
        self.segment = segment
        self._stop = segment.size_bytes if damage is None else damage.position
        self._next_offset = segment.next_offset if damage is None else damage.end_offset
        self._found = LogScan(0, segment.first_offset, 0)
        self._window = STEP_BYTES if self._stop else 0

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to check."""
        return not self._window or self._found.end >= self._stop

    def step(self) -> int:
        """Check some more; the bytes that were read. OSError if the disk cannot read them."""
        found, at = self._found, self._found.end
        size_bytes = min(self._window, self._stop - at)
        file = self.segment.file
        _forget(file.fileno(), at, size_bytes)
        window = scan_window(file, found, self._window, self._stop)
        _forget(file.fileno(), at, size_bytes)
        found.entries.clear()
        self._window = STEP_BYTES if window == WINDOW_BYTES else window
        return size_bytes

    def damage(self) -> Damage | None:
        """What is wrong, when it is over; None if all is as it was stored."""
        found = self._found
        if found.end < self._stop:
            why = f"checksum or layout is wrong at byte {found.end} (code {found.reason})"
            if found.reason == kernel.INCOMPLETE_TAIL:
                why = f"the batch at byte {found.end} is truncated"
            return Damage(found.next_offset, found.end, why)
        if found.next_offset != self._next_offset:
            why = f"offsets {found.next_offset} to {self._next_offset - 1} are missing"
            return Damage(found.next_offset, found.end, why)
        return None

    def unreadable(self, error: OSError) -> Damage:
        """What to tell when a step failed with `error`."""
        why = f"byte {self._found.end} and behind cannot be read: {error}"
        return Damage(self._found.next_offset, self._found.end, why)


def check_now(partition: Partition) -> list[Note]:
    """Check every segment of a partition here and now, and fence what is damaged."""
    notes = []
    for segment in list(partition.log.segments):
        check = SegmentCheck(segment)
        try:
            while not check.is_over:
                check.step()
        except OSError as error:
            notes.append(note_of(partition, segment, check.unreadable(error)))
            continue
        if (found := check.damage()) is not None:
            notes.append(fence(partition, segment, found))
        elif segment.verified is not None:
            segment.verified.add(0, segment.size_bytes)
    return notes


def fence(partition: Partition, segment: Segment, found: Damage) -> Note:
    """Serve nothing of the segment from the damage on; what is sound before and behind is served.

    A segment that is written to is sealed first. If the disk has no room for the next one it is
    only told of: reads check for themselves, and the next look tries again.
    """
    log = partition.log
    if segment is log.segments[-1]:
        partition.seal_older(_FOR_EVER_US)
    if segment is not log.segments[-1]:
        log.fence(segment, found.offset, found.position, found.why)
    return note_of(partition, segment, found)


def publish_damage(partition: Partition, table: PartitionTable) -> int:
    """Show other shards where the partition is damaged; in how many segments it is."""
    segments = partition.log.segments
    offsets = [found.end_offset for segment in segments if (found := segment.damage) is not None]
    table.set_damaged(partition.place.slot, min(offsets, default=None))
    return len(offsets)


def note_of(partition: Partition, segment: Segment, found: Damage) -> Note:
    """For the log."""
    folder = partition.place.folder
    return Note(
        "segment_damaged",
        f"{segment.path}: checksum error at offset {found.offset}: {found.why};"
        f" not served up to offset {segment.next_offset - 1}",
        folder=folder,
        offset=found.offset,
        position=found.position,
        next_offset=segment.next_offset,
    )


def _forget(descriptor: int, position: int, size_bytes: int) -> None:
    """Let bytes come from the disk and not from memory, and take no room in memory for long.

    Linux keeps what is not written back yet. `descriptor` is -1 on a disk that is none (tests).
    """
    if descriptor >= 0:
        with contextlib.suppress(OSError):  # a file system without it: then memory is checked
            os.posix_fadvise(descriptor, position, size_bytes, os.POSIX_FADV_DONTNEED)

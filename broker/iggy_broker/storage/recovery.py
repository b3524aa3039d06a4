"""Open the segments of a partition, after a clean stop or after a crash, and say what was decided.

After a clean stop the `clean` file tells all and the log is not read. Otherwise the log is
verified from the position in the `synced` file on; what lies before was verified once and is on the
disk. The walk stops at the first bad batch and never skips ahead: behind a hole nothing is
believed, since a power cut can leave later pages and lose earlier ones. What is cut off is kept in
`cut/`.
"""

import itertools
from dataclasses import dataclass, field

from iggy_broker.storage import layout
from iggy_broker.storage.cutting import Decision, DecisionKind, cut_tail, set_aside
from iggy_broker.storage.disk import Disk, StorageFailed
from iggy_broker.storage.records import (
    MARKED_SEGMENTS_MAX,
    Clean,
    CleanSegment,
    Synced,
    read_clean,
    read_synced,
)
from iggy_broker.storage.scan import HEADER, LogScan, scan_log
from iggy_broker.storage.segment import Segment
from iggy_broker.storage.sparse_index import ENTRY_BYTES, INDEX_EVERY_BYTES, SparseIndex
from iggy_broker.storage.verified import Verified
from iggy_wire import kernel


@dataclass(slots=True)
class Recovered:
    """The segments of a folder, oldest first, ready to serve and to append to."""

    segments: list[Segment] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    clean: bool = False  # a clean stop's marker was believed
    fenced: str = ""  # why the partition cannot be served, if so
    waits: bool = False  # for room on the disk: nothing is opened or changed yet


def recover(disk: Disk, folder: str) -> Recovered:
    """Open `folder`; what is verified and was not known to be synced is sent to the disk once more.

    Raises StorageFailed if what was found cannot be synced or cut.
    """
    recovered = Recovered()
    firsts = _tidy(disk, folder, recovered)
    marker = read_clean(disk, folder)
    if marker is not None:
        segments = _from_marker(disk, folder, firsts, marker)
        if segments is not None:
            recovered.segments = segments
            recovered.clean = True
            return recovered
        if marker.segments:  # else there was no room to note them
            why = "the files are not as the clean stop left them, and are looked through"
            recovered.decisions.append(Decision(DecisionKind.MARKER_DISBELIEVED, folder, why=why))
    if firsts:
        _after_crash(disk, folder, firsts, recovered)
    disk.remove(f"{folder}/{layout.CLEAN_FILE}")
    return recovered


def clean_marker(segments: list[Segment]) -> Clean:
    """What a clean stop writes, once everything is synced. Loads and writes no index in vain."""
    entries = []
    if len(segments) > MARKED_SEGMENTS_MAX:
        return Clean((), 0, 0)
    for segment in segments:
        if segment.index_is_loaded:
            index = segment.index
            if not index.write():
                return Clean((), 0, 0)  # disk full: the next start looks for itself
            segment.index_checksum = index.checksum()
        entries.append(
            CleanSegment(
                segment.first_offset,
                segment.size_bytes,
                segment.next_offset,
                segment.last_timestamp_us,
                segment.index_checksum or 0,  # not known: judged when it is first used
            )
        )
    try:
        position, checksum = _tail_of(segments[-1]) if segments else (0, 0)
    except kernel.BrokenBatchError:
        return Clean((), 0, 0)  # damaged; the next start will see
    return Clean(tuple(entries), position, checksum)


def synced_record(segment: Segment) -> Synced:
    """The record that says: all of this segment as it stands is on the disk."""
    return Synced(
        segment.first_offset, segment.size_bytes, segment.next_offset, segment.last_timestamp_us
    )


def _tidy(disk: Disk, folder: str, recovered: Recovered) -> list[int]:
    """First offsets of the log files. Leftovers go, foreign files are named and left alone."""
    names = disk.list_folder(folder)
    firsts = [first for name in names if (first := layout.log_first_offset(name)) is not None]
    known = {
        layout.SYNCED_FILE, layout.CLEAN_FILE, layout.LIFE_FILE, layout.TRIM_FILE,
        layout.OFFSETS_FOLDER, layout.CUT_FOLDER,
    }  # fmt: skip
    logs = set(firsts)
    for name in names:
        index = layout.index_first_offset(name)
        orphan = index is not None and index not in logs
        if orphan or name.endswith((layout.DELETED_SUFFIX, ".tmp")):
            disk.remove(f"{folder}/{name}")
        elif index is None and layout.log_first_offset(name) is None and name not in known:
            why = f"{name} is not a file of ours and is left alone"
            recovered.decisions.append(Decision(DecisionKind.FOREIGN_FILE, folder, why=why))
    return firsts


def _from_marker(disk: Disk, folder: str, firsts: list[int], marker: Clean) -> list[Segment] | None:
    """The segments as noted, or None if the files are not those that were noted."""
    if [entry.first_offset for entry in marker.segments] != firsts:
        return None
    segments = []
    for entry in marker.segments:
        if disk.size(layout.log_path(folder, entry.first_offset)) != entry.length_bytes:
            return None
        segment = Segment(disk, folder, entry.first_offset)
        segment.size_bytes = entry.length_bytes
        segment.next_offset = entry.next_offset
        segment.last_timestamp_us = entry.last_timestamp_us
        segment.index_checksum = entry.index_checksum or None
        segment.verified = Verified(entry.length_bytes)
        segments.append(segment)
    if marker.tail_checksum:
        header = segments[-1].file.read(HEADER.size, marker.tail_position)
        segments[-1].file.close()
        if kernel.xxh3_64(header) != marker.tail_checksum:
            return None
    return segments


def _tail_of(segment: Segment) -> tuple[int, int]:
    """Position of the last batch and XXH3 of its header; zeros if there is none.

    BrokenBatchError if the end of the log is damaged; with no entry it is from its beginning.
    """
    if not len(segment.index):
        return 0, 0
    position = segment.index.positions[-1]
    length = segment.size_bytes - position
    region = segment.file.read(min(length, 2 * INDEX_EVERY_BYTES), position)
    if length < 2 * INDEX_EVERY_BYTES:
        at = kernel.locate(region, segment.next_offset - 1)
        position, region = position + at, region[at:]
    return position, kernel.xxh3_64(region[: HEADER.size])


def _after_crash(disk: Disk, folder: str, firsts: list[int], recovered: Recovered) -> None:
    noted = read_synced(disk, folder)
    synced = _believable(disk, folder, firsts, noted)
    start = firsts.index(synced.first_offset)
    for first, following in itertools.pairwise(firsts[: start + 1]):
        segment = _sealed(disk, folder, first, following, recovered)
        recovered.segments.append(segment)
    expected = synced.first_offset
    for number in range(start, len(firsts)):
        if firsts[number] != expected:
            why = f"offsets {expected} to {firsts[number] - 1} before it are missing"
            recovered.decisions += set_aside(disk, folder, firsts[number:], why=why)
            break
        whole = _verify_segment(disk, folder, firsts[number], synced, recovered)
        expected = recovered.segments[-1].next_offset
        if not whole:
            why = f"it stands behind a damaged batch at offset {expected}"
            recovered.decisions += set_aside(disk, folder, firsts[number + 1 :], why=why)
            break
    # The first sync of a partition covers the folders above it; without a note there was none.
    folders = (folder,) if noted is not None else (folder, *layout.parents_of(folder))
    _settle(disk, folder, folders, recovered)


def _believable(disk: Disk, folder: str, firsts: list[int], synced: Synced | None) -> Synced:
    """Where to begin: the noted position, or the very beginning if the files do not fit it."""
    if (
        synced is not None
        and synced.first_offset in firsts
        and disk.size(layout.log_path(folder, synced.first_offset)) >= synced.position
    ):
        return synced
    return Synced(firsts[0], 0, firsts[0], 0)


def _sealed(disk: Disk, folder: str, first: int, following: int, recovered: Recovered) -> Segment:
    """A segment that was synced and verified before the crash: only its end is looked at."""
    segment = Segment(disk, folder, first)
    segment.size_bytes = disk.size(segment.path)
    segment.next_offset = following
    segment.verified = Verified(segment.size_bytes)
    timestamp_us = _end_timestamp(segment)
    if timestamp_us is None:
        found = scan_log(segment.file, 0, segment.size_bytes, first)
        timestamp_us = found.last_timestamp_us
        if found.next_offset != following:
            why = f"offsets {found.next_offset} to {following - 1} are damaged or missing"
            kind = DecisionKind.DAMAGED
            if found.end == segment.size_bytes:
                kind = DecisionKind.FENCED
                recovered.fenced = why
            recovered.decisions.append(
                Decision(kind, folder, found.next_offset, found.end, why=why)
            )
    segment.last_timestamp_us = timestamp_us
    segment.close()
    return segment


def _end_timestamp(segment: Segment) -> int | None:
    """Time of the last batch if the segment ends, batch by batch, where and how it should."""
    try:
        entries = disk_entries(segment)
    except FileNotFoundError:
        return None
    if not len(entries):
        return None
    position, offset, timestamp_us = entries.positions[-1], entries.offsets[-1], 0
    while position < segment.size_bytes:
        header = segment.file.read(HEADER.size, position)
        if len(header) < HEADER.size:
            return None
        _, base_offset, timestamp_us, _, length, _, count = HEADER.unpack(header)
        if base_offset != offset or length < kernel.BATCH_HEADER_BYTES or not count:
            return None
        offset += count
        position += length
    return timestamp_us if (position, offset) == (segment.size_bytes, segment.next_offset) else None


def disk_entries(segment: Segment) -> SparseIndex:
    """The last entry of an index file, as an index of one entry."""
    size = segment.index_file.size() // ENTRY_BYTES * ENTRY_BYTES
    data = segment.index_file.read(ENTRY_BYTES, max(size - ENTRY_BYTES, 0))
    return SparseIndex.parse(segment.index_file, data)


def _verify_segment(
    disk: Disk, folder: str, first: int, synced: Synced, recovered: Recovered
) -> bool:
    """Scan a segment from the synced position; cut it at the first bad batch. Is it whole?"""
    segment = Segment(disk, folder, first)
    size = disk.size(segment.path)
    start, expected, timestamp_us = 0, first, 0
    if first == synced.first_offset:
        start, expected, timestamp_us = (
            synced.position,
            synced.next_offset,
            synced.last_timestamp_us,
        )
    index = _index_before(segment, start, expected)
    if index is None:
        why = "its index does not fit the log and is made anew"
        recovered.decisions.append(Decision(DecisionKind.INDEX_REBUILT, folder, first, why=why))
        start, expected, timestamp_us = 0, first, 0
        index = SparseIndex(segment.index_file)
    # Written again: should a sync have failed, its pages count as written, and only look well. We
    # are about to note that all of this is on the disk, also where nobody was promised that.
    found = scan_log(segment.file, start, size, expected, rewrite=True)
    for offset, entry_timestamp_us, position in found.entries:
        index.add(offset, entry_timestamp_us, position)
    segment.index = index
    segment.size_bytes = found.end
    segment.next_offset = found.next_offset
    segment.last_timestamp_us = max(timestamp_us, found.last_timestamp_us)
    segment.verified = Verified(start)
    recovered.segments.append(segment)
    if found.end == size:
        return True
    recovered.decisions.append(cut_tail(disk, segment, size, why=_reason(found)))
    return False


def _index_before(segment: Segment, position: int, next_offset: int) -> SparseIndex | None:
    """Entries for the bytes before `position`, from the file; None if they cannot be right."""
    index = SparseIndex.parse(segment.index_file, segment.read_index_file())
    index.cut(position)
    good = index.is_plausible(
        first_offset=segment.first_offset, next_offset=next_offset, size_bytes=position
    )
    return index if good else None


def _reason(found: LogScan) -> str:
    if found.reason == kernel.INCOMPLETE_TAIL:
        return "the last batch was not written to its end"
    return f"the batch there is damaged (code {found.reason})"


def _settle(disk: Disk, folder: str, folders: tuple[str, ...], recovered: Recovered) -> None:
    """Bring what was verified to the disk, then note that it is there."""
    last = recovered.segments[-1]
    try:
        for segment in recovered.segments:
            if segment.index_is_loaded:
                segment.file.sync()
                if segment.index.settle():
                    segment.index.sync()
                if segment is not last:
                    segment.close()
        for dirty in folders:
            disk.sync_folder(dirty)
    except OSError as error:
        raise StorageFailed(f"{folder}: recovered bytes cannot be synced: {error}") from error
    write_synced(disk, folder, synced_record(last))


def write_synced(disk: Disk, folder: str, record: Synced) -> None:
    """Note a synced position, in place. A refusal is no harm: the old record stays true enough."""
    try:
        file = disk.open(f"{folder}/{layout.SYNCED_FILE}", create=True)
        file.write(record.encode(), 0)
        file.close()
    except OSError:
        return

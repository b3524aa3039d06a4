"""Segments of an archive as files of a data directory. Blocking, for a thread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import xxhash

from iggy_broker.archive.store import BLOCK_BYTES, ArchiveStore
from iggy_broker.restore.survey import Held
from iggy_broker.storage import layout
from iggy_broker.storage.disk import Disk
from iggy_broker.storage.scan import HEADER
from iggy_wire.archive_listing import Segment, Span

_OFFSET: Final = 1  # in HEADER, of the first message
_LENGTH: Final = 4
_COUNT: Final = 6


def fetch_all(
    disk: Disk, folder: str, held: Held, store: ArchiveStore
) -> tuple[list[Segment], str]:
    """Segments that are in `folder` now, the newest first, and what is wrong with the next one.

    They end where the partition does and have no gap: a broker would not serve what is before one.
    ArchiveError, OSError.
    """
    fetched: list[Segment] = []
    end = held.next_offset
    for segment in reversed(held.listing.segments):
        if segment.next_offset != end:
            break
        if not _fetch(disk, folder, segment, store):
            where = f"{segment.folder}: the segment at offset {segment.first_offset}"
            return fetched, f"{where} is damaged: what is before {end} stays in the archive"
        fetched.append(segment)
        end = segment.first_offset
    return fetched, ""


def _fetch(disk: Disk, folder: str, segment: Segment, store: ArchiveStore) -> bool:
    """Whether it is there, byte for byte."""
    path = layout.log_path(folder, segment.first_offset)
    log_hash, at = xxhash.xxh3_64(), 0
    file = disk.open(path, create=True)
    try:
        for span in segment.spans():
            for data in _blocks(store, span):
                file.write(data, at)
                log_hash.update(data)
                at += len(data)
        file.sync()
    except FileNotFoundError:
        at = 0
    finally:
        file.close()
    is_right = at == segment.size_bytes and log_hash.hexdigest() == segment.xxh3
    if is_right and segment.left_out:
        return _shortened(disk, path, segment)
    if not is_right:
        disk.remove(path)
        return False
    _fetch_index(disk, folder, segment, store)
    return True


def _shortened(disk: Disk, path: str, segment: Segment) -> bool:
    """Cut off what counts no more, at the border of a batch; without an index, the broker makes
    one. False: it has no such border, and is not there.
    """
    file = disk.open(path)
    try:
        offset, at = segment.first_offset, 0
        while offset < segment.next_offset:
            header = HEADER.unpack(file.read(HEADER.size, at))
            offset, at = header[_OFFSET] + header[_COUNT], at + header[_LENGTH]
        file.truncate(at)
        file.sync()
    finally:
        file.close()
    if offset != segment.next_offset:
        disk.remove(path)
    return offset == segment.next_offset


def _fetch_index(disk: Disk, folder: str, segment: Segment, store: ArchiveStore) -> None:
    """If it is there as it was; else the broker makes it anew."""
    if not segment.index_bytes:
        return
    try:
        data = b"".join(_blocks(store, Span(segment.index_key, 0, segment.index_bytes)))
    except FileNotFoundError:
        return
    if xxhash.xxh3_64_hexdigest(data) == segment.index_xxh3:
        path = layout.index_path(folder, segment.first_offset)
        disk.write_file(path, data, sync=True)


def _blocks(store: ArchiveStore, span: Span) -> Iterator[bytes]:
    for at in range(0, span.size_bytes, BLOCK_BYTES):
        yield store.read(span.key, min(BLOCK_BYTES, span.size_bytes - at), span.position + at)

"""Copy a segment, or what was added to one, and read the copy back. Blocking, for a thread.

The order is what makes it safe: bytes, the same read back and compared, the manifest, the same read
back, and only then what is not needed any more is removed. Without a manifest there is no segment,
so a crash between any two steps leaves what was there before, or more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import msgspec
import xxhash

from iggy_broker.archive.plan import Extent, kept_pieces
from iggy_broker.archive.store import (
    BLOCK_BYTES,
    ArchiveError,
    ArchiveStore,
    ReadAt,
    digest,
    put_bytes,
)
from iggy_broker.storage.disk import Disk, File
from iggy_broker.storage.layout import index_path, log_path
from iggy_broker.storage.scan import HEADER, scan_log
from iggy_wire import archive
from iggy_wire.archive import MANIFEST_BYTES_MAX, Life, Manifest, Piece
from iggy_wire.errors import WireError
from iggy_wire.sealing import PREFIX_BYTES, key_id_of

SENT_UNASKED_BYTES_MAX: Final = 1 << 20
"""An object up to this is sent even if it might be there: to ask costs as much as to send it."""

_TIMESTAMP: Final = 2  # in HEADER
_NO_HASH: Final = "0" * 16


class Vanished(Exception):
    """The segment is not there any more, or not as it was: there is nothing to copy."""


@dataclass(frozen=True, slots=True)
class Where:
    """A segment's partition: where it is, where its copies go, and what the manifest says of it."""

    disk_folder: str
    folder: str
    """In the archive."""
    stream_id: int
    topic_id: int
    partition_id: int
    stream: str
    topic: str
    life: Life
    is_current: Callable[[], bool]
    """Whether nothing was emptied or deleted meanwhile. For any thread."""
    generation: int = 0
    """Of the owner that copies."""
    begin: int = 0
    """Up to here earlier owners had it."""
    check: Callable[[ArchiveStore], None] = lambda store: None
    """Raises ArchiveError when the archive is another's by now. For any thread."""


@dataclass(frozen=True, slots=True)
class Begin:
    """What the first batch of a segment tells."""

    timestamp_us: int
    key_id: str
    """Of the key that all of the segment is encrypted with; empty: it is not."""


@dataclass(frozen=True, slots=True)
class Tail:
    """What the archive has of a segment without its end."""

    extent: Extent
    pieces: tuple[Piece, ...]
    begin: Begin
    log_hash: xxhash.xxh3_64


@dataclass(frozen=True, slots=True)
class Copied:
    """What a copy cost."""

    objects: int
    size_bytes: int


def copy_sealed(
    store: ArchiveStore, disk: Disk, where: Where, extent: Extent, *, now_us: int
) -> Copied:
    """Copy a sealed segment. Vanished, ArchiveError, OSError: there is no copy."""
    first, generation = extent.first_offset, where.generation
    with _opened(disk, log_path(where.disk_folder, first)) as log:
        begin = _begin(log)
        key = archive.log_key(where.folder, first, generation)
        log_hash, objects = _store(store, key, _at(log), extent.size_bytes)
    index_bytes, index_hash = 0, _NO_HASH
    index = index_path(where.disk_folder, first)
    if disk.exists(index) and (index_bytes := disk.size(index)):
        with _opened(disk, index) as file:
            key = archive.index_key(where.folder, first, generation)
            index_hash, more = _store(store, key, _at(file), index_bytes)
            objects += more
    manifest = msgspec.structs.replace(
        _manifest(where, extent, begin, now_us),
        xxh3=log_hash,
        index_bytes=index_bytes,
        index_xxh3=index_hash,
    )
    _write(store, where, manifest)
    with contextlib.suppress(ArchiveError):  # what stays is in nobody's way
        _remove_earlier(store, where, manifest)
        remove_pieces(store, where.folder, first, generation)
    return Copied(objects + 1, extent.size_bytes + index_bytes)


def copy_tail(
    store: ArchiveStore, disk: Disk, where: Where, extent: Extent, tail: Tail | None, *, now_us: int
) -> tuple[Tail, Copied]:
    """Copy what came to a segment since `tail`. Vanished, ArchiveError, OSError: `tail` holds."""
    old = tail.pieces if tail else ()
    first, done_bytes = extent.first_offset, tail.extent.size_bytes if tail else 0
    new_bytes = extent.size_bytes - done_bytes
    kept = kept_pieces(old, new_bytes)
    start = old[kept].position if kept < len(old) else done_bytes
    with _opened(disk, log_path(where.disk_folder, first)) as log:
        begin = tail.begin if tail else _begin(log)
        from_offset = tail.extent.next_offset if tail else first
        # For the times: bytes that are damaged are copied as they are.
        end = scan_log(log, done_bytes, extent.size_bytes, from_offset).last_timestamp_us
        key = archive.piece_key(where.folder, first, start, where.generation)
        piece_hash, objects = _store(store, key, _at(log, start), extent.size_bytes - start)
        log_hash = tail.log_hash.copy() if tail else xxhash.xxh3_64()
        _add(log_hash, log, done_bytes, extent.size_bytes)
    end = max(end, tail.extent.last_timestamp_us if tail else begin.timestamp_us)
    reached = replace(extent, last_timestamp_us=end)
    pieces = (*old[:kept], Piece(start, extent.size_bytes - start, piece_hash))
    manifest = msgspec.structs.replace(
        _manifest(where, reached, begin, now_us),
        xxh3=log_hash.hexdigest(),
        sealed=False,
        pieces=pieces,
    )
    _write(store, where, manifest)
    with contextlib.suppress(ArchiveError):  # a sealed copy removes them
        for piece in old[kept + 1 :]:
            key = archive.piece_key(where.folder, first, piece.position, where.generation)
            store.delete(key)
    new = Tail(reached, pieces, begin, log_hash)
    return new, Copied(objects + 1, extent.size_bytes - start)


def tail_of(manifest: Manifest, disk: Disk, disk_folder: str, extent: Extent) -> Tail | None:
    """Go on with pieces of an earlier run, if the log still begins as they say."""
    size_bytes, first = manifest.size_bytes, manifest.first_offset
    if size_bytes > extent.size_bytes or manifest.next_offset > extent.next_offset:
        return None
    log_hash = xxhash.xxh3_64()
    with _opened(disk, log_path(disk_folder, first)) as log:
        _add(log_hash, log, 0, size_bytes)
    if log_hash.hexdigest() != manifest.xxh3:
        return None
    reached = Extent(first, manifest.next_offset, size_bytes, manifest.last_timestamp_us)
    begin = Begin(manifest.first_timestamp_us, manifest.key_id or "")
    return Tail(reached, manifest.pieces, begin, log_hash)


def read_manifest(store: ArchiveStore, key: str) -> Manifest:
    """One manifest. WireError: it is none. FileNotFoundError: it is gone."""
    return Manifest.decode(store.read(key, MANIFEST_BYTES_MAX, 0), key)


def remove_pieces(store: ArchiveStore, folder: str, first_offset: int, generation: int = 0) -> None:
    """Remove what was stored of a segment while it was written."""
    start = archive.segment_name(folder, first_offset, generation)
    for found in list(store.entries(f"{start}.")):
        named = archive.parse_key(found.key)
        if named is not None and named.kind == "part":
            store.delete(found.key)


def _remove_earlier(store: ArchiveStore, where: Where, sealed: Manifest) -> None:
    """Pieces of earlier owners that the sealed segment has all of: nobody else would remove them.

    The manifest goes first, so that none names what is not there.
    """
    first = sealed.first_offset
    if not where.generation:
        return
    for found in list(store.entries(archive.segment_name(where.folder, first))):
        named = archive.parse_key(found.key)
        if named is None or named.kind != "json" or named.generation >= where.generation:
            continue
        with contextlib.suppress(WireError, FileNotFoundError):
            earlier = read_manifest(store, found.key)
            end = min(earlier.next_offset, max(where.begin, first))
            if not earlier.sealed and end <= sealed.next_offset:
                store.delete(found.key)
                remove_pieces(store, where.folder, first, named.generation)


def _write(store: ArchiveStore, where: Where, manifest: Manifest) -> None:
    """The last step: from here on the archive has it."""
    if not where.is_current():
        raise Vanished(f"{where.disk_folder}: emptied or deleted while it was copied")
    where.check(store)
    key = archive.manifest_key(where.folder, manifest.first_offset, manifest.generation)
    store_small(store, key, manifest.encode())


def store_small(store: ArchiveStore, key: str, data: bytes) -> None:
    """Store an object that can be read back as it was. ArchiveError."""
    put_bytes(store, key, data)
    if _read_back(store, key, len(data)) != digest(_of(data), len(data)):
        raise ArchiveError(f"the archive does not give {key} as it was stored")


def _store(store: ArchiveStore, key: str, read: ReadAt, size_bytes: int) -> tuple[str, int]:
    """Store an object that can be read back as it was; its hash, and how many were stored."""
    try:
        wanted = digest(read, size_bytes)
    except EOFError as error:
        raise Vanished(f"{key}: {error}") from error
    if (
        size_bytes > SENT_UNASKED_BYTES_MAX
        and store.size(key) == size_bytes
        and _read_back(store, key, size_bytes) == wanted
    ):
        return wanted, 0  # of a run that came to this, and not to the manifest
    try:
        store.put(key, read, size_bytes)
    except EOFError as error:
        raise Vanished(f"{key}: {error}") from error
    if _read_back(store, key, size_bytes) != wanted:
        raise ArchiveError(f"the archive does not give {key} as it was stored")
    return wanted, 1


def _read_back(store: ArchiveStore, key: str, size_bytes: int) -> str:
    """Its hash as it is read; empty if it is shorter, or not there."""
    try:
        return digest(partial(store.read, key), size_bytes)
    except (EOFError, FileNotFoundError):
        return ""


def _manifest(where: Where, extent: Extent, begin: Begin, now_us: int) -> Manifest:
    """Of a sealed segment, without what its bytes are."""
    return Manifest(
        stream_id=where.stream_id,
        topic_id=where.topic_id,
        partition_id=where.partition_id,
        stream=where.stream,
        topic=where.topic,
        incarnation=where.life.incarnation,
        purges=where.life.purges,
        first_offset=extent.first_offset,
        next_offset=extent.next_offset,
        first_timestamp_us=begin.timestamp_us,
        last_timestamp_us=max(begin.timestamp_us, extent.last_timestamp_us),
        size_bytes=extent.size_bytes,
        xxh3=_NO_HASH,
        written_at_us=now_us,
        key_id=begin.key_id or msgspec.UNSET,
        owner_generation=where.generation or msgspec.UNSET,
    )


@contextlib.contextmanager
def _opened(disk: Disk, path: str) -> Iterator[File]:
    """A file as it is now: should it be removed meanwhile, it is still read."""
    file = disk.open(path)
    try:
        file.size()
    except FileNotFoundError as error:
        raise Vanished(f"{path}: removed before it was copied") from error
    try:
        yield file
    finally:
        file.close()


def _begin(log: File) -> Begin:
    header = _exactly(log, PREFIX_BYTES, 0)
    return Begin(HEADER.unpack_from(header)[_TIMESTAMP], key_id_of(header))


def _add(log_hash: xxhash.xxh3_64, log: File, start: int, stop: int) -> None:
    for position in range(start, stop, BLOCK_BYTES):
        log_hash.update(_exactly(log, min(BLOCK_BYTES, stop - position), position))


def _exactly(file: File, size_bytes: int, position: int) -> bytes:
    data = file.read(size_bytes, position)
    if len(data) != size_bytes:
        raise Vanished(f"{file.path}: ends at byte {position + len(data)}")
    return data


def _at(file: File, start: int = 0) -> ReadAt:
    return lambda size_bytes, position: file.read(size_bytes, start + position)


def _of(data: bytes) -> ReadAt:
    return lambda size_bytes, position: data[position : position + size_bytes]

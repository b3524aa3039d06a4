"""What the archive has of a partition when the broker comes to it. Blocking, for a thread."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from iggy_broker.archive.copying import Tail, Vanished, read_manifest, tail_of
from iggy_broker.archive.plan import Extent, folder_of, is_copy_of
from iggy_broker.archive.store import ArchiveError, ArchiveStore
from iggy_broker.storage.disk import Disk
from iggy_wire import archive
from iggy_wire.archive import Life, Manifest
from iggy_wire.errors import WireError


@dataclass(frozen=True, slots=True)
class Asked:
    """A partition as it is now."""

    disk_folder: str
    stream_id: int
    topic_id: int
    partition_id: int
    life: Life
    present: frozenset[Life]
    """Of all partitions of the topic."""
    sealed: tuple[Extent, ...]
    active: Extent | None
    """What of the active segment is on the disk for good, if pieces of it are wanted."""


@dataclass(slots=True)
class Found:
    """What is there."""

    folder: str
    archived: dict[int, int] = field(default_factory=dict)
    """Where sealed segments end that have a copy, by first offset."""
    tail: Tail | None = None
    """Of the active segment."""
    has_offsets: bool = False
    """Whether stored offsets are there."""


def find(store: ArchiveStore, disk: Disk, asked: Asked) -> Found:
    """Look. ArchiveError: the archive does not say."""
    found = Found(_folder(store, asked))
    sizes = {entry.key: entry.size_bytes for entry in store.entries(f"{found.folder}/")}
    found.has_offsets = archive.offsets_key(found.folder) in sizes
    for segment in asked.sealed:
        manifest = _manifest(store, sizes, found.folder, segment.first_offset)
        if manifest is None or not is_copy_of(manifest, asked.life, segment):
            continue
        if _is_whole(sizes, found, manifest):
            found.archived[segment.first_offset] = segment.next_offset
    if asked.active is not None:
        manifest = _manifest(store, sizes, found.folder, asked.active.first_offset)
        is_ours = manifest and Life(manifest.incarnation, manifest.purges) == asked.life
        if manifest and is_ours and not manifest.sealed and _is_whole(sizes, found, manifest):
            with contextlib.suppress(Vanished):
                found.tail = tail_of(manifest, disk, asked.disk_folder, asked.active)
    with contextlib.suppress(ArchiveError):  # an earlier run was to remove them
        _remove_left_pieces(store, sizes, found)
    return found


def _remove_left_pieces(store: ArchiveStore, sizes: dict[str, int], found: Found) -> None:
    for key in sizes:
        named = archive.parse_key(key)
        if named is not None and named.kind == "part" and named.first_offset in found.archived:
            store.delete(key)


def _folder(store: ArchiveStore, asked: Asked) -> str:
    """Where this partition's copies are, or are to be."""
    plain = archive.topic_folder(asked.stream_id, asked.topic_id)
    own = archive.partition_folder(plain, asked.partition_id)
    manifest = next(_manifests(store, f"{own}/"), None)
    present: frozenset[Life] = frozenset()  # in its own folder, only its own life will do
    if manifest is None:
        manifest, present = next(_manifests(store, f"{plain}/"), None), asked.present
    there = None if manifest is None else Life(manifest.incarnation, manifest.purges)
    topic = folder_of(asked.stream_id, asked.topic_id, asked.life, there=there, present=present)
    return archive.partition_folder(topic, asked.partition_id)


def _manifests(store: ArchiveStore, prefix: str) -> Iterator[Manifest]:
    for entry in store.entries(prefix):
        named = archive.parse_key(entry.key)
        if named is not None and named.kind == "json" and (found := read_if_any(store, entry.key)):
            yield found


def _manifest(
    store: ArchiveStore, sizes: dict[str, int], folder: str, first_offset: int
) -> Manifest | None:
    key = archive.manifest_key(folder, first_offset)
    return read_if_any(store, key) if key in sizes else None


def read_if_any(store: ArchiveStore, key: str) -> Manifest | None:
    """None for what is no manifest, or is gone: it is written anew."""
    try:
        return read_manifest(store, key)
    except (WireError, FileNotFoundError):
        return None


def _is_whole(sizes: dict[str, int], found: Found, manifest: Manifest) -> bool:
    """Whether all objects are there that it names."""
    folder, first = found.folder, manifest.first_offset
    if manifest.sealed:
        index_bytes = sizes.get(archive.index_key(folder, first), 0)
        log_bytes = sizes.get(archive.log_key(folder, first))
        return log_bytes == manifest.size_bytes and index_bytes == manifest.index_bytes
    return all(
        sizes.get(archive.piece_key(folder, first, piece.position), 0) >= piece.size_bytes
        for piece in manifest.pieces
    )

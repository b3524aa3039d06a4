"""What the archive has of a partition when the broker comes to it. Blocking, for a thread."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from iggy_broker.archive.copying import Tail, Vanished, read_manifest, tail_of
from iggy_broker.archive.ownership import Ownership
from iggy_broker.archive.plan import Extent, folder_of, is_copy_of
from iggy_broker.archive.store import ArchiveError, ArchiveStore
from iggy_broker.storage.disk import Disk
from iggy_wire import archive
from iggy_wire.archive import Life, Manifest
from iggy_wire.errors import WireError

READS: Final = 2
"""Of a manifest that cannot be understood."""


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
    owner_id: str
    """As whom copies are made, and so from here on."""
    generation: int
    begin: int
    """Up to here copies of earlier owners count."""
    archived: dict[int, int] = field(default_factory=dict)
    """Where sealed segments end that have a copy, by first offset."""
    tail: Tail | None = None
    """Of the active segment."""
    has_offsets: bool = False
    """Whether stored offsets are there."""


def find(store: ArchiveStore, disk: Disk, asked: Asked, ownership: Ownership) -> Found:
    """Look. ArchiveError: the archive does not say, or is another's. OSError."""
    ours = ownership.now(store, disk)
    begin = ours.begin((asked.stream_id, asked.topic_id, asked.partition_id), asked.life)
    found = Found(_folder(store, asked), ours.id, ours.generation, begin)
    sizes = {entry.key: entry.size_bytes for entry in store.entries(f"{found.folder}/")}
    found.has_offsets = any(
        archive.offsets_key(found.folder, one) in sizes for one in ours.fences.generations()
    )
    writers = _writers(sizes, ours.generation)
    for segment in asked.sealed:
        for generation in writers.get(segment.first_offset, ()):
            if generation < ours.generation and segment.next_offset > begin:
                break  # what it has there is not what this broker has
            manifest = _manifest(store, found.folder, segment.first_offset, generation)
            is_there = manifest and is_copy_of(manifest, asked.life, segment)
            if manifest and is_there and _is_whole(sizes, found, manifest):
                found.archived[segment.first_offset] = segment.next_offset
                break
    first = -1 if asked.active is None else asked.active.first_offset
    if asked.active is not None and ours.generation in writers.get(first, ()):
        manifest = _manifest(store, found.folder, first, ours.generation)
        is_ours = manifest and Life(manifest.incarnation, manifest.purges) == asked.life
        if manifest and is_ours and not manifest.sealed and _is_whole(sizes, found, manifest):
            with contextlib.suppress(Vanished):
                found.tail = tail_of(manifest, disk, asked.disk_folder, asked.active)
    with contextlib.suppress(ArchiveError):  # an earlier run was to remove them
        _remove_left_pieces(store, sizes, found)
    return found


def _writers(sizes: dict[str, int], last: int) -> dict[int, list[int]]:
    """Generations of those that have manifests there up to the `last` one, which comes first, by
    first offset.
    """
    found: dict[int, list[int]] = {}
    for key in sizes:
        named = archive.parse_key(key)
        if named is not None and named.kind == "json" and named.generation <= last:
            found.setdefault(named.first_offset, []).append(named.generation)
    return {first: sorted(generations, reverse=True) for first, generations in found.items()}


def _remove_left_pieces(store: ArchiveStore, sizes: dict[str, int], found: Found) -> None:
    for key in sizes:
        named = archive.parse_key(key)
        if named is None or named.kind != "part" or named.generation != found.generation:
            continue
        if named.first_offset in found.archived:
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
    store: ArchiveStore, folder: str, first_offset: int, generation: int
) -> Manifest | None:
    return read_if_any(store, archive.manifest_key(folder, first_offset, generation))


def read_if_any(store: ArchiveStore, key: str) -> Manifest | None:
    """None for what is no manifest, or is gone: it is written anew."""
    with contextlib.suppress(WireError):
        return read_again(store, key)
    return None


def read_again(store: ArchiveStore, key: str) -> Manifest | None:
    """None: it is gone. What came wrong is read again: without its manifest a segment would be
    passed over.

    Raises:
        WireError: it is no manifest.
        ArchiveError: the archive does not say.
    """
    try:
        for _ in range(READS - 1):
            with contextlib.suppress(WireError):
                return read_manifest(store, key)
        return read_manifest(store, key)
    except FileNotFoundError:
        return None


def _is_whole(sizes: dict[str, int], found: Found, manifest: Manifest) -> bool:
    """Whether all objects are there that it names."""
    folder, first, by = found.folder, manifest.first_offset, manifest.generation
    if manifest.sealed:
        index_bytes = sizes.get(archive.index_key(folder, first, by), 0)
        log_bytes = sizes.get(archive.log_key(folder, first, by))
        return log_bytes == manifest.size_bytes and index_bytes == manifest.index_bytes
    return all(
        sizes.get(archive.piece_key(folder, first, piece.position, by), 0) >= piece.size_bytes
        for piece in manifest.pieces
    )

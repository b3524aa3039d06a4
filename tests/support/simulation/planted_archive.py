"""Bugs of the archiver to be found, and how a bug is put in; see `planted`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from iggy_broker.archive import archiver, copies, copying, finding
from iggy_broker.archive.copies import Copies
from iggy_broker.archive.copying import Tail, Where
from iggy_broker.archive.plan import Extent
from iggy_broker.archive.store import ArchiveStore, ReadAt, digest
from iggy_broker.restore import building
from iggy_broker.storage.gate import EVERYTHING, Gate
from iggy_broker.storage.partition_log import PartitionLog
from iggy_wire import archive
from iggy_wire.archive import Manifest

Plant = Callable[[], contextlib.AbstractContextManager[None]]


@contextlib.contextmanager
def replaced(owner: object, name: str, value: object) -> Iterator[None]:
    """Something of the product is another one meanwhile."""
    real = owner.__dict__[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, real)


@contextlib.contextmanager
def removal_before_copy() -> Iterator[None]:
    """A segment goes, copied or not."""
    with replaced(Gate, "end", lambda *args: EVERYTHING):
        yield


@contextlib.contextmanager
def manifest_before_data() -> Iterator[None]:
    """The manifest is written first, and then what it names."""
    later: dict[int, list[tuple[str, bytes]]] = {}
    write = copying._write

    def store_later(
        store: ArchiveStore, key: str, read: ReadAt, size_bytes: int
    ) -> tuple[str, int]:
        later.setdefault(id(store), []).append((key, read(size_bytes, 0)))
        return digest(read, size_bytes), 1

    def write_first(store: ArchiveStore, where: Where, manifest: Manifest) -> None:
        try:
            write(store, where, manifest)
        finally:
            for key, data in later.pop(id(store), []):
                copying.put_bytes(store, key, data)

    with (
        replaced(copying, "_store", store_later),
        replaced(copying, "_write", write_first),
    ):
        yield


@contextlib.contextmanager
def copy_not_compared() -> Iterator[None]:
    """What the store took is believed to be there."""

    def store_blindly(
        store: ArchiveStore, key: str, read: ReadAt, size_bytes: int
    ) -> tuple[str, int]:
        store.put(key, read, size_bytes)
        return digest(read, size_bytes), 1

    with replaced(copying, "_store", store_blindly):
        yield


class _Done:
    """Nothing is waited for."""

    def __await__(self) -> Iterator[None]:
        return iter(())


@contextlib.contextmanager
def unsynced_tail() -> Iterator[None]:
    """What a power cut can take is copied as well."""

    def all_of_it(log: PartitionLog) -> Extent | None:
        active = log.segments[-1]
        if not active.size_bytes:
            return None
        return Extent(active.first_offset, active.next_offset, active.size_bytes)

    with (
        replaced(copies, "active_extent", all_of_it),
        replaced(archiver.Partition, "save", lambda self: _Done()),
    ):
        yield


@contextlib.contextmanager
def one_folder_for_all_lives() -> Iterator[None]:
    """A topic's number is a folder's name, whoever had it before."""

    def plain(stream_id: int, topic_id: int, *args: Any, **more: Any) -> str:
        return archive.topic_folder(stream_id, topic_id)

    with replaced(finding, "folder_of", plain):
        yield


@contextlib.contextmanager
def pieces_removed_first() -> Iterator[None]:
    """The pieces of a sealed segment go before its copy counts."""
    write = copying._write

    def remove_first(store: ArchiveStore, where: Where, manifest: Manifest) -> None:
        if manifest.sealed:
            copying.remove_pieces(store, where.folder, manifest.first_offset)
        write(store, where, manifest)

    with replaced(copying, "_write", remove_first):
        yield


@contextlib.contextmanager
def tail_forgotten() -> Iterator[None]:
    """New bytes of a segment that is written are seen only once."""
    real = Copies.tail_due

    def tail_due(self: Copies, *args: Any) -> Extent | None:
        extent = real(self, *args)
        known: Tail | None = self.tails.get(extent.first_offset) if extent else None
        return None if known else extent

    with replaced(Copies, "tail_due", tail_due):
        yield


@contextlib.contextmanager
def restored_without_offsets() -> Iterator[None]:
    """A restore leaves out what consumers have stored."""
    with replaced(building, "_store_offsets", lambda *args: None):
        yield


ARCHIVE_PLANTS: dict[str, Plant] = {
    "removal before copy": removal_before_copy,
    "manifest before data": manifest_before_data,
    "copy not compared": copy_not_compared,
    "unsynced tail copied": unsynced_tail,
    "one folder for all lives": one_folder_for_all_lives,
    "pieces removed first": pieces_removed_first,
    "tail forgotten": tail_forgotten,
    "restored without offsets": restored_without_offsets,
}

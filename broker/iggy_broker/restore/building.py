"""Make a data directory on the disk. Blocking.

A note is there before anything else and goes last: as long as it is there no broker starts, and the
next restore begins anew. So the directory is there whole or not at all.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field

import msgspec

from iggy_broker.archive.store import ArchiveStore
from iggy_broker.metadata import journal
from iggy_broker.metadata.info import write_info
from iggy_broker.metadata.model import State
from iggy_broker.restore.fetching import fetch_all
from iggy_broker.restore.plan import Target
from iggy_broker.restore.survey import Held
from iggy_broker.storage import layout
from iggy_broker.storage.consumer_offsets import ConsumerKey, ConsumerOffsets
from iggy_broker.storage.disk import Disk
from iggy_broker.storage.format_version import (
    ENCRYPTED_FORMAT,
    FORMAT_FILE,
    NOT_OURS,
    PLAIN_FORMAT,
    UNFINISHED_RESTORE,
    mark_format,
)
from iggy_broker.storage.life import write_life
from iggy_broker.storage.records import Life, Synced
from iggy_broker.storage.recovery import write_synced
from iggy_wire.primitives import ConsumerKind

_NOTE = b"A restore has begun here and was not finished: run it again.\n"


class DirectoryInUse(Exception):
    """The data directory has something in it. The text says what to do."""


class Cut(msgspec.Struct, frozen=True):
    """A stored offset that is not as it was."""

    kind: str  # consumer, group
    id: int
    offset: int
    now: int | None
    """None: the group is not known any more, or there is no message."""


@dataclass(slots=True)
class Made:
    """What was made of a partition."""

    local_offset: int = 0
    """The first on the disk."""
    offsets: int = 0
    """Stored ones."""
    cut: list[Cut] = field(default_factory=list)
    problem: str = ""


def is_empty(disk: Disk, root: str) -> bool:
    """Whether a data directory can be made in the folder `root`; False: it is one already.

    DirectoryInUse if something else is in it. OSError.
    """
    names = _names(disk, root)
    if not names or UNFINISHED_RESTORE in names:
        return True
    if FORMAT_FILE in names:
        return False
    why = f"{root} has {names[0]!r} in it: empty it, or name another folder as system.path"
    raise DirectoryInUse(why)


def begin(disk: Disk, root: str) -> None:
    """Note that it is being made, and remove what an interrupted restore left."""
    disk.write_file(f"{root}/{UNFINISHED_RESTORE}", _NOTE, sync=True)
    for name in _names(disk, root):
        path = f"{root}/{name}"
        if disk.is_folder(path):
            disk.remove_tree(path)
        elif name != UNFINISHED_RESTORE:
            disk.remove(path)
    disk.sync_folder(root)


def _names(disk: Disk, root: str) -> list[str]:
    return [name for name in disk.list_folder(root) if name not in NOT_OURS]


def finish(disk: Disk, root: str, state: State, *, is_encrypted: bool) -> None:
    """When all partitions are made: metadata, and at last away with the note.

    `is_encrypted`: whether any segment is.
    """
    parents = {
        parent
        for placed in state.placed()
        for parent in layout.parents_of(
            layout.partition_folder(root, placed.stream_id, placed.topic_id, placed.partition.id)
        )
    }
    for folder in sorted(parents):
        disk.sync_folder(folder)
    journal.start_anew(root, state, disk=disk)
    write_info(disk, root, state)
    mark_format(disk, root, ENCRYPTED_FORMAT if is_encrypted else PLAIN_FORMAT)
    disk.remove(f"{root}/{UNFINISHED_RESTORE}")
    disk.sync_folder(root)


def build(
    disk: Disk, root: str, target: Target, *, groups: Container[int], store: ArchiveStore | None
) -> Made:
    """Make a partition. `groups`: those that its topic has. `store`: to fetch segments from.

    Without one an empty segment begins where the archive ends.
    ArchiveError, OSError, StorageFailed.
    """
    placed = target.placed
    partition, held = placed.partition, target.held
    folder = layout.partition_folder(root, placed.stream_id, placed.topic_id, partition.id)
    disk.make_folders(folder)
    life = Life(partition.incarnation, partition.purges, purging=False)
    write_life(disk, folder, life, sync=True)
    made = Made()
    if held is not None:
        _build_log(disk, folder, held, store, made)
        _store_offsets(disk, folder, held, groups, made)
    return made


def _build_log(disk: Disk, folder: str, held: Held, store: ArchiveStore | None, made: Made) -> None:
    end = made.local_offset = held.next_offset
    if store is not None:
        fetched, made.problem = fetch_all(disk, folder, held, store)
        made.local_offset = fetched[-1].first_offset if fetched else end
        if fetched and fetched[0].pieces is not None:
            # The one that is written: looked through from its begin, for it has no index.
            first = fetched[0].first_offset
            write_synced(disk, folder, Synced(first, 0, first, 0))
            disk.sync_folder(folder)
            return
    disk.write_file(layout.log_path(folder, end), b"", sync=True)
    write_synced(disk, folder, Synced(end, 0, end, held.last_timestamp_us))
    disk.sync_folder(folder)


def _store_offsets(disk: Disk, folder: str, held: Held, groups: Container[int], made: Made) -> None:
    """None of them beyond the end: the broker would draw them back, and tell nobody but the log."""
    if held.offsets is None:
        return
    problems: list[str] = []
    files = ConsumerOffsets(disk, folder, problems.append)
    kinds = {
        ConsumerKind.CONSUMER: held.offsets.consumers,
        ConsumerKind.GROUP: held.offsets.groups,
    }
    given = {
        ConsumerKey(kind, number): offset
        for kind, stored in kinds.items()
        for number, offset in stored.items()
    }
    for key, offset in given.items():
        is_group = key.kind == ConsumerKind.GROUP
        now: int | None = min(offset, held.next_offset - 1)
        if is_group and key.id not in groups:
            now = None
        if now != offset:
            made.cut.append(Cut("group" if is_group else "consumer", key.id, offset, now))
        if now is not None:
            files.store(key, now)
            made.offsets += 1
    changed, folders = files.take_unsynced()
    for file in changed:
        file.sync()
    for name in folders:
        disk.sync_folder(name)
    files.close()

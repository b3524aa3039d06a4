"""Copy a partition's folder while its broker writes to it: what a kill at that moment would leave.

Everything acknowledged is in the files, so another process reads it there. What makes the copy
whole is the order: notes and offsets before the log that they speak of, an index before its log,
and segments from the newest to the oldest. Those that retention takes meanwhile are the oldest, so
a missing one ends the copy and leaves no hole. A purge or a deletion shows in `life`: then the copy
begins anew.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from iggy_broker.storage import layout
from iggy_broker.storage.consumer_offsets import OFFSET_FOLDERS
from iggy_broker.storage.disk import Disk
from iggy_broker.storage.records import read_life, read_synced
from iggy_broker.storage.scan import scan_log
from iggy_wire import kernel

TRIES_MAX = 10  # while a purge runs, or one follows the other
TRY_AGAIN_S = 0.1
READINGS_MAX = 50  # of a small file that is never the same twice; the last one counts then
COPY_BYTES = 4 * 1024 * 1024  # read and written at once

_SMALL_BYTES_MAX = 4 * 1024 * 1024  # more is no note and no stored offset
_NOTES = (layout.LIFE_FILE, layout.TRIM_FILE, layout.SYNCED_FILE)  # `clean` is not true of a copy

Link = Callable[[str, str], None]
"""Gives a file a second name: (path, new path)."""


class CopyError(Exception):
    """A partition that cannot be copied. The text says which and why."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What is in the copy of a partition."""

    first_offset: int
    next_offset: int
    size_bytes: int  # of its log
    damage: str = ""  # what is wrong with the newest segment, if anything is


def copy_partition(
    disk: Disk, source: str, target: str, *, incarnation: int, link: Link | None = None
) -> Copied | None:
    """Copy the partition's folder `source` to `target` and sync it.

    `link`, if given, is used for sealed segments in place of a copy. None if the folder is gone, or
    is that of another incarnation now. CopyError, OSError.
    """
    for tried in range(TRIES_MAX):
        before = read_life(disk, source)
        if not disk.exists(source) or (before and before.incarnation != incarnation):
            return None
        is_last = tried == TRIES_MAX - 1
        # Without the note it is being made just now. What a kill left so, or in a purge, stays so.
        if (before is not None and not before.purging) or is_last:
            disk.remove_tree(target)
            disk.make_folders(target)
            with contextlib.suppress(FileNotFoundError):
                copied = _copy_once(disk, source, target, link)
                if read_life(disk, source) == before and disk.exists(source):
                    return copied
        if not is_last:
            time.sleep(TRY_AGAIN_S)
    disk.remove_tree(target)
    if not disk.exists(source):
        return None
    raise CopyError(f"{source}: it changes all the time: it was purged while it was copied")


def _copy_once(disk: Disk, source: str, target: str, link: Link | None) -> Copied:
    for kind in OFFSET_FOLDERS.values():
        _copy_offsets(disk, f"{source}/{layout.OFFSETS_FOLDER}", target, kind)
    for name in _NOTES:
        with contextlib.suppress(FileNotFoundError):
            copy_small(disk, f"{source}/{name}", f"{target}/{name}")
    names = disk.list_folder(source)
    firsts = [first for name in names if (first := layout.log_first_offset(name)) is not None]
    copied: list[int] = []
    for first in reversed(firsts):
        try:
            with contextlib.suppress(FileNotFoundError):
                index = layout.index_path(source, first)
                _copy(disk, index, layout.index_path(target, first))
            if link is not None and copied:
                link(layout.log_path(source, first), layout.log_path(target, first))
                _sync(disk, layout.log_path(target, first))
            else:
                _copy(disk, layout.log_path(source, first), layout.log_path(target, first))
        except FileNotFoundError:
            disk.remove(layout.index_path(target, first))
            break  # retention was here, and has taken all that is older
        copied.append(first)
    disk.sync_folder(target)
    if not copied:
        return Copied(0, 0, 0)
    next_offset, damage = _trim_tail(disk, target, copied[0])
    size_bytes = sum(disk.size(layout.log_path(target, first)) for first in copied)
    return Copied(copied[-1], next_offset, size_bytes, damage)


def _trim_tail(disk: Disk, folder: str, first: int) -> tuple[int, str]:
    """Cut a batch that was being written; (next offset, what else is wrong) of the newest log."""
    noted = read_synced(disk, folder)
    path = layout.log_path(folder, first)
    size = disk.size(path)
    start, offset = 0, first
    if noted is not None and noted.first_offset == first and noted.position <= size:
        start, offset = noted.position, noted.next_offset
    file = disk.open(path)
    try:
        found = scan_log(file, start, size, offset)
        if found.end < size and found.reason == kernel.INCOMPLETE_TAIL:
            file.truncate(found.end)
            file.sync()
        elif found.end < size:
            return found.next_offset, f"{path}: damaged at offset {found.next_offset}"
    finally:
        file.close()
    return found.next_offset, ""


def _copy_offsets(disk: Disk, folder: str, target: str, kind: str) -> None:
    names = [name for name in disk.list_folder(f"{folder}/{kind}") if name.isdecimal()]
    if not names:
        return
    kept = f"{target}/{layout.OFFSETS_FOLDER}/{kind}"
    disk.make_folders(kept)
    for name in names:
        with contextlib.suppress(FileNotFoundError):  # deleted just now
            copy_small(disk, f"{folder}/{kind}/{name}", f"{kept}/{name}")
    disk.sync_folder(kept)
    disk.sync_folder(f"{target}/{layout.OFFSETS_FOLDER}")


def copy_small(disk: Disk, source: str, target: str) -> None:
    """Copy a file that may be written in place just now: two readings must be the same."""
    data = disk.read_file(source, bytes_max=_SMALL_BYTES_MAX)
    for _ in range(READINGS_MAX):
        before, data = data, disk.read_file(source, bytes_max=_SMALL_BYTES_MAX)
        if data == before:
            break
    file = disk.open(target, create=True)
    try:
        file.write(data, 0)
        file.sync()
    finally:
        file.close()


def _copy(disk: Disk, source: str, target: str) -> None:
    """Copy what a file has now; it may grow meanwhile."""
    read = disk.open(source)
    try:
        size = read.size()
        written = disk.open(target, create=True)
        try:
            for at in range(0, size, COPY_BYTES):
                written.write(read.read(min(COPY_BYTES, size - at), at), at)
            written.sync()
        finally:
            written.close()
    finally:
        read.close()


def _sync(disk: Disk, path: str) -> None:
    file = disk.open(path)
    try:
        file.sync()
    finally:
        file.close()

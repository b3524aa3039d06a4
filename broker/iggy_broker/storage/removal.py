"""Take folders and segments away: out of sight at once, off the disk when there is time."""

import contextlib
import threading
from collections import deque

from iggy_broker.storage import layout
from iggy_broker.storage.disk import Disk, may_pass
from iggy_broker.storage.syncer import Syncer

_TRIES_MAX = 1000
_OWN_PARENTS = 4  # above a partition: partitions, topic, topics, stream


def move_away(disk: Disk, folder: str, *, suffix: str = "deleted") -> str:
    """Rename a folder so that its place is free; its new path, or "" if it is missing.

    Not synced: should a power cut undo it, the incarnation in the folder's `life` file tells that
    it is not the one that is looked for.
    """
    if not disk.exists(folder):
        return ""
    for number in range(_TRIES_MAX):
        target = f"{folder}.{suffix}-{number}"
        if not disk.exists(target):
            disk.rename(folder, target)
            return target
    raise FileExistsError(f"{folder}.{suffix}-*: {_TRIES_MAX} of them are there, remove some")


def take_away(disk: Disk, folder: str, syncer: Syncer | None) -> str:
    """Free the place of a deleted partition's folder at once; its files go when there is time.

    "", or why the disk keeps something of it.
    """
    try:
        away = move_away(disk, folder)
    except OSError as error:
        if not may_pass(error):
            raise
        return _remove_in_place(disk, folder)  # there is no room for a new name
    if away and syncer is not None:
        syncer.in_background(lambda: _remove(disk, away))
    elif away:
        with contextlib.suppress(OSError):  # as in the background: the next start removes it
            _remove(disk, away)
    return ""


def _remove(disk: Disk, away: str) -> None:
    """A partition's folder, and those of its topic and stream if it was the last one."""
    remove_moved(disk, away)
    for parent in layout.parents_of(away)[:_OWN_PARENTS]:
        if not disk.remove_empty(parent):
            break


def _remove_in_place(disk: Disk, folder: str) -> str:
    """`life` goes last: as long as anything is left, it says that the folder is a stranger's."""
    try:
        for name in disk.list_folder(folder):
            path = f"{folder}/{name}"
            if disk.is_folder(path):
                disk.remove_tree(path)
            elif name != layout.LIFE_FILE:
                disk.remove(path)
        disk.remove_tree(folder)
    except OSError as error:
        if not may_pass(error):
            raise
        return f"{folder}: not removed: {error}"
    return ""


def remove_moved(disk: Disk, away: str) -> None:
    """Remove what `move_away` renamed.

    The new name is made durable first: should a power cut undo the rename after `life` is gone,
    nobody could tell whose messages the folder holds, and the next of its number would take them.
    """
    disk.sync_folder(away.rpartition("/")[0])
    disk.remove_tree(away)
    with contextlib.suppress(FileNotFoundError):  # another shard found it empty and removed it
        disk.sync_folder(away.rpartition("/")[0])


def remove_leftovers(disk: Disk, root: str) -> None:
    """At start: remove what earlier deletions left. Looks at folder names only."""
    streams = f"{root}/streams"
    for stream in _kept(disk, streams):
        for topic in _kept(disk, f"{streams}/{stream}/topics"):
            _kept(disk, f"{streams}/{stream}/topics/{topic}/partitions")
            disk.remove_empty(f"{streams}/{stream}/topics/{topic}/partitions")
            disk.remove_empty(f"{streams}/{stream}/topics/{topic}")
        disk.remove_empty(f"{streams}/{stream}/topics")
        disk.remove_empty(f"{streams}/{stream}")


def _kept(disk: Disk, folder: str) -> list[str]:
    kept = []
    for name in disk.list_folder(folder):
        if ".deleted-" in name:
            disk.sync_folder(folder)  # as in `remove_moved`: a killed process may have renamed it
            disk.remove_tree(f"{folder}/{name}")
        elif name.isdecimal():
            kept.append(name)
    return kept


class HeadRemoval:
    """Removes dropped segments of one partition in the background, the oldest first.

    Each is made durable before the next, and what the disk refused is tried again before anything
    newer, so that no hole can appear. `cancel` before the same names are used again (purge,
    delete): then the caller removes everything itself.
    """

    __slots__ = ("_disk", "_folder", "_lock", "_pending", "_syncer")

    def __init__(self, disk: Disk, folder: str, syncer: Syncer | None) -> None:
        """Without a syncer it removes at once."""
        self._disk = disk
        self._folder = folder
        self._syncer = syncer
        self._lock = threading.Lock()
        self._pending: deque[int] = deque()

    def remove(self, firsts: list[int]) -> None:
        """Remove the segments with these first offsets, given in rising order."""
        with self._lock:
            self._pending += firsts
        if self._syncer is None:
            self._remove()
        else:
            self._syncer.in_background(self._remove)

    def cancel(self) -> None:
        """What is not removed yet will not be."""
        with self._lock:
            self._pending.clear()

    def _remove(self) -> None:
        while True:
            with self._lock:  # let go between two, for `cancel`
                if not self._pending:
                    return
                first = self._pending[0]
                self._disk.remove(layout.log_path(self._folder, first))
                self._disk.remove(layout.index_path(self._folder, first))
                self._disk.sync_folder(self._folder)
                self._pending.popleft()

"""Which life of a partition a folder holds: creation, purges, strangers."""

import contextlib

from iggy_broker.storage import layout
from iggy_broker.storage.cutting import Decision, DecisionKind
from iggy_broker.storage.disk import Disk, File, StorageFailed
from iggy_broker.storage.records import Life, read_life
from iggy_broker.storage.removal import move_away
from iggy_broker.storage.values import PartitionPlace


def write_life(disk: Disk, folder: str, life: Life, *, sync: bool) -> None:
    """Note which life of the partition a folder holds.

    In place: 32 bytes lie in one sector, and a purge must work on a full disk, too.
    """
    file = disk.open(f"{folder}/{layout.LIFE_FILE}", create=True)
    file.write(life.encode(), 0)
    if sync:
        _sync(file)
        disk.sync_folder(folder)
    file.close()


def held_life(disk: Disk, folder: str) -> File:
    """The file, for a sync that covers it: closed as soon as it is released."""
    file = disk.open(f"{folder}/{layout.LIFE_FILE}")
    file.hold()
    file.close()
    return file


def _sync(file: File) -> None:
    try:
        file.sync()
    except OSError as error:
        raise StorageFailed(f"{file.path}: sync failed: {error}") from error


def _sync_names(disk: Disk, folder: str) -> None:
    try:
        disk.sync_folder(folder)
    except OSError as error:
        raise StorageFailed(f"{folder}: sync failed: {error}") from error


def settle_life(place: PartitionPlace, disk: Disk) -> list[Decision]:
    """Make the folder, set a stranger's aside, finish an interrupted purge."""
    decisions = []
    folder = place.folder
    if not disk.exists(folder):
        _make(place, disk, sync=False)
        if not place.is_new:
            why = "the folder is missing; the partition starts empty"
            decisions.append(Decision(DecisionKind.FOLDER_MISSING, folder, why=why))
        return decisions
    life = _life_of(place, disk)
    if life is None and place.is_new:
        # Nobody's: a power cut brought it back without the note that says whose it was.
        target = move_away(disk, folder, suffix="stale-unknown")
        # Should a power cut undo this, nothing in it would tell that it is not ours.
        _sync_names(disk, layout.parents_of(folder)[0])
        why = f"it was there before the partition was made and is now {target}"
        decisions.append(Decision(DecisionKind.FOLDER_SET_ASIDE, folder, why=why))
        _make(place, disk, sync=True)
    elif life is None:
        write_life(disk, folder, Life(place.incarnation, place.purges, purging=False), sync=True)
        why = "the note whose partition it is was missing or damaged, and is made anew"
        decisions.append(Decision(DecisionKind.LIFE_NOTED, folder, why=why))
    elif life.incarnation != place.incarnation:
        target = move_away(disk, folder, suffix=f"stale-{life.incarnation}")
        why = f"it belongs to another partition of this number and is now {target}"
        decisions.append(Decision(DecisionKind.FOLDER_SET_ASIDE, folder, why=why))
        _make(place, disk, sync=True)
    elif life.purging or life.purges < place.purges:
        purge_folder(disk, folder, place.incarnation, max(life.purges, place.purges))
        why = "a purge had begun before the stop"
        decisions.append(Decision(DecisionKind.PURGE_FINISHED, folder, why=why))
    elif not disk.exists(f"{folder}/{layout.CLEAN_FILE}"):
        # A killed process may have left what says "the purge is over" in the page cache only;
        # should a power cut take that back later, the next start would wipe what came since.
        file = disk.open(f"{folder}/{layout.LIFE_FILE}")
        _sync(file)
        file.close()
    return decisions


def _make(place: PartitionPlace, disk: Disk, *, sync: bool) -> None:
    """A new folder, with its note or not at all: without one it would be taken for a stranger's."""
    disk.make_folders(place.folder)
    life = Life(place.incarnation, place.purges, purging=False)
    try:
        write_life(disk, place.folder, life, sync=sync)
    except OSError:
        with contextlib.suppress(OSError):
            disk.remove_tree(place.folder)
        raise


def _life_of(place: PartitionPlace, disk: Disk) -> Life | None:
    """The note in the folder. OSError if the disk cannot read it, and it may be ours."""
    try:
        return read_life(disk, place.folder)
    except OSError:
        if not place.is_new:
            raise
        return None


def purge_folder(disk: Disk, folder: str, incarnation: int, purges: int) -> None:
    """Remove all messages and offsets. A crash or a full disk in between: begin once more."""
    write_life(disk, folder, Life(incarnation, purges, purging=True), sync=True)
    disk.remove_tree(f"{folder}/{layout.OFFSETS_FOLDER}")
    wipe(disk, folder)
    write_life(disk, folder, Life(incarnation, purges, purging=False), sync=True)


def wipe(disk: Disk, folder: str) -> None:
    """Remove log, index and notes. `life` says meanwhile that a purge is under way."""
    for name in (layout.CLEAN_FILE, layout.SYNCED_FILE, layout.TRIM_FILE):
        disk.remove(f"{folder}/{name}")
    for name in disk.list_folder(folder):
        known = layout.log_first_offset(name), layout.index_first_offset(name)
        if known != (None, None):
            disk.remove(f"{folder}/{name}")
    # Gone for good before anybody writes that the purge is over: a power cut between the two would
    # else bring purged messages back.
    disk.sync_folder(folder)

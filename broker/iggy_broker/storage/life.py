"""Which life of a partition a folder holds: creation, purges, strangers."""

from iggy_broker.storage import layout
from iggy_broker.storage.cutting import Decision, DecisionKind
from iggy_broker.storage.disk import Disk
from iggy_broker.storage.records import Life, read_life
from iggy_broker.storage.removal import move_away
from iggy_broker.storage.values import PartitionPlace


def write_life(disk: Disk, folder: str, life: Life, *, sync: bool) -> None:
    """Note which life of the partition a folder holds."""
    disk.write_file(f"{folder}/{layout.LIFE_FILE}", life.encode(), sync=sync)


def settle_life(place: PartitionPlace, disk: Disk) -> list[Decision]:
    """Make the folder, set a stranger's aside, finish an interrupted purge."""
    decisions = []
    folder = place.folder
    if not disk.exists(folder):
        disk.make_folders(folder)
        write_life(disk, folder, Life(place.incarnation, place.purges, purging=False), sync=False)
        if not place.is_new:
            why = "the folder is missing; the partition starts empty"
            decisions.append(Decision(DecisionKind.FOLDER_MISSING, folder, why=why))
        return decisions
    life = read_life(disk, folder)
    if life is None:
        write_life(disk, folder, Life(place.incarnation, place.purges, purging=False), sync=True)
    elif life.incarnation != place.incarnation:
        target = move_away(disk, folder, suffix=f"stale-{life.incarnation}")
        why = f"it belongs to another partition of this number and is now {target}"
        decisions.append(Decision(DecisionKind.FOLDER_SET_ASIDE, folder, why=why))
        disk.make_folders(folder)
        write_life(disk, folder, Life(place.incarnation, place.purges, purging=False), sync=True)
    elif life.purging or life.purges < place.purges:
        purges = max(life.purges, place.purges)
        write_life(disk, folder, Life(place.incarnation, purges, purging=True), sync=True)
        disk.remove_tree(f"{folder}/{layout.OFFSETS_FOLDER}")
        wipe(disk, folder)
        write_life(disk, folder, Life(place.incarnation, purges, purging=False), sync=True)
        why = "a purge had begun before the stop"
        decisions.append(Decision(DecisionKind.PURGE_FINISHED, folder, why=why))
    return decisions


def wipe(disk: Disk, folder: str) -> None:
    """Remove log, index and notes. `life` says meanwhile that a purge is under way."""
    for name in (layout.CLEAN_FILE, layout.SYNCED_FILE):
        disk.remove(f"{folder}/{name}")
    for name in disk.list_folder(folder):
        known = layout.log_first_offset(name), layout.index_first_offset(name)
        if known != (None, None):
            disk.remove(f"{folder}/{name}")

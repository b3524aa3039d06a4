"""Open a partition's folder: whose is it, what is in it, and what if the disk has no room."""

from __future__ import annotations

from iggy_broker.storage.disk import Disk, may_pass
from iggy_broker.storage.life import purge_folder, settle_life
from iggy_broker.storage.recovery import Recovered, recover
from iggy_broker.storage.values import PartitionOptions, PartitionPlace


def open_folder(place: PartitionPlace, options: PartitionOptions, disk: Disk) -> Recovered:
    """Make or recover the folder; `waits` if the disk has no room for that now.

    Raises OSError if the disk is broken, StorageFailed if recovered bytes cannot be synced.
    """
    try:
        decisions = settle_life(place, disk)
        recovered = recover(disk, place.folder)
    except OSError as error:
        if not may_pass(error):
            raise
        return waiting(error)
    recovered.decisions[:0] = decisions
    if not options.validate_checksum:
        for segment in recovered.segments:
            segment.verified = None
    return recovered


def open_waiting(place: PartitionPlace, options: PartitionOptions, disk: Disk) -> Recovered:
    """The same for one that waits, among others that are served: it waits on, whatever is wrong.

    Raises StorageFailed if recovered bytes cannot be synced.
    """
    try:
        return open_folder(place, options, disk)
    except OSError as error:
        return waiting(error)


def purged(place: PartitionPlace, disk: Disk) -> Recovered:
    """Empty the folder, as often as `place` says. OSError or StorageFailed if the disk refuses."""
    try:
        disk.make_folders(place.folder)
        purge_folder(disk, place.folder, place.incarnation, place.purges)
    except OSError as error:
        if not may_pass(error):
            raise
        return waiting(error)
    return Recovered()


def waiting(error: OSError) -> Recovered:
    """Nothing is open: the disk refused with `error`, and may do better another time."""
    return Recovered(fenced=f"the disk does not let it be opened: {error}", waits=True)

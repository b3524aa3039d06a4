"""Bugs to be found: each makes the broker break one promise while it is in force.

They are put into the product from outside, by replacing one function, so that the product has no
switch for them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from iggy_broker.net import targets
from iggy_broker.net.edge import Edge
from iggy_broker.net.handlers import offsets
from iggy_broker.net.resolver import Resolver
from iggy_broker.net.targets import group_place
from iggy_broker.storage import cutting, life, opening, partition
from iggy_broker.storage.consumer_offsets import ConsumerOffsets
from iggy_broker.storage.partition import Partition
from iggy_broker.storage.partition_log import PartitionLog
from iggy_broker.storage.segment import Segment
from iggy_broker.storage.trimming import Trimming
from iggy_wire.primitives import ConsumerKind
from simulation.disk import FaultyDisk
from simulation.planted_archive import ARCHIVE_PLANTS, Plant, replaced


@contextlib.contextmanager
def acknowledge_before_write() -> Iterator[None]:
    """A persisted send is answered before its bytes are on the disk."""
    real = Partition.append

    def append(self: Partition, batch: memoryview) -> int:
        base_offset = real(self, batch)
        if self._persisted:
            self.must_wait = False
            self.save()
        return base_offset

    with replaced(Partition, "append", append):
        yield


@contextlib.contextmanager
def index_before_data() -> Iterator[None]:
    """What is synced first is the index, and only that: the note says that all is there."""
    real = PartitionLog.begin_sync

    def begin_sync(self: PartitionLog, *, checkpoint: bool) -> Any:
        work = real(self, checkpoint=checkpoint)
        if work is None:
            return None
        logs = [file for file in work.files if file.path.endswith(".log")]
        for file in logs[:-1] or logs:
            file.release()
        kept = tuple(file for file in work.files if file not in (logs[:-1] or logs))
        return type(work)(kept, work.folders, work.mark)

    with replaced(PartitionLog, "begin_sync", begin_sync):
        yield


@contextlib.contextmanager
def no_folder_sync() -> Iterator[None]:
    """New files of partitions are synced, the folders that name them are not."""
    real = FaultyDisk.sync_folder

    def sync_folder(self: FaultyDisk, path: str) -> None:
        if "/streams/" not in path:
            real(self, path)

    with replaced(FaultyDisk, "sync_folder", sync_folder):
        yield


@contextlib.contextmanager
def offset_reuse() -> Iterator[None]:
    """After a start that was not clean, the last offset is given away again."""
    real = Partition.open.__func__  # type: ignore[attr-defined]

    def open_one_short(cls: type[Partition], *args: Any) -> Partition:
        partition: Partition = real(cls, *args)
        log = partition.log
        if partition.recovery or not log.segments or log.next_offset < 2:
            return partition
        log.next_offset -= 1
        return partition

    with replaced(Partition, "open", classmethod(open_one_short)):
        yield


@contextlib.contextmanager
def purge_without_folder_sync() -> Iterator[None]:
    """A purge removes files, and lets the names come back."""
    real = life.purge_folder

    def purge_folder(disk: Any, *args: Any) -> None:
        real(_WithoutFolderSync(disk), *args)

    with (
        replaced(life, "purge_folder", purge_folder),
        replaced(opening, "purge_folder", purge_folder),
    ):
        yield


class _WithoutFolderSync:
    """A disk as another."""

    def __init__(self, disk: Any) -> None:
        self._disk = disk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)

    def sync_folder(self, path: str) -> None:
        """Nothing."""


@contextlib.contextmanager
def cut_bytes_lost() -> Iterator[None]:
    """A torn tail is cut off and thrown away."""
    with replaced(cutting, "_copy", lambda *args: 0):
        yield


@contextlib.contextmanager
def deletion_over_the_barrier() -> Iterator[None]:
    """Segments that were asked for go, whoever has yet to read them."""
    real = Trimming.take

    def take(self: Trimming, lowest_stored: int | None) -> list[int]:
        return real(self, None)

    with replaced(Trimming, "take", take):
        yield


@contextlib.contextmanager
def unreadable_is_absent() -> Iterator[None]:
    """An offset that the disk cannot read counts as none."""
    real = ConsumerOffsets._load_file

    def load_file(self: ConsumerOffsets, *args: Any) -> None:
        real(self, *args)
        self._unread.clear()

    with replaced(ConsumerOffsets, "_load_file", load_file):
        yield


@contextlib.contextmanager
def rot_unseen() -> Iterator[None]:
    """What an earlier process wrote is handed out unread."""
    with replaced(Segment, "_verify", lambda *args: None):
        yield


@contextlib.contextmanager
def stale_commits() -> Iterator[None]:
    """Whoever was a member may commit for ever."""

    def group(context: Any, target: Any, consumer: Any) -> Any:
        return group_place(context.services.replica.state, consumer, target)

    with replaced(offsets, "_group", group):
        yield


@contextlib.contextmanager
def polls_of_strangers() -> Iterator[None]:
    """A group hands messages to those who do not own the partition."""

    def group_target(services: Any, request: Any, session: int) -> targets.ReadTarget:
        state = services.replica.state
        found = state.find_topic(request.stream.value, request.topic.value)
        if found is None or request.partition_id is None:
            return targets.NOT_OWNED
        stream, topic = found
        target = targets.target_of(services, stream, topic, request.partition_id)
        place = group_place(state, request.consumer, target)
        if place is None:
            return targets.NOT_OWNED
        key = partition.ConsumerKey(ConsumerKind.GROUP, place.group_id)
        return targets.ReadTarget(target, key, session)

    with replaced(targets, "_group_target", group_target):
        yield


@contextlib.contextmanager
def sessions_of_the_deleted() -> Iterator[None]:
    """A session goes on when its user is deleted or made inactive."""
    with replaced(Edge, "_revoke", lambda *args: None):
        yield


@contextlib.contextmanager
def old_permissions() -> Iterator[None]:
    """A connection remembers what was once permitted."""
    with replaced(Resolver, "forget", _remember):
        yield


def _remember(self: Resolver) -> None:
    self._state = self._services.replica.state


PLANTS: dict[str, Plant] = {
    "acknowledge before write": acknowledge_before_write,
    "index before data": index_before_data,
    "no folder sync": no_folder_sync,
    "offset reuse": offset_reuse,
    "purge without folder sync": purge_without_folder_sync,
    "cut bytes thrown away": cut_bytes_lost,
    "deletion over the barrier": deletion_over_the_barrier,
    "unreadable offset counts as none": unreadable_is_absent,
    "rot handed out": rot_unseen,
    "stale member commits": stale_commits,
    "strangers poll": polls_of_strangers,
    "session of a deleted user": sessions_of_the_deleted,
    "old permissions": old_permissions,
    **ARCHIVE_PLANTS,
}

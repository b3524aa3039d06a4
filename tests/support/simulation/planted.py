"""Bugs to be found: each makes the broker break one promise while it is in force.

They are put into the product from outside, by replacing one method, so that the product has no
switch for them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from iggy_broker.storage.partition import Partition
from iggy_broker.storage.partition_log import PartitionLog
from simulation.disk import FaultyDisk

Plant = Callable[[], contextlib.AbstractContextManager[None]]


@contextlib.contextmanager
def _replaced(owner: type, name: str, value: object) -> Iterator[None]:
    real = owner.__dict__[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, real)


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

    with _replaced(Partition, "append", append):
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

    with _replaced(PartitionLog, "begin_sync", begin_sync):
        yield


@contextlib.contextmanager
def no_folder_sync() -> Iterator[None]:
    """New files of partitions are synced, the folders that name them are not."""
    real = FaultyDisk.sync_folder

    def sync_folder(self: FaultyDisk, path: str) -> None:
        if "/streams/" not in path:
            real(self, path)

    with _replaced(FaultyDisk, "sync_folder", sync_folder):
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

    with _replaced(Partition, "open", classmethod(open_one_short)):
        yield


PLANTS: dict[str, Plant] = {
    "acknowledge before write": acknowledge_before_write,
    "index before data": index_before_data,
    "no folder sync": no_folder_sync,
    "offset reuse": offset_reuse,
}

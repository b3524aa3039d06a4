"""A clean stop of many partitions: their syncs side by side, since a disk takes many as one."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from itertools import islice

from iggy_broker.storage.disk import Disk, StorageFailed
from iggy_broker.storage.partition import Partition
from iggy_broker.storage.syncer import SyncWork

SYNCS_AT_ONCE = 32  # threads, and partitions whose files are held open meanwhile


def close_all(
    partitions: Iterable[Partition],
    disk: Disk,
    threads: Callable[[int], Executor] = ThreadPoolExecutor,
) -> None:
    """Close each as `Partition.close` does. StorageFailed if a sync fails; the rest stays open.

    `threads` makes an executor of so many.
    """
    left = iter(partitions)
    with threads(SYNCS_AT_ONCE) as pool:
        while some := list(islice(left, SYNCS_AT_ONCE)):
            _sync_side_by_side(some, disk, pool)
            for partition in some:
                partition.close()


def _sync_side_by_side(partitions: Sequence[Partition], disk: Disk, pool: Executor) -> None:
    works = [(partition, partition.begin_sync(checkpoint=True)) for partition in partitions]

    def run(work: SyncWork | None) -> OSError | None:
        try:
            if work is not None:
                work.run(disk)
        except OSError as error:
            return error
        return None

    errors = list(pool.map(run, [work for _, work in works]))
    for (partition, work), error in zip(works, errors, strict=True):
        if work is not None:
            partition.end_sync(work, good=error is None)
    for error in errors:
        if error is not None:
            raise StorageFailed(f"sync failed, nothing is certain any more: {error}") from error

"""How long a partition takes to open: after a clean stop, after a kill, and many of them.

    python bench/open_log.py FOLDER [GIGABYTES] [PARTITIONS]

FOLDER gets a log of so many GB (default 2) in 1 MB batches and so many small partitions (default
10,000); both are removed afterwards.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from iggy_broker.clock import SystemClock
from iggy_broker.storage.closing import close_all
from iggy_broker.storage.disk import RealDisk
from iggy_broker.storage.layout import partition_folder
from iggy_broker.storage.partition import (
    Partition,
    PartitionOptions,
    PartitionPlace,
    StorageParts,
)
from iggy_broker.storage.partition_table import PartitionTable
from iggy_wire.batch import Message, build

UNSYNCED_BYTES = 512 * 1024 * 1024  # appended after the last sync before the kill


def timed(name: str, work: Callable[[], Any]) -> Any:
    """Do the work and say how long it took."""
    started = time.perf_counter()
    result = work()
    print(f"{name:<52} {(time.perf_counter() - started) * 1000:10.1f} ms")
    return result


def big_log(root: Path, gigabytes: float) -> None:
    """One partition: clean stop, kill with much unsynced, kill with everything synced."""
    parts = StorageParts(RealDisk(), SystemClock(), PartitionTable(1))
    place = PartitionPlace(partition_folder(str(root), 0, 0, 0), 0, 0, is_new=True)
    partition = Partition.open(place, PartitionOptions(), parts)
    batch = memoryview(build([Message(bytes(1000))] * 954, origin_timestamp_us=1))
    place = replace(place, is_new=False)

    def fill(size_bytes: float) -> None:
        for _ in range(int(size_bytes / len(batch))):
            partition.append(batch)

    timed(f"append {gigabytes} GB", lambda: fill(gigabytes * 1e9))
    timed("sync and close", partition.close)
    partition = timed(
        "open after a clean stop", lambda: Partition.open(place, PartitionOptions(), parts)
    )
    fill(UNSYNCED_BYTES)
    partition.abandon()
    partition = timed(
        f"open after a kill, {UNSYNCED_BYTES >> 20} MiB not synced",
        lambda: Partition.open(place, PartitionOptions(), parts),
    )
    fill(len(batch))
    partition.sync_now()
    fill(len(batch))
    partition.abandon()
    partition = timed(
        "open after a kill, one batch not synced",
        lambda: Partition.open(place, PartitionOptions(), parts),
    )
    partition.close()


def many_partitions(root: Path, count: int) -> None:
    """Small ones: clean stop, kill."""
    parts = StorageParts(RealDisk(), SystemClock(), PartitionTable(count))
    batch = memoryview(build([Message(bytes(100))], origin_timestamp_us=1))
    places = [
        PartitionPlace(partition_folder(str(root), 1, 0, number), number, number, is_new=True)
        for number in range(count)
    ]

    def open_all() -> list[Partition]:
        return [Partition.open(place, PartitionOptions(), parts) for place in places]

    partitions = timed(f"make {count} partitions", open_all)
    for partition in partitions:
        partition.append(batch)
    timed(f"sync and close {count} partitions", lambda: close_all(partitions, parts.disk))
    partitions = timed(f"open {count} after a clean stop", open_all)
    for partition in partitions:
        partition.abandon()
    shutil.rmtree(root / "streams" / "1")


def main() -> None:
    """Read the arguments, run both."""
    root = Path(sys.argv[1]) / "open_log_bench"
    root.mkdir(parents=True)
    try:
        big_log(root, float(sys.argv[2]) if len(sys.argv) > 2 else 2)  # noqa: PLR2004
        many_partitions(root, int(sys.argv[3]) if len(sys.argv) > 3 else 10_000)  # noqa: PLR2004
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()

"""When bytes go to the disk: group commit for those who wait, a saver for those who do not.

Many waiters, one sync: while a sync of a partition runs, further appends only join the queue; when
it ends, everyone who had written *before it began* is answered, and the next begins if anyone
waits. At most one sync is in flight per partition. Syncs run in threads: one lane for those who
wait, one for the saver and for deletions, so that gigabytes of background data delay no answer.

A sync that fails is final: the kernel may have dropped the pages, so no later sync proves anything.
Waiters get StorageFailed, `on_failed` is called and must stop the shard.
"""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, Protocol

from iggy_broker.storage.disk import Disk, File, StorageFailed
from iggy_broker.storage.records import Synced


class Lane(IntEnum):
    """Who waits for the work."""

    COMMIT = 0  # a client
    BACKGROUND = 1  # nobody


@dataclass(frozen=True, slots=True)
class SyncWork:
    """What one sync covers: files in the order in which they were written, then folders."""

    files: tuple[File, ...]
    folders: tuple[str, ...]
    mark: object = None  # the log's note of what is durable once this is done

    def run(self, disk: Disk) -> None:
        """Sync everything, in order. OSError at the first failure."""
        for file in self.files:
            file.sync()
        for folder in self.folders:
            disk.sync_folder(folder)


class Covered(NamedTuple):
    """What one sync of a partition covers."""

    epoch: int  # of the log: a purge or delete meanwhile makes the result meaningless
    log_work: SyncWork | None
    offset_files: list[File]


@dataclass(frozen=True, slots=True)
class Mark:
    """What is durable of a log when a sync that began now is done."""

    epoch: int
    next_offset: int
    size_bytes: int
    record: Synced | None  # for the `synced` file, if it is to be renewed


class Syncable(Protocol):
    """A log that can say what is unsynced. Both calls come from the loop's thread."""

    def begin_sync(self, *, checkpoint: bool) -> SyncWork | None:
        """What to sync now, files held; None if nothing is unsynced."""
        ...

    def end_sync(self, work: SyncWork, *, good: bool) -> bool:
        """The work is done (or failed): release the files, move the durable end.

        False: what it was about is gone (purge, delete), so a failure means nothing.
        """
        ...


def sync_here(log: Syncable, disk: Disk) -> None:
    """Sync on the spot, blocking (stop, tests, tools). StorageFailed if it fails."""
    work = log.begin_sync(checkpoint=True)
    if work is None:
        return
    try:
        work.run(disk)
    except OSError as error:
        log.end_sync(work, good=False)
        raise StorageFailed(f"sync failed, nothing is certain any more: {error}") from error
    log.end_sync(work, good=True)


class Syncer:
    """The sync threads of one shard. Start it after the fork, inside the running loop."""

    __slots__ = ("_lanes", "_loop", "_threads", "disk", "failure", "on_failed")

    def __init__(self, disk: Disk, on_failed: Callable[[StorageFailed], None]) -> None:
        """`on_failed` is called once, in the loop, and must stop the shard."""
        self.disk = disk
        self.on_failed = on_failed
        self.failure: StorageFailed | None = None
        self._loop = asyncio.get_running_loop()
        self._lanes: list[queue.SimpleQueue[Callable[[], None] | None]] = []
        self._threads: list[threading.Thread] = []
        for lane in Lane:
            tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
            name = f"sync-{lane.name.lower()}"
            thread = threading.Thread(target=_work_off, args=(tasks,), name=name, daemon=True)
            thread.start()
            self._lanes.append(tasks)
            self._threads.append(thread)

    def submit(
        self, lane: Lane, work: Callable[[], None], done: Callable[[OSError | None], None]
    ) -> None:
        """Run `work` in the lane's thread, then `done` in the loop with its error or None."""
        loop = self._loop

        def task() -> None:
            error: OSError | None = None
            try:
                work()
            except OSError as caught:
                error = caught
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to tell
                loop.call_soon_threadsafe(done, error)

        self._lanes[lane].put(task)

    def in_background(self, work: Callable[[], None]) -> None:
        """Run `work` sometime; its failure leaves garbage behind that the next start removes."""
        self.submit(Lane.BACKGROUND, work, _ignore)

    def fail(self, failure: StorageFailed) -> None:
        """A promise of the disk is broken. Only the first one is reported."""
        if self.failure is None:
            self.failure = failure
            self.on_failed(failure)

    def close(self) -> None:
        """Finish what is queued and end the threads."""
        for tasks in self._lanes:
            tasks.put(None)
        for thread in self._threads:
            thread.join()


class CommitHere:
    """What a partition has without a syncer (tests, tools): each wait syncs on the spot."""

    __slots__ = ("_disk", "_log")

    def __init__(self, log: Syncable, disk: Disk) -> None:
        """`log`: whose bytes are meant."""
        self._log = log
        self._disk = disk

    def wait(self) -> asyncio.Future[None]:
        """Done already. StorageFailed if it fails."""
        sync_here(self._log, self._disk)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.set_result(None)
        return future

    def save(self) -> None:
        """Sync."""
        sync_here(self._log, self._disk)


class GroupCommit:
    """The waiters of one partition."""

    __slots__ = ("_in_flight", "_log", "_scheduled", "_syncer", "_waiters")

    def __init__(self, log: Syncable, syncer: Syncer) -> None:
        """`log`: whose bytes are meant."""
        self._log = log
        self._syncer = syncer
        self._waiters: list[asyncio.Future[None]] = []
        self._in_flight = False
        self._scheduled = False

    @property
    def in_flight(self) -> bool:
        """Whether a sync runs now."""
        return self._in_flight

    def wait(self) -> asyncio.Future[None]:
        """Done when everything written before this call is on the disk, or StorageFailed."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        if self._syncer.failure is not None:
            future.set_exception(self._syncer.failure)
            return future
        self._waiters.append(future)
        if not self._in_flight and not self._scheduled:
            # The end of this turn of the loop: whoever writes in the same turn shares the sync.
            self._scheduled = True
            loop.call_soon(self._start, Lane.COMMIT)
        return future

    def save(self) -> asyncio.Future[None] | None:
        """The saver's tick: sync in the background if anything is unsynced and no sync runs."""
        if self._in_flight or self._scheduled or self._syncer.failure is not None:
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.add_done_callback(_seen)  # whoever does not wait hears of a failure by `on_failed`
        self._waiters.append(future)
        self._start(Lane.BACKGROUND)
        return future

    def _start(self, lane: Lane) -> None:
        self._scheduled = False
        if self._in_flight:
            return
        covered, self._waiters = self._waiters, []
        try:
            work = self._log.begin_sync(checkpoint=lane is Lane.BACKGROUND)
        except OSError as error:  # not even a descriptor to be had
            self._fail(covered, error)
            return
        if work is None:
            _resolve(covered, None)
            return
        self._in_flight = True

        def done(error: OSError | None) -> None:
            self._finish(work, covered, error)

        disk = self._syncer.disk
        self._syncer.submit(lane, lambda: work.run(disk), done)

    def _finish(
        self, work: SyncWork, covered: list[asyncio.Future[None]], error: OSError | None
    ) -> None:
        self._in_flight = False
        matters = self._log.end_sync(work, good=error is None)
        if error is not None and matters:
            self._fail(covered, error)
            return
        _resolve(covered, None)
        if self._waiters:
            self._start(Lane.COMMIT)

    def _fail(self, covered: list[asyncio.Future[None]], error: OSError) -> None:
        failure = StorageFailed(f"sync failed, nothing is certain any more: {error}")
        _resolve(covered + self._waiters, failure)
        self._waiters = []
        self._syncer.fail(failure)


class Saveable(Protocol):
    """What the saver goes round."""

    def save(self) -> asyncio.Future[None] | None:
        """Start to sync what is unsynced."""
        ...


def commit_of(log: Syncable, syncer: Syncer | None, disk: Disk) -> GroupCommit | CommitHere:
    """The way in which a partition's waiters are served."""
    return CommitHere(log, disk) if syncer is None else GroupCommit(log, syncer)


async def run_saver(partitions: Callable[[], Sequence[Saveable]], *, interval_ms: int) -> None:
    """Every interval, sync each partition with unsynced bytes, one after the other, for ever."""
    while True:
        await asyncio.sleep(interval_ms / 1000)
        await save_all(partitions())


async def save_all(partitions: Sequence[Saveable]) -> None:
    """One round of the saver. StorageFailed if a sync fails."""
    for partition in partitions:
        future = partition.save()
        if future is not None:
            await future


def _work_off(tasks: "queue.SimpleQueue[Callable[[], None] | None]") -> None:
    while (task := tasks.get()) is not None:
        task()


def _resolve(futures: list[asyncio.Future[None]], failure: StorageFailed | None) -> None:
    for future in futures:
        if future.done():
            continue  # its client went away
        if failure is None:
            future.set_result(None)
        else:
            future.set_exception(failure)


def _seen(future: asyncio.Future[None]) -> None:
    if not future.cancelled():
        future.exception()


def _ignore(error: OSError | None) -> None:
    return None

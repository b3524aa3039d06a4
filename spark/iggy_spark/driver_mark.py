"""Which driver's tasks may write.

A driver that is killed leaves Spark and its workers behind for moments. The next driver would not
know of what they still write. In a folder it waits for them, and lets none of their tasks begin.

<checkpoint>/driver   the running driver's mark; tasks hold a shared lock on it while they write

An object store has no locks: tasks look at the mark again before what they wrote may appear. That
is enough for a target that decides between them, see `sinks.bucket`; files in a folder have the
mark, with its lock, beside them.
"""

from __future__ import annotations

import fcntl
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final, Protocol

from iggy_spark import s3
from iggy_spark.errors import Fenced, SinkError
from iggy_spark.job_config import JobConfig
from iggy_spark.job_parts import JobFile
from iggy_spark.sinks.base import still_ours
from iggy_spark.sinks.folder import WORK

NAME: Final = "driver"
MARK_BYTES: Final = 32
ORPHANS_S_MAX: Final = 60.0  # for tasks of a dead driver; they end with its Spark, in a moment
LOOK_S: Final = 0.05


def take_over(folder: Path, *, should_stop: Callable[[], bool]) -> str | None:
    """From now on only tasks with the mark that is returned write. None: asked to stop.

    Raises:
        Fenced: tasks of an earlier driver do not end.
    """
    mark = uuid.uuid4().hex
    descriptor = os.open(folder / NAME, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        # The mark comes before the lock: a task that begins while we wait finds it, and stops.
        os.pwrite(descriptor, mark.encode(), 0)
        deadline = time.monotonic() + ORPHANS_S_MAX
        while not should_stop():
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise Fenced(
                        f"checkpoint: tasks of an earlier run of {folder} still write after "
                        f"{ORPHANS_S_MAX:g} s: end its processes"
                    ) from None
                time.sleep(LOOK_S)
            else:
                return mark
        return None
    finally:
        os.close(descriptor)


@contextmanager
def writing(folder: Path, mark: str) -> Iterator[None]:
    """A task's block: while it runs, no other driver takes over.

    Raises:
        Fenced: one has.
    """
    descriptor = os.open(folder / NAME, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        if os.pread(descriptor, MARK_BYTES, 0).decode() != mark:
            raise Fenced(f"checkpoint: another run has taken over {folder}")
        yield
    finally:
        os.close(descriptor)


class Mark(Protocol):
    """Where the mark is."""

    def take_over(self, *, should_stop: Callable[[], bool]) -> str | None:
        """From now on only tasks with the mark that is returned write. None: asked to stop.

        Raises:
            Fenced: tasks of an earlier driver do not end.
            SinkError: the mark cannot be written.
        """

    def writing(self, mark: str) -> AbstractContextManager[Callable[[], None]]:
        """A task's block. What it yields is called before anything appears.

        Raises:
            Fenced: another driver has taken over; so does what it yields.
        """


def of(config: JobConfig) -> Mark:
    """Where the drivers of a sink's job leave their marks."""
    files = config.sink.files
    if s3.is_address(config.checkpoint) and files is not None and not s3.is_address(files.path):
        return FolderMark(Path(files.path) / WORK)
    return beside(config)


def beside(config: JobFile) -> Mark:
    """Marks beside the checkpoint."""
    if not s3.is_address(config.checkpoint):
        return FolderMark(Path(config.checkpoint))
    return StoreMark(s3.Bucket(config.checkpoint, config.checkpoint_store.connection()))


class FolderMark:
    """A file, with a lock that tasks hold."""

    def __init__(self, folder: Path) -> None:
        """Touches nothing yet."""
        self._folder = folder

    def take_over(self, *, should_stop: Callable[[], bool]) -> str | None:
        """See `Mark`."""
        return take_over(self._folder, should_stop=should_stop)

    @contextmanager
    def writing(self, mark: str) -> Iterator[Callable[[], None]]:
        """See `Mark`."""
        with writing(self._folder, mark):
            yield still_ours


class StoreMark:
    """An object. The last one who writes it stands."""

    def __init__(self, bucket: s3.Bucket) -> None:
        """Touches nothing yet."""
        self._bucket = bucket

    def take_over(self, *, should_stop: Callable[[], bool]) -> str | None:
        """See `Mark`; nobody is waited for."""
        mark = uuid.uuid4().hex
        try:
            self._bucket.put(NAME, mark.encode())
        except s3.StoreError as error:
            raise SinkError(f"checkpoint: {error}") from error
        return mark

    @contextmanager
    def writing(self, mark: str) -> Iterator[Callable[[], None]]:
        """See `Mark`."""

        def confirm() -> None:
            try:
                now = self._bucket.get(NAME)
            except s3.StoreError as error:
                raise SinkError(f"checkpoint: {error}") from error
            if now != mark.encode():
                raise Fenced("checkpoint: another run of this job has taken over")

        confirm()
        yield confirm

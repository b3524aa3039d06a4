"""Which driver's tasks may write.

A driver that is killed leaves Spark and its workers behind for moments. The next driver would not
know of what they still write: so it waits for them, and lets none of their tasks begin.

<checkpoint>/driver   the running driver's mark; tasks hold a shared lock on it while they write
"""

from __future__ import annotations

import fcntl
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from iggy_spark.errors import Fenced

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

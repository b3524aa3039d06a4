"""Where things are fetched to, and where a run leaves its logs. Nothing of it is committed."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SUITES = Path(__file__).resolve().parents[1]


def cache() -> Path:
    """The folder that outlives runs, by the usual rules for caches."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(root) / "iggykube" / "interop"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def fresh_run(suite: str) -> Path:
    """An empty folder for this run of a suite; what the run before left is removed."""
    folder = cache() / "runs" / suite
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


class Busy(Exception):
    """Another run uses the cache."""


@contextmanager
def alone() -> Iterator[None]:
    """Keep the cache to this process for the length of a block. Busy: another one has it."""
    with (cache() / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy("another run is under way: wait for its end") from None
        yield

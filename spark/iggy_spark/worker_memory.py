"""Memory of the processes that Spark keeps for its tasks: Python's collector and C's allocator."""

from __future__ import annotations

import ctypes
import functools
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

KEPT_BYTES: Final = 32 << 20
"""Memory that a process keeps for its next allocation. More is none that glibc takes."""

_M_TRIM_THRESHOLD: Final = -1  # numbers of glibc's malloc.h
_M_MMAP_THRESHOLD: Final = -3


@functools.cache
def settle() -> None:
    """Once in a process, before its first task.

    Spark's worker collects garbage behind every task, and each time goes through all that libraries
    made when they were imported (measured: an eighth of the processor time that Python takes for a
    task of 500 MB). What is there now stays, so it is left out from now on.

    glibc gives a column of some MiB back to the kernel when a batch is done, and gets it back page
    by page for the next one (9,600 faults a GB, a fifth of the kernel's time): it keeps some.
    """
    gc.collect()
    gc.freeze()
    if sys.platform == "linux":
        keep = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
        if keep is not None:
            keep(_M_MMAP_THRESHOLD, KEPT_BYTES)
            keep(_M_TRIM_THRESHOLD, KEPT_BYTES)


@contextmanager
def without_collections() -> Iterator[None]:
    """For the rows of one batch, which have no cycles: a search for some would look at all of them
    again and again while they grow (an eighth of the processor time of decoding by a schema).
    """
    searched = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searched:
            gc.enable()

"""Python's garbage collector in the processes that Spark keeps for its tasks."""

from __future__ import annotations

import functools
import gc


@functools.cache
def settle() -> None:
    """What is there now stays: leave it out from now on. Once in a process.

    Spark's worker collects garbage behind every task, and each time goes through all that libraries
    made when they were imported (measured: an eighth of the processor time that Python takes for a
    task of 500 MB).
    """
    gc.collect()
    gc.freeze()

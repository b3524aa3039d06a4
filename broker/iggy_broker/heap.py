"""How memory is given back to the system. Small settings with a large effect on an idle broker."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Final

# glibc, malloc.h
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
# Linux, mman-common.h
_MADV_DONTNEED: Final = 4

MAPPED_BYTES_MIN: Final = 8 << 20  # larger blocks are mapped, and returned as soon as freed
TRIMMED_BYTES_MIN: Final = 4 << 20  # so much free memory at the end of the heap is returned


def return_large_blocks() -> None:
    """Fix glibc's thresholds. By itself it raises them after the first large block is freed.

    A password hash takes 19 MiB for some milliseconds. With rising thresholds, that stays with the
    thread that needed it: 38 MiB in a shard that verified two at a time, for good. No effect on
    other C libraries.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES_MIN)
        mallopt(_M_TRIM_THRESHOLD, TRIMMED_BYTES_MIN)


def return_what_is_free() -> None:
    """Also what is between blocks in use, after work that does not come again."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it
    if trim is not None:
        trim(0)


def unmap_code() -> None:
    """Let go of the pages of machine code that are mapped: those in use come back at once.

    Loading libraries maps most of them, some 6 MiB, which whoever only waits never looks at again.
    Code is never written to, so nothing can be lost. No effect elsewhere than on Linux.
    """
    advise = getattr(ctypes.CDLL(None), "madvise", None)
    maps = Path("/proc/self/maps")
    if advise is None or not maps.exists():
        return
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for line in maps.read_text().splitlines():
        span, rights, _, _, inode = line.split(maxsplit=5)[:5]
        if rights == "r-xp" and inode != "0":
            start, end = (int(one, 16) for one in span.split("-"))
            advise(start, end - start, _MADV_DONTNEED)

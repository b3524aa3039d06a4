"""The hot loops over batches: verify, stamp, find, cut, lay out. Compiled if it can be, else plain.

`COMPILED` tells which implementation answers. The environment variable IGGYKUBE_PURE=1 forces the
plain one. Every function takes any contiguous buffer: bytes, bytearray, memoryview, mmap; only
`admit`, `seal` and `unmask` write to theirs. Functions never read outside the buffer, whatever its
bytes say.

A region is stored batches, one after another. Faults of an incoming batch are error numbers
(Iggy protocol 0.11: 4 format, 4009 count, 4027 and 4039 checksums, 4101 reserved bytes) because
they become replies; a broken batch in a region that was already admitted raises
BrokenBatchError, which is a WireError and a ValueError.
"""

from __future__ import annotations

import os

from iggy_wire.kernel_types import (
    BATCH_HEADER_BYTES,
    CLEAN_END,
    FRAME_HEADER_BYTES,
    INCOMPLETE_TAIL,
    BrokenBatchError,
    Buffer,
    Columns,
    Scan,
    Selection,
)

COMPILED = os.environ.get("IGGYKUBE_PURE") != "1"

if COMPILED:
    try:
        from iggy_wire._kernel import (
            admit,
            columns,
            locate,
            locate_time,
            scan,
            seal,
            select,
            verify,
            xxh3_64,
        )
    except ImportError:  # installed without a compiler
        COMPILED = False

if not COMPILED:
    from iggy_wire._kernel_plain import (
        admit,
        columns,
        locate,
        locate_time,
        scan,
        seal,
        select,
        verify,
        xxh3_64,
    )

try:
    if not COMPILED:
        raise ImportError
    from iggy_wire._kernel import unmask
except ImportError:  # plain, or compiled before it had this
    from iggy_wire._kernel_plain import unmask

__all__ = [
    "BATCH_HEADER_BYTES",
    "CLEAN_END",
    "COMPILED",
    "FRAME_HEADER_BYTES",
    "INCOMPLETE_TAIL",
    "BrokenBatchError",
    "Buffer",
    "Columns",
    "Scan",
    "Selection",
    "admit",
    "columns",
    "locate",
    "locate_time",
    "scan",
    "seal",
    "select",
    "unmask",
    "verify",
    "xxh3_64",
]

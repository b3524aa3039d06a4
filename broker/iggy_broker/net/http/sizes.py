"""Sizes as text, the way the HTTP API of Iggy 0.9 writes them: exact, with one blank and a unit.

Existing clients know these units only, so no larger one is written although the original has them.
"""

from __future__ import annotations

from typing import Final

_PLAIN_BELOW: Final = 1000
_UNITS: Final = (
    ("TiB", 1024**4), ("TB", 1000**4), ("GiB", 1024**3), ("GB", 1000**3),
    ("MiB", 1024**2), ("MB", 1000**2), ("KiB", 1024), ("KB", 1000),
)  # fmt: skip


def size_text(size_bytes: int) -> str:
    """The largest unit in which the size is exact with three decimals at most."""
    if size_bytes < _PLAIN_BELOW:
        return f"{size_bytes} B"
    for unit, factor in _UNITS:
        thousandths, rest = divmod(size_bytes * 1000, factor)
        if factor <= size_bytes and not rest:
            whole, decimals = divmod(thousandths, 1000)
            fraction = f".{decimals:03}".rstrip("0").rstrip(".")
            return f"{whole}{fraction} {unit}"
    raise AssertionError("every size is exact in KB")

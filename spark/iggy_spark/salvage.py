"""What is sound of stored batches among which one is damaged, and which offsets are not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from iggy_wire import kernel
from iggy_wire.batch import BatchHeader
from iggy_wire.kernel import BATCH_HEADER_BYTES, FRAME_HEADER_BYTES, Buffer, Columns

_ONE_MESSAGE_BYTES: Final = BATCH_HEADER_BYTES + FRAME_HEADER_BYTES


class Hole(NamedTuple):
    """Messages that nobody can read, by first and exclusive end."""

    first: int
    end: int


def salvaged(region: Buffer, first: int, end: int) -> Iterator[Columns | Hole]:
    """All of `region` from offset `first` on, below `end`, in order: columns and holes by turns.

    `region` has messages up to `end`, or is cut off before. How far a hole goes is told by the
    next sound batch: what a damaged one says of itself is only believed to find that one.
    """
    with memoryview(region) as view:
        at, expected = 0, first
        while at < len(view):
            with view[at:] as rest:
                found = kernel.scan(rest, -1, frames=True, index_bytes=len(view))
                if found.end and found.next_offset > expected:
                    start = min(found.entries[0][0], end)
                    if start > expected:
                        yield Hole(expected, start)
                    with rest[: found.end] as sound:
                        columns = kernel.columns(sound, max(start, expected), end)
                    if columns.count:
                        yield columns
                    expected = found.next_offset
                length = _length_at(rest, found.end)
            if length is None:
                break
            at += found.end + length
        if expected < end:
            yield Hole(expected, end)


def _length_at(view: memoryview, at: int) -> int | None:
    """Bytes of the batch that begins there, as it says itself; None: it cannot be so many."""
    if len(view) - at < _ONE_MESSAGE_BYTES:
        return None
    length = BatchHeader.decode(view, at).length
    return length if _ONE_MESSAGE_BYTES <= length <= len(view) - at else None

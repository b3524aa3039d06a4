"""A range of offsets → the ranges of tasks that read it from an archive. Pure.

A task is a segment. Large ones are cut where an index has entries, so that each part is read by
itself; small neighbours make one task together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, NamedTuple

from iggy_spark.archive_index import Index
from iggy_spark.offsets import OffsetRange
from iggy_wire.archive_listing import Segment

SPLIT_BYTES: Final = 128 << 20
"""A segment is cut at about its multiples, so that cuts do not depend on where a read begins."""
JOIN_BYTES: Final = 16 << 20
"""Neighbours together are one task up to that size."""


class _Part(NamedTuple):
    first: int
    end: int
    size_bytes: float


def cut(
    wanted: OffsetRange,
    segments: Sequence[Segment],
    index: Callable[[Segment], Index],
    *,
    split_bytes: int | None = None,
    join_bytes: int | None = None,
) -> list[OffsetRange]:
    """Ranges that together are `wanted`, in order. What no segment has is in the range before it,
    or in the first one.

    `index` is asked for those of large segments only.
    """
    split_bytes = SPLIT_BYTES if split_bytes is None else split_bytes
    join_bytes = JOIN_BYTES if join_bytes is None else join_bytes
    parts = [part for segment in segments for part in _parts(wanted, segment, index, split_bytes)]
    starts = [part.first for part in _joined(parts, join_bytes)]
    bounds = [wanted.first, *starts[1:], wanted.end]
    return [replace(wanted, first=first, end=end) for first, end in pairwise(bounds)]


def _parts(
    wanted: OffsetRange, segment: Segment, index: Callable[[Segment], Index], split_bytes: int
) -> Iterator[_Part]:
    first = max(wanted.first, segment.start_offset)
    end = min(wanted.end, segment.next_offset)
    if first >= end:
        return
    message_bytes = segment.message_bytes
    cuts: list[int] = []
    if segment.size_bytes > split_bytes:
        found = index(segment)
        marks = range(split_bytes, segment.size_bytes - split_bytes // 2, split_bytes)
        offsets = {found.at_position(mark) for mark in marks}
        cuts = sorted(offset for offset in offsets if offset is not None and first < offset < end)
    for a, b in pairwise((first, *cuts, end)):
        yield _Part(a, b, (b - a) * message_bytes)


def _joined(parts: Iterable[_Part], join_bytes: int) -> list[_Part]:
    joined: list[_Part] = []
    for part in parts:
        last = joined[-1] if joined else None
        if last is not None and last.size_bytes + part.size_bytes <= join_bytes:
            joined[-1] = _Part(last.first, part.end, last.size_bytes + part.size_bytes)
        else:
            joined.append(part)
    return joined

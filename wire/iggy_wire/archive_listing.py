"""What an archive has of a partition: its segments in order, what is missing, where to read.

Pure: whoever uses it lists the keys below `folders`, reads the manifests among them (those whose
`Named.kind` is json) and hands both in. Nothing here trusts that a copy is there: objects that a
manifest names and the keys lack make a segment `missing`.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final, NamedTuple

from iggy_wire.archive import (
    Life,
    Manifest,
    Piece,
    index_key,
    log_key,
    manifest_key,
    partition_folder,
    piece_key,
    topic_folder,
)
from iggy_wire.archive_fences import NO_FENCES, Fences

_FOLDER: Final = re.compile(
    r"streams/(?P<stream>\d+)/topics/(?P<topic>\d+)(?:\.(?P<incarnation>\d+)(?:-(?P<purges>\d+))?)?"
    r"/partitions/(?P<partition>\d+)",
    re.ASCII,
)

_FAR: Final = 1 << 63  # behind all offsets


class Partition(NamedTuple):
    """Numbers of a partition, as its folder in an archive has them."""

    stream_id: int
    topic_id: int
    partition_id: int


class Span(NamedTuple):
    """Bytes of an object."""

    key: str
    position: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment that the archive has, whole or as far as it was written. Times are microseconds."""

    folder: str
    first_offset: int
    next_offset: int
    first_timestamp_us: int
    last_timestamp_us: int
    size_bytes: int
    """Of the log."""
    start_offset: int
    """From here on it is read: what comes before is in the segment before it, too."""
    index_bytes: int = 0
    """Of its index; 0: it has none."""
    pieces: tuple[Piece, ...] | None = None
    """Of a segment that is not sealed."""
    xxh3: str = ""
    """Of the log."""
    index_xxh3: str = ""
    key_id: str = ""
    """Of the key that it is encrypted with, see `sealing`; empty: it is not."""
    generation: int = 0
    """Of the owner that wrote it."""
    left_out: int = 0
    """Messages of its log from `next_offset` on, which its owner wrote when it was a former one."""

    @property
    def log_next_offset(self) -> int:
        """Behind the last message of the log."""
        return self.next_offset + self.left_out

    @property
    def index_key(self) -> str:
        """Of its index, if it has one."""
        return index_key(self.folder, self.first_offset, self.generation)

    @property
    def manifest_key(self) -> str:
        """Of its manifest, which no other segment has."""
        return manifest_key(self.folder, self.first_offset, self.generation)

    @property
    def message_bytes(self) -> float:
        """Size of a message, on average."""
        return self.size_bytes / (self.log_next_offset - self.first_offset)

    def spans(self, position: int = 0, size_bytes: int | None = None) -> Iterator[Span]:
        """Where bytes of the log are, in order; never behind the manifest's end."""
        stop = self.size_bytes
        if size_bytes is not None:
            stop = min(stop, position + size_bytes)
        if self.pieces is None:
            if position < stop:
                key = log_key(self.folder, self.first_offset, self.generation)
                yield Span(key, position, stop - position)
            return
        for piece in self.pieces:
            start = max(position, piece.position)
            end = min(stop, piece.position + piece.size_bytes)
            if start < end:
                key = piece_key(self.folder, self.first_offset, piece.position, self.generation)
                yield Span(key, start - piece.position, end - start)


class Gap(NamedTuple):
    """Offsets that the archive lacks between two of its segments."""

    first_offset: int
    next_offset: int


@dataclass(frozen=True, slots=True)
class Listing:
    """What there is of one life of a partition, in order; no offset twice."""

    segments: tuple[Segment, ...] = ()
    gaps: tuple[Gap, ...] = ()
    missing: tuple[str, ...] = ()
    """Objects that a manifest names and the archive lacks. Their segments are left out."""
    _starts: tuple[int, ...] = field(default=(), repr=False)

    @property
    def first_offset(self) -> int:
        """The oldest there is; 0 if there is nothing."""
        return self._starts[0] if self._starts else 0

    @property
    def next_offset(self) -> int:
        """Offset behind the last; 0 if there is nothing."""
        return self.segments[-1].next_offset if self.segments else 0

    @property
    def size_bytes(self) -> int:
        """Of all logs."""
        return sum(segment.size_bytes for segment in self.segments)

    def at_offset(self, offset: int) -> Segment | None:
        """The segment that has it, or the next one behind a gap; None: nothing from there on."""
        number = max(bisect_right(self._starts, offset) - 1, 0)
        for segment in self.segments[number : number + 2]:
            if offset < segment.next_offset:
                return segment
        return None

    def at_time(self, timestamp_us: int) -> Segment | None:
        """The first segment with a message taken then or later; None: there is none."""
        ends = self.segments
        number = bisect_left(ends, timestamp_us, key=lambda segment: segment.last_timestamp_us)
        return ends[number] if number < len(ends) else None


def folders(partition: Partition, life: Life) -> tuple[str, str]:
    """Folders that a life of a partition may have: the plain one, and one of its own."""
    stream_id, topic_id, partition_id = partition
    plain = topic_folder(stream_id, topic_id)
    own = topic_folder(stream_id, topic_id, life.suffix)
    return partition_folder(plain, partition_id), partition_folder(own, partition_id)


def parse_folder(folder: str) -> Partition | None:
    """Whose folder it is, whatever life; None: nobody's."""
    found = _FOLDER.fullmatch(folder)
    if found is None:
        return None
    return Partition(int(found["stream"]), int(found["topic"]), int(found["partition"]))


def newest_life(manifests: Iterable[Manifest]) -> Life | None:
    """Of manifests of one partition the last life that has any; None: there are none.

    For those who know no metadata. A partition that was emptied, or made anew, and got nothing
    since has none here: what was before is found.
    """
    return max((life_of(manifest) for manifest in manifests), default=None)


def life_of(manifest: Manifest) -> Life:
    """Which messages it speaks of."""
    return Life(manifest.incarnation, manifest.purges)


def listing(
    manifests: Iterable[tuple[str, Manifest]],
    life: Life,
    sizes: Mapping[str, int] | None = None,
    *,
    fences: Fences = NO_FENCES,
) -> Listing:
    """Put the manifests of one partition, each with its folder, in order; other lives are left out.

    `sizes`: bytes of every object by key, to tell what is missing; None: they are not known.
    `fences`: what an owner wrote from where a later one began is left out; so is, where that is not
    known, what it has from the later one's first message on. Where two segments overlap all the
    same, the later one is read from the end of the earlier one on.
    """
    ours = _cut(
        [_segment(*entry) for entry in manifests if life_of(entry[1]) == life], fences, life
    )
    ours.sort(key=lambda one: (one.first_offset, -one.next_offset, -one.generation))
    segments: list[Segment] = []
    gaps: list[Gap] = []
    missing: list[str] = []
    for segment in ours:
        end = segments[-1].next_offset if segments else segment.first_offset
        if segment.next_offset <= end:
            continue
        if sizes is not None and (lacking := _lacking(segment, sizes)):
            missing += lacking
            continue
        if segment.first_offset > end:
            gaps.append(Gap(end, segment.first_offset))
        segments.append(
            segment if segment.first_offset >= end else replace(segment, start_offset=end)
        )
    starts = tuple(segment.start_offset for segment in segments)
    return Listing(tuple(_in_time(segments)), tuple(gaps), tuple(missing), starts)


def _cut(segments: list[Segment], fences: Fences, life: Life) -> list[Segment]:
    """What counts of them, by who wrote them."""
    if not segments or (not any(one.generation for one in segments) and not fences.eras):
        return segments
    begins: dict[int, int] = {}  # of owners of whom nothing else is known
    for one in segments:
        if one.generation and not fences.has(one.generation):
            begins[one.generation] = min(begins.get(one.generation, _FAR), one.first_offset)
    found: list[Segment] = []
    for one in segments:
        partition = parse_folder(one.folder)
        fence = fences.of(partition, life, one.generation) if partition else None
        later = [begin for generation, begin in begins.items() if generation > one.generation]
        end, last_us = min(later, default=one.next_offset), one.last_timestamp_us
        if fence is not None and fence.next_offset < end:
            end, last_us = fence.next_offset, min(last_us, fence.last_timestamp_us)
        if end >= one.next_offset:
            found.append(one)
        elif end > one.first_offset:
            left_out = one.next_offset - end
            found.append(
                replace(one, next_offset=end, left_out=left_out, last_timestamp_us=last_us)
            )
    return found


def _in_time(segments: list[Segment]) -> Iterator[Segment]:
    """The same; of one that is cut the last message is not later than the next segment's first."""
    for one, following in pairwise((*segments, None)):
        assert one is not None, "only the last one"
        latest = following.first_timestamp_us if following else one.last_timestamp_us
        if one.left_out and latest < one.last_timestamp_us:
            one = replace(one, last_timestamp_us=latest)
        yield one


def _segment(folder: str, manifest: Manifest) -> Segment:
    return Segment(
        folder,
        manifest.first_offset,
        manifest.next_offset,
        manifest.first_timestamp_us,
        manifest.last_timestamp_us,
        manifest.size_bytes,
        manifest.first_offset,
        index_bytes=manifest.index_bytes,
        pieces=None if manifest.sealed else manifest.pieces,
        xxh3=manifest.xxh3,
        index_xxh3=manifest.index_xxh3,
        key_id=manifest.key_id or "",
        generation=manifest.generation,
    )


def _lacking(segment: Segment, sizes: Mapping[str, int]) -> list[str]:
    """Objects that are not there, or too short. An index can be made anew."""
    return [
        span.key
        for span in segment.spans()
        if sizes.get(span.key, 0) < span.position + span.size_bytes
    ]

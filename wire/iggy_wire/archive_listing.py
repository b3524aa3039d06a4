"""What an archive has of a partition: its segments in order, what is missing, where to read.

Pure: whoever uses it lists the keys below `folders`, reads the manifests among them (those whose
`Named.kind` is json) and hands both in. Nothing here trusts that a copy is there: objects that a
manifest names and the keys lack make a segment `missing`.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from iggy_wire.archive import (
    Life,
    Manifest,
    Piece,
    index_key,
    log_key,
    partition_folder,
    piece_key,
    topic_folder,
)

_FOLDER: Final = re.compile(
    r"streams/(?P<stream>\d+)/topics/(?P<topic>\d+)(?:\.(?P<incarnation>\d+)(?:-(?P<purges>\d+))?)?"
    r"/partitions/(?P<partition>\d+)",
    re.ASCII,
)


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

    @property
    def index_key(self) -> str:
        """Of its index, if it has one."""
        return index_key(self.folder, self.first_offset)

    def spans(self, position: int = 0, size_bytes: int | None = None) -> Iterator[Span]:
        """Where bytes of the log are, in order; never behind the manifest's end."""
        stop = self.size_bytes
        if size_bytes is not None:
            stop = min(stop, position + size_bytes)
        if self.pieces is None:
            if position < stop:
                yield Span(log_key(self.folder, self.first_offset), position, stop - position)
            return
        for piece in self.pieces:
            start = max(position, piece.position)
            end = min(stop, piece.position + piece.size_bytes)
            if start < end:
                key = piece_key(self.folder, self.first_offset, piece.position)
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
    manifests: Iterable[tuple[str, Manifest]], life: Life, sizes: Mapping[str, int] | None = None
) -> Listing:
    """Put the manifests of one partition, each with its folder, in order; other lives are left out.

    `sizes`: bytes of every object by key, to tell what is missing; None: they are not known. Where
    two segments overlap, the later one is read from the end of the earlier one on.
    """
    ours = [(folder, one) for folder, one in manifests if life_of(one) == life]
    ours.sort(key=lambda entry: (entry[1].first_offset, -entry[1].next_offset))
    segments: list[Segment] = []
    gaps: list[Gap] = []
    missing: list[str] = []
    for folder, manifest in ours:
        end = segments[-1].next_offset if segments else manifest.first_offset
        if manifest.next_offset <= end:
            continue
        segment = _segment(folder, manifest, max(end, manifest.first_offset))
        if sizes is not None and (lacking := _lacking(segment, sizes)):
            missing += lacking
            continue
        if manifest.first_offset > end:
            gaps.append(Gap(end, manifest.first_offset))
        segments.append(segment)
    starts = tuple(segment.start_offset for segment in segments)
    return Listing(tuple(segments), tuple(gaps), tuple(missing), starts)


def _segment(folder: str, manifest: Manifest, start_offset: int) -> Segment:
    return Segment(
        folder,
        manifest.first_offset,
        manifest.next_offset,
        manifest.first_timestamp_us,
        manifest.last_timestamp_us,
        manifest.size_bytes,
        start_offset,
        index_bytes=manifest.index_bytes,
        pieces=None if manifest.sealed else manifest.pieces,
        xxh3=manifest.xxh3,
        index_xxh3=manifest.index_xxh3,
        key_id=manifest.key_id or "",
    )


def _lacking(segment: Segment, sizes: Mapping[str, int]) -> list[str]:
    """Objects that are not there, or too short. An index can be made anew."""
    return [
        span.key
        for span in segment.spans()
        if sizes.get(span.key, 0) < span.position + span.size_bytes
    ]

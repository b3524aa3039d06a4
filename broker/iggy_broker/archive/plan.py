"""What is copied next, and under which name. Decides only.

The log that is written now is archived in pieces. An object may hold more than its piece: it was
joined with those behind it, and the manifest that says so follows. So whatever a crash leaves, the
bytes that a manifest names are there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from iggy_wire.archive import Life, Manifest, Piece, topic_folder

PIECES_KEPT_MAX: Final = 16
"""Of one log. A piece more, and the last ones are joined: at least half of them, and as many as
are not larger than what is joined, so that no byte is copied again and again."""


@dataclass(frozen=True, slots=True)
class Extent:
    """A segment, or what of it is on the disk for good."""

    first_offset: int
    next_offset: int
    size_bytes: int
    last_timestamp_us: int = 0
    """When its last batch was taken; 0 where that is not known."""


class Held(Protocol):
    """A segment of a log."""

    @property
    def first_offset(self) -> int:
        """Its name."""

    @property
    def next_offset(self) -> int:
        """Where it ends."""

    @property
    def size_bytes(self) -> int:
        """Of its log."""


H = TypeVar("H", bound=Held)


def next_sealed(
    sealed: Sequence[H], archived: Mapping[int, int], *, end: int, busy: Collection[int] = ()
) -> H | None:
    """The oldest sealed segment without a copy that ends at or before `end`.

    `archived`: where those end that have one, by first offset. `busy`: segments, by first offset,
    of which something is being copied, or has to be before.
    """
    for segment in sealed:
        if segment.next_offset > end:
            return None
        if archived.get(segment.first_offset) != segment.next_offset:
            return None if segment.first_offset in busy else segment
    return None


def archived_end(sealed: Sequence[Held], archived: Mapping[int, int]) -> int:
    """Up to which offset all sealed segments have a copy; 0 if the first one has none."""
    end = 0
    for segment in sealed:
        if archived.get(segment.first_offset) != segment.next_offset:
            break
        end = segment.next_offset
    return end


def synced_extent(active: Held, *, unsynced_bytes: int, synced_next_offset: int) -> Extent | None:
    """What of the segment that is written a power cut cannot take; None: nothing."""
    size_bytes = active.size_bytes - unsynced_bytes
    if size_bytes <= 0 or synced_next_offset <= active.first_offset:
        return None
    return Extent(active.first_offset, synced_next_offset, size_bytes)


def kept_pieces(pieces: Sequence[Piece], new_bytes: int) -> int:
    """How many pieces stay as they are; those behind them become one with the new bytes."""
    if len(pieces) < PIECES_KEPT_MAX:
        return len(pieces)
    kept = PIECES_KEPT_MAX // 2
    joined_bytes = new_bytes + sum(piece.size_bytes for piece in pieces[kept:])
    while kept and pieces[kept - 1].size_bytes <= joined_bytes:
        kept -= 1
        joined_bytes += pieces[kept].size_bytes
    return kept


def is_copy_of(manifest: Manifest, life: Life, segment: Held) -> bool:
    """Whether a manifest speaks of this sealed segment, whole."""
    return (
        manifest.sealed
        and Life(manifest.incarnation, manifest.purges) == life
        and manifest.next_offset == segment.next_offset
        and manifest.size_bytes == segment.size_bytes
    )


def folder_of(
    stream_id: int, topic_id: int, life: Life, *, there: Life | None, present: Collection[Life]
) -> str:
    """Folder of a topic. `there`: whose messages are under its plain name, if any are.

    `present`: the lives of the topic's partitions now.
    """
    is_ours = there is None or there == life or there in present
    return topic_folder(stream_id, topic_id, None if is_ours else life.suffix)

"""What every shard may know about every partition: one shared page of numbers.

Made by the supervisor before it forks, so all shards see the same memory. A slot has eight u64
fields and is written only by the shard that owns the partition; everyone reads. Each field is
stored by one aligned 8-byte copy, so a reader never sees half a number; two fields read one after
the other may be one append apart. The slot number is part of the partition's metadata.

    0 size_bytes            stored bytes of all segments
    1 segments_count
    2 first_offset          oldest offset still stored
    3 next_offset           offset of the next message; messages_count = next_offset - first_offset
    4 visible_next_offset   end of what readers may see (persisted: the synced end)
    5 incarnation           which life of the slot this is; 0 = nobody's
    6 purges                how often it was purged: a reader of its files must start anew
    7 state                 see SlotState

Beside it three more u64 for each slot, in memory of their own: for which consumer groups messages
are in flight (see `group_reads`), how old the segment is that may go next (see `retention`), and
the first offset that a check found damaged, plus one (see `checking`).
"""

import mmap
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

SLOTS_MAX = 262_144  # partitions of one broker; creating more is refused by metadata
SLOT_BYTES = 64
_FIELDS = SLOT_BYTES // 8

_SIZE, _SEGMENTS, _FIRST, _NEXT, _VISIBLE, _INCARNATION, _PURGES, _STATE = range(_FIELDS)


class SlotState(IntEnum):
    """Life of a slot."""

    FREE = 0
    OPEN = 1
    FENCED = 2  # not served: its files have a hole, or the disk has no room for them


@dataclass(frozen=True, slots=True)
class PartitionFigures:
    """A reading of one slot."""

    size_bytes: int
    segments_count: int
    first_offset: int
    next_offset: int
    visible_next_offset: int
    incarnation: int
    purges: int
    state: SlotState

    @property
    def messages_count(self) -> int:
        """Stored messages."""
        return max(self.next_offset - self.first_offset, 0)

    @property
    def current_offset(self) -> int:
        """Last visible offset; 0 when there is none, as the protocol has it."""
        return max(self.visible_next_offset - 1, 0)


@dataclass(frozen=True, slots=True)
class Totals:
    """Some slots added up."""

    size_bytes: int
    segments_count: int
    messages_count: int


FREE_FIGURES = PartitionFigures(0, 0, 0, 0, 0, 0, 0, SlotState.FREE)


class PartitionTable:
    """All slots. `PartitionTable()` before the fork; the memory is shared and anonymous."""

    __slots__ = ("_damaged", "_fields", "_in_flight", "_memory", "_oldest", "slots_count")

    def __init__(self, slots_count: int = SLOTS_MAX) -> None:
        """`slots_count` * 64 bytes of address space; memory is used only for touched slots."""
        self.slots_count = slots_count
        self._memory = mmap.mmap(-1, slots_count * SLOT_BYTES)  # shared and anonymous by default
        self._fields = memoryview(self._memory).cast("Q")
        self._in_flight = memoryview(mmap.mmap(-1, slots_count * 8)).cast("Q")
        self._oldest = memoryview(mmap.mmap(-1, slots_count * 8)).cast("Q")
        self._damaged = memoryview(mmap.mmap(-1, slots_count * 8)).cast("Q")

    def read(self, slot: int) -> PartitionFigures:
        """The figures of a slot, from any shard. IndexError if there is no such slot."""
        at = self._at(slot)
        size, segments, first, next_, visible, incarnation, purges, state = self._fields[
            at : at + _FIELDS
        ]
        return PartitionFigures(
            size, segments, first, next_, visible, incarnation, purges, SlotState(state)
        )

    def totals(self, slots: Iterable[int]) -> Totals:
        """The sums over these slots: for whole streams, where one reading each would be slow."""
        fields = self._fields
        size_bytes = segments_count = messages_count = 0
        for slot in slots:
            size, segments, first, next_ = fields[slot * _FIELDS : slot * _FIELDS + _VISIBLE]
            size_bytes += size
            segments_count += segments
            messages_count += next_ - first if next_ > first else 0
        return Totals(size_bytes, segments_count, messages_count)

    def visible_next_offset(self, slot: int) -> int:
        """The one field that a reader on another shard needs for each poll."""
        return self._fields[self._at(slot) + _VISIBLE]

    def in_flight(self, slot: int) -> int:
        """A bit for each group (by id modulo 64) with messages that are polled, not committed."""
        return self._in_flight[slot]

    def set_in_flight(self, slot: int, bits: int) -> None:
        """Written by the owner of the partition only."""
        self._in_flight[slot] = bits

    def oldest_us(self, slot: int) -> int:
        """When the last message of its oldest segment that may go was taken; 0: none may."""
        return self._oldest[slot]

    def set_oldest_us(self, slot: int, timestamp_us: int) -> None:
        """Written by the owner of the partition only."""
        self._oldest[slot] = timestamp_us

    def damaged(self, slot: int) -> int | None:
        """The first offset that the last check found damaged, if any."""
        return self._damaged[slot] - 1 if self._damaged[slot] else None

    def set_damaged(self, slot: int, offset: int | None) -> None:
        """Written by the owner of the partition only."""
        self._damaged[slot] = 0 if offset is None else offset + 1

    def writer(self, slot: int) -> "SlotWriter":
        """The owner's handle."""
        return SlotWriter(self._fields, self._at(slot))

    def clear(self, slot: int) -> None:
        """Give the slot back (partition deleted)."""
        at = self._at(slot)
        self._fields[at + _STATE] = SlotState.FREE
        for field in range(_STATE):
            self._fields[at + field] = 0
        self._in_flight[slot] = self._oldest[slot] = self._damaged[slot] = 0

    def _at(self, slot: int) -> int:
        if not 0 <= slot < self.slots_count:
            raise IndexError(f"slot {slot} is not in 0..{self.slots_count - 1}")
        return slot * _FIELDS


class SlotWriter:
    """Write access to one slot, for the owner of the partition only."""

    __slots__ = ("_at", "_fields")

    def __init__(self, fields: memoryview, at: int) -> None:
        """`at`: index of the slot's first field."""
        self._fields = fields
        self._at = at

    def appended(self, size_bytes: int, next_offset: int, visible_next_offset: int) -> None:
        """After an append. The end moves last: who sees it finds the bytes."""
        fields, at = self._fields, self._at
        fields[at] = size_bytes
        fields[at + 3] = next_offset
        fields[at + 4] = visible_next_offset

    def visible(self, visible_next_offset: int) -> None:
        """After a sync of a persisted partition."""
        self._fields[self._at + _VISIBLE] = visible_next_offset

    def shape(self, segments_count: int, first_offset: int, size_bytes: int) -> None:
        """After a roll or a dropped head."""
        fields, at = self._fields, self._at
        fields[at + _SEGMENTS] = segments_count
        fields[at + _FIRST] = first_offset
        fields[at + _SIZE] = size_bytes

    def life(self, incarnation: int, purges: int, state: SlotState) -> None:
        """After open, purge or fencing."""
        fields, at = self._fields, self._at
        fields[at + _INCARNATION] = incarnation
        fields[at + _PURGES] = purges
        fields[at + _STATE] = state

"""What members of groups were handed of one partition and have not committed yet.

A partition with such messages must not change its owner at once (Iggy protocol 0.11, hand-overs).
Shard 0 decides that for every shard's partitions, so a bit for each group is in the partition
table; groups whose ids differ by 64 share one. Lives in memory only, as memberships do.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from iggy_broker.storage.partition_table import PartitionTable

GROUP_BITS: Final = 64


class _Read(NamedTuple):
    session: int  # of the member
    last_offset: int  # the highest one that it was handed


class GroupReads:
    """Of one partition, by group."""

    __slots__ = ("_busy", "_reads", "_slot", "_table")

    def __init__(self, table: PartitionTable, slot: int) -> None:
        """Nothing was handed out yet."""
        self._table = table
        self._slot = slot
        self._reads: dict[int, _Read] = {}  # at most one per group of the topic
        self._busy: set[int] = set()

    def polled(self, group_id: int, session: int, *, last_offset: int, stored: int | None) -> None:
        """A member got messages up to `last_offset`; `stored` is the group's offset now."""
        before = self._reads.get(group_id)
        if before is not None and before.session == session and before.last_offset > last_offset:
            last_offset = before.last_offset
        self._reads[group_id] = _Read(session, last_offset)
        self._mark(group_id, is_busy=stored is None or stored < last_offset)

    def committed(self, group_id: int, stored: int | None) -> None:
        """The group's offset was stored, or deleted (None)."""
        read = self._reads.get(group_id)
        if read is not None:
            self._mark(group_id, is_busy=stored is None or stored < read.last_offset)

    def owned_by(self, group_id: int, session: int | None) -> None:
        """Who owns the partition in that group now. What another one was handed counts no more."""
        read = self._reads.get(group_id)
        if read is not None and read.session != session:
            del self._reads[group_id]
            self._mark(group_id, is_busy=False)

    @property
    def groups(self) -> Collection[int]:
        """The groups whose members were handed something."""
        return self._reads.keys()

    def is_busy(self, group_id: int) -> bool:
        """Whether the owner was handed messages that it has not committed."""
        return group_id in self._busy

    def clear(self) -> None:
        """Forget everything (purge)."""
        self._reads.clear()
        if self._busy:
            self._busy.clear()
            self._publish()

    def _mark(self, group_id: int, *, is_busy: bool) -> None:
        if is_busy == (group_id in self._busy):
            return
        if is_busy:
            self._busy.add(group_id)
        else:
            self._busy.discard(group_id)
        self._publish()

    def _publish(self) -> None:
        bits = 0
        for group_id in self._busy:
            bits |= 1 << group_id % GROUP_BITS
        self._table.set_in_flight(self._slot, bits)

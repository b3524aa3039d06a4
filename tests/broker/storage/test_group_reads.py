"""What is in flight to the members of groups, and the bits that say so to other shards."""

from __future__ import annotations

from iggy_broker.storage.group_reads import GroupReads
from iggy_broker.storage.partition_table import PartitionTable


def test_polled_beyond_what_is_committed_is_busy() -> None:
    table = PartitionTable(4)
    reads = GroupReads(table, 2)
    reads.polled(3, 70, last_offset=9, stored=None)
    assert reads.is_busy(3)
    assert table.in_flight(2) == 1 << 3
    assert table.in_flight(1) == 0
    reads.committed(3, 8)
    assert reads.is_busy(3), "a lower commit does not do it"
    reads.committed(3, 9)
    assert not reads.is_busy(3)
    assert table.in_flight(2) == 0
    reads.committed(3, None)
    assert reads.is_busy(3), "the offset was deleted"


def test_reading_the_same_again_does_not_lower_what_was_handed_out() -> None:
    reads = GroupReads(PartitionTable(1), 0)
    reads.polled(0, 70, last_offset=9, stored=None)
    reads.polled(0, 70, last_offset=4, stored=None)
    reads.committed(0, 4)
    assert reads.is_busy(0)
    reads.polled(0, 70, last_offset=9, stored=9)
    assert not reads.is_busy(0)


def test_a_new_owner_starts_with_nothing() -> None:
    table = PartitionTable(1)
    reads = GroupReads(table, 0)
    reads.polled(0, 70, last_offset=9, stored=None)
    reads.owned_by(0, 70)
    assert reads.is_busy(0)
    reads.owned_by(0, 71)
    assert not reads.is_busy(0)
    reads.committed(0, 3)
    assert table.in_flight(0) == 0
    reads.polled(0, 71, last_offset=5, stored=3)
    assert reads.is_busy(0)
    assert set(reads.groups) == {0}
    reads.owned_by(0, None)
    assert table.in_flight(0) == 0
    assert not reads.groups


def test_groups_that_share_a_bit_do_not_clear_each_others() -> None:
    table = PartitionTable(1)
    reads = GroupReads(table, 0)
    reads.polled(1, 70, last_offset=0, stored=None)
    reads.polled(65, 71, last_offset=0, stored=None)
    reads.committed(1, 0)
    assert table.in_flight(0) == 1 << 1
    assert not reads.is_busy(1)
    reads.clear()
    assert table.in_flight(0) == 0
    assert not reads.is_busy(65)

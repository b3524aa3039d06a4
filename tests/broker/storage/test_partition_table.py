"""Figures of partitions are one memory for all shards."""

from __future__ import annotations

import os

import pytest

from iggy_broker.storage.partition_table import FREE_FIGURES, PartitionTable, SlotState


def test_what_the_owner_writes_is_what_others_read() -> None:
    table = PartitionTable(3)
    slot = table.writer(1)
    slot.life(77, 2, SlotState.OPEN)
    slot.shape(4, 10, 500)
    slot.appended(600, 30, 25)

    figures = table.read(1)

    assert figures.messages_count == 20
    assert (figures.size_bytes, figures.segments_count, figures.first_offset) == (600, 4, 10)
    assert (figures.next_offset, figures.visible_next_offset) == (30, 25)
    assert (figures.current_offset, table.visible_next_offset(1)) == (24, 25)
    assert (figures.incarnation, figures.purges, figures.state) == (77, 2, SlotState.OPEN)
    slot.visible(30)
    assert table.read(1).current_offset == 29
    assert table.read(0) == table.read(2) == FREE_FIGURES
    table.clear(1)
    assert table.read(1) == FREE_FIGURES
    assert FREE_FIGURES.current_offset == 0


def test_a_forked_process_sees_and_is_seen() -> None:
    table = PartitionTable(2)
    child = os.fork()
    if child == 0:
        table.writer(0).appended(1, 2, 3)
        os._exit(0)
    os.waitpid(child, 0)

    assert table.read(0).next_offset == 2


@pytest.mark.parametrize("slot", [-1, 2, 1 << 40])
def test_there_is_no_slot_beyond_the_table(slot: int) -> None:
    with pytest.raises(IndexError, match=r"0\.\.1"):
        PartitionTable(2).read(slot)

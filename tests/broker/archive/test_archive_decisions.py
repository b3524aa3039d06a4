"""Who has which segment, when, and what happens when it goes while it is copied."""

from __future__ import annotations

import pytest
import xxhash

from archived_topic import CONTINUOUS, ArchivedTopic
from iggy_broker.archive.copies import Copies, life_of, whole
from iggy_broker.archive.copying import Begin, Tail
from iggy_broker.archive.plan import (
    PIECES_KEPT_MAX,
    Extent,
    folder_of,
    kept_pieces,
    synced_extent,
)
from iggy_broker.storage.gate import EVERYTHING, Gate
from iggy_wire.archive import Life, Piece

NOT_WAITING = {"IGGY_DATA_MAINTENANCE_ARCHIVER_ARCHIVE_EXPIRED": "false"}


def two_sealed() -> tuple[ArchivedTopic, Copies]:
    topic = ArchivedTopic(settings=CONTINUOUS)
    topic.fill(segments=2.5)
    topic.sync()
    return topic, Copies(life_of(topic.partition()), folder="f")


def tail(extent: Extent) -> Tail:
    return Tail(extent, (Piece(0, extent.size_bytes, "0" * 16),), Begin(1, ""), xxhash.xxh3_64())


def test_a_sealed_segment_whose_pieces_lack_their_end_is_the_tail_lanes() -> None:
    topic, copies = two_sealed()
    log = topic.partition().log
    first = whole(log.segments[0])
    copies.tails[0] = tail(Extent(0, 1, 10))
    assert copies.due(log, EVERYTHING) is None
    assert copies.tail_due(log, ()) == first

    copies.in_tail_lane, copies.tails[0] = 0, tail(first)
    assert copies.due(log, EVERYTHING) is None, "it is still there"
    copies.in_tail_lane = None
    assert copies.due(log, EVERYTHING) == first


def test_what_the_sealed_lane_has_or_had_is_not_the_tail_lanes() -> None:
    topic, copies = two_sealed()
    log = topic.partition().log
    copies.tails[0] = tail(Extent(0, 1, 10))
    copies.in_sealed_lane = 0
    active = copies.tail_due(log, ())
    assert active is not None
    assert active.first_offset == 8
    assert copies.tail_due(log, (8,)) is None, "it had its turn"
    copies.in_sealed_lane, copies.archived[0] = None, 4
    assert copies.tail_due(log, (8,)) is None


@pytest.mark.parametrize("ending", [".log", ".index", ".part"])
def test_what_is_emptied_while_it_is_copied_gets_no_manifest(ending: str) -> None:
    topic = ArchivedTopic(settings=CONTINUOUS if ending == ".part" else NOT_WAITING)
    topic.fill(segments=1.5)
    topic.sync()

    def purge(key: str) -> None:
        if key.endswith(ending) and not topic.partition().place.purges:
            topic.partition().purge(1)
            topic.fill(segments=1.25)  # files of the same names

    topic.store.before_put = purge
    for _ in range(3):
        topic.archive()
        topic.sync()
    assert {manifest.purges for manifest in topic.manifests()} == {1}
    assert topic.whole()[0] == (0, 4)


def test_a_segment_that_was_cut_is_left_out() -> None:
    topic = ArchivedTopic(settings=NOT_WAITING)
    topic.fill(segments=2.5)
    topic.sync()
    topic.disk.open(f"{topic.partition().place.folder}/{0:020d}.log").truncate(1000)
    for _ in range(3):
        topic.archive()
    assert topic.whole() == [(4, 8)]
    assert topic.counters_of.archiver_vanished_total == 1


def test_only_what_is_synced_is_a_tail() -> None:
    active = Extent(100, 120, 2000)
    assert synced_extent(active, unsynced_bytes=500, synced_next_offset=115) == Extent(
        100, 115, 1500
    )
    assert synced_extent(active, unsynced_bytes=2500, synced_next_offset=95) is None
    assert synced_extent(active, unsynced_bytes=2000, synced_next_offset=100) is None


def test_pieces_are_joined_when_there_are_too_many() -> None:
    def of(*sizes: int) -> list[Piece]:
        return [Piece(sum(sizes[:n]), size, "0" * 16) for n, size in enumerate(sizes)]

    half = PIECES_KEPT_MAX // 2
    assert kept_pieces([], 1) == 0
    assert kept_pieces(of(*[1] * (PIECES_KEPT_MAX - 1)), 1) == PIECES_KEPT_MAX - 1
    assert kept_pieces(of(*[1] * PIECES_KEPT_MAX), 1) == 0, "all are as small"
    assert kept_pieces(of(1000, *[1] * (PIECES_KEPT_MAX - 1)), 1) == 1, "the large one stays"
    assert kept_pieces(of(*[1000] * half, *[1] * half), 1) == half


def test_a_folder_is_plain_unless_another_life_has_it() -> None:
    now, before = Life(7, 0), Life(3, 2)
    assert folder_of(1, 2, now, there=None, present=()) == "streams/1/topics/2"
    assert folder_of(1, 2, now, there=now, present=()) == "streams/1/topics/2"
    assert folder_of(1, 2, now, there=Life(8, 0), present={Life(8, 0)}) == "streams/1/topics/2"
    assert folder_of(1, 2, now, there=before, present=()) == "streams/1/topics/2.7"
    assert folder_of(1, 2, before, there=now, present=()) == "streams/1/topics/2.3-2"


def test_a_gate_knows_lives_and_forgets_those_that_are_gone() -> None:
    topic = ArchivedTopic()
    place = topic.partition().place
    gate = Gate()
    assert gate.end(place) == EVERYTHING
    gate.is_shut = True
    assert gate.end(place) == 0
    gate.open_to(place, 8)
    gate.ask(place, 12)
    gate.ask(place, 4)
    assert (gate.end(place), gate.asked(place)) == (8, 12)
    topic.partition().purge(1)
    emptied = topic.partition().place
    assert (gate.end(emptied), gate.asked(emptied)) == (0, 0)
    gate.keep([emptied])
    assert (gate.end(place), gate.asked(place)) == (0, 0)

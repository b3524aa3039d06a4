"""What an archive has of a partition, from keys and manifests alone."""

from __future__ import annotations

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from iggy_wire import archive_listing
from iggy_wire.archive import (
    Life,
    Manifest,
    Piece,
    is_state,
    log_key,
    metadata_key,
    offsets_key,
    parse_key,
    piece_key,
)
from iggy_wire.archive_fences import (
    ERAS_MAX,
    NO_FENCES,
    Era,
    Fence,
    Fences,
    fences_key,
    key_for,
    newest,
)
from iggy_wire.archive_listing import Gap, Listing, Partition, Span, listing
from iggy_wire.errors import WireError

FOLDER = "streams/1/topics/2/partitions/3"
LIFE = Life(7, 0)


def manifest(
    first: int,
    after: int,
    *,
    life: Life = LIFE,
    pieces: tuple[int, ...] = (),
    generation: int = 0,
) -> Manifest:
    size_bytes = sum(pieces) or 10 * (after - first)
    positions = [sum(pieces[:number]) for number in range(len(pieces))]
    return Manifest(
        stream_id=1,
        topic_id=2,
        partition_id=3,
        stream="s",
        topic="t",
        incarnation=life.incarnation,
        purges=life.purges,
        first_offset=first,
        next_offset=after,
        first_timestamp_us=1000 + first,
        last_timestamp_us=1000 + after - 1,
        size_bytes=size_bytes,
        xxh3="0" * 16,
        sealed=not pieces,
        pieces=tuple(
            Piece(position, size, "0" * 16)
            for position, size in zip(positions, pieces, strict=True)
        ),
        owner_generation=generation or UNSET,
    )


def listed(*manifests: Manifest, fences: Fences = NO_FENCES) -> Listing:
    return listing([(FOLDER, one) for one in manifests], LIFE, fences=fences)


def era(generation: int, end: int, *, life: Life = LIFE, op: int = 7, last_us: int = 0) -> Era:
    """Of an owner that began at an offset of the partition."""
    fence = Fence(life.incarnation, life.purges, end, last_us or 1000 + end - 1)
    return Era(generation, op, {"1/2/3": fence})


def fenced(*eras: Era) -> Fences:
    return Fences(id="a" * 32, generation=max(one.generation for one in eras), eras=eras)


def spans_of(found: Listing) -> list[tuple[int, int]]:
    return [(segment.start_offset, segment.next_offset) for segment in found.segments]


def test_segments_are_in_order_and_other_lives_are_left_out() -> None:
    found = listed(
        manifest(4, 9),
        manifest(0, 4),
        manifest(0, 20, life=Life(7, 1)),
        manifest(9, 12, pieces=(30,)),
    )
    assert spans_of(found) == [(0, 4), (4, 9), (9, 12)]
    assert (found.first_offset, found.next_offset, found.gaps) == (0, 12, ())
    assert found.size_bytes == 40 + 50 + 30
    assert Listing().first_offset == Listing().next_offset == 0


def test_a_gap_is_told_and_read_over() -> None:
    found = listed(manifest(2, 4), manifest(9, 12))
    assert found.gaps == (Gap(4, 9),)
    at = {offset: found.at_offset(offset) for offset in (0, 3, 4, 11)}
    assert {offset: one and one.start_offset for offset, one in at.items()} == {
        0: 2,
        3: 2,
        4: 9,
        11: 9,
    }
    assert found.at_offset(12) is None
    assert Listing().at_offset(0) is None


@pytest.mark.parametrize(
    ("manifests", "spans"),
    [
        ([manifest(0, 8, pieces=(5,)), manifest(6, 12)], [(0, 8), (8, 12)]),
        ([manifest(0, 8), manifest(2, 6, pieces=(5,))], [(0, 8)]),
        ([manifest(0, 8), manifest(0, 5, pieces=(5,))], [(0, 8)]),
    ],
)
def test_of_one_owner_no_offset_is_there_twice(
    manifests: list[Manifest], spans: list[tuple[int, int]]
) -> None:
    assert spans_of(listed(*manifests)) == spans


OLD_TAIL = manifest(0, 150, pieces=(5,))


@pytest.mark.parametrize(
    ("manifests", "eras", "spans"),
    [
        # Before there were generations the former owner's tail hid the new one's segment.
        ([OLD_TAIL, manifest(100, 140)], [], [(0, 150)]),
        ([OLD_TAIL, manifest(100, 140, generation=2)], [], [(0, 100), (100, 140)]),
        ([OLD_TAIL, manifest(100, 140, generation=2)], [era(2, 100)], [(0, 100), (100, 140)]),
        # It has nothing yet.
        ([OLD_TAIL], [era(2, 100)], [(0, 100)]),
        ([OLD_TAIL, manifest(150, 160)], [era(2, 100)], [(0, 100)]),
        ([manifest(100, 120)], [era(2, 100)], []),
        # All of it was fetched: it goes on with the segment that was written.
        ([OLD_TAIL, manifest(0, 140, generation=2)], [era(2, 100)], [(0, 140)]),
        ([manifest(0, 50), manifest(50, 90), manifest(0, 50, generation=2)], [era(2, 90)], [
            (0, 50), (50, 90)
        ]),
        # And was taken over from, in its turn.
        (
            [OLD_TAIL, manifest(100, 170, generation=2), manifest(130, 140, generation=3)],
            [era(2, 100), era(3, 130)],
            [(0, 100), (100, 130), (130, 140)],
        ),
        ([OLD_TAIL, manifest(130, 140, generation=3)], [era(2, 100), era(3, 130)], [
            (0, 100), (130, 140)
        ]),
        # The former owner began a life, by making the topic anew or by emptying it.
        ([OLD_TAIL], [era(2, 100, life=Life(5, 0), op=6)], []),
        ([OLD_TAIL], [era(2, 100, life=Life(6, 9))], []),
        # The new owner emptied it: what was before is as it was.
        ([OLD_TAIL], [era(2, 0, life=Life(7, 1))], [(0, 150)]),
        # Nothing is known of the partition but that it was there before.
        ([OLD_TAIL], [Era(2, 7, {})], [(0, 150)]),
        ([OLD_TAIL], [Era(2, 6, {})], []),
    ],
)  # fmt: skip
def test_a_later_owner_wins_from_where_it_began(
    manifests: list[Manifest], eras: list[Era], spans: list[tuple[int, int]]
) -> None:
    fences = fenced(*eras) if eras else NO_FENCES
    for given in (manifests, manifests[::-1]):
        assert spans_of(listed(*given, fences=fences)) == spans


def test_times_of_a_segment_that_is_cut_are_those_of_what_is_left() -> None:
    new = manifest(100, 140, generation=2)
    for fences in (fenced(era(2, 100)), NO_FENCES):
        found = listed(manifest(0, 150), new, fences=fences)
        firsts = [(one := found.at_time(at)) and one.first_offset for at in (1000, 1101, 1139)]
        assert firsts == [0, 100, 100]
    cut, _ = found.segments
    assert (cut.next_offset, cut.log_next_offset, cut.message_bytes) == (100, 150, 10)


def test_names_tell_who_wrote() -> None:
    (segment,) = listed(manifest(4, 9, generation=12)).segments
    keys = [segment.manifest_key, segment.index_key, next(segment.spans()).key]
    keys.append(piece_key(FOLDER, 4, 30, 12))
    named = [parse_key(key) for key in keys]
    assert [(one.first_offset, one.generation, one.kind) for one in named if one] == [
        (4, 12, kind) for kind in ("json", "index", "log", "part")
    ]
    assert not any(is_state(key) for key in keys)
    for key in (offsets_key(FOLDER, 2), metadata_key(2), fences_key(2, "a" * 32)):
        assert is_state(key)
        assert parse_key(key) is None
    assert parse_key(f"{FOLDER}/{4:020d}-0.json") is None


def test_a_manifest_of_the_first_owner_is_as_it_was_before_there_were_generations() -> None:
    first = manifest(0, 4)
    assert b"generation" not in first.encode()
    assert Manifest.decode(first.encode(), "") == first
    assert first.generation == 0
    later = manifest(0, 4, generation=2)
    assert Manifest.decode(later.encode(), "").generation == 2


def test_fences_are_those_of_the_owner_that_is_named() -> None:
    fences = fenced(era(2, 100), era(3, 130))
    assert Fences.decode(fences.encode(), "") == fences
    assert (fences.is_begun, fences.generations()) == (True, [3, 2, 0])
    owner = b'{"format": 1, "id": "%s", "generation": 3, "since_us": 5}' % (b"a" * 32)
    assert key_for(owner, "") == fences.key
    assert key_for(owner.replace(b'"generation": 3', b'"generation": 1'), "") is None
    assert newest([fences_key(2, "b" * 32), fences.key, "owner.json"]) == fences.key
    for wrong in (b"{", fences.encode().replace(b'"format":1', b'"format":2')):
        with pytest.raises(WireError):
            Fences.decode(wrong, "")
    many = fences
    for generation in range(4, 40):
        many = replace(many, generation=generation).with_era(era(generation, generation))
    assert len(many.eras) == ERAS_MAX


def test_times_find_the_first_segment_that_is_not_older() -> None:
    found = listed(manifest(0, 4), manifest(4, 9))
    firsts = [(one := found.at_time(at)) and one.first_offset for at in (0, 1003, 1004, 1008, 1009)]
    assert firsts == [0, 0, 4, 4, None]


def test_bytes_of_a_sealed_segment_are_in_its_log() -> None:
    (segment,) = listed(manifest(0, 4)).segments
    log = log_key(FOLDER, 0)
    assert list(segment.spans()) == [Span(log, 0, 40)]
    assert list(segment.spans(30, 100)) == [Span(log, 30, 10)]
    assert list(segment.spans(40, 1)) == []


def test_bytes_of_another_one_are_in_pieces_to_the_sizes_that_the_manifest_names() -> None:
    (segment,) = listed(manifest(0, 4, pieces=(10, 20, 5))).segments
    keys = [piece_key(FOLDER, 0, position) for position in (0, 10, 30)]
    assert list(segment.spans()) == [
        Span(keys[0], 0, 10),
        Span(keys[1], 0, 20),
        Span(keys[2], 0, 5),
    ]
    assert list(segment.spans(8, 4)) == [Span(keys[0], 8, 2), Span(keys[1], 0, 2)]
    assert list(segment.spans(29, 100)) == [Span(keys[1], 19, 1), Span(keys[2], 0, 5)]


def test_segments_whose_objects_are_not_there_are_named_and_left_out() -> None:
    manifests = [
        (FOLDER, one) for one in (manifest(0, 4), manifest(4, 8), manifest(8, 9, pieces=(5, 6)))
    ]
    sizes = {
        log_key(FOLDER, 0): 40,
        log_key(FOLDER, 4): 39,
        piece_key(FOLDER, 8, 0): 99,  # joined with what follows it
        piece_key(FOLDER, 8, 5): 6,
    }
    found = listing(manifests, LIFE, sizes)
    assert spans_of(found) == [(0, 4), (8, 9)]
    assert found.missing == (log_key(FOLDER, 4),)
    assert found.gaps == (Gap(4, 8),)


def test_folders_say_whose_they_are() -> None:
    partition = Partition(1, 2, 3)
    plain, own = archive_listing.folders(partition, Life(7, 2))
    assert (plain, own) == (FOLDER, "streams/1/topics/2.7-2/partitions/3")
    assert archive_listing.parse_folder(plain) == archive_listing.parse_folder(own) == partition
    assert archive_listing.parse_folder("streams/1/topics/2") is None


def test_without_metadata_the_newest_life_counts() -> None:
    lives = [Life(7, 0), Life(9, 0), Life(7, 3)]
    assert archive_listing.newest_life(manifest(0, 1, life=life) for life in lives) == Life(9, 0)
    assert archive_listing.newest_life([]) is None

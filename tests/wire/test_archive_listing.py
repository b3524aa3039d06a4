"""What an archive has of a partition, from keys and manifests alone."""

from __future__ import annotations

import pytest

from iggy_wire import archive_listing
from iggy_wire.archive import Life, Manifest, Piece, log_key, piece_key
from iggy_wire.archive_listing import Gap, Listing, Partition, Span, listing

FOLDER = "streams/1/topics/2/partitions/3"
LIFE = Life(7, 0)


def manifest(
    first: int, after: int, *, life: Life = LIFE, pieces: tuple[int, ...] = ()
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
    )


def listed(*manifests: Manifest) -> Listing:
    return listing([(FOLDER, one) for one in manifests], LIFE)


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
def test_no_offset_is_there_twice(manifests: list[Manifest], spans: list[tuple[int, int]]) -> None:
    assert spans_of(listed(*manifests)) == spans


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

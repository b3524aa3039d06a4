"""Which topic of an archive is meant, how a range becomes tasks, where in a segment to begin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from iggy_spark import archive_index, archive_lives, archive_plan, options
from iggy_spark.archive_index import Index
from iggy_spark.archive_lives import ArchivedTopic
from iggy_spark.archive_store import Gone
from iggy_spark.errors import BrokerRefused, OffsetFormatError, OptionError
from iggy_spark.offsets import OffsetRange, Offsets, QueryOffsets
from iggy_spark.selection import TopicName
from iggy_wire import archive, kernel
from iggy_wire.archive import Life, Manifest, Piece
from iggy_wire.archive_listing import Segment
from iggy_wire.batch import Message, build

ORDERS = TopicName("shop", "orders")
SERVER = {"servers": "a:1", "token": "t"}
NAMES = {"stream": "shop", "topic": "orders"}


def place(
    partition: int, life: str, *, own: bool = False, topic: str = "orders", number: int = 0
) -> tuple[str, Manifest]:
    """Folder and last manifest of a partition; `own`: its topic's folder has its life's name."""
    incarnation, _, purges = life.partition("-")
    manifest = Manifest(
        stream_id=0, topic_id=number, partition_id=partition, stream="shop", topic=topic,
        incarnation=int(incarnation), purges=int(purges or 0), first_offset=0, next_offset=10,
        first_timestamp_us=1, last_timestamp_us=2, size_bytes=100, xxh3="0" * 16,
        written_at_us=int(incarnation),
    )  # fmt: skip
    folder = archive.topic_folder(0, number, life if own else None)
    return archive.partition_folder(folder, partition), manifest


def lives(*found: tuple[str, Manifest]) -> list[tuple[str, dict[int, str]]]:
    """What is made of it: each topic's own life, and those of its partitions."""
    return [
        (topic.life.suffix, {n: life.suffix for n, life in topic.partitions.items()})
        for topic in archive_lives.topics(found)
    ]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([place(0, "5"), place(1, "5")], [("5", {0: "5", 1: "5"})]),
        ([place(0, "5"), place(1, "9")], [("5", {0: "5", 1: "9"})]),  # added to it
        (  # made again, with fewer partitions, and one added later
            [place(0, "5"), place(1, "5"), place(0, "17", own=True), place(1, "30", own=True)],
            [("5", {0: "5", 1: "5"}), ("17", {0: "17", 1: "30"})],
        ),
        (  # made again: only its second partition has got anything
            [place(0, "5"), place(1, "17", own=True)],
            [("5", {0: "5"}), ("17", {1: "17"})],
        ),
        (  # emptied; then only one has got anything, and another was added
            [place(0, "5"), place(1, "5"), place(1, "5-1", own=True), place(2, "40", own=True)],
            [("5", {0: "5", 1: "5", 2: "40"}), ("5-1", {1: "5-1", 2: "40"})],
        ),
        (  # made again a second time
            [place(0, "5"), place(0, "17", own=True), place(0, "40", own=True)],
            [("5", {0: "5"}), ("17", {0: "17"}), ("40", {0: "40"})],
        ),
    ],
)
def test_lives_of_a_number(
    found: Sequence[tuple[str, Manifest]], expected: list[tuple[str, dict[int, str]]]
) -> None:
    assert lives(*found) == expected
    assert lives(*reversed(found)) == expected


def known() -> list[ArchivedTopic]:
    return archive_lives.topics(
        [place(0, "5"), place(0, "17", own=True), place(0, "17-1", own=True),
         place(0, "8", topic="returns", number=1), place(0, "20", number=2)]
    )  # fmt: skip


def test_a_name_stands_for_its_last_life() -> None:
    assert archive_lives.choose(known(), ORDERS, None, "archive /a").life == Life(20, 0)
    assert archive_lives.choose(known(), ORDERS, Life(17, 1), "archive /a").incarnation == (
        "archive-0-17-1"
    )
    assert archive_lives.latest(known())["shop/returns"].topic_id == 1


@pytest.mark.parametrize(
    ("name", "life", "told"),
    [
        (TopicName("shop", "order"), None, "'order' in stream 'shop' is not in the archive /a: "
         "there are shop/orders, shop/returns"),
        (ORDERS, Life(6, 0), "archive.incarnation=6: .* no such life .*: there are 17, 17-1"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_told_with_what_is(
    name: TopicName, life: Life | None, told: str
) -> None:
    with pytest.raises(BrokerRefused, match=told):
        archive_lives.choose(known(), name, life, "archive /a")
    with pytest.raises(BrokerRefused, match="there are no topics in it"):
        archive_lives.choose([], name, life, "archive /a")


def segment(first: int, end: int, size_bytes: int = 100, **more: Any) -> Segment:
    start = more.pop("start", first)
    return Segment("f", first, end, 1000 * first, 1000 * end, size_bytes, start, **more)


def index(found: Segment) -> Index:
    """An entry for every tenth message, each of which has a tenth of the size."""
    offsets = np.arange(found.first_offset, found.next_offset, 10, dtype=np.uint64)
    message_bytes = found.size_bytes // (found.next_offset - found.first_offset)
    return Index(offsets, offsets * 1000, (offsets - found.first_offset) * message_bytes)


def cuts(first: int, end: int, *segments: Segment, split: int = 10**6, join: int = 0) -> list[int]:
    wanted = OffsetRange("i", 3, first, end)
    found = archive_plan.cut(wanted, segments, index, split_bytes=split, join_bytes=join)
    assert [item.partition for item in found] == [3] * len(found)
    assert [item.first for item in found[1:]] == [item.end for item in found[:-1]]
    return [found[0].first, *(item.end for item in found)]


def test_a_task_is_a_segment() -> None:
    three = segment(0, 100), segment(100, 200), segment(200, 300)
    assert cuts(0, 300, *three) == [0, 100, 200, 300]
    assert cuts(150, 250, *three) == [150, 200, 250]
    assert cuts(0, 300, *three, join=200) == [0, 200, 300]
    # What is not there goes with what is, and is told by the task.
    assert cuts(0, 400, three[1]) == [0, 400]
    assert cuts(0, 300, three[0], three[2]) == [0, 200, 300]
    assert cuts(5, 9) == [5, 9]
    assert cuts(0, 120, segment(0, 100), segment(90, 120, start=100)) == [0, 100, 120]


def test_a_large_segment_is_cut_where_its_index_says() -> None:
    large = segment(0, 1000, size_bytes=1000)
    assert cuts(0, 1000, large, split=300) == [0, 300, 600, 1000]
    assert cuts(0, 1000, large, split=295) == [0, 300, 590, 1000]
    assert cuts(350, 1000, large, split=300) == [350, 600, 1000], "at the same places"
    assert cuts(0, 1000, large, split=1000) == [0, 1000]


def written(*entries: tuple[int, int, int]) -> tuple[bytes, str]:
    data = np.array(entries, "<u8").tobytes()
    return data, f"{kernel.xxh3_64(data):016x}"


def test_an_index_says_where_to_begin_and_to_end() -> None:
    data, told = written((0, 1000, 0), (40, 2000, 700), (90, 2000, 1500))
    sealed = segment(0, 100, 2000, index_bytes=len(data), index_xxh3=told)

    found = archive_index.read(sealed, lambda key, first, size: data)

    assert [found.before(offset) for offset in (0, 39, 40, 99)] == [0, 0, 700, 1500]
    assert [found.behind(offset, 2000) for offset in (1, 40, 41, 100)] == [700, 700, 1500, 2000]
    assert [found.before_time(us) for us in (0, 1000, 1001, 2000, 9000)] == [0, 0, 0, 0, 90]


def test_what_was_seen_is_an_index() -> None:
    tail = segment(0, 100, 2000, pieces=(Piece(0, 2000, "0" * 16),))
    found = archive_index.read(tail, gone).with_more([(40, 2000, 700)])
    found = found.with_more([(10, 1500, 300), (40, 2000, 700)])
    assert found.positions.tolist() == [0, 300, 700]
    assert [found.before(offset) for offset in (9, 10, 99)] == [0, 300, 700]


def gone(key: str, first: int, size: int) -> bytes:
    raise Gone(key)


@pytest.mark.parametrize(
    "entries",
    [(), ((1, 1, 0),), ((0, 1, 0), (200, 2, 9)), ((0, 1, 0), (5, 2, 0)), ((0, 1, 0), (5, 2, 9999))],
)
def test_an_index_that_cannot_be_is_left_alone(
    entries: tuple[tuple[int, int, int], ...], caplog: pytest.LogCaptureFixture
) -> None:
    data, told = written(*entries) if entries else (b"", "")
    sealed = segment(0, 100, 2000, index_bytes=len(data) or 24, index_xxh3=told)

    found = archive_index.read(sealed, (lambda key, first, size: data) if entries else gone)

    assert found.before(99) == 0
    assert found.behind(50, 2000) == 2000
    assert "is damaged: its segment is read from the start" in caplog.text


def test_pieces_are_an_index() -> None:
    batch = bytearray(build([Message(b"a")], origin_timestamp_us=1))
    kernel.admit(batch, 0, 60, 1234)
    tail = segment(0, 100, 2000, pieces=(Piece(0, 700, "0" * 16), Piece(700, 1300, "0" * 16)))

    found = archive_index.read(tail, lambda key, first, size: bytes(batch[:size]))
    assert [found.before(offset) for offset in (59, 60)] == [0, 700]
    found = archive_index.read(tail, lambda key, first, size: b"\xff" * size)
    assert found.before(99) == 0, "no batch begins there"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"archive.region": "x"}, "archive.region needs archivePath"),
        ({"archive.incarnation": "5"}, "archive.incarnation needs archivePath"),
        ({"archivePath": "/a", "archive.endpoint": "http://a"}, "archive.endpoint is for buckets"),
        ({"archivePath": "a/b"}, "archivePath='a/b'.*whole path such as /mnt/archive"),
        ({"archivePath": "/a", "archiveMode": "never"}, "archiveMode='never'.*auto, only, off"),
        ({"archivePath": "/a", "archive.incarnation": "x"}, "archive.incarnation='x'.*17-2"),
        (
            {"archivePath": "/a", "archiveMode": "only", "consumerGroup": "g"},
            "consumerGroup needs a broker",
        ),
    ],
)
def test_a_wrong_archive_is_named(given: dict[str, str], told: str) -> None:
    with pytest.raises(OptionError, match=told):
        options.parse({**SERVER, **NAMES, **given}, mode="batch")


def test_a_life_is_of_one_topic() -> None:
    given = {**SERVER, "subscribe": "a/b,c/d", "archivePath": "/a", "archive.incarnation": "5"}
    with pytest.raises(OptionError, match=r"archive\.incarnation is of one topic"):
        options.parse(given, mode="batch")


def test_an_archive_alone_needs_no_server() -> None:
    only = options.parse({**NAMES, "archivePath": "/a", "archiveMode": "only"}, mode="stream")
    assert (only.servers, only.has_broker) == ((), False)
    off = options.parse(
        {**SERVER, **NAMES, "archivePath": "/a", "archiveMode": "off"}, mode="batch"
    )
    assert off.archive is None
    place = {"archivePath": "s3://b/p", "archive.endpoint": "http://a:1"}
    found = options.parse({**SERVER, **NAMES, **place}, mode="batch").archive
    assert found is not None
    assert found.path_style, "as stores that are not Amazon's have it"


@pytest.mark.parametrize(("incarnation", "is_archive"), [("0-17", True), ("archive-0-5", False)])
def test_a_checkpoint_stays_with_its_kind_of_query(incarnation: str, is_archive: bool) -> None:
    found = QueryOffsets.of([Offsets("shop/orders", incarnation, {0: 7})])

    archive_lives.check_origin(found, is_archive=not is_archive)
    with pytest.raises(OffsetFormatError, match=r'new checkpoint.*shop/orders: \{"0": 7\}'):
        archive_lives.check_origin(found, is_archive=is_archive)

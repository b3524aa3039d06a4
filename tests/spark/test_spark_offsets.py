"""Offsets: what the checkpoint holds, what a batch may read, what counts as loss."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iggy_spark import offsets
from iggy_spark.errors import DataLoss, OffsetFormatError, TopicRecreated
from iggy_spark.offsets import (
    Advance,
    Incarnation,
    OffsetRange,
    Offsets,
    QueryOffsets,
    Task,
    TopicState,
)

INCARNATION = Incarnation(7, 1795812995756186)
TOPIC = "shop/Orders.V2"


def at(**positions: int) -> Offsets:
    return Offsets(TOPIC, str(INCARNATION), {int(k[1:]): v for k, v in positions.items()})


def state(**ends: int) -> TopicState:
    return TopicState(TOPIC, INCARNATION, {int(k[1:]): v for k, v in ends.items()})


def query(*topics: Offsets) -> QueryOffsets:
    return QueryOffsets.of(topics)


def moved(start: Offsets, *found: TopicState, fail: bool = True) -> Advance:
    start_of_all = query(start)
    return offsets.advance(start_of_all, found, fail_on_data_loss=fail, restart_recreated=False)


def limited(start: Offsets, ends: dict[int, int], rows_max: int | None) -> Offsets:
    places = {(start.topic, number): end for number, end in ends.items()}
    return offsets.limit_end(Advance(query(start), places, ()), rows_max).topics[start.topic]


def planned(start: Offsets, end: QueryOffsets, least: int | None = None) -> list[OffsetRange]:
    return [task.wanted for task in offsets.plan_tasks(query(start), end, partitions_min=least)]


def test_offsets_have_the_documented_form_and_come_back() -> None:
    written = json.dumps(at(p0=5120, p1=4988).to_json())

    assert written == (
        '{"v": 1, "topics": {"shop/Orders.V2": {"incarnation": "7-1795812995756186", '
        '"0": 5120, "1": 4988}}}'
    )
    assert Offsets.from_json(json.loads(written)) == at(p0=5120, p1=4988)


def test_the_text_does_not_depend_on_the_order_of_discovery() -> None:
    numbers = [10, 2, 0, 33, 1]

    texts = {
        json.dumps(Offsets(TOPIC, "1-1", {n: n for n in order}).to_json())
        for order in (numbers, sorted(numbers), numbers[::-1])
    }

    assert len(texts) == 1
    assert list(json.loads(texts.pop())["topics"][TOPIC]) == [
        "incarnation",
        "0",
        "1",
        "2",
        "10",
        "33",
    ]


@pytest.mark.parametrize(
    "value",
    [
        {"v": 2, "topics": {}},
        {"topics": {}},
        {"v": 1, "topics": {}},
        {"v": 1, "topics": {"a/b": {"incarnation": "1-1"}, "a/c": {"incarnation": "1-1"}}},
        {"v": 1, "topics": {"a/b": {"0": 1}, "a/c": {}}},
        {"v": 1, "topics": {"a/b": {"incarnation": "1-1", "x": 1}}},
        {"v": 1, "topics": []},
    ],
)
def test_foreign_offsets_are_refused_with_a_way_out(value: dict[str, object]) -> None:
    with pytest.raises(OffsetFormatError, match="new"):
        Offsets.from_json(value)


def test_new_partitions_are_read_from_their_beginning() -> None:
    advance = moved(at(p0=4), state(p0=6, p1=3))

    assert planned(at(p0=4), offsets.limit_end(advance, None)) == [
        OffsetRange(str(INCARNATION), 0, 4, 6),
        OffsetRange(str(INCARNATION), 1, 0, 3),
    ]


def test_a_vanished_partition_is_a_loss_unless_that_is_allowed() -> None:
    with pytest.raises(DataLoss, match=r"partition 1 .*offset 9.*failOnDataLoss=false"):
        moved(at(p0=4, p1=9), state(p0=6))

    advance = moved(at(p0=4, p1=9), state(p0=6), fail=False)
    assert advance.start == query(at(p0=4))
    assert "partition 1" in advance.notes[0]


def test_a_lost_tail_is_a_loss_and_never_read_again_under_old_numbers() -> None:
    with pytest.raises(
        DataLoss, match="offsets 900\u2013949 were read but the partition ends at 900"
    ):
        moved(at(p0=950), state(p0=900))

    advance = moved(at(p0=950), state(p0=900), fail=False)
    end = offsets.limit_end(advance, None)
    assert planned(at(p0=950), end) == []
    assert end == query(at(p0=950))


def test_a_deleted_single_message_is_not_mistaken_for_a_lost_tail() -> None:
    advance = moved(at(p0=1), state(p0=0))

    assert advance.notes == ()
    assert offsets.limit_end(advance, None) == query(at(p0=1))


def test_a_recreated_topic_is_noticed() -> None:
    other = TopicState(TOPIC, Incarnation(7, 1795812995756187), {0: 5})

    with pytest.raises(TopicRecreated, match=r"created again.*onTopicRecreated=restart"):
        moved(at(p0=3), other)

    advance = offsets.advance(
        query(at(p0=3)), [other], fail_on_data_loss=True, restart_recreated=True
    )
    assert planned(at(p0=3), offsets.limit_end(advance, None)) == [
        OffsetRange("7-1795812995756187", 0, 0, 5)
    ]


def test_the_limit_is_shared_by_backlog_with_one_message_at_least() -> None:
    end = limited(at(p0=0, p1=10, p2=5), {0: 9_000, 1: 11, 2: 1_005}, 100)

    taken = {n: p - at(p0=0, p1=10, p2=5).positions[n] for n, p in end.positions.items()}
    assert taken == {0: 90, 1: 1, 2: 9}


@given(
    st.dictionaries(
        st.integers(0, 9), st.tuples(st.integers(0, 10**7), st.integers(0, 10**6)), min_size=1
    ),
    st.one_of(st.none(), st.integers(1, 300)),
)
def test_planned_ranges_hold_each_offset_once(
    parts: dict[int, tuple[int, int]], partitions_min: int | None
) -> None:
    start = Offsets(TOPIC, "1-1", {n: first for n, (first, _) in parts.items()})
    end = Offsets(TOPIC, "1-1", {n: first + count for n, (first, count) in parts.items()})

    ranges = planned(start, query(end), partitions_min)

    for n, (first, count) in parts.items():
        at = first
        for item in (item for item in ranges if item.partition == n):
            assert item.first == at < item.end
            at = item.end
        assert at == first + count
    whole = planned(start, query(end))
    assert len(whole) <= len(ranges)
    if len(ranges) > len(whole):
        assert min(item.count for item in ranges) >= min(1000, *(item.count for item in whole))
        assert partitions_min is not None
        assert len(ranges) <= 2 * partitions_min + len(whole)


def test_a_large_partition_is_split_at_round_offsets() -> None:
    ranges = planned(at(p0=1_500, p1=0), query(at(p0=41_500, p1=400)), 4)

    assert [(item.partition, item.first, item.end) for item in ranges] == [
        *((0, a, b) for a, b in pairwise([1_500, 8_000, 16_000, 24_000, 32_000, 40_000, 41_500])),
        (1, 0, 400),
    ]  # fmt: skip


@given(
    st.dictionaries(st.integers(0, 40), st.integers(0, 10**9), min_size=1),
    st.one_of(st.none(), st.integers(1, 10**9)),
)
def test_shares_add_up_and_never_pass_an_end(backlog: dict[int, int], rows_max: int | None) -> None:
    start = Offsets(TOPIC, "1-1", dict.fromkeys(sorted(backlog), 7))
    ends = {n: 7 + waiting for n, waiting in backlog.items()}

    end = limited(start, ends, rows_max)

    taken = {n: end.positions[n] - 7 for n in backlog}
    total = sum(backlog.values())
    assert sum(taken.values()) == (total if rows_max is None else min(total, rows_max))
    assert all(0 <= taken[n] <= waiting for n, waiting in backlog.items())
    waiting_count = sum(1 for waiting in backlog.values() if waiting)
    if rows_max is None or rows_max >= waiting_count:
        assert all(taken[n] >= 1 for n, waiting in backlog.items() if waiting)


# Several topics.

OTHER = "shop/returns"


def of(topic: str, *positions: int, life: str = str(INCARNATION)) -> Offsets:
    return Offsets(topic, life, dict(enumerate(positions)))


def test_topics_come_in_the_order_of_their_names() -> None:
    texts = {
        json.dumps(query(*order).to_json())
        for order in (
            [of("b/b", 1), of("a/z", 2), of("a/b", 3)],
            [of("a/b", 3), of("a/z", 2), of("b/b", 1)],
        )
    }

    assert len(texts) == 1
    value = json.loads(texts.pop())
    assert list(value["topics"]) == ["a/b", "a/z", "b/b"]
    assert QueryOffsets.from_json(value) == query(of("a/b", 3), of("a/z", 2), of("b/b", 1))


def test_a_new_topic_is_read_from_its_beginning() -> None:
    advance = moved(at(p0=4), state(p0=6), TopicState(OTHER, Incarnation(8, 1), {0: 3, 1: 0}))

    tasks = offsets.plan_tasks(query(at(p0=4)), offsets.limit_end(advance, None))
    assert tasks == [
        Task(TOPIC, OffsetRange(str(INCARNATION), 0, 4, 6)),
        Task(OTHER, OffsetRange("8-1", 0, 0, 3)),
    ]


def test_a_vanished_topic_is_a_loss_unless_that_is_allowed() -> None:
    start = query(at(p0=4), of(OTHER, 7, 9))
    with pytest.raises(
        DataLoss, match=r"shop/returns: the topic no longer exists.*0 up to 7, 1 up"
    ):
        offsets.advance(start, [state(p0=6)], fail_on_data_loss=True, restart_recreated=False)

    advance = offsets.advance(
        start, [state(p0=6)], fail_on_data_loss=False, restart_recreated=False
    )
    assert advance.start == query(at(p0=4))
    assert "shop/returns" in advance.notes[0]


@given(
    st.dictionaries(
        st.tuples(st.sampled_from(["a/a", "a/b", "b/a"]), st.integers(0, 5)),
        st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)),
        min_size=1,
    ),
    st.integers(1, 10**9),
    st.integers(1, 50),
)
def test_limits_and_tasks_span_all_topics(
    parts: dict[tuple[str, int], tuple[int, int]], rows_max: int, least: int
) -> None:
    start = query(
        *(
            Offsets(topic, "1-1", {n: first for (t, n), (first, _) in parts.items() if t == topic})
            for topic in {topic for topic, _ in parts}
        )
    )
    ends = {place: first + waiting for place, (first, waiting) in parts.items()}

    end = offsets.limit_end(Advance(start, ends, ()), rows_max)
    tasks = offsets.plan_tasks(start, end, partitions_min=least)

    taken = {place: end.places[place] - start.places[place] for place in parts}
    total = sum(waiting for _, waiting in parts.values())
    assert sum(taken.values()) == min(total, rows_max) == sum(task.wanted.count for task in tasks)
    assert all(0 <= taken[place] <= waiting for place, (_, waiting) in parts.items())
    if rows_max >= len(parts):
        assert all(taken[place] for place, (_, waiting) in parts.items() if waiting)
    for place in parts:
        mine = [task.wanted for task in tasks if (task.topic, task.wanted.partition) == place]
        assert [item.end for item in mine[:-1]] == [item.first for item in mine[1:]]


@given(
    st.dictionaries(
        st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 9)),
        st.tuples(st.integers(1, 10**9), st.floats(1, 1e7)),
        min_size=1,
    ),
    st.integers(1, 1 << 40),
)
def test_bytes_become_rows(parts: dict[tuple[str, int], tuple[int, float]], bytes_max: int) -> None:
    backlog = {place: waiting for place, (waiting, _) in parts.items()}
    sizes = {place: size for place, (_, size) in parts.items()}

    rows = offsets.rows_within(backlog, sizes, bytes_max)

    total = sum(backlog.values())
    assert 1 <= rows <= total
    whole_bytes = sum(backlog[place] * sizes[place] for place in backlog)
    assert rows == 1 or rows * whole_bytes / total <= bytes_max * 1.000001
    assert rows == total or (rows + 1) * whole_bytes / total >= bytes_max * 0.999999

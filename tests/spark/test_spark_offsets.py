"""Offsets: what the checkpoint holds, what a batch may read, what counts as loss."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iggy_spark import offsets
from iggy_spark.errors import DataLoss, OffsetFormatError, OptionError, TopicRecreated
from iggy_spark.offsets import Incarnation, OffsetRange, Offsets, TopicState

INCARNATION = Incarnation(7, 1795812995756186)
TOPIC = "shop/Orders.V2"


def at(**positions: int) -> Offsets:
    return Offsets(TOPIC, str(INCARNATION), {int(k[1:]): v for k, v in positions.items()})


def state(**ends: int) -> TopicState:
    return TopicState(TOPIC, INCARNATION, {int(k[1:]): v for k, v in ends.items()})


def moved(start: Offsets, found: TopicState, *, fail: bool = True) -> offsets.Advance:
    return offsets.advance(start, found, fail_on_data_loss=fail, restart_recreated=False)


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

    end = offsets.limit_end(advance.start, advance.ends, None)
    assert offsets.plan_ranges(at(p0=4), end) == [
        OffsetRange(str(INCARNATION), 0, 4, 6),
        OffsetRange(str(INCARNATION), 1, 0, 3),
    ]


def test_a_vanished_partition_is_a_loss_unless_that_is_allowed() -> None:
    with pytest.raises(DataLoss, match=r"partition 1 .*offset 9.*failOnDataLoss=false"):
        moved(at(p0=4, p1=9), state(p0=6))

    advance = moved(at(p0=4, p1=9), state(p0=6), fail=False)
    assert advance.start == at(p0=4)
    assert "partition 1" in advance.notes[0]


def test_a_lost_tail_is_a_loss_and_never_read_again_under_old_numbers() -> None:
    with pytest.raises(
        DataLoss, match="offsets 900\u2013949 were read but the partition ends at 900"
    ):
        moved(at(p0=950), state(p0=900))

    advance = moved(at(p0=950), state(p0=900), fail=False)
    end = offsets.limit_end(advance.start, advance.ends, None)
    assert offsets.plan_ranges(at(p0=950), end) == []
    assert end == at(p0=950)


def test_a_deleted_single_message_is_not_mistaken_for_a_lost_tail() -> None:
    advance = moved(at(p0=1), state(p0=0))

    assert advance.notes == ()
    assert offsets.limit_end(advance.start, advance.ends, None) == at(p0=1)


def test_a_recreated_topic_is_noticed() -> None:
    other = TopicState(TOPIC, Incarnation(7, 1795812995756187), {0: 5})

    with pytest.raises(TopicRecreated, match=r"created again.*onTopicRecreated=restart"):
        moved(at(p0=3), other)

    advance = offsets.advance(at(p0=3), other, fail_on_data_loss=True, restart_recreated=True)
    end = offsets.limit_end(advance.start, advance.ends, None)
    assert offsets.plan_ranges(at(p0=3), end) == [OffsetRange("7-1795812995756187", 0, 0, 5)]


def test_another_topics_checkpoint_is_refused() -> None:
    with pytest.raises(OffsetFormatError, match="belongs to topic 'shop"):
        moved(at(p0=3), TopicState("shop/other", INCARNATION, {0: 5}))


def test_the_limit_is_shared_by_backlog_with_one_message_at_least() -> None:
    end = offsets.limit_end(at(p0=0, p1=10, p2=5), {0: 9_000, 1: 11, 2: 1_005}, 100)

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

    ranges = offsets.plan_ranges(start, end, partitions_min=partitions_min)

    for n, (first, count) in parts.items():
        at = first
        for item in (item for item in ranges if item.partition == n):
            assert item.first == at < item.end
            at = item.end
        assert at == first + count
    whole = offsets.plan_ranges(start, end)
    assert len(whole) <= len(ranges)
    if len(ranges) > len(whole):
        assert min(item.count for item in ranges) >= min(1000, *(item.count for item in whole))
        assert partitions_min is not None
        assert len(ranges) <= 2 * partitions_min + len(whole)


def test_a_large_partition_is_split_at_round_offsets() -> None:
    ranges = offsets.plan_ranges(at(p0=1_500, p1=0), at(p0=41_500, p1=400), partitions_min=4)

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

    end = offsets.limit_end(start, ends, rows_max)

    taken = {n: end.positions[n] - 7 for n in backlog}
    total = sum(backlog.values())
    assert sum(taken.values()) == (total if rows_max is None else min(total, rows_max))
    assert all(0 <= taken[n] <= waiting for n, waiting in backlog.items())
    waiting_count = sum(1 for waiting in backlog.values() if waiting)
    if rows_max is None or rows_max >= waiting_count:
        assert all(taken[n] >= 1 for n, waiting in backlog.items() if waiting)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({}, "must be JSON"),
        ([1], "must be JSON"),
        (7, "must be JSON"),
        ({"a": 1}, "'a' is no partition"),
        ({"0": "1"}, "partition 0"),
        ({"0": True}, "partition 0"),
        ({"0": -4}, "partition 0: -4"),
        ({"0": 1.0}, "partition 0"),
        ({"other/topic": {"0": 1}}, "'other/topic' is no partition"),
    ],
)
def test_wrong_positions_name_the_option(value: object, told: str) -> None:
    with pytest.raises(OptionError, match=rf"startingOffsets.*{told}"):
        offsets.parse_positions(value, option="startingOffsets", topic=TOPIC)


def test_positions_may_stand_under_the_topic() -> None:
    value = {TOPIC: {"1": 5, "0": -2}}

    assert offsets.parse_positions(value, option="x", topic=TOPIC) == {0: -2, 1: 5}

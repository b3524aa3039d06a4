"""The demo's plan: the same for every run, and completed from any point."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flights_demo import flights as data
from flights_demo.plan import SLICE_ROWS, ForeignData, missing, partition_of, plan

CARRIERS = ["UA", "AA", "UA", "B6", "DL", "UA", "HA", "AA"]

carriers = st.lists(st.sampled_from(["UA", "AA", "B6", "DL", "HA", "F9"]), max_size=60)


def rows_by_partition(requests, partitions_count):
    rows = [[] for _ in range(partitions_count)]
    for request in requests:
        assert request.base_offset == len(rows[request.partition_id]), "offsets are dense"
        rows[request.partition_id] += request.rows
    return rows


@given(carriers, st.integers(1, 7))
def test_every_flight_is_planned_once_in_the_partition_of_its_carrier(names, partitions_count):
    rows = rows_by_partition(plan(names, partitions_count), partitions_count)

    assert sorted(row for one in rows for row in one) == list(range(len(names)))
    for partition_id, its_rows in enumerate(rows):
        assert {partition_of(names[row], partitions_count) for row in its_rows} <= {partition_id}


@given(carriers, st.integers(1, 7), st.data())
def test_what_is_missing_completes_any_state(names, partitions_count, draw):
    planned = plan(names, partitions_count)
    whole = rows_by_partition(planned, partitions_count)
    ends = [draw.draw(st.integers(0, len(rows))) for rows in whole]

    rest = list(missing(planned, ends))

    there = [rows[:end] for rows, end in zip(whole, ends, strict=True)]
    for request in rest:
        assert request.base_offset == len(there[request.partition_id])
        there[request.partition_id] += request.rows
    assert there == whole


def test_nothing_is_missing_at_the_end() -> None:
    planned = plan(CARRIERS, 3)
    ends = [len(rows) for rows in rows_by_partition(planned, 3)]

    assert list(missing(planned, ends)) == []


def test_other_data_in_the_topic_is_refused() -> None:
    with pytest.raises(ForeignData, match=r"partition 0 has 9 messages, the input only 8"):
        list(missing(plan(CARRIERS, 1), [9]))


def test_one_carrier_keeps_its_order() -> None:
    names = ["UA", "AA"] * SLICE_ROWS

    rows = rows_by_partition(plan(names, 2), 2)

    for its_rows in rows:
        for carrier in ("UA", "AA"):
            mine = [row for row in its_rows if names[row] == carrier]
            assert mine == sorted(mine)


def test_a_shorter_input_is_a_prefix_in_steps_of_a_slice() -> None:
    names = ["UA", "AA", "B6"] * SLICE_ROWS

    short = rows_by_partition(plan(names[: 2 * SLICE_ROWS], 3), 3)
    whole = rows_by_partition(plan(names, 3), 3)

    assert [one[: len(other)] for one, other in zip(whole, short, strict=True)] == short


def test_flights_have_nulls_and_whole_numbers() -> None:
    flights = data.load_flights(1_000)
    cancelled = flights["dep_delay"].to_pylist().index(None)

    (row,) = data.json_rows(flights, [cancelled])
    value = json.loads(row)

    assert value["dep_delay"] is None
    assert value["dep_time"] is None
    assert isinstance(value["year"], int)
    assert value["time_hour"] == flights["time_hour"][cancelled].as_py()


def test_all_flights_are_there() -> None:
    flights = data.load_flights()

    assert flights.num_rows == 336_776
    assert flights["dep_delay"].null_count == 8_255
    assert set(flights["carrier"].to_pylist()) == set(data.load_airlines())

"""Columns → Python values: the same as Arrow's own way, for every type that a column may have."""

from __future__ import annotations

import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iggy_spark.pylists import values_of

VALUES = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-(1 << 7), (1 << 7) - 1),
    pa.int32(): st.integers(-(1 << 31), (1 << 31) - 1),
    pa.int64(): st.integers(-(1 << 63), (1 << 63) - 1),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.float64(): st.floats(allow_nan=False),
    pa.string(): st.text(),
    pa.binary(): st.binary(),
    pa.decimal128(38, 3): st.decimals(-(10**30), 10**30, places=3),
    pa.date32(): st.dates(),
    pa.timestamp("us"): st.datetimes(),
    pa.list_(pa.int32()): st.lists(st.integers(0, 9) | st.none()),
    pa.struct([("a", pa.string())]): st.fixed_dictionaries({"a": st.text() | st.none()}),
    pa.map_(pa.string(), pa.int32()): st.dictionaries(st.text(), st.integers(0, 9)),
}


@pytest.mark.parametrize("kind", VALUES, ids=str)
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_values_are_those_of_arrow(kind: pa.DataType, data: st.DataObject) -> None:
    column = pa.array(data.draw(st.lists(VALUES[kind] | st.none(), max_size=9)), kind)
    for part in (column, column.slice(1), column.slice(0, 2)):
        found = values_of(part)
        assert found == part.to_pylist(maps_as_pydicts="strict")
        assert [type(value) for value in found] == [
            type(value) for value in part.to_pylist(maps_as_pydicts="strict")
        ]


def test_null_and_nan_stay_apart() -> None:
    found = values_of(pa.array([math.nan, None, 1.5, math.inf]))
    assert math.isnan(found[0])
    assert found[1:] == [None, 1.5, math.inf]


def test_digits_are_kept() -> None:
    column = pa.array([Decimal("1.10"), None], pa.decimal128(18, 2))
    assert [str(value) for value in values_of(column)] == ["1.10", "None"]


def test_a_key_that_is_there_twice_is_refused_or_the_last_counts() -> None:
    twice = pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int32()))
    with pytest.raises(KeyError):
        values_of(twice)
    with pytest.warns(UserWarning, match="already encountered"):
        assert values_of(twice, maps="lossy") == [{"a": 2}]

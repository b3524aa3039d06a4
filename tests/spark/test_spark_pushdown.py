"""Filters that the source answers itself: never a row too few, and fewer messages read."""

import datetime as dt
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
)

from iggy_spark import pushdown

if TYPE_CHECKING:
    from conftest import Topic

CONF = "spark.sql.python.filterPushdown.enabled"
COMPARE = {
    EqualTo: lambda a, b: a == b,
    GreaterThan: lambda a, b: a > b,
    GreaterThanOrEqual: lambda a, b: a >= b,
    LessThan: lambda a, b: a < b,
    LessThanOrEqual: lambda a, b: a <= b,
    In: lambda a, b: a in b,
}
SECONDS = st.integers(0, 30).map(lambda n: dt.datetime.fromtimestamp(n, dt.UTC))
NUMBERS = st.integers(0, 30)
COMPARISONS = st.one_of(
    st.builds(
        lambda kind, column, value: kind((column,), value),
        st.sampled_from([kind for kind in COMPARE if kind is not In]),
        st.sampled_from(["partition", "offset", "payload"]),
        NUMBERS,
    ),
    st.builds(
        lambda kind, value: kind(("timestamp",), value),
        st.sampled_from([kind for kind in COMPARE if kind is not In]),
        SECONDS,
    ),
    st.builds(
        lambda column, values: In((column,), tuple(values)),
        st.sampled_from(["partition", "offset"]),
        st.lists(NUMBERS, max_size=4),
    ),
)
ROWS = [
    {
        "partition": n % 4,
        "offset": n,
        "payload": n,
        "timestamp": dt.datetime.fromtimestamp(n, dt.UTC),
    }
    for n in range(30)
]


def passes(item: Filter, row: dict[str, Any]) -> bool:
    return COMPARE[type(item)](row[item.attribute[0]], item.value)  # type: ignore[attr-defined]


def inside(bounds: pushdown.Bounds, row: dict[str, Any]) -> bool:
    us = round(row["timestamp"].timestamp() * 1e6)
    return (
        (bounds.partitions is None or row["partition"] in bounds.partitions)
        and bounds.first <= row["offset"] < bounds.end
        and (bounds.first_us is None or bounds.first_us <= us)
        and (bounds.end_us is None or us < bounds.end_us)
    )


@given(st.lists(COMPARISONS, max_size=5))
def test_bounds_and_what_is_left_are_the_filters(filters: list[Filter]) -> None:
    bounds, left = pushdown.narrow(filters)

    for row in ROWS:
        wanted = all(passes(item, row) for item in filters)
        assert (inside(bounds, row) and all(passes(item, row) for item in left)) == wanted


def test_what_is_not_understood_is_left_to_spark() -> None:
    strange = [
        Not(EqualTo(("partition",), 1)),
        EqualTo(("value", "partition"), 1),
        EqualTo(("offset",), "1"),
        LessThan(("timestamp",), dt.datetime(2026, 1, 1)),  # noqa: DTZ001 -- the zone is missing
        GreaterThan(("partition",), 1),
        StringContains(("topic",), "a"),
    ]

    assert pushdown.narrow(strange) == (pushdown.Bounds(), strange)
    assert pushdown.narrow([IsNotNull(("offset",))]) == (pushdown.Bounds(), [])


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[SparkSession]:
    spark.conf.set(CONF, "true")
    yield spark
    spark.conf.unset(CONF)


def frame(spark: SparkSession, topic: "Topic") -> DataFrame:
    given = topic.options(filterPushdown="true", columns="partition,offset,timestamp")
    return spark.read.format("iggy").options(**given).load()


def test_spark_pushes_filters_down(pushing: SparkSession, topic: "Topic") -> None:
    for partition in range(2):
        topic.send(partition, [b"m%d" % n for n in range(100)], batch=10)
    at = frame(pushing, topic).where("partition = 1 AND offset = 50").collect()[0].timestamp

    chosen = frame(pushing, topic).where("partition = 1 AND offset >= 10")
    chosen = chosen.where(f.col("timestamp") < f.lit(at))

    found = sorted((row.partition, row.offset) for row in chosen.collect())
    assert found == [(1, n) for n in range(10, 50)]
    plan = chosen._jdf.queryExecution().executedPlan().toString()
    assert "Filter (" not in plan, plan
    assert chosen.rdd.getNumPartitions() == 1
    assert frame(pushing, topic).where("offset % 2 = 0 OR partition = 0").count() == 150
    # What Spark 4.3 does, and the documents warn of: a frame keeps what was last pushed into it.
    assert chosen.union(frame(pushing, topic)).count() == 240
    rows = frame(pushing, topic)
    assert rows.where("partition = 1").count() == 100
    assert rows.count() == 100


def test_without_sparks_setting_the_way_out_is_told(spark: SparkSession, topic: "Topic") -> None:
    with pytest.raises(PySparkException, match=CONF.replace(".", r"\.")):
        frame(spark, topic).collect()

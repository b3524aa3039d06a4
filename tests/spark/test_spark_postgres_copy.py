"""What COPY BINARY is given is what PostgreSQL reads."""

from __future__ import annotations

import datetime
import math
from decimal import Context, Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iggy_spark import schema
from iggy_spark.sinks.postgres_copy import HEAD, TAIL, encode
from iggy_spark.sinks.postgres_table import type_of
from postgres import Postgres

NESTED = "STRUCT<a: INT, b: ARRAY<STRING>, c: MAP<STRING, DECIMAL(5,2)>>"
DDL = (
    "a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f FLOAT, g DOUBLE, h STRING, i BINARY, "
    "j DATE, k TIMESTAMP, l TIMESTAMP_NTZ, m DECIMAL(18,2), n DECIMAL(38,10), o DECIMAL(5,0), "
    f"p DECIMAL(4,4), q DECIMAL(18,17), r {NESTED}"
)
FIELDS = schema.parse(DDL, name="test")
FORM = pa.schema([schema.arrow_field(item) for item in FIELDS])
UTC = datetime.UTC


def numbers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    return st.integers(-most, most).map(lambda n: Decimal(n).scaleb(-scale, context=WIDE))


WIDE = Context(prec=60)
TEXT = st.text(st.characters(exclude_characters="\x00", codec="utf-8"), max_size=20)
TIMES = st.datetimes(datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30))  # noqa: DTZ001
VALUES = [
    st.booleans(), numbers(8), numbers(16), numbers(32), numbers(64),
    st.floats(width=32), st.floats(), TEXT, st.binary(max_size=20), st.dates(),
    TIMES.map(lambda at: at.replace(tzinfo=UTC)), TIMES,
    decimals(18, 2), decimals(38, 10), decimals(5, 0), decimals(4, 4), decimals(18, 17),
    st.fixed_dictionaries({"a": numbers(32), "b": st.lists(TEXT, max_size=2), "c": st.just({})}),
]  # fmt: skip
ROWS = st.lists(st.tuples(*(st.none() | values for values in VALUES)), max_size=6)


def read_back(server: Postgres, rows: pa.RecordBatch) -> list[tuple[Any, ...]]:
    columns = ", ".join(f"{item.name} {type_of(item)}" for item in FIELDS)
    with server.connect() as connection, connection.transaction():
        connection.execute("set local timezone = 'UTC'")
        connection.execute(f"create temporary table t ({columns}) on commit drop".encode())
        with connection.cursor().copy("copy t from stdin (format binary)") as copy:
            for part in (HEAD, encode(rows), TAIL):
                copy.write(part)
        return connection.execute("select * from t", binary=True).fetchall()


def table(rows: list[Any]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [()] * len(FORM)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, FORM, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=FORM)


def plain(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """NaN equals itself, and JSON has no more than its text."""
    return [
        tuple("nan" if isinstance(v, float) and math.isnan(v) else v for v in row) for row in rows
    ]


@given(rows=ROWS, cut=st.integers(0, 6))
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
def test_values_arrive_as_they_were(postgres: Postgres, rows: list[Any], cut: int) -> None:
    given_rows = table(rows)

    found = read_back(postgres, given_rows) + read_back(postgres, given_rows.slice(cut))

    assert plain(found) == plain(rows + rows[cut:])


@pytest.mark.parametrize("at", [-(1 << 63), 1 - (1 << 63), -(1 << 62)])
def test_a_time_that_the_server_does_not_have_is_none_of_its_infinities(
    postgres: Postgres, at: int
) -> None:
    columns = [pa.nulls(1, field.type) for field in FORM]
    columns[10] = pa.array([at], pa.int64()).cast(FORM.field(10).type)

    with pytest.raises(psycopg.errors.DatetimeFieldOverflow):
        read_back(postgres, pa.RecordBatch.from_arrays(columns, schema=FORM))


def test_a_nested_value_is_json(postgres: Postgres) -> None:
    value = {"a": 1, "b": ["x", None], "c": [("k", Decimal("1.50"))]}
    columns = [pa.nulls(1, field.type) for field in FORM]
    columns[-1] = pa.array([value], FORM.field(len(FORM) - 1).type)

    (row,) = read_back(postgres, pa.RecordBatch.from_arrays(columns, schema=FORM))

    assert row[-1] == {"a": 1, "b": ["x", None], "c": {"k": 1.5}}

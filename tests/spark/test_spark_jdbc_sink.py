"""Rows in a real PostgreSQL: columns, modes, rows that the server refuses, repeated ranges."""

from __future__ import annotations

import datetime
import json
import threading
from decimal import Decimal
from typing import Any

import pytest

from iggy_spark.errors import BadPayload, Fenced, OptionError
from iggy_spark.sink_task import TaskWork
from jdbc_cases import Scene, ready
from postgres import Postgres
from sink_cases import INCARNATION, NEXT_LIFE, TIMESTAMP_US, PlayedTask, portions, wanted

AT = datetime.datetime.fromisoformat("2026-03-29T00:59:59.999999+00:00")
BROKER_AT = datetime.datetime.fromtimestamp(TIMESTAMP_US // 10**6, datetime.UTC).replace(
    microsecond=TIMESTAMP_US % 10**6
)


@pytest.fixture
def scene(postgres: Postgres) -> Scene:
    return Scene(postgres)


def test_a_table_is_made_and_holds_every_column(scene: Scene) -> None:
    sink = scene.sink()

    sink.check()
    assert sink.prepare(INCARNATION) == {}
    written, task = scene.carry(sink, wanted(0, 8))

    rows = scene.run(f"select * from {scene.table} order by number")
    assert rows[3] == (3, None, "c3", Decimal("3.25"), AT, 0, 3, BROKER_AT)
    assert rows[4] == (4, 5, "c4", Decimal("4.25"), None, 0, 4, BROKER_AT)
    assert len(rows) == written.rows == 8
    assert written.size_bytes > 0
    assert (task.confirmed, task.refusals) == (1, [])
    types = scene.run(
        "select column_name, data_type, is_nullable from information_schema.columns "
        f"where table_schema = '{scene.schema}' and table_name = 'orders' order by ordinal_position"
    )
    assert types == [
        ("number", "bigint", "NO"),
        ("month", "integer", "YES"),
        ("customer", "text", "YES"),
        ("amount", "numeric", "YES"),
        ("at", "timestamp with time zone", "YES"),
        ("iggy_partition_id", "integer", "NO"),
        ("iggy_offset", "bigint", "NO"),
        ("iggy_timestamp", "timestamp with time zone", "NO"),
    ]


def test_ranges_that_come_again_change_nothing(scene: Scene) -> None:
    sink = ready(scene.sink())

    scene.carry(sink, wanted(0, 10))
    repeated, task = scene.carry(sink, wanted(0, 10))
    overlapping, _ = scene.carry(sink, wanted(4, 17))  # as another plan cuts it
    scene.carry(sink, wanted(0, 5, 1))

    assert (repeated.rows, overlapping.rows, task.confirmed) == (0, 7, 1)
    found = scene.run(f"select iggy_partition_id, iggy_offset from {scene.table}")
    assert sorted(found) == [*((0, n) for n in range(17)), *((1, n) for n in range(5))]
    assert sink.prepare(INCARNATION) == {0: ((0, 17),), 1: ((0, 5),)}
    assert sink.prepare(NEXT_LIFE) == {}


def test_another_life_of_the_topic_begins_anew(scene: Scene) -> None:
    sink = ready(scene.sink())
    scene.carry(sink, wanted(0, 4))

    scene.carry(sink, wanted(0, 3, incarnation=NEXT_LIFE))

    assert scene.offsets() == [0, 0, 1, 1, 2, 2, 3]


def test_two_tasks_with_the_same_range_write_it_once(scene: Scene) -> None:
    sink = ready(scene.sink())
    rows: list[int] = []

    def work() -> None:
        written, _ = scene.carry(sink, wanted(0, 3000), size=500)
        rows.append(written.rows)

    tasks = [threading.Thread(target=work) for _ in range(3)]
    for one in tasks:
        one.start()
    for one in tasks:
        one.join()

    assert sorted(rows) == [0, 0, 3000]
    assert scene.offsets() == list(range(3000))


def test_nothing_appears_before_the_task_has_confirmed(scene: Scene) -> None:
    sink = ready(scene.sink())
    span = wanted(0, 6)

    def too_late() -> None:
        assert scene.offsets() == []
        raise Fenced("another driver")

    with pytest.raises(Fenced):
        sink.write_task(span, portions(span), PlayedTask(confirm=too_late))
    assert scene.offsets() == []
    assert sink.prepare(INCARNATION) == {}


def test_a_dropped_table_is_filled_from_the_start(scene: Scene) -> None:
    sink = ready(scene.sink())
    scene.carry(sink, wanted(0, 5))
    scene.run(f"drop table {scene.table}")

    assert sink.prepare(INCARNATION) == {}
    scene.carry(sink, wanted(0, 5))

    assert scene.offsets() == [0, 1, 2, 3, 4]


REFUSED: list[tuple[str, Any, str, str]] = [
    ("constraint no_ten check (number <> 10)", {"number": 10}, "23514", "no_ten"),
    ("unique (number)", {"number": 9}, "23505", "duplicate key"),
    ("check (customer is not null)", {"number": 10, "customer": None}, "23514", "check"),
    ("", {"number": 10, "customer": "nul\u0000byte"}, "22021", "0x00"),
    ("", {"number": 10, "code": "too long"}, "22001", "character varying(3)"),
    ("", {"number": 10, "share": 1000}, "22003", "numeric field overflow"),
    ("", {"number": 10, "id": "no uuid"}, "22P02", 'uuid: "no uuid"'),
    ("", {"number": 10, "small": 40_000}, "22003", "smallint out of range"),
    ("", {"number": 10, "body": '{"a": "\\u0000"}'}, "22P05", "Unicode escape"),
    ("", {"number": 10, "mood": "sad"}, "22P02", "enum"),
]
SCHEMA = (
    "number BIGINT NOT NULL, customer STRING, code STRING, share DECIMAL(9,2), id STRING, "
    "small INT, body STRING, mood STRING"
)
PLAIN = "number bigint not null, customer text, code varchar(3), share numeric(5,2)"


def bad_at_ten(bad: Any) -> Any:
    good = {"customer": "c", "code": "abc", "share": 1.5, "small": 1, "mood": "glad"}
    good |= {"id": "6f1e7a9e-3f0f-4b42-9d3d-1c5b0f0c5a11", "body": '{"a": 1}'}

    def made(n: int) -> bytes:
        value = {"number": n, **good}
        return json.dumps(value | bad if n == 10 else value).encode()

    return made


@pytest.mark.parametrize(("constraint", "bad", "kind", "told"), REFUSED)
def test_a_row_that_the_server_refuses_is_found_and_the_others_are_written(
    scene: Scene, constraint: str, bad: Any, kind: str, told: str
) -> None:
    comma = f", {constraint}" if constraint else ""
    is_plain = not {"id", "small", "body", "mood"} & bad.keys()  # then by COPY, else by insert
    scene.run(f"create type {scene.schema}.moods as enum ('glad')")
    cast = f", id uuid, small smallint, body jsonb, mood {scene.schema}.moods"
    scene.make(f"{PLAIN}{'' if is_plain else cast}, iggy_offset bigint{comma}")
    schema = SCHEMA.partition(", id")[0] if is_plain else SCHEMA
    sink = ready(scene.sink(schema))

    written, task = scene.carry(sink, wanted(0, 40), bad_at_ten(bad), schema=schema, size=32)

    assert scene.offsets() == [n for n in range(40) if n != 10]
    (refusal,) = task.refusals
    assert (refusal.offset, refusal.stage, refusal.kind) == (10, "write", kind)
    assert told in refusal.message
    assert len(refusal.message.encode()) <= 255
    assert (written.rows, task.confirmed) == (39, 1)


def test_of_a_thousand_rows_one_violates_not_null(scene: Scene) -> None:
    """The task used to be killed although dead letters were asked for."""
    scene.make("number bigint not null, month int, customer text, amount numeric not null, "
               "at timestamptz, iggy_offset bigint not null")  # fmt: skip
    sink = ready(scene.sink())

    def made(n: int) -> bytes:
        return json.dumps({"number": n, "amount": None if n == 617 else "1.00"}).encode()

    written, task = scene.carry(sink, wanted(0, 1000), made, size=1000)

    assert (written.rows, len(scene.offsets())) == (999, 999)
    ((messages, refusal),) = task.letters
    assert (refusal.offset, refusal.stage, refusal.kind) == (617, "write", "23502")
    assert messages.offsets[617] == 617


def test_a_few_steps_find_a_bad_row(scene: Scene) -> None:
    scene.make("number bigint, month int, customer text, amount numeric, at timestamptz, "
               "iggy_offset bigint unique check (iggy_offset <> 617)")  # fmt: skip
    scene.run(
        f"create table {scene.schema}.tries (offsets bigint)",
        f"create function {scene.schema}.note() returns trigger language plpgsql as $$ begin "
        f"perform nextval('{scene.schema}.statements'); return null; end $$",
        f"create sequence {scene.schema}.statements",
        f"create trigger noted before insert on {scene.table} for each statement "
        f"execute function {scene.schema}.note()",
    )
    sink = ready(scene.sink())

    scene.carry(sink, wanted(0, 1024), size=1024)

    ((statements,),) = scene.run(f"select last_value from {scene.schema}.statements")
    assert statements == 1 + 2 * 10


def test_a_duplicate_in_the_middle_does_not_drop_the_rest(scene: Scene) -> None:
    scene.make("number bigint primary key, month int, customer text, amount numeric, "
               "at timestamptz, iggy_offset bigint")  # fmt: skip
    sink = ready(scene.sink())

    def made(n: int) -> bytes:
        return json.dumps({"number": 3 if n == 50 else n}).encode()

    written, task = scene.carry(sink, wanted(0, 100), made, size=100)

    assert written.rows == 99
    assert [bad.offset for bad in task.refusals] == [50]


def test_without_a_place_for_bad_rows_the_first_one_stops_the_task(scene: Scene) -> None:
    scene.make("number bigint check (number < 5), month int, customer text, amount numeric, "
               "at timestamptz, iggy_offset bigint")  # fmt: skip
    sink = ready(scene.sink())
    span = wanted(0, 9)

    with pytest.raises(BadPayload, match=r"partition 0 offset 5: the target refuses.*23514"):
        sink.write_task(span, portions(span), TaskWork())
    assert scene.offsets() == []


KEYS = {"mode": "Upsert", "keyColumns": ["number"]}


def keyed(n: int) -> bytes:
    """Three keys in turn; the amount is the offset."""
    return json.dumps({"number": n % 3, "month": n, "amount": f"{n}.00"}).encode()


def test_the_last_row_of_a_key_stays(scene: Scene) -> None:
    sink = ready(scene.sink(**KEYS))

    written, _ = scene.carry(sink, wanted(0, 10), keyed, size=7)
    scene.carry(sink, wanted(0, 5), keyed)  # repeated: must not bring old values back
    scene.carry(sink, wanted(10, 11), keyed)

    rows = scene.run(f"select number, month, iggy_offset from {scene.table} order by number")
    assert rows == [(0, 9, 9), (1, 10, 10), (2, 8, 8)]
    assert written.rows == 10


def test_when_the_last_row_of_a_key_is_refused_the_one_before_stays(scene: Scene) -> None:
    scene.make("number bigint primary key, month int check (month < 9), amount numeric")
    schema = "number BIGINT NOT NULL, month INT, amount DECIMAL(18,2)"
    sink = ready(scene.sink(schema, **KEYS))

    _, task = scene.carry(sink, wanted(0, 10), keyed, schema=schema, size=10)

    rows = scene.run(f"select number, month from {scene.table} order by number")
    assert rows == [(0, 6), (1, 7), (2, 8)]
    assert [bad.offset for bad in task.refusals] == [9]


def test_the_server_decides_which_keys_are_the_same(scene: Scene) -> None:
    scene.make("id uuid primary key, month int")
    schema = "id STRING, month INT"
    sink = ready(scene.sink(schema, mode="Upsert", keyColumns=["id"]))
    id_text = "6f1e7a9e-3f0f-4b42-9d3d-1c5b0f0c5a11"

    def made(n: int) -> bytes:
        return json.dumps({"id": id_text.upper() if n % 2 else id_text, "month": n}).encode()

    _, task = scene.carry(sink, wanted(0, 6), made, schema=schema, size=6)

    assert scene.run(f"select month from {scene.table}") == [(5,)]
    assert task.refusals == []


def test_columns_of_the_table_that_the_payload_lacks_keep_their_values(scene: Scene) -> None:
    scene.make("number bigint primary key, month int, note text default 'new', "
               "serial bigint generated always as identity, "
               "twice bigint generated always as (number * 2) stored")  # fmt: skip
    schema = "number BIGINT NOT NULL, month INT"
    sink = ready(scene.sink(schema, **KEYS))
    scene.carry(sink, wanted(0, 1), keyed, schema=schema)
    scene.run(f"update {scene.table} set note = 'kept'")

    scene.carry(sink, wanted(1, 4), keyed, schema=schema)

    rows = scene.run(f"select number, month, note, twice from {scene.table} order by number")
    assert rows == [(0, 3, "kept", 0), (1, 1, "new", 2), (2, 2, "new", 4)]


def test_names_are_taken_as_they_are_or_else_in_small_letters(scene: Scene) -> None:
    scene.run(f'create table {scene.schema}."Odd.Name" (orderid bigint, "Month" int, month text)')
    schema = "orderId BIGINT, Month INT"
    sink = ready(scene.sink(schema, table=f'{scene.schema}."Odd.Name"', createTable=False))

    scene.carry(sink, wanted(0, 1), lambda n: b'{"orderId": 5, "Month": 6}', schema=schema)

    assert scene.run(f'select * from {scene.schema}."Odd.Name"') == [(5, 6, None)]


MISFITS = [
    ("number bigint", {}, r"has no column 'month': add it as int4"),
    ("number text, month int", {}, r"orders\.number is text, and the payload's 'number' is BIGINT"),
    ("number bigint, month int, more int not null", {}, r"orders\.more is NOT NULL and has no de"),
    ("number bigint, month int generated always as (1) stored", {}, r"month is generated by the"),
    ("number bigint, month int", KEYS, r"keyColumns: .* has no unique index on \(number\)"),
    ("number bigint, month int, unique (number, month)", KEYS, r"no unique index on \(number\)"),
]


@pytest.mark.parametrize(("columns", "block", "told"), MISFITS)
def test_a_table_that_does_not_fit_is_refused_before_anything_runs(
    scene: Scene, columns: str, block: Any, told: str
) -> None:
    scene.make(columns)

    with pytest.raises(OptionError, match=told):
        scene.sink("number BIGINT NOT NULL, month INT", **block).check()


def test_a_column_that_would_round_is_refused(scene: Scene) -> None:
    scene.make("amount numeric(18,1)")

    with pytest.raises(OptionError, match=r"numeric\(18,1\), and the payload's 'amount' is DECIM"):
        scene.sink("amount DECIMAL(18,2)").check()


def test_a_missing_table_is_made_only_where_that_is_wanted(scene: Scene) -> None:
    sink = scene.sink(createTable=False)

    for step in (sink.check, lambda: sink.prepare(INCARNATION)):
        with pytest.raises(OptionError, match=r"jdbc\.table: there is no table s\d+\.orders in"):
            step()


def test_a_view_is_no_table(scene: Scene) -> None:
    scene.run(f"create view {scene.table} as select 1 as number")

    with pytest.raises(OptionError, match="is no table"):
        scene.sink().check()


@pytest.mark.parametrize(
    ("block", "told"),
    [
        ({"url": "jdbc:mysql://h/d"}, r"jdbc\.url: write it like"),
        ({"url": "jdbc:postgresql:shop"}, r"jdbc\.url: write it like"),
        ({"url": "jdbc:postgresql://u:hidden@h/d"}, "a login stands in the URL"),
        ({"url": "jdbc:postgresql://h/d?password=hidden"}, "password stands in the URL"),
        ({"url": "jdbc:postgresql://h/d?reWriteBatchedInserts=true"}, "'reWriteBatchedInserts' is"),
        ({"caPath": "/ca", "url": "jdbc:postgresql://h/d?sslmode=require"}, r"jdbc\.caPath: with"),
        ({"table": "a.b.c"}, r"jdbc\.table: 'a\.b\.c' must be a table"),
        ({"table": ".b"}, r"must be a table"),
        ({"table": "x" * 64}, r"longer than 63 bytes"),
        ({"mode": "Upsert"}, r"jdbc\.keyColumns: goes with mode Upsert"),
        ({"keyColumns": ["number"]}, r"jdbc\.keyColumns: goes with mode Upsert"),
        ({"mode": "Upsert", "keyColumns": ["no"]}, r"jdbc\.keyColumns: 'no' is none of number"),
        ({"mode": "Upsert", "keyColumns": ["month", "month"]}, "there twice"),
    ],
)
def test_settings_that_make_no_sense_are_named(scene: Scene, block: Any, told: str) -> None:
    with pytest.raises(OptionError, match=told) as caught:
        scene.sink(**block)
    assert "hidden" not in str(caught.value)

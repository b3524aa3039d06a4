"""Changes of tables in a real PostgreSQL: what they say, in which order, and where batches end."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from iggy_spark.sources import postgres_changes, postgres_messages
from iggy_spark.sources.base import Position
from postgres_sources import Shop, drain, messages, read, state


def begun(shop: Shop, **block: Any) -> tuple[Any, Position]:
    """A source, and where it begins."""
    source = shop.source(**block)
    source.check()
    return source, source.first()


def test_what_happens_to_a_row_is_told_in_order(shop: Shop) -> None:
    source, start = begun(shop)
    shop.run(
        f"insert into {shop.table} values (1, 'Ann', 9.50)",
        f"update {shop.table} set amount = 'NaN' where id = 1",
        f"update {shop.table} set id = 2 where id = 1",
        f"delete from {shop.table} where id = 2",
        f"truncate {shop.table}",
    )

    found = messages(source, start)

    assert [(one["op"], one["key"]) for one in found] == [
        ("insert", {"id": 1}),
        ("update", {"id": 1}),
        ("delete", {"id": 1}),
        ("update", {"id": 2}),
        ("delete", {"id": 2}),
        ("truncate", {}),
    ]
    assert found[0]["after"] == {"id": 1, "customer": "Ann", "amount": "9.50"}
    assert found[1]["after"]["amount"] == "NaN"
    assert found[4]["before"] == {"id": 2}
    assert {one["table"] for one in found} == {shop.table}
    assert [one["by"] for one in found][:2] == [b'{"id":1}'] * 2
    places = [(one["lsn"], one["index"]) for one in found]
    assert places == sorted(places)


def test_a_rollback_and_other_tables_are_not_told(shop: Shop) -> None:
    source, start = begun(shop)
    shop.run(f"create table {shop.schema}.other (id int primary key)")
    connection = shop.hold()
    connection.execute(f"insert into {shop.table} values (1)".encode())
    connection.execute(b"rollback")
    shop.run(f"insert into {shop.schema}.other values (1)")
    shop.insert(2)

    assert [one["key"]["id"] for one in messages(source, start)] == [2]


def test_a_publication_that_tells_of_more_tables_is_narrowed(shop: Shop) -> None:
    other = f"{shop.schema}.other"
    shop.run(
        f"create table {other} (id int primary key)",
        f"create publication {shop.slot} for table {shop.table}, {other}",
    )
    source, start = begun(shop)
    shop.run(f"insert into {other} values (1)")
    shop.insert(2)

    assert [one["table"] for one in messages(source, start)] == [shop.table]


def test_two_transactions_at_once_come_in_the_order_of_their_commits(shop: Shop) -> None:
    source, start = begun(shop)
    slow, fast = shop.hold(), shop.hold()
    slow.execute(f"insert into {shop.table} values (1)".encode())
    fast.execute(f"insert into {shop.table} values (2)".encode())
    fast.execute(b"commit")
    first, at = drain(source, start)
    slow.execute(f"insert into {shop.table} values (3)".encode())
    slow.execute(b"commit")

    then, _ = drain(source, at)

    assert [one["key"]["id"] for batch in first for one in batch] == [2]
    assert [one["key"]["id"] for batch in then for one in batch] == [1, 3]


def test_batches_end_where_transactions_end(shop: Shop) -> None:
    source, start = begun(shop)
    for first in range(0, 30, 6):
        shop.run(f"insert into {shop.table} select generate_series({first}, {first + 5})")

    batches, _ = drain(source, start, messages_max=13)

    assert [len(batch) for batch in batches] == [12, 12, 6]
    assert [one["key"]["id"] for batch in batches for one in batch] == list(range(30))


def test_a_transaction_that_is_larger_than_a_batch_comes_whole_in_bounded_portions(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_messages, "BATCH_ROWS", 100)
    source, start = begun(shop)
    shop.insert(9_001)
    shop.run(f"insert into {shop.table} select generate_series(1, 1000)")
    shop.insert(9_002)

    end = source.latest(start, 10)
    then = source.latest(end, 10)
    last = source.latest(then, 10)
    sizes = [batch.num_rows for batch in source.read(end, then, {})]

    assert len(read(source, start, end)) == 1
    assert sizes == [100] * 10
    assert len(read(source, then, last)) == 1


def test_many_done_changes_before_the_start_are_looked_past(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a crash: the slot stands at the start of all."""
    monkeypatch.setattr(postgres_changes, "ROWS_SPARE", 1)
    source, start = begun(shop)
    shop.insert(*range(40))
    at = source.latest(start, 1000)
    shop.insert(40)

    end = source.latest(at, 1)

    assert [one["key"]["id"] for one in read(source, at, end)] == [40]


def test_tables_change_in_the_middle(shop: Shop) -> None:
    source, start = begun(shop)
    shop.insert(1)
    shop.run(
        f"alter table {shop.table} rename customer to buyer",
        f"alter table {shop.table} add vip bool not null default false",
        f"update {shop.table} set vip = true where id = 1",
        f"alter table {shop.table} drop amount",
        f"alter table {shop.table} alter vip drop default, alter vip type text",
        f"insert into {shop.table} values (2, 'Bob', 'yes')",
    )

    found = messages(source, start)

    assert [one["after"] for one in found] == [
        {"id": 1, "customer": "c1", "amount": "1.50"},
        {"id": 1, "buyer": "c1", "amount": "1.50", "vip": True},
        {"id": 2, "buyer": "Bob", "vip": "yes"},
    ]


@pytest.mark.parametrize("identity", ["default", "full"])
def test_a_large_value_that_stays_is_named_or_told(shop: Shop, identity: str) -> None:
    shop.run(
        f"alter table {shop.table} alter customer set storage external",
        f"alter table {shop.table} replica identity {identity}",
    )
    source, start = begun(shop)
    large = "x" * 10_000
    shop.run(
        f"insert into {shop.table} values (1, '{large}', 1)",
        f"update {shop.table} set amount = 2",
    )

    first, update = messages(source, start)

    assert first["after"]["customer"] == large
    if identity == "full":
        assert update["after"] == {"id": 1, "customer": large, "amount": "2"}
        assert update["before"] == {"id": 1, "customer": large, "amount": "1"}
        assert update["key"] == {"id": 1}
    else:
        assert update["after"] == {"id": 1, "amount": "2"}
        assert update["unchanged"] == ["customer"]
        assert "before" not in update
    assert state([first, update]) == {
        "{'id': 1}": {"id": 1, "customer": large, "amount": "2"},
    }


def test_an_index_can_be_the_identity(shop: Shop) -> None:
    shop.run(
        f"alter table {shop.table} alter customer set not null",
        f"create unique index by_customer on {shop.table} (customer)",
        f"alter table {shop.table} replica identity using index by_customer",
    )
    source, start = begun(shop, snapshot=True)
    shop.insert(1)
    shop.run(f"update {shop.table} set amount = 3", f"delete from {shop.table}")

    found = messages(source, start)

    assert {str(one["key"]) for one in found} == {"{'customer': 'c1'}"}
    assert found[-1]["before"] == {"customer": "c1"}


def test_partitions_are_told_as_their_table(shop: Shop) -> None:
    table = f"{shop.schema}.parts"
    shop.run(
        f"create table {table} (id int primary key, v text) partition by range (id)",
        f"create table {table}_1 partition of {table} for values from (0) to (10)",
        f"create table {table}_2 partition of {table} for values from (10) to (20)",
        f"insert into {table} values (0), (11)",
    )
    source, start = begun(shop, tables=[table], snapshot=True)
    shop.run(
        f"insert into {table} values (1), (12)",
        f"update {table} set id = 13 where id = 1",  # moves
        f"delete from {table} where id = 12",
    )

    found = messages(source, start)

    assert {one["table"] for one in found} == {table}
    assert state(found) == {f"{{'id': {n}}}": {"id": n, "v": None} for n in (0, 11, 13)}


def test_users_types_are_told(shop: Shop) -> None:
    table = f"{shop.schema}.kinds"
    shop.run(
        f"create type {shop.schema}.mood as enum ('ok', 'so, so')",
        f"create domain {shop.schema}.positive as int check (value > 0)",
        f"create type {shop.schema}.pair as (a int, b text)",
        f"create table {table} (id int primary key, m {shop.schema}.mood, p {shop.schema}.positive,"
        f" ms {shop.schema}.mood[], ps {shop.schema}.positive[], pair {shop.schema}.pair,"
        " at timestamptz, raw bytea, twice int generated always as (id * 2) stored)",
        f"insert into {table} values (1, 'so, so', 7, '{{ok,\"so, so\",NULL}}', '{{1,2}}', "
        "(1, 'x'), '2026-03-29 02:00+02', '\\x00ff')",
    )
    source, start = begun(shop, tables=[table], snapshot=True)
    end = source.latest(start, 10)
    found = read(source, start, end)
    shop.run(f"update {table} set id = 2")

    found += messages(source, end)

    row = {
        "m": "so, so", "p": 7, "ms": ["ok", "so, so", None], "ps": [1, 2], "pair": "(1,x)",
        "at": "2026-03-29T00:00:00Z", "raw": "AP8=",
    }  # fmt: skip
    assert found[0]["after"] == {"id": 1, **row}
    assert found[-1]["after"] == {"id": 2, **row}


def test_settings_of_the_server_change_no_value(shop: Shop) -> None:
    settings = {
        "datestyle": "'German, DMY'", "timezone": "'Asia/Kolkata'", "bytea_output": "'escape'",
        "intervalstyle": "'postgres_verbose'", "extra_float_digits": "-15",
    }  # fmt: skip
    for name, value in settings.items():
        shop.run(f"alter database shop set {name} = {value}")
    try:
        table = f"{shop.schema}.kinds"
        shop.run(f"create table {table} (id int primary key, a date, b timestamptz, c bytea, "
                 "d interval, e float8)")  # fmt: skip
        source, start = begun(shop, tables=[table])
        shop.run(
            f"insert into {table} values (1, '2026-03-04', '2026-03-04 05:06:07Z', '\\x5c00', "
            "'36:00', 0.1::float8 + 0.2)"
        )

        (found,) = messages(source, start)
    finally:
        for name in settings:
            shop.run(f"alter database shop reset {name}")

    assert found["after"] == {
        "id": 1, "a": "2026-03-04", "b": "2026-03-04T05:06:07Z", "c": "XAA=", "d": "PT36H",
        "e": 0.30000000000000004,
    }  # fmt: skip


def test_a_log_of_others_does_not_pile_up(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_changes, "IDLE_BYTES", 50_000)
    source, start = begun(shop)
    shop.run(f"create table {shop.schema}.other (v text)")
    shop.run(
        f"insert into {shop.schema}.other select repeat('x', 1000) from generate_series(1, 99)"
    )

    batches, at = drain(source, start)

    assert batches == [[]]
    assert at != start
    assert shop.confirmed() == at["lsn"]


def test_a_long_log_is_looked_through_in_pieces(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_changes, "LOOK_BYTES", 20_000)
    monkeypatch.setattr(postgres_changes, "IDLE_BYTES", 20_000)
    source, start = begun(shop)
    for n in range(6):
        shop.run(f"create table {shop.schema}.t{n} (v text)")
        shop.insert(n)

    found = messages(source, start)

    assert [one["key"]["id"] for one in found] == list(range(6))


def test_an_idle_source_asks_the_slot_for_nothing(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, start = begun(shop)
    shop.run(f"create table {shop.schema}.other (v text)")
    asked = itertools.count()
    plan = postgres_changes.Slot.plan

    def counted(self: Any, *given: Any, **more: Any) -> Any:
        next(asked)
        return plan(self, *given, **more)

    monkeypatch.setattr(postgres_changes.Slot, "plan", counted)

    # Another process of the server may write to the log at any moment, but not every time.
    assert [source.latest(start, 10) for _ in range(20)] == [start] * 20
    assert next(asked) < 20


def test_a_connection_that_is_lost_in_a_batch_loses_and_doubles_nothing(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_messages, "BATCH_ROWS", 50)
    source, start = begun(shop)
    shop.run(f"insert into {shop.table} select n, repeat('x', 5000) from generate_series(1, 400) n")
    shop.run(f"update {shop.table} set id = -id where id % 2 = 0")  # two messages each
    end = source.latest(start, 10_000)
    whole = [row["id"] for batch in source.read(start, end, {}) for row in batch.to_pylist()]
    found = []

    for number, batch in enumerate(source.read(start, end, {})):
        found += [row["id"] for row in batch.to_pylist()]
        if number in (1, 9):
            shop.run(
                "select pg_terminate_backend(pid, 5000) from pg_stat_activity "
                "where application_name = 'iggykube' and pid <> pg_backend_pid()"
            )

    assert found == whole
    assert len(set(found)) == 400 + 2 * 200

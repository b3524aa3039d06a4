"""Rows that were there before the slot, sent first: never a gap, whatever changes meanwhile."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from iggy_spark.errors import OptionError, SinkError
from iggy_spark.sources import postgres_messages
from postgres_sources import HASTY, Shop, drain, messages, read, state


def rows(shop: Shop, count: int) -> None:
    shop.run(f"insert into {shop.table} select n, 'c' || n, n from generate_series(1, {count}) n")


def table_of(shop: Shop) -> dict[str, dict[str, Any]]:
    found = shop.run(f"select id, customer, amount::text from {shop.table}")
    return {
        f"{{'id': {n}}}": {"id": n, "customer": customer, "amount": amount}
        for n, customer, amount in found
    }


def test_rows_come_first_in_the_order_of_their_keys(shop: Shop) -> None:
    rows(shop, 7)
    source = shop.source(snapshot=True)
    source.check()
    start = source.first()

    batches, at = drain(source, start, messages_max=3)

    assert [[one["key"]["id"] for one in batch] for batch in batches] == [
        [1, 2, 3], [4, 5, 6], [7], [],
    ]  # fmt: skip
    assert {one["op"] for batch in batches for one in batch} == {"read"}
    assert batches[0][0]["after"] == {"id": 1, "customer": "c1", "amount": "1"}
    assert {one["lsn"] for batch in batches for one in batch} == {start["lsn"]} == {at["lsn"]}


def test_what_changes_while_rows_are_sent_ends_right(shop: Shop) -> None:
    rows(shop, 30)
    source = shop.source(snapshot=True)
    at = source.first()
    found = []
    for n in range(1, 40):
        end = source.latest(at, 4)
        if end == at:
            break
        shop.run(
            f"update {shop.table} set customer = 'later' where id in ({n}, {31 - n})",
            f"insert into {shop.table} values ({100 + n}, 'new', 0)",
            f"delete from {shop.table} where id = {n * 3}",
            f"update {shop.table} set id = id + 1000 where id = {n * 4 + 1}",
        )
        found += read(source, at, end)
        found += read(source, at, end)  # and again, as after a crash
        source.done(end)
        at = end

    found += messages(source, at)

    assert state(found) == table_of(shop)
    assert sum(one["op"] == "read" for one in found) >= 15


def test_a_busy_table_has_an_end(shop: Shop) -> None:
    rows(shop, 3)
    source = shop.source(snapshot=True)
    at = source.first()
    ops = []
    for n in range(100, 110):
        shop.insert(n)
        end = source.latest(at, 1)
        ops += [one["op"] for one in read(source, at, end)]
        at = end
        if "snapshot" not in at:
            break

    assert "snapshot" not in at or "last" in at["snapshot"] or ops.count("read") == 10
    assert "read" in ops


def test_several_tables_with_keys_of_any_kind(shop: Shop) -> None:
    texts, pairs, empty = (f"{shop.schema}.{name}" for name in ("texts", "pairs", "empty"))
    shop.run(
        f"create table {texts} (name text primary key, at timestamptz default now())",
        f"insert into {texts} (name) values ('b'), ('a''%s'), ('é'), ('')",
        f"create table {pairs} (v int, b bytea, a numeric(6,2), primary key (a, b))",
        f"insert into {pairs} select n, decode(lpad(to_hex(n), 2, '0'), 'hex'), n % 3 "
        "from generate_series(1, 9) n",
        f"create table {empty} (id uuid primary key)",
    )
    source = shop.source(snapshot=True, tables=[texts, empty, pairs, shop.table])
    shop.insert(1)
    start = source.first()

    batches, _ = drain(source, start, messages_max=2)

    keys = [(one["table"], str(one["key"])) for batch in batches for one in batch]
    assert len(keys) == len(set(keys)) == 4 + 9 + 1
    assert [name for name, _ in keys] == [texts] * 4 + [pairs] * 9 + [shop.table]
    assert max(len(batch) for batch in batches) == 2
    order = [one["after"] for batch in batches for one in batch if one["table"] == pairs]
    assert [one["a"] for one in order] == [f"{n}.00" for n in (0, 0, 0, 1, 1, 1, 2, 2, 2)]


def test_only_what_is_published_is_sent(shop: Shop) -> None:
    rows(shop, 4)
    shop.run(
        f"create publication {shop.slot} for table {shop.table} (id, customer) "
        "where (id > 1 and customer not like '%3')"
    )
    shop.run(f"alter publication {shop.slot} set (publish = 'insert')")
    source = shop.source(snapshot=True)
    start = source.first()
    shop.insert(5, 13)

    found = messages(source, start)

    assert [(one["op"], one["after"]) for one in found if one["op"] == "insert"] == [
        ("insert", {"id": 5, "customer": "c5"})
    ]
    assert [one["after"] for one in found if one["op"] == "read"] == [
        {"id": n, "customer": f"c{n}"} for n in (2, 4, 5)
    ]


def test_a_transaction_that_is_older_than_the_slot_is_waited_for(shop: Shop) -> None:
    """Its commit may be in the log where the slot does not begin yet."""
    connection = shop.hold()
    connection.execute(f"insert into {shop.table} values (1)".encode())
    source = shop.source(snapshot=True)
    begun: list[Any] = []
    first = threading.Thread(target=lambda: begun.append(source.first()))
    first.start()
    first.join(0.5)
    assert begun == []
    connection.execute(b"commit")
    first.join(30)

    found = messages(source, begun[0])

    assert [(one["op"], one["key"]["id"]) for one in found] == [("read", 1)]


def test_a_transaction_that_writes_elsewhere_holds_the_first_row_back(shop: Shop) -> None:
    source = shop.source(snapshot=True)
    source.first()
    connection = shop.hold()
    connection.execute(f"insert into {shop.table} values (1)".encode())

    with pytest.raises(SinkError, match="transactions from before the slot are still open"):
        shop.source(snapshot=True, policy=HASTY).first()
    connection.execute(b"rollback")

    assert messages(source, shop.source(snapshot=True).first()) == []


def test_a_connection_that_is_lost_among_rows_loses_and_doubles_nothing(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_messages, "BATCH_ROWS", 50)
    shop.run(f"insert into {shop.table} select n, repeat('x', 9000) from generate_series(1, 400) n")
    source = shop.source(snapshot=True)
    start = source.first()
    end = source.latest(start, 1000)
    found = []

    for batch in source.read(start, end, {}):
        found += [row["key"] for row in batch.to_pylist()]
        if len(found) in (100, 150):
            shop.run(
                "select pg_terminate_backend(pid, 5000) from pg_stat_activity "
                "where application_name = 'iggykube' and pid <> pg_backend_pid()"
            )

    assert found == [b'{"id":%d}' % n for n in range(1, 401)]


def test_a_table_that_is_dropped_from_the_settings_halfway_is_asked_for(shop: Shop) -> None:
    other = f"{shop.schema}.other"
    shop.run(f"create table {other} (id int primary key)")
    rows(shop, 3)
    source = shop.source(snapshot=True, tables=[shop.table, other])
    at = source.latest(source.first(), 2)

    with pytest.raises(OptionError, match=r"the rows of s\d+\.orders are being sent"):
        shop.source(snapshot=True, tables=[other]).latest(at, 2)


def test_a_table_without_a_key_cannot_be_sent_first(shop: Shop) -> None:
    bare = f"{shop.schema}.bare"
    shop.run(f"create table {bare} (v text)", f"alter table {bare} replica identity full")

    shop.source(tables=[bare]).check()
    with pytest.raises(OptionError, match="has no primary key, by which its rows"):
        shop.source(snapshot=True, tables=[bare]).check()

"""What docs/sources/postgres.md shows: statements that run, a message with its fields."""

from __future__ import annotations

import json
import re

from page_samples import ROOT
from postgres import Postgres, running_postgres
from postgres_sources import Shop, messages

PAGE = (ROOT / "docs" / "sources" / "postgres.md").read_text()


def blocks_of(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def run_all(server: Postgres, text: str) -> None:
    for statement in text.split(";"):
        if statement.strip():
            server.run(statement)


def test_the_statements_of_the_page_run() -> None:
    publication, slots = blocks_of("sql")
    with running_postgres(fsync="off", wal_level="logical") as server:
        server.run(
            "create schema sales",
            "create table sales.orders (id int primary key)",
            "create table sales.customers (id int primary key)",
        )
        run_all(server, publication)
        shop = Shop(server)
        shop.slot = "shop_orders"
        source = shop.source(tables=["sales.orders", "sales.customers"])
        source.check()
        source.first()
        source.close()

        run_all(server, slots)

        assert server.run("select count(*) from pg_replication_slots") == [(0,)]


def test_the_message_of_the_page_has_the_fields_of_one(shop: Shop) -> None:
    (sample,) = blocks_of("json")
    shop.run(f"alter table {shop.table} replica identity full")
    source = shop.source()
    start = source.first()
    shop.insert(1)
    shop.run(f"update {shop.table} set amount = 2")

    update = messages(source, start)[-1]

    assert [name for name in update if name not in ("message", "by")] == list(json.loads(sample))

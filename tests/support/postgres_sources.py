"""Sources over tables of a test's own, in a real PostgreSQL with wal_level logical."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import msgspec
import psycopg

from iggy_spark import source_blocks
from iggy_spark.retry import Policy, Retry
from iggy_spark.sources import postgres
from iggy_spark.sources.base import Position, Source
from jdbc_cases import Scene
from postgres import Postgres

QUICK = Policy(20, 0.01, 0.1)
HASTY = Policy(0.3, 0.01, 0.05)
BATCHES_MAX = 100
_numbers = itertools.count()


class Shop(Scene):
    """A schema of its own with the table `orders`, and sources that read it."""

    def __init__(self, server: Postgres) -> None:
        super().__init__(server)
        self.slot = f"slot_{self.schema}"
        self._open: list[Source | psycopg.Connection[Any]] = []
        self.make("id int primary key, customer text, amount numeric")

    def source(self, *, policy: Policy = QUICK, **block: Any) -> Source:
        """As a new process makes it."""
        made = postgres.build(self.block(**block), name=f"shop/{self.schema}", retry=Retry(policy))
        self.keep(made)
        return made

    def keep(self, one: Source | psycopg.Connection[Any]) -> None:
        """Closed at the end."""
        self._open.append(one)

    def block(self, **block: Any) -> source_blocks.Postgres:
        """The settings, with these on top."""
        given = {
            "url": self.server.source_url,
            "credentialsPath": str(self.server.login),
            "tables": [self.table],
            **({} if block.get("mode") == "Polling" else {"slot": self.slot}),
            **block,
        }
        return msgspec.convert(given, source_blocks.Postgres)

    def insert(self, *ids: int) -> None:
        """Rows, each in a transaction of its own."""
        self.run(*(f"insert into {self.table} values ({n}, 'c{n}', {n}.50)" for n in ids))

    def hold(self, *statements: str) -> psycopg.Connection[Any]:
        """A connection in a transaction."""
        connection = self.server.connect()
        self.keep(connection)
        for text in ("begin", *statements):
            connection.execute(text.encode())
        return connection

    def clean(self) -> None:
        """Without slots the server keeps nothing for this test."""
        for one in self._open:
            one.close()
        self.run(
            f"drop schema {self.schema} cascade",
            "select pg_drop_replication_slot(slot_name) from pg_replication_slots "
            f"where slot_name = '{self.slot}'",
            f"drop publication if exists {self.slot}",
        )

    def confirmed(self) -> str:
        """Where the slot stands."""
        query = "select confirmed_flush_lsn::text from pg_replication_slots where slot_name = "
        ((found,),) = self.run(f"{query}'{self.slot}'")
        return cast("str", found)


@contextmanager
def shop_in(server: Postgres) -> Iterator[Shop]:
    """For the length of a block."""
    shop = Shop(server)
    try:
        yield shop
    finally:
        shop.clean()


def read(source: Source, start: Position, end: Position) -> list[dict[str, Any]]:
    """The messages of a range, each with its `id` and `key` as they are in the columns."""
    found = []
    for part in source.split(start, end):
        for batch in source.read(start, end, part):
            for row in batch.to_pylist():
                body = json.loads(row["payload"])
                found.append({"message": row["id"], "by": row["key"], **body})
    return found


def drain(
    source: Source, start: Position, *, messages_max: int = 1000
) -> tuple[list[list[dict[str, Any]]], Position]:
    """All batches until nothing is new, each told as done, and where that is."""
    batches: list[list[dict[str, Any]]] = []
    for _ in range(BATCHES_MAX):
        end = source.latest(start, messages_max)
        if end == start:
            return batches, end
        batches.append(read(source, start, end))
        source.done(end)
        start = end
    raise AssertionError(f"still not at the end after {BATCHES_MAX} batches")


def messages(source: Source, start: Position) -> list[dict[str, Any]]:
    """All of them."""
    return [message for batch in drain(source, start)[0] for message in batch]


def state(found: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The table that messages tell of: key to row, as the page says that it is rebuilt."""
    rows: dict[str, dict[str, Any]] = {}
    for one in found:
        if one["op"] == "truncate":
            rows.clear()
        elif one["op"] == "delete":
            rows.pop(str(one["key"]), None)
        else:
            old = rows.get(str(one["key"]), {})
            kept = {name: old[name] for name in one.get("unchanged", ())}
            rows[str(one["key"])] = {**one["after"], **kept}
    return rows

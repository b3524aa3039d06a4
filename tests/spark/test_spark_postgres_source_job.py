"""Changes of a PostgreSQL under load, by a job that is killed: the topic tells the table."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from iggy_spark.errors import DataLoss
from postgres import running_postgres
from postgres_sources import Shop, shop_in, state
from sink_jobs import PROCESS_S, start
from source_jobs import SourceSetup, arrived, once_each
from waiting import wait_until

if TYPE_CHECKING:
    from conftest import Topic

pytestmark = pytest.mark.timeout(900)  # Javas of their own, on a busy machine

WRITERS = 3
KEYS = 40  # of each writer: few, so that rows change often
ROWS_BEFORE = 200
PAUSE_S = 0.02  # between transactions, so that the job has a chance on a busy machine


def setup_of(topic: Topic, shop: Shop, folder: Path, **block: Any) -> SourceSetup:
    given = {
        "url": shop.server.source_url,
        "credentialsPath": str(shop.server.login),
        "tables": [shop.table],
        **block,
    }
    return SourceSetup(topic, folder, type="Postgres", postgres=given)


class Load:
    """Writers that insert, update and delete, move rows to other keys, and sometimes think better
    of it.
    """

    def __init__(self, shop: Shop) -> None:
        self._shop = shop
        self._ends = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(n,)) for n in range(WRITERS)]
        self.transactions = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._ends.set()
            for thread in self._threads:
                thread.join()

    def _write(self, number: int) -> None:
        drawn = random.Random(number)
        with self._shop.server.connect() as connection:
            while not self._ends.wait(PAUSE_S):
                with (
                    suppress(psycopg.errors.DeadlockDetected),
                    connection.transaction(force_rollback=drawn.random() < 0.1),
                ):
                    self._change(connection, drawn, 1000 * (number + 1))
                self.transactions += 1

    def _change(self, connection: psycopg.Connection[Any], drawn: random.Random, low: int) -> None:
        table = self._shop.table
        for _ in range(drawn.randint(1, 5)):
            key, other = (low + drawn.randrange(KEYS) for _ in range(2))
            word = f"{drawn.random()}" * drawn.choice([1, 1, 1, 300])
            for text in (
                f"insert into {table} values ({key}, '{word}', {drawn.random()}) "
                "on conflict (id) do update set amount = excluded.amount",
                f"delete from {table} where id = {low + drawn.randrange(KEYS)}",
                f"update {table} set id = {other} where id = {key} and not exists "
                f"(select from {table} where id = {other})",
                f"update {table} set customer = 'of before {key}' "
                f"where id = {1 + drawn.randrange(ROWS_BEFORE)}",
            ):
                if drawn.random() < 0.7:
                    connection.execute(text.encode())


def in_topic(topic: Topic) -> list[dict[str, Any]]:
    return [json.loads(message.payload) for message in arrived(topic)]


def in_table(shop: Shop) -> dict[str, dict[str, Any]]:
    rows = shop.run(f"select id, customer, amount::text from {shop.table}")
    return {
        f"{{'id': {n}}}": {"id": n, "customer": customer, "amount": amount}
        for n, customer, amount in rows
    }


def sent(topic: Topic) -> int:
    found = topic.client.get_topic(topic.stream, topic.name)
    assert found is not None
    return sum(part.messages_count for part in found.partitions)


def test_a_job_that_is_killed_under_load_tells_the_whole_table(
    spark: SparkSession, topic: Topic, shop: Shop, tmp_path: Path
) -> None:
    shop.run(
        # Large values that stay must be told where a row gets another key.
        f"alter table {shop.table} replica identity full",
        f"alter table {shop.table} alter customer set storage external",
        f"insert into {shop.table} select n, 'c' || n, n from generate_series(1, {ROWS_BEFORE}) n",
    )
    setup = setup_of(topic, shop, tmp_path, slot=shop.slot, snapshot=True)
    setup.value["source"]["maxMessagesPerTrigger"] = 200
    load = Load(shop)
    with load.running():
        setup.value["once"] = False
        process = start(setup)
        try:
            wait_until(lambda: sent(topic) > ROWS_BEFORE + 300, "no changes", PROCESS_S)
        finally:
            process.kill()
            process.communicate(timeout=PROCESS_S)
    assert load.transactions > 100

    setup.value |= {"once": True}
    setup.value["source"]["maxMessagesPerTrigger"] = 20_000
    setup.run(spark)

    found = in_topic(topic)
    assert state(found) == in_table(shop)
    assert {one["op"] for one in found} >= {"read", "insert", "update", "delete"}
    assert len({message.id for message in once_each(arrived(topic))}) <= len(found)
    places: dict[str, set[int]] = {}
    for message in arrived(topic):
        places.setdefault(str(json.loads(message.payload)["key"]), set()).add(message.partition)
    assert {len(one) for one in places.values()} == {1}


def test_a_slot_that_is_gone_ends_the_job_and_a_new_start_with_rows_heals_it(
    spark: SparkSession, topic: Topic, shop: Shop, tmp_path: Path
) -> None:
    setup = setup_of(topic, shop, tmp_path, slot=shop.slot, snapshot=True)
    shop.insert(1, 2)
    setup.run(spark)
    shop.run(f"select pg_drop_replication_slot('{shop.slot}')")
    shop.insert(3)
    with pytest.raises(DataLoss, match=r"slot 'slot_.*' is gone"):
        setup.run(spark)

    setup.checkpoint = tmp_path / "anew"
    setup.value["checkpoint"] = str(setup.checkpoint)
    events = setup.run(spark)

    assert state(in_topic(topic)) == in_table(shop)
    assert events[-1]["behind"] in (0, None)


def test_rows_are_polled_into_a_topic(
    spark: SparkSession, topic: Topic, shop: Shop, tmp_path: Path
) -> None:
    shop.insert(*range(30))
    setup = setup_of(
        topic, shop, tmp_path, mode="Polling", cursorColumn="id", keyColumns=["id"],
        settle="50ms",
    )  # fmt: skip
    setup.value["source"]["maxMessagesPerTrigger"] = 12
    setup.run(spark)
    shop.insert(*range(30, 40))

    events = setup.run(spark)

    assert sorted(one["id"] for one in in_topic(topic)) == list(range(40))
    assert events[-1]["behind"] == 0


def test_a_server_that_is_away_is_told_of_once_and_when_it_is_back(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    """Also where nothing is to be read: no task tells of it then."""
    with running_postgres(fsync="off") as own, shop_in(own) as shop:
        polled = {"mode": "Polling", "cursorColumn": "id", "keyColumns": ["id"]}
        setup = setup_of(topic, shop, tmp_path, **polled)
        setup.value["once"] = False
        setup.value["source"]["errors"] = {"retry": {"initialDelay": "50ms", "maxDelay": "100ms"}}
        then = {"started": own.kill, "away": own.start, "back": setup.stop.ask}

        events = setup.run(spark, hear=lambda event: then.get(event["event"], bool)())

    away, back = (one for one in events if one["event"] in ("away", "back"))
    assert (away["event"], back["event"], events[-1]["event"]) == ("away", "back", "stopped")
    assert away["reason"].startswith(f"postgres.url: 127.0.0.1:{own.port}/")

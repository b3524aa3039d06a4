"""The sink Jdbc into a real MariaDB: what every sink promises, its login, its types, its crashes,
and the page's sample.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession

from handed_batches import Handed
from iggy_spark.errors import BadPayload, SinkError
from jdbc_types import TYPES, VALUES
from mariadb import DRIVER_JAR, PASSWORD, MariaDb, running_mariadb
from shown_sinks import shown
from sink_contract import Row, SinkContract, Target
from sink_jobs import PROCESS_S, Setup, documents, every, is_over, kill_while_it_writes, start
from waiting import wait_until

if TYPE_CHECKING:
    from conftest import Topic

pytestmark = pytest.mark.timeout(600)  # a Java of its own, on a busy machine


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDb]:
    with running_mariadb() as running:
        yield running


@pytest.fixture
def empty(server: MariaDb) -> MariaDb:
    server.run("drop database shop; create database shop", database="")
    return server


@pytest.fixture
def setup(topic: Topic, empty: MariaDb, tmp_path: Path) -> Setup:
    block = {"url": empty.url, "table": "orders", "credentialsPath": str(empty.login())}
    return Setup(topic, tmp_path, type="Jdbc", files=None, jdbc=block)


def places(server: MariaDb) -> list[tuple[int, int]]:
    found = server.run("select iggy_partition_id, iggy_offset from orders order by 1, 2")
    return [(int(partition), int(offset)) for partition, offset in found]


@dataclass(frozen=True)
class TableTarget:
    """The table `orders`, which Spark makes."""

    spark: SparkSession
    server: MariaDb
    url: str
    seconds: float = 20.0

    def sink(self) -> Handed:
        login = str(self.server.login())
        block = {"url": self.url, "table": "orders", "credentialsPath": login}
        return Handed(self.spark, {"type": "Jdbc", "jdbc": block}, seconds=self.seconds)

    def rows(self) -> list[Row]:
        return places(self.server) if self.server.run("show tables like 'orders'") else []

    def refusing(self) -> str:
        return "a batch is taken or refused as a whole: the driver does not say which row it was"

    def away(self) -> Target:
        return TableTarget(self.spark, self.server, "jdbc:mariadb://127.0.0.1:9/shop", 0.2)


class TestContract(SinkContract):
    """At least once: what is repeated is there twice."""

    @pytest.fixture
    def target(self, spark: SparkSession, empty: MariaDb) -> Target:
        return TableTarget(spark, empty, empty.url)


def test_the_sample_of_the_page(
    spark: SparkSession, topic: Topic, empty: MariaDb, tmp_path: Path
) -> None:
    setup = Setup(topic, tmp_path)
    setup.value["sink"] = shown("jdbc", tmp_path, number=1)["sink"]
    block = setup.value["sink"]["jdbc"]
    assert block["url"] == "jdbc:mariadb://mariadb.storage:3306/shop"
    block |= {"url": empty.url, "credentialsPath": str(empty.login())}
    order = {"id": 7, "customer": "c", "amount": "7.25", "ts": "2026-12-31T10:00:00Z"}
    topic.send(0, [json.dumps({**order, "id": n}).encode() for n in range(40)])
    topic.send(1, [json.dumps(order).encode()])

    setup.run(spark)

    assert places(empty) == every(p0=40, p1=1)
    found = empty.run("select customer, amount, ts from orders where id = 7")
    assert found == [["c", "7.25", "2026-12-31 10:00:00"]] * 2


def test_types(spark: SparkSession, topic: Topic, setup: Setup, empty: MariaDb) -> None:
    """The table of docs/sinks/jdbc.md."""
    setup.value["sink"]["payload"] = {"format": "Json", "schema": TYPES}
    topic.send(0, [json.dumps(VALUES).encode()])

    setup.run(spark)

    made = empty.run("select column_name, column_type from information_schema.columns "
                     "where table_name = 'orders' and table_schema = 'shop'")  # fmt: skip
    told = {name: f"hex({name})" if name in ("data", "yes") else name for name in VALUES}
    (values,) = empty.run(f"select {', '.join(told.values())} from orders")
    columns = {name: kind for name, kind in made if name in VALUES}
    found = {name: (columns[name], value) for name, value in zip(VALUES, values, strict=True)}
    assert found == {
        "yes": ("bit(1)", "1"),
        "tiny": ("smallint(6)", "-7"),
        "small": ("smallint(6)", "300"),
        "number": ("int(11)", "70000"),
        "big": ("bigint(20)", str(1 << 40)),
        "single": ("float", "0.5"),
        "wide": ("double", "0.25"),
        "price": ("decimal(18,2)", "7.25"),
        "word": ("longtext", "w\u00fc\"'"),
        "data": ("blob", "0001FF"),
        "day": ("date", "2026-12-31"),
        "at": ("timestamp", "2026-03-29 00:59:59"),  # Spark asks for no fraction
        "wall": ("datetime", "2026-03-29 02:30:00"),
        "list": ("longtext", "[1,null]"),
        "parts": ("longtext", '{"a":1}'),
    }


def test_a_row_that_is_there_already_stops_the_job(
    spark: SparkSession, topic: Topic, setup: Setup, empty: MariaDb
) -> None:
    empty.run("create table orders (number bigint primary key, month int, delay double, "
              "at datetime(6), iggy_partition_id int, iggy_offset bigint)")  # fmt: skip
    topic.send(0, [*documents(0, 5), *documents(4, 5)])

    with pytest.raises(BadPayload, match=r"orders of jdbc:mariadb:.* refuses rows: .*23000"):
        setup.run(spark)

    assert places(empty) == []


def test_a_login_that_is_wrong_is_told_without_its_password(
    spark: SparkSession, topic: Topic, setup: Setup, empty: MariaDb
) -> None:
    topic.send(0, documents(0, 3))
    setup.value["sink"]["jdbc"]["credentialsPath"] = str(empty.login("wrong-password"))

    with pytest.raises(SinkError, match=r"^jdbc\.url: .*iggy.* look at jdbc\.cred") as error:
        setup.run(spark)

    assert "wrong-password" not in str(error.value)


def test_an_outage_is_waited_for(
    spark: SparkSession, topic: Topic, setup: Setup, empty: MariaDb
) -> None:
    topic.send(0, documents(0, 100))
    setup.run(spark)
    topic.send(0, documents(100, 200))
    empty.kill()
    back = threading.Timer(5, empty.start)
    back.start()

    setup.run(spark)

    back.join()
    assert places(empty) == every(p0=200)


@pytest.mark.long
def test_a_job_with_a_driver_of_its_own_that_is_killed_leaves_no_gap(
    topic: Topic, setup: Setup, empty: MariaDb
) -> None:
    topic.send(0, documents(0, 400))
    setup.value["sink"] |= {
        "maxOffsetsPerTrigger": 20,
        "spark": {"conf": {"spark.jars": str(DRIVER_JAR)}},
    }

    group = kill_while_it_writes(setup)
    wait_until(lambda: is_over(group), "its processes end")
    setup.value["sink"]["maxOffsetsPerTrigger"] = 1000
    process = start(setup)
    out, told = process.communicate(timeout=PROCESS_S)

    assert process.returncode == 0, told
    assert json.loads(out.splitlines()[-1])["lag"] == 0
    assert sorted(set(places(empty))) == every(p0=400)
    logs = "".join(path.read_text() for path in setup.checkpoint.rglob("*.log*"))
    assert "iggy" in logs
    assert PASSWORD not in logs + out + told

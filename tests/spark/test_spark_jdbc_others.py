"""The sink Jdbc into databases that Spark's own writer reaches: Derby, which comes with Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import Row, SparkSession

from iggy_spark import job_check, job_config
from iggy_spark.errors import BadPayload, OptionError
from iggy_spark.retry import Policy, Retry
from iggy_spark.sinks import registry
from jdbc_types import TYPES, VALUES
from sink_jobs import LOGIN, Setup, documents, every, is_over, kill_while_it_writes
from waiting import wait_until

if TYPE_CHECKING:
    from conftest import Topic

pytestmark = pytest.mark.timeout(600)  # a Java of its own, on a busy machine

PLAIN = {"format": "Json", "schema": "number BIGINT, month INT, delay DOUBLE"}
DRIVER = "org.apache.derby.jdbc.EmbeddedDriver"


@dataclass
class Derby:
    """A database in a folder; its server is the Java of the tests."""

    spark: SparkSession
    folder: Path

    @property
    def url(self) -> str:
        return f"jdbc:derby:{self.folder}/db"

    def run(self, *statements: str, more: str = ";create=true") -> None:
        java: Any = self.spark.sparkContext._jvm
        connection = java.java.sql.DriverManager.getConnection(self.url + more)
        try:
            for statement in statements:
                connection.createStatement().execute(statement)
        finally:
            connection.close()

    def end(self, more: str = "") -> None:
        """Leave its files to another Java. Derby tells of a good end by an error."""
        with pytest.raises(Exception, match="shutdown"):
            self.run(more=f";shutdown=true{more}")

    def read(self, columns: str, table: str = "orders") -> list[Row]:
        options = {"url": self.url, "driver": DRIVER, "query": f"select {columns} from {table}"}
        return list(self.spark.read.format("jdbc").options(**options).load().collect())

    def places(self) -> list[tuple[int, int]]:
        found = self.read('"iggy_partition_id", "iggy_offset"')
        return sorted((partition, offset) for partition, offset in found)


@pytest.fixture
def derby(spark: SparkSession, tmp_path: Path) -> Derby:
    made = Derby(spark, tmp_path)
    made.run()
    return made


def setup_of(topic: Topic, derby: Derby, **sink: Any) -> Setup:
    block = {"url": derby.url, "driver": DRIVER, "table": "orders", **sink.pop("jdbc", {})}
    return Setup(topic, derby.folder, **{"type": "Jdbc", "files": None, "jdbc": block, **sink})


@pytest.fixture
def setup(topic: Topic, derby: Derby) -> Setup:
    return setup_of(topic, derby)


def check(setup: Setup, spark: SparkSession) -> None:
    """The first part of `sink_job check`, on the tests' Spark."""

    @contextmanager
    def running(*args: Any, **settings: Any) -> Iterator[SparkSession]:
        yield spark

    config = job_config.load(setup.write())
    job_check.Inspection(config, LOGIN, running=running).check_target()


def test_the_table_is_made_and_the_broker_hears_of_each_batch(
    spark: SparkSession, topic: Topic, setup: Setup, derby: Derby
) -> None:
    topic.send(0, documents(0, 300))
    topic.send(1, documents(0, 40))
    setup.value["sink"]["maxOffsetsPerTrigger"] = 150
    setup.value["sink"]["jdbc"]["batchSize"] = 7

    events = setup.run(spark)

    assert events[-1]["lag"] == 0
    assert derby.places() == every(p0=300, p1=40)
    assert sum(event["rows"] for event in setup.progress()) == 340
    assert (topic.stored("lake", 0), topic.stored("lake", 1)) == (299, 39)


def test_a_batch_that_is_repeated_leaves_no_gap_and_may_be_there_twice(
    spark: SparkSession, topic: Topic, setup: Setup, derby: Derby
) -> None:
    topic.send(0, documents(0, 30))
    setup.run(spark)
    (commits,) = setup.checkpoint.glob("*/spark/commits")
    (commits / "0").unlink()
    (commits / ".0.crc").unlink(missing_ok=True)
    topic.send(0, documents(30, 40))

    setup.run(spark)

    assert derby.places() == sorted([*every(p0=30), *every(p0=40)])


def test_a_job_that_is_killed_with_its_database_leaves_no_gap(
    spark: SparkSession, topic: Topic, setup: Setup, derby: Derby
) -> None:
    derby.end()  # from now on the job's own Java serves it
    topic.send(0, documents(0, 400))
    setup.value["sink"]["maxOffsetsPerTrigger"] = 20

    group = kill_while_it_writes(setup)
    wait_until(lambda: is_over(group), "its processes end")
    setup.value["sink"]["maxOffsetsPerTrigger"] = 1000
    setup.run(spark)

    assert sorted(set(derby.places())) == every(p0=400)


def test_a_table_of_your_own_has_the_columns_that_you_want(
    spark: SparkSession, topic: Topic, setup: Setup, derby: Derby
) -> None:
    derby.run("create table orders (id int generated always as identity, month bigint, "
              "number int, delay real, note varchar(9), iggy_offset bigint)")  # fmt: skip
    topic.send(0, documents(0, 3))
    setup.value["sink"] |= {"payload": PLAIN}
    setup.value["sink"]["jdbc"]["createTable"] = False

    check(setup, spark)
    setup.run(spark)

    found = derby.read("number, month, delay, note, iggy_offset")
    assert sorted(tuple(row) for row in found) == [
        (0, 1, None, None, 0),
        (1, 2, 0.5, None, 1),
        (2, 3, 1.0, None, 2),
    ]


def test_types_and_columns(spark: SparkSession, topic: Topic, derby: Derby) -> None:
    """The table of docs/sinks/jdbc.md."""
    setup = setup_of(topic, derby, payload={"format": "Json", "schema": TYPES})
    topic.send(0, [json.dumps(VALUES).encode()])

    setup.run(spark)

    java: Any = spark.sparkContext._jvm
    connection = java.java.sql.DriverManager.getConnection(derby.url)
    try:
        found = connection.createStatement().executeQuery("select * from orders")
        columns = found.getMetaData()
        made = {
            columns.getColumnName(n): columns.getColumnTypeName(n)
            for n in range(1, columns.getColumnCount() + 1)
        }
        assert found.next()
        texts = {name: found.getString(name) for name in made}
    finally:
        connection.close()
    assert {name: (made[name], texts[name]) for name in VALUES} == {
        "yes": ("BOOLEAN", "true"),
        "tiny": ("SMALLINT", "-7"),
        "small": ("SMALLINT", "300"),
        "number": ("INTEGER", "70000"),
        "big": ("BIGINT", str(1 << 40)),
        "single": ("REAL", "0.5"),
        "wide": ("DOUBLE", "0.25"),
        "price": ("DECIMAL", "7.25"),
        "word": ("CLOB", "w\u00fc\"'"),
        "data": ("BLOB", "0001ff"),
        "day": ("DATE", "2026-12-31"),
        "at": ("TIMESTAMP", "2026-03-29 00:59:59.999999"),
        "wall": ("TIMESTAMP", "2026-03-29 02:30:00.0"),
        "list": ("CLOB", "[1,null]"),
        "parts": ("CLOB", '{"a":1}'),
    }


@pytest.mark.parametrize("kind", ["Raw", "Text", "Json"])
def test_payloads_without_fields_have_one_column(
    spark: SparkSession, topic: Topic, derby: Derby, kind: str
) -> None:
    setup = setup_of(topic, derby, payload={"format": kind})
    topic.send(0, [b'{"a": 1}'])

    setup.run(spark)

    column = {"Raw": "payload", "Text": "value", "Json": "document"}[kind]
    ((found, offset),) = derby.read(f'"{column}", "iggy_offset"')
    assert (bytes(found) if kind == "Raw" else found.encode(), offset) == (b'{"a": 1}', 0)


def test_rows_that_the_database_refuses_stop_the_job_and_none_is_lost(
    spark: SparkSession, topic: Topic, setup: Setup, derby: Derby
) -> None:
    derby.run("create table orders (number int constraint few check (number < 3), month int, "
              'delay float, "iggy_partition_id" int, "iggy_offset" bigint)')  # fmt: skip
    topic.send(0, documents(0, 6))
    setup.value["sink"] |= {"payload": PLAIN}

    with pytest.raises(BadPayload, match=r"^jdbc\.table: orders of .* refuses rows: .*23513"):
        setup.run(spark)
    assert derby.places() == []
    assert topic.stored("lake", 0) is None

    derby.run("alter table orders drop constraint few")
    setup.run(spark)
    assert derby.places() == every(p0=6)


def test_what_does_not_fit_is_told_before_anything_is_written(
    spark: SparkSession, topic: Topic, setup: Setup, derby: Derby
) -> None:
    block = setup.value["sink"]["jdbc"]
    setup.value["sink"] |= {"payload": PLAIN}
    topic.send(0, documents(0, 6))
    setup.value["sink"]["jdbc"] = {**block, "createTable": False}
    for attempt in (lambda: check(setup, spark), lambda: setup.run(spark)):
        with pytest.raises(OptionError, match=r"^jdbc\.table: there is no table orders in jdbc:d"):
            attempt()

    derby.run("create table orders (number int, month int)")
    for attempt in (lambda: check(setup, spark), lambda: setup.run(spark)):
        with pytest.raises(OptionError, match=r"^jdbc\.table: orders has no column 'delay': add"):
            attempt()

    setup.value["sink"]["jdbc"] = {**block, "url": "jdbc:mysql://127.0.0.1:9/d", "driver": None}
    no_driver = r"^spark\.packages: .*com\.mysql\.cj\.jdbc\.Driver.* add com\.mysql:"
    for attempt in (lambda: check(setup, spark), lambda: setup.run(spark)):
        with pytest.raises(OptionError, match=no_driver):
            attempt()
    setup.value["sink"]["jdbc"] = {**block, "url": "jdbc:nothing://h/d"}
    with pytest.raises(OptionError, match=r"^jdbc\.url: .*EmbeddedDriver takes no such URL"):
        setup.run(spark)
    assert derby.read("number") == []


def test_the_login_comes_from_files(
    spark: SparkSession, topic: Topic, derby: Derby, tmp_path: Path
) -> None:
    """Derby makes tables in the schema of whoever has logged in."""
    (tmp_path / "username").write_text("iggy\n")
    (tmp_path / "password").write_text("some-password\n")
    setup = setup_of(topic, derby, jdbc={"credentialsPath": str(tmp_path)})
    topic.send(0, documents(0, 3))

    setup.run(spark)

    assert len(derby.read('"number"', "iggy.orders")) == 3


def test_settings_of_postgres_are_refused(topic: Topic, tmp_path: Path) -> None:
    plain = {"url": "jdbc:mysql://h/d", "table": "t"}
    cases: list[tuple[dict[str, Any], str]] = [
        ({"jdbc": {**plain, "mode": "Upsert", "keyColumns": ["a"]}}, r"jdbc\.mode: Upsert goes"),
        ({"jdbc": {**plain, "caPath": "/ca"}}, r"jdbc\.caPath: goes with jdbc:postgresql: only"),
        ({"jdbc": {**plain, "url": "jdbc:x:y"}}, r"jdbc\.driver: name the class .* jdbc:x: only"),
        ({"jdbc": {**plain, "url": "jdbc:mysql://u:p@h/d"}}, r"jdbc\.url: a login stands in"),
        ({"jdbc": {**plain, "url": "jdbc:h2:x;PASSWORD=y"}}, r"jdbc\.url: a login stands in"),
        ({"jdbc": {**plain, "url": "jdbc:oracle:thin:u/p@h:1:d"}}, r"jdbc\.url: a login stands in"),
        ({"delivery": "ExactlyOnce"}, r"sink\.delivery: Jdbc with these settings cannot"),
        (
            {"errors": {"tolerance": "Data", "deadLetter": {"topic": "dead"}}},
            r"sink\.errors\.tolerance: Data goes with jdbc:postgresql: only",
        ),
        (
            {"jdbc": {**plain, "url": "jdbc:postgresql://h/d", "driver": "a.B"}},
            r"jdbc\.driver: goes with other databases",
        ),
    ]
    for more, words in cases:
        setup = Setup(topic, tmp_path, **{"type": "Jdbc", "files": None, "jdbc": plain, **more})
        config = job_config.load(setup.write())
        with pytest.raises(OptionError, match=f"^{words}"):
            registry.build(config, show=lambda line: None, retry=Retry(Policy(0, 0, 0)))

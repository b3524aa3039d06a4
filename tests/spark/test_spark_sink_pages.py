"""The sink that each page shows does write: the job runs it, on real targets where one can be had.

Address and login are those of the test, everything else is the page's. The pages of web services
and of Custom have tests of their own.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import SparkSession

from clickhouse import ClickHouse, Engine
from dead_letter_topics import messages_in
from delta_tables import bucket_place
from iceberg_tables import rest_tables
from iggy_spark import job_config
from lakes import BucketLake
from object_store import ObjectStore
from page_samples import ROOT
from played_mongo import PlayedMongo
from postgres import Postgres
from shown_sinks import shown
from sink_jobs import Setup, every

if TYPE_CHECKING:
    from conftest import Topic

SENT = 40
Value = dict[str, Any]


def order(number: int) -> bytes:
    value = {"id": number, "customer": "c", "amount": "7.25", "ts": "2026-12-31T10:00:00Z"}
    return json.dumps(value).encode()


class Shown(Setup):
    """The job of a page's sink over a topic with orders. `at` has what is the test's."""

    def __init__(self, page: str, topic: Topic, folder: Path) -> None:
        super().__init__(topic, folder)
        self.value["sink"] = shown(page, folder)["sink"]
        topic.send(0, [order(number) for number in range(SENT)])
        topic.send(1, [order(SENT)])

    def carry(self, spark: SparkSession, block: str, at: Value) -> None:
        """Let the job carry everything to where `at` says."""
        for name in ("credentialsPath", "caPath"):
            self.value["sink"][block].pop(name, None)
        self.value["sink"][block] |= at
        self.run(spark)
        moved = [event["rows"] for event in self.events if event["event"] == "progress"]
        assert sum(moved) == SENT + 1


def places(table: pa.Table) -> list[tuple[int, int]]:
    columns = (table.column(f"iggy_{part}").to_pylist() for part in ("partition_id", "offset"))
    return sorted(zip(*columns, strict=True))


ALL = every(p0=SENT, p1=1)


def test_files(spark: SparkSession, topic: Topic, tmp_path: Path, bucket: BucketLake) -> None:
    Shown("files", topic, tmp_path).carry(spark, "files", bucket.settings())

    page = (ROOT / "docs" / "sinks" / "files.md").read_text()
    (program,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    program = program.replace("fs.S3FileSystem()", "fs.LocalFileSystem()")
    names: Value = {}
    exec(program.replace("lake/orders", str(bucket.local())), names)
    assert places(names["orders"].to_table()) == ALL
    (last,) = (name for name in bucket.files() if name.startswith("_batches/"))
    assert names["last"] == str(bucket.local() / last)


def test_delta(spark: SparkSession, topic: Topic, tmp_path: Path, store: ObjectStore) -> None:
    place = bucket_place(store)

    Shown("delta", topic, tmp_path).carry(spark, "delta", place.settings())

    assert place.rows() == ALL
    assert place.table().metadata().partition_columns == ["iggy_date"]


def test_iceberg(spark: SparkSession, topic: Topic, tmp_path: Path, store: ObjectStore) -> None:
    tables, setup = rest_tables(store), Shown("iceberg", topic, tmp_path)
    name = setup.value["sink"]["iceberg"]["table"]

    setup.carry(spark, "iceberg", tables.settings(name))

    assert tables.rows(name) == ALL


def test_jdbc(spark: SparkSession, topic: Topic, tmp_path: Path, postgres: Postgres) -> None:
    """Both partitions have their own orders: an order is upserted by its id."""
    postgres.run("create schema sales")
    at = {"url": postgres.url, "credentialsPath": str(postgres.login)}

    Shown("jdbc", topic, tmp_path).carry(spark, "jdbc", at)

    found = postgres.run("select iggy_partition_id, iggy_offset from sales.orders order by 1, 2")
    assert found == ALL


def test_clickhouse(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "sinks" / "clickhouse.md").read_text()
    (statement,) = re.findall(r"^```sql\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    engine = Engine(tmp_path)
    engine.run("CREATE DATABASE shop ENGINE = Atomic")
    engine.run(statement)
    with ClickHouse(engine) as server:
        Shown("clickhouse", topic, tmp_path).carry(spark, "clickhouse", {"url": server.url})

        found = engine.rows("SELECT iggy_partition_id, iggy_offset FROM shop.orders ORDER BY 1, 2")
    assert [tuple(row) for row in found] == ALL


def test_mongo(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    with PlayedMongo() as server:
        Shown("mongo", topic, tmp_path).carry(spark, "mongo", {"url": server.url})

        found = sorted((one["iggy_partition_id"], one["iggy_offset"]) for one in server.documents())
    assert found == ALL


def test_iggy(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    topic.client.create_stream("archive")
    topic.client.create_topic("archive", "orders", 1)

    Shown("iggy", topic, tmp_path).carry(spark, "iggy", {})

    copies = messages_in(topic.client, "archive", "orders")
    assert sorted(json.loads(copy.payload)["id"] for copy in copies) == list(range(SENT + 1))


def test_console(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    setup = Shown("console", topic, tmp_path)

    setup.carry(spark, "console", {})

    rows = [event["row"] for event in setup.events if event["event"] == "row"]
    assert [row["id"] for row in rows] == [0, 1, 2, 3, 4]
    assert {row["customer"] for row in rows} == {None}  # a transform takes it away
    assert rows[0]["amount"] == "7.25"
    assert rows[0]["iggy_offset"] == 0


def test_no_page_is_left_out() -> None:
    """Every type has a page, and every page a test of its sample here, or where this list says."""
    here = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    elsewhere = {"elasticsearch", "quickwit", "http", "custom"}
    pages = {path.stem for path in (ROOT / "docs" / "sinks").glob("*.md")}
    assert pages == {kind.lower() for kind in job_config.BLOCKS}
    assert pages <= here | elsewhere

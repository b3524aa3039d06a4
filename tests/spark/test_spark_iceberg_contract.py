"""The Iceberg sink keeps what every sink promises: catalogs in SQLite, PostgreSQL, behind REST."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from iceberg_tables import IcebergTables, folder_tables, new_name, postgres_tables, rest_tables
from iggy_spark import blocks
from iggy_spark.retry import Policy, Retry
from iggy_spark.sinks.iceberg import IcebergSink
from iggy_spark.sinks.rows import table_fields
from object_store import ObjectStore
from postgres import Postgres
from sink_cases import declare
from sink_contract import Row, SinkContract, Target

TAKES_ALL = "a table takes every row: columns that do not fit are found before the first batch"


@dataclass(frozen=True)
class IcebergTarget:
    """A table of its own in some catalog."""

    tables: IcebergTables
    table: str

    def sink(self) -> IcebergSink:
        block = self.tables.block(self.table, partition_by=["month", "iggy_date"])
        return _sink(block)

    def rows(self) -> list[Row]:
        return self.tables.rows(self.table)

    def refusing(self) -> str:
        return TAKES_ALL

    def away(self) -> Target:
        return Away()


@dataclass(frozen=True)
class Away:
    """A catalog where nobody listens."""

    def sink(self) -> IcebergSink:
        catalog = {"type": "rest", "uri": "http://127.0.0.1:9", "token": "secret"}
        return _sink(blocks.Iceberg(table="shop.orders", catalog=catalog))

    def rows(self) -> list[Row]:
        return []

    def refusing(self) -> str:
        return TAKES_ALL

    def away(self) -> Target:
        return self


def _sink(block: blocks.Iceberg) -> IcebergSink:
    retry = Retry(Policy(timeout_s=1, initial_s=0.1, max_s=0.5))
    return IcebergSink(block, table_fields(declare()), name="shop/orders.lake", retry=retry)


class TestIceberg(SinkContract):
    @pytest.fixture(params=["sql in a folder", "postgres", "rest over a store"])
    def target(self, request: pytest.FixtureRequest, tmp_path: Path) -> Target:
        if request.param == "sql in a folder":
            return IcebergTarget(folder_tables(tmp_path), new_name())
        if request.param == "postgres":
            database: Postgres = request.getfixturevalue("postgres")
            return IcebergTarget(postgres_tables(database, tmp_path), new_name())
        store: ObjectStore = request.getfixturevalue("store")
        return IcebergTarget(rest_tables(store), new_name())

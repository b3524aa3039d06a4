"""What every sink promises, as far as a user's program can: here one that writes into SQLite.

A program has no tasks: see `handed_batches`.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from handed_batches import Handed
from sink_cases import wanted
from sink_contract import Row, SinkContract, Target, batch, every

PROGRAM = '''
"""Orders into SQLite. A batch that is repeated replaces its rows."""

import sqlite3
from contextlib import closing

PUT = "insert or replace into orders values (?, ?, ?, ?)"


def process(frame, batch, arguments):
    (database,) = arguments
    rows = frame.select("partition", "offset", "value.number", "value.customer").collect()
    with closing(sqlite3.connect(f"file:{database}?mode=rw", uri=True)) as connection:
        with connection:  # one transaction
            connection.executemany(PUT, rows)
'''


@dataclass(frozen=True)
class Database:
    """What the program has written."""

    spark: SparkSession
    folder: Path

    @property
    def path(self) -> Path:
        return self.folder / "orders.db"

    def make(self) -> None:
        columns = "place int, position int, number int, customer text"
        with closing(sqlite3.connect(self.path)) as connection, connection:
            connection.execute(f"create table orders ({columns}, primary key (place, position))")

    def sink(self) -> Handed:
        program = self.folder / "orders.py"
        program.write_text(PROGRAM)
        block = {"mainApplicationFile": f"local://{program}", "arguments": [str(self.path)]}
        return Handed(self.spark, {"type": "Custom", "custom": block})

    def rows(self) -> list[Row]:
        with closing(sqlite3.connect(self.path)) as connection:
            found = connection.execute("select place, position from orders order by 1, 2")
            return [(partition, offset) for partition, offset in found]

    def refusing(self) -> str:
        return "a program decides itself what it does with a message"

    def away(self) -> Target:
        """A folder without a database."""
        folder = self.folder / "empty"
        folder.mkdir()
        return Database(self.spark, folder)


class TestCustom(SinkContract):
    @pytest.fixture
    def target(self, spark: SparkSession, tmp_path: Path) -> Target:
        made = Database(spark, tmp_path)
        made.make()
        return made

    def test_who_was_replaced_leaves_nothing(self, target: Target) -> None:
        """Nothing of a program can be held back: it stays, and a repetition changes nothing."""
        super().test_who_was_replaced_leaves_nothing(target)
        assert target.rows() == every(0, 0, 6)

        batch(target, wanted(0, 6))

        assert target.rows() == every(0, 0, 6)

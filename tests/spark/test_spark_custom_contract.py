"""What every sink promises, as far as a user's program can: here one that writes into SQLite.

A program has no tasks: each range goes to it as a job hands over a batch, as a frame of Spark with
the columns of the data source, through the job's own carrier.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from iggy_spark import carriers, job_config
from iggy_spark.offsets import OffsetRange
from iggy_spark.sinks import registry
from iggy_spark.sinks.base import Portion, Spans, Task, Written
from quick_retry import quick
from sink_cases import SCHEMA, STREAM, TOPIC, wanted
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


class Handed:
    """A program as a sink whose tasks hand their range over. The position's columns have the names
    that the data source gives them, and the payload's are in `value`.
    """

    def __init__(self, spark: SparkSession, program: Path, database: Path) -> None:
        block = {"mainApplicationFile": f"local://{program}", "arguments": [str(database)]}
        value = {
            "name": "shop/program",
            "broker": {"address": "127.0.0.1:1"},
            "stream": STREAM,
            "topic": TOPIC,
            "sink": {
                "type": "Custom",
                "custom": block,
                "payload": {"format": "Json", "schema": SCHEMA},
            },
            "checkpoint": "/nowhere",
        }
        config = job_config.parse(json.dumps(value).encode(), name="test")
        self._spark = spark
        self._sink = registry.build(config, show=lambda line: None, retry=quick())
        self._way = carriers.carrier(config, self._sink, {}, "", letters=False, away=Path())
        self.exactly_once, self.keeps_place = self._sink.exactly_once, self._sink.keeps_place
        self.check()  # a job does before it hands over anything

    def check(self) -> None:
        self._sink.check()

    def prepare(self, incarnation: str) -> Mapping[int, Spans]:
        return self._sink.prepare(incarnation)

    def write_task(self, wanted: OffsetRange, portions: Iterable[Portion], task: Task) -> Written:
        table = pa.Table.from_batches([portion.rows for portion in portions])
        place = {name: f"iggy_{name}" for name in ("offset", "timestamp")}
        place["partition"] = "iggy_partition_id"
        values = table.drop_columns(list(place.values())).to_struct_array().combine_chunks()
        columns = {name: table.column(column) for name, column in place.items()}
        frame = self._spark.createDataFrame(pa.table({**columns, "value": values}))
        assert self._way.write(frame, 0) is None  # nobody has counted
        task.confirm()  # in the place of the job, which asks between two batches who it is
        return Written(wanted.partition, wanted.first, wanted.end, rows=table.num_rows)

    def commit(self, results: Sequence[Written]) -> None:
        self._way.commit(results)

    def close(self) -> None:
        self._sink.close()


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
        return Handed(self.spark, program, self.path)

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

"""Sinks that get whole batches as frames of Spark, as if they had tasks of their own.

Each range goes to such a sink as a job hands over a batch, with the columns of the data source,
through the job's own carrier.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from iggy_spark import carriers, job_config
from iggy_spark.offsets import OffsetRange
from iggy_spark.sinks import registry
from iggy_spark.sinks.base import InJava, Portion, Spans, Task, Written
from quick_retry import quick
from sink_cases import SCHEMA, STREAM, TOPIC


class Handed:
    """A sink whose tasks hand their range over. The position's columns have the names that the data
    source gives them, and the payload's are in `value`.
    """

    def __init__(
        self, spark: SparkSession, sink: Mapping[str, Any], *, seconds: float = 20.0
    ) -> None:
        """`sink` has the type and its block; calls are tried again for `seconds`."""
        value = {
            "name": "shop/handed",
            "broker": {"address": "127.0.0.1:1"},
            "stream": STREAM,
            "topic": TOPIC,
            "sink": {**sink, "payload": {"format": "Json", "schema": SCHEMA}},
            "checkpoint": "/nowhere",
        }
        config = job_config.parse(json.dumps(value).encode(), name="test")
        self._spark = spark
        self._sink = registry.build(config, show=lambda line: None, retry=quick(seconds))
        self._way = carriers.carrier(config, self._sink, {}, "", letters=False, away=Path())
        self.exactly_once, self.keeps_place = self._sink.exactly_once, self._sink.keeps_place
        self.check()  # a job does before it hands over anything

    def check(self) -> None:
        self._sink.check()
        if isinstance(self._sink, InJava):
            self._sink.look(self._spark)

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

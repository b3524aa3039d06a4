"""The ways in which a batch gets from the topic into a target.

Either the sink's own tasks write, and what comes to the driver is what they did; or messages become
a frame, which a user's program gets, or Spark's own writer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec
from pyspark.sql import DataFrame, SparkSession

from iggy_spark import sink_source
from iggy_spark.job_config import JobConfig
from iggy_spark.sinks.base import Sink, Spans, Written
from iggy_spark.sinks.custom import CustomSink
from iggy_spark.sinks.spark_jdbc import SparkJdbcSink
from iggy_spark.source import IggyDataSource


class Carrier(Protocol):
    """One of them."""

    def read(self, spark: SparkSession, given: Mapping[str, str]) -> DataFrame:
        """The stream of a query; `given` are the reader's options, but for the payload."""

    def write(self, frame: DataFrame, batch: int) -> list[Written] | None:
        """Carry one batch. None: nobody has counted what was done."""

    def commit(self, results: Sequence[Written]) -> None:
        """After all tasks of a batch, once their results are accepted."""


@dataclass(frozen=True, slots=True)
class Tasks:
    """The sink's tasks."""

    config: JobConfig
    sink: Sink
    covered: Mapping[int, Spans]
    mark: str
    letters: bool  # the topic is that of the dead letters
    away: Path  # where tasks tell that the target is away

    def read(self, spark: SparkSession, given: Mapping[str, str]) -> DataFrame:
        """Reading it writes; its rows are results."""
        spark.dataSource.register(sink_source.SinkSource)
        own = sink_source.own_options(
            self.config, self.covered, self.mark, letters=self.letters, away=self.away
        )
        return spark.readStream.format(sink_source.FORMAT).options(**given, **own).load()

    def write(self, frame: DataFrame, batch: int) -> list[Written]:
        """Collecting the frame is what makes the tasks run."""
        return [Written.from_json(json.loads(row["result"])) for row in frame.collect()]

    def commit(self, results: Sequence[Written]) -> None:
        """The sink's own."""
        self.sink.commit(results)


@dataclass(frozen=True, slots=True)
class Program:
    """A user's program."""

    config: JobConfig
    sink: CustomSink

    def read(self, spark: SparkSession, given: Mapping[str, str]) -> DataFrame:
        """The columns of the data source."""
        spark.dataSource.register(IggyDataSource)
        options = {**given, **payload_options(self.config), "includeHeaders": "true"}
        return spark.readStream.format(IggyDataSource.name()).options(**options).load()

    def write(self, frame: DataFrame, batch: int) -> None:
        """What it makes of the frame is its own affair."""
        self.sink.process(frame, batch)

    def commit(self, results: Sequence[Written]) -> None:
        """The program has done all."""


@dataclass(frozen=True, slots=True)
class Writer:
    """Spark's own writer."""

    config: JobConfig
    sink: SparkJdbcSink

    def read(self, spark: SparkSession, given: Mapping[str, str]) -> DataFrame:
        """The columns that the sink makes its rows of."""
        self.sink.look(spark)
        spark.dataSource.register(IggyDataSource)
        options = {**given, **payload_options(self.config), "columns": self.sink.source_columns}
        return spark.readStream.format(IggyDataSource.name()).options(**options).load()

    def write(self, frame: DataFrame, batch: int) -> None:
        """Rows pass through Java; nobody counts them but Spark."""
        self.sink.process(frame)

    def commit(self, results: Sequence[Written]) -> None:
        """Spark has committed each partition's rows."""


def carrier(
    config: JobConfig,
    sink: Sink,
    covered: Mapping[int, Spans],
    mark: str,
    *,
    letters: bool,
    away: Path,
) -> Carrier:
    """The way of a sink."""
    if isinstance(sink, CustomSink):
        return Program(config, sink)
    if isinstance(sink, SparkJdbcSink):
        return Writer(config, sink)
    return Tasks(config, sink, covered, mark, letters, away)


def payload_options(config: JobConfig) -> dict[str, str]:
    """The payload of a job's file in the words of the data source."""
    payload = config.sink.payload
    found = {"payloadFormat": payload.format.lower()}
    if payload.schema is not None:
        found["payloadSchema"] = payload.schema
    if payload.columns is not None:
        found["payloadColumns"] = payload.columns
    if config.sink.transforms:
        found["transforms"] = msgspec.json.encode(config.sink.transforms).decode()
    return found

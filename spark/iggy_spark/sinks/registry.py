"""Sink type -> class. The one place that knows all sinks.

Their modules are imported when they are asked for: each may need a library that others do without.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from iggy_spark.connections import Reach
from iggy_spark.errors import OptionError
from iggy_spark.job_config import JobConfig
from iggy_spark.payload import unrepeatable
from iggy_spark.retry import Retry
from iggy_spark.sinks.base import Sink
from iggy_spark.sinks.jdbc_drivers import POSTGRES
from iggy_spark.sinks.rows import table_fields


def build(
    config: JobConfig,
    *,
    show: Callable[[str], Any],
    retry: Retry,
    reach: Reach | None = None,
    away: Path | None = None,
) -> Sink:
    """The sink of a job. `show` takes a line for a person; tasks have nobody to show it to. `reach`
    leads to the broker; without it settings are checked, and nothing can be sent there. `away` is
    the folder of `absence`, where tasks see it.

    Raises:
        OptionError: the sink's settings do not fit each other, or a library is missing.
    """
    try:
        sink = _build(config, show, retry, reach, away)
    except ModuleNotFoundError as error:
        raise OptionError(
            f"sink.type: {config.sink.type} needs the Python package {error.name}: "
            "pip install 'iggykube[sinks]'"
        ) from error
    if config.sink.delivery == "ExactlyOnce":
        _check_exactly_once(config, sink)
    return sink


def _check_exactly_once(config: JobConfig, sink: Sink) -> None:
    if not sink.exactly_once:
        raise OptionError(
            f"sink.delivery: {config.sink.type} with these settings cannot do ExactlyOnce"
        )
    if changing := unrepeatable(config.payload):
        raise OptionError(
            f"{changing[0]}: its value is another one when a batch is repeated, which ExactlyOnce "
            "must not show: use uuid_v5 or a time of the message, or delivery AtLeastOnce, or say "
            "allowUnrepeatable: true beside fields if readers of the target do not mind"
        )


def _build(
    config: JobConfig,
    show: Callable[[str], Any],
    retry: Retry,
    reach: Reach | None,
    away: Path | None,
) -> Sink:
    sink = config.sink
    match sink.type:
        case "Files":
            from iggy_spark.sinks.files import FilesSink

            assert sink.files is not None, "checked with the configuration"
            return FilesSink(sink.files, config.payload, retry=retry)
        case "Console":
            from iggy_spark.sinks.console import ConsoleSink

            return ConsoleSink(show, sink.console)
        case "Iceberg" | "Delta" | "Jdbc":
            return _table(config, retry)
        case "Elasticsearch" | "Quickwit" | "Http" | "ClickHouse" | "Mongo":
            return _service(config, retry, away)
        case "Iggy":
            from iggy_spark.sinks.iggy import IggySink

            assert sink.iggy is not None, "checked with the configuration"
            return IggySink(sink.iggy, config, reach)
        case "Custom":
            from iggy_spark.sinks.custom import CustomSink

            assert sink.custom is not None, "checked with the configuration"
            return CustomSink(sink.custom, config)
    raise AssertionError("types are checked with the configuration")


def _table(config: JobConfig, retry: Retry) -> Sink:
    sink, fields = config.sink, table_fields(config.payload)
    if sink.iceberg is not None:
        from iggy_spark.sinks.iceberg import IcebergSink

        return IcebergSink(sink.iceberg, fields, name=config.name, retry=retry)
    if sink.delta is not None:
        from iggy_spark.sinks.delta import DeltaSink

        return DeltaSink(sink.delta, fields, name=config.name, retry=retry)
    assert sink.jdbc is not None, "checked with the configuration"
    if not sink.jdbc.url.startswith(POSTGRES):
        from iggy_spark.sinks.spark_jdbc import SparkJdbcSink

        return SparkJdbcSink(sink.jdbc, config, retry=retry)
    from iggy_spark.sinks.jdbc import JdbcSink

    return JdbcSink(sink.jdbc, fields, name=config.name, retry=retry)


def _service(config: JobConfig, retry: Retry, away: Path | None) -> Sink:
    sink = config.sink
    if sink.elasticsearch is not None:
        from iggy_spark.sinks.elasticsearch import ElasticsearchSink

        return ElasticsearchSink(sink.elasticsearch, config.payload, retry=retry)
    if sink.quickwit is not None:
        from iggy_spark.sinks.quickwit import QuickwitSink

        return QuickwitSink(sink.quickwit, config.payload, retry=retry)
    if sink.clickhouse is not None:
        from iggy_spark.sinks.clickhouse import ClickHouseSink

        return ClickHouseSink(
            sink.clickhouse,
            table_fields(config.payload),
            name=config.name,
            retry=retry,
            exactly_once=sink.delivery == "ExactlyOnce",
        )
    if sink.mongo is not None:
        from iggy_spark.sinks.mongo import MongoSink

        return MongoSink(sink.mongo, config.payload, retry=retry)
    from iggy_spark.sinks.circuit import Shared
    from iggy_spark.sinks.http import HttpSink

    assert sink.http is not None, "checked with the configuration"
    circuit = Shared(away) if away is not None and away.is_dir() else None
    return HttpSink(sink.http, config.payload, name=config.name, retry=retry, circuit=circuit)

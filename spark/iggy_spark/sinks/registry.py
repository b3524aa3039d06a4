"""Sink type -> class. The one place that knows all sinks.

Their modules are imported when they are asked for: each may need a library that others do without.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from iggy_spark.errors import OptionError
from iggy_spark.job_config import BLOCKS, JobConfig
from iggy_spark.retry import Retry
from iggy_spark.sinks.base import Sink
from iggy_spark.sinks.rows import table_fields


def build(config: JobConfig, *, show: Callable[[str], Any], retry: Retry) -> Sink:
    """The sink of a job. `show` takes a line for a person; tasks have nobody to show it to.

    Raises:
        OptionError: the sink's settings do not fit each other, or a library is missing.
    """
    try:
        sink = _build(config, show, retry)
    except ModuleNotFoundError as error:
        raise OptionError(
            f"sink.type: {config.sink.type} needs the Python package {error.name}: "
            "pip install 'iggykube[sinks]'"
        ) from error
    if config.sink.delivery == "ExactlyOnce" and not sink.exactly_once:
        raise OptionError(
            f"sink.delivery: {config.sink.type} with these settings cannot do ExactlyOnce"
        )
    return sink


def _build(config: JobConfig, show: Callable[[str], Any], retry: Retry) -> Sink:
    sink = config.sink
    fields = table_fields(config.payload)
    match sink.type:
        case "Files":
            from iggy_spark.sinks.files import FilesSink

            assert sink.files is not None, "checked with the configuration"
            return FilesSink(sink.files, config.payload)
        case "Iceberg":
            from iggy_spark.sinks.iceberg import IcebergSink

            assert sink.iceberg is not None, "checked with the configuration"
            return IcebergSink(sink.iceberg, fields, name=config.name, retry=retry)
        case "Delta":
            from iggy_spark.sinks.delta import DeltaSink

            assert sink.delta is not None, "checked with the configuration"
            return DeltaSink(sink.delta, fields, name=config.name, retry=retry)
        case "Console":
            from iggy_spark.sinks.console import ConsoleSink

            return ConsoleSink(show)
        case "Jdbc":
            from iggy_spark.sinks.jdbc import JdbcSink

            assert sink.jdbc is not None, "checked with the configuration"
            return JdbcSink(sink.jdbc, fields, name=config.name, retry=retry)
        case "Elasticsearch" | "Quickwit" | "Http":
            return _web_service(config, retry)
    known = ", ".join(BLOCKS)
    raise OptionError(f"sink.type: {sink.type} is not in this version, choose from {known}")


def _web_service(config: JobConfig, retry: Retry) -> Sink:
    sink = config.sink
    if sink.elasticsearch is not None:
        from iggy_spark.sinks.elasticsearch import ElasticsearchSink

        return ElasticsearchSink(sink.elasticsearch, config.payload, retry=retry)
    if sink.quickwit is not None:
        from iggy_spark.sinks.quickwit import QuickwitSink

        return QuickwitSink(sink.quickwit, config.payload, retry=retry)
    from iggy_spark.sinks.http import HttpSink

    assert sink.http is not None, "checked with the configuration"
    return HttpSink(sink.http, config.payload, name=config.name, retry=retry)

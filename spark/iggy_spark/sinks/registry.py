"""Sink type → class. The one place that knows all sinks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from iggy_spark.errors import OptionError
from iggy_spark.job_config import JobConfig
from iggy_spark.sinks import parquet
from iggy_spark.sinks.base import Sink
from iggy_spark.sinks.console import ConsoleSink
from iggy_spark.sinks.files import FilesSettings, FilesSink
from iggy_spark.sinks.rows import table_fields


def build(config: JobConfig, *, show: Callable[[str], Any]) -> Sink:
    """The sink of a job. `show` takes a line for a person; tasks have nobody to show it to.

    Raises:
        OptionError: the sink's settings do not fit each other.
    """
    fields = table_fields(config.payload)
    match config.sink.type:
        case "Files":
            files = config.sink.files
            assert files is not None, "checked with the configuration"
            parquet.check_partition_by(fields, files.partition_by)
            columns = tuple(files.partition_by)
            return FilesSink(FilesSettings(files.path, fields, columns, files.s3.connection()))
        case "Console":
            return ConsoleSink(show)
    raise OptionError(
        f"sink.type: {config.sink.type} is not in this version, choose Files or Console"
    )

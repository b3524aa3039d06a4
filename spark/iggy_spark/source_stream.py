"""The data source of a job that carries a source into a topic. Reading it writes: registered by
that job and nobody else.

A module of its own because Spark imports it in several short-lived helpers, of which only one needs
what `source_task` imports.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from iggy_spark.source_config import SourceConfig

FORMAT: Final = "iggy_source_job"
# Spark compares option names without case.
_JOB, _START, _MARK, _AWAY = "sourcejob", "sourcestart", "sourcemark", "sourceaway"


class SourceStream(DataSource):
    """One source into one topic; its rows are the results of its tasks."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """The writer's options, and those of our own."""
        super().__init__(dict(options))
        self._raw = {name.lower(): value for name, value in options.items()}

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    def schema(self) -> str:
        """One result a row."""
        return "result STRING"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """The stream reader that writes."""
        from iggy_spark import source_config, write_options
        from iggy_spark.source_task import SourceReader

        own = (_JOB, _START, _MARK, _AWAY)
        options = {name: value for name, value in self._raw.items() if name not in own}
        return SourceReader(
            source_config.parse(self._raw[_JOB].encode(), name="the job's file"),
            write_options.parse(options),
            start=json.loads(self._raw[_START]),
            mark=self._raw[_MARK],
            away=Path(self._raw[_AWAY]),
        )


def own_options(
    config: SourceConfig, start: Mapping[str, Any], mark: str, *, away: Path
) -> dict[str, str]:
    """What `SourceStream` needs beside the writer's options. `start`: where the first batch begins;
    `mark`: the driver's; `away`: where tasks tell that the other system is away.
    """
    return {
        _JOB: msgspec.json.encode(config).decode(),
        _START: json.dumps(dict(start)),
        _MARK: mark,
        _AWAY: str(away),
    }

"""The sink job's own data source. Reading it writes: registered by the sink job and nobody else.

A module of its own because Spark imports it in several short-lived helpers, of which only one needs
what `sink_task` imports.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from iggy_spark.job_config import JobConfig
    from iggy_spark.sinks.base import Spans

FORMAT = "iggy_sink_job"
_OWN_OPTIONS = (
    "sinkjob",
    "sinkcovered",
    "sinkmark",
    "sinkletters",
    "sinkaway",
)  # Spark compares option names without case


class SinkSource(DataSource):
    """One topic into one sink; its rows are the results of its tasks."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """The reader's options, and those of our own."""
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
        from iggy_spark import options
        from iggy_spark.sink_task import SinkReader

        raw = {name: value for name, value in self._raw.items() if name not in _OWN_OPTIONS}
        own = [self._raw[name] for name in _OWN_OPTIONS]
        return SinkReader(options.parse(raw, mode="stream"), *own)


def own_options(
    config: JobConfig, covered: Mapping[int, Spans], mark: str, *, letters: bool, away: Path
) -> dict[str, str]:
    """What `SinkSource` needs beside the options of the reader. `letters`: it reads dead letters;
    `away`: where tasks tell that the target is away.
    """
    return {
        "sinkJob": msgspec.json.encode(config).decode(),
        "sinkCovered": json.dumps({str(number): spans for number, spans in covered.items()}),
        "sinkMark": mark,
        "sinkLetters": "yes" if letters else "",
        "sinkAway": str(away),
    }

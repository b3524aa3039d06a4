"""The sink job's own data source: a task reads its range, decodes it and writes it to the target.

Rows never pass through Spark's JVM, which would cost more than everything else together; what a
task yields is one line that says what it did. Spark plans, retries and keeps the checkpoint.
Registered by the sink job only: reading it writes, so it is of no use in other programs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import replace

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from iggy_spark import options, readers
from iggy_spark.fetch import RangeFetch
from iggy_spark.job_config import JobConfig
from iggy_spark.offsets import OffsetRange
from iggy_spark.options import ReadOptions
from iggy_spark.sinks import registry
from iggy_spark.sinks.base import Sink, Spans, Written, without
from iggy_spark.sinks.rows import portions

FORMAT = "iggy_sink_job"
RESULT_SCHEMA = pa.schema([pa.field("result", pa.string())])
_OWN_OPTIONS = ("sinkjob", "sinkcovered")  # Spark compares option names without case


class SinkSource(DataSource):
    """One topic into one sink; its rows are the results of its tasks."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """The reader's options, and two of our own."""
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
        raw = {name: value for name, value in self._raw.items() if name not in _OWN_OPTIONS}
        job, covered = (self._raw[name] for name in _OWN_OPTIONS)
        return SinkReader(options.parse(raw, mode="stream"), job, covered)


def own_options(config: JobConfig, covered: Mapping[int, Spans]) -> dict[str, str]:
    """What `SinkSource` needs beside the reader's options."""
    return {
        "sinkJob": msgspec.json.encode(config).decode(),
        "sinkCovered": json.dumps({str(number): spans for number, spans in covered.items()}),
    }


class SinkReader(readers.IggyStreamReader):
    """Plans like the data source; a task writes instead of handing rows to Spark."""

    def __init__(self, options: ReadOptions, job: str, covered: str) -> None:
        """`job` and `covered` as `own_options` made them."""
        super().__init__(options)
        self._job, self._covered = job, covered

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Write one range; yield what was done."""
        if not isinstance(partition, readers.RangePartition):
            return
        config = msgspec.json.decode(self._job, type=JobConfig)
        sink = registry.build(config, show=lambda line: None)
        spans = json.loads(self._covered).get(str(partition.wanted.partition), [])
        covered = tuple((first, end) for first, end in spans)
        written = write_range(self._options, partition.wanted, sink=sink, covered=covered)
        line = json.dumps(written.to_json())
        yield pa.RecordBatch.from_arrays([pa.array([line])], schema=RESULT_SCHEMA)


def write_range(
    options: ReadOptions, wanted: OffsetRange, *, sink: Sink, covered: Spans
) -> Written:
    """Write what the target does not have yet of a range."""
    total = Written(wanted.partition, wanted.first, wanted.end)
    missing = 0
    for part in without(wanted, covered):
        missing += part.count
        fetch = RangeFetch(options, part)
        done = sink.write_task(part, portions(options, fetch, part.partition))
        total = replace(
            total,
            rows=total.rows + done.rows,
            rejected=total.rejected + done.rejected,
            lost=total.lost + fetch.lost,
            size_bytes=total.size_bytes + done.size_bytes,
            preview=total.preview + done.preview,
        )
    return replace(total, skipped=wanted.count - missing)

"""What a task of the sink job does: read a range, decode it, write it to the target.

Rows never pass through Spark's JVM, which would cost more than everything else together; what a
task yields is one line that says what it did. Spark plans, retries and keeps the checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from iggy_spark import driver_mark, no_pandas, readers
from iggy_spark.fetch import RangeFetch
from iggy_spark.job_config import JobConfig
from iggy_spark.offsets import OffsetRange
from iggy_spark.options import ReadOptions
from iggy_spark.sinks import registry
from iggy_spark.sinks.base import Sink, Spans, Written, still_ours, without
from iggy_spark.sinks.rows import portions

no_pandas.settle()

RESULT_SCHEMA = pa.schema([pa.field("result", pa.string())])


class SinkReader(readers.IggyStreamReader):
    """Plans like the data source; a task writes instead of handing rows to Spark."""

    def __init__(self, options: ReadOptions, job: str, covered: str, mark: str) -> None:
        """`job`, `covered` and `mark` as `sink_source.own_options` made them."""
        super().__init__(options)
        self._job, self._covered, self._mark = job, covered, mark

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Write one range; yield what was done."""
        if not isinstance(partition, readers.RangePartition):
            return
        config = msgspec.json.decode(self._job, type=JobConfig)
        sink = registry.build(config, show=lambda line: None)
        spans = json.loads(self._covered).get(str(partition.wanted.partition), [])
        covered = tuple((first, end) for first, end in spans)
        with driver_mark.of(config).writing(self._mark) as confirm:
            written = write_range(
                self._options, partition.wanted, sink=sink, covered=covered, confirm=confirm
            )
        line = json.dumps(written.to_json())
        yield pa.RecordBatch.from_arrays([pa.array([line])], schema=RESULT_SCHEMA)


def write_range(
    options: ReadOptions,
    wanted: OffsetRange,
    *,
    sink: Sink,
    covered: Spans,
    confirm: Callable[[], None] = still_ours,
) -> Written:
    """Write what the target does not have yet of a range. `confirm` as for `Sink.write_task`."""
    total = Written(wanted.partition, wanted.first, wanted.end)
    missing = 0
    for part in without(wanted, covered):
        missing += part.count
        fetch = RangeFetch(options, part)
        done = sink.write_task(part, portions(options, fetch, part.partition), confirm)
        total = replace(
            total,
            rows=total.rows + done.rows,
            rejected=total.rejected + done.rejected,
            lost=total.lost + fetch.lost,
            size_bytes=total.size_bytes + done.size_bytes,
            preview=total.preview + done.preview,
        )
    return replace(total, skipped=wanted.count - missing)

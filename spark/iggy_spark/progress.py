"""What the sink job tells whoever runs it: one JSON line an event, on standard output."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TextIO

from pyspark.sql.streaming.listener import StreamingQueryProgress

from iggy_spark.job_metrics import JobMetrics
from iggy_spark.offsets import Offsets
from iggy_spark.query_listener import QueryListener
from iggy_spark.sinks.base import Written

COUNTS = ("rows", "rejected", "dead", "filtered", "skipped", "lost", "size_bytes")


class Reporter:
    """Writes events. Usable from several threads."""

    def __init__(self, out: TextIO) -> None:
        """`out` gets whole lines, flushed."""
        self._out = out
        self._lock = threading.Lock()

    def event(self, kind: str, **fields: Any) -> None:
        """One line: `{"event": kind, …}`."""
        line = json.dumps({"event": kind, **fields})
        with self._lock:
            try:
                self._out.write(line + "\n")
                self._out.flush()
            except BrokenPipeError:
                # Whoever started us was killed. The batch is finished all the same, told to nobody.
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self._out.fileno())
                os.close(nowhere)

    def show(self, line: str) -> None:
        """A row of the console sink, as an event of its own."""
        self.event("row", row=json_or_text(line))


def json_or_text(line: str) -> Any:
    """The value that a JSON text stands for; text that was cut off stays text."""
    try:
        return json.loads(line)
    except ValueError:
        return line


def lag(committed: Mapping[int, int], ends: Mapping[int, int]) -> int:
    """Messages that are there but not done yet."""
    return sum(max(0, end - committed.get(number, 0)) for number, end in ends.items())


def as_text_keys(positions: Mapping[int, int]) -> dict[str, int]:
    """Positions as JSON objects have them."""
    return {str(number): position for number, position in sorted(positions.items())}


class _Counts(NamedTuple):
    """What the tasks of a batch did together: `COUNTS`, and retries by their causes."""

    named: dict[str, int]
    retries: Counter[str]


def _counts(results: Iterable[Written]) -> _Counts:
    counts = _Counts(dict.fromkeys(COUNTS, 0), Counter())
    for result in results:
        for name in counts.named:
            counts.named[name] += getattr(result, name)
        counts.retries.update(result.retries)
    return counts


class ProgressListener(QueryListener[_Counts | None]):
    """Turns Spark's progress events into ours, with the counts that the tasks handed back."""

    def __init__(
        self, name: str, reporter: Reporter, metrics: JobMetrics, *, moved: Callable[[], None]
    ) -> None:
        """`reporter` and `metrics` hear of each finished batch; the rest as for `QueryListener`."""
        super().__init__(name, moved=moved)
        self._reporter, self._metrics = reporter, metrics

    def batch_written(self, batch: int, results: Iterable[Written] | None) -> None:
        """Remember what a batch did until Spark says that it is done. None: nobody has counted; the
        rows that Spark has read stand for it then.
        """
        self.remember(batch, None if results is None else _counts(results))

    def tell(self, progress: StreamingQueryProgress, result: _Counts | None) -> None:
        """A batch is done."""
        counts = result
        if counts is None:
            counts = _counts(())
            counts.named["rows"] = progress.numInputRows
        source = progress.sources[0]
        committed = Offsets.from_json(json.loads(source.endOffset))
        # Spark 4.3 has no latest offset for a batch that it repeats after a restart.
        known = (source.latestOffset or "").startswith("{")
        ends = Offsets.from_json(json.loads(source.latestOffset)).positions if known else None
        seconds = progress.batchDuration / 1000
        self._metrics.batch_done(
            counts.named, retries=counts.retries, seconds=seconds, now=time.time()
        )
        self._reporter.event(
            "progress",
            batch=progress.batchId,
            **counts.named,
            retries=counts.retries.total(),
            seconds=seconds,
            committed=as_text_keys(committed.positions),
            end=None if ends is None else as_text_keys(ends),
            lag=None if ends is None else lag(committed.positions, ends),
        )

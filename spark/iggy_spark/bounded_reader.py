"""The stream reader for Spark 4.1, which says neither where a micro-batch begins nor how large it
may be: the reader remembers where the last one ended, and bounds the next one by the options.

What Spark 4.1 calls, as `tests/spark/test_spark_older.py` sees it:

- a query that goes on from a checkpoint: first `partitions(end, end)`, with the end of the last
  batch that was planned. If that was not finished, `partitions(start, end)` repeats it;
- one that begins: `latestOffset()`, and `initialOffset()` when the first batch is carried out;
- `latestOffset()` again only when the batch before is finished.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql.datasource import InputPartition

from iggy_spark.errors import OptionError
from iggy_spark.offsets import QueryOffsets
from iggy_spark.options import ReadOptions
from iggy_spark.readers import IggyStreamReader
from iggy_spark.spark_versions import VERSION


class BoundedStreamReader(IggyStreamReader):
    """Micro-batches that bound themselves."""

    def __init__(self, options: ReadOptions) -> None:
        """Opens nothing.

        Raises:
            OptionError: an option that this Spark makes impossible.
        """
        if options.min_offsets_per_trigger:
            raise OptionError(
                f"minOffsetsPerTrigger needs Spark 4.2 or newer, and this is {VERSION}: it does "
                "not tell of AvailableNow, and such a run would leave the rest unread for ever; "
                "leave it out"
            )
        super().__init__(options)
        self._last: QueryOffsets | None = None  # where the last planned batch ends
        self._given: QueryOffsets | None = None  # the same of one whose tasks were given out

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802
        """End of the next micro-batch, within `maxOffsetsPerTrigger` and `maxBytesPerTrigger`."""
        start = self._last or QueryOffsets.from_json(self.initialOffset())
        limit = self.getDefaultReadLimit()
        self._last = self._next_end(start, limit, done=self._given)
        return self._last.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of one micro-batch; of an empty one, only where the query stands.

        Raises:
            OptionError: the end was fixed before the reader knew where the query stands.
        """
        tasks = super().partitions(start, end)
        until = QueryOffsets.from_json(end)
        if self._last is None:
            self._last = until
        elif start == end and until != self._last:
            raise OptionError(
                "spark.sql.streaming.triggerAvailableNowWrapper.enabled cannot be used with Spark "
                f"{VERSION}: it asks where the run ends before it says where the query stands. "
                "Leave it off; an AvailableNow run is then one batch"
            )
        self._given = until
        return tasks

"""What Spark calls for every batch of a job."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame

from iggy_spark.errors import IggySparkError
from iggy_spark.stop import Stop


class StopRequested(Exception):
    """Raised into Spark to keep it from starting another batch."""


class BatchWriter:
    """What Spark calls for every batch: between two of them the job may end."""

    def __init__(
        self, work: Callable[[DataFrame, int], None], stop: Stop, *, begin: Callable[[], None]
    ) -> None:
        """`work` carries a batch; before, `stop` is looked at and `begin` keeps its plan safe."""
        self._work, self._stop, self._begin = work, stop, begin
        self.running = False
        self.refused = False
        self.last_batch: int | None = None
        self.failure: IggySparkError | None = None

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Carry one batch."""
        self.running = True
        try:
            self.refused = self._stop.asked
            if self.refused:
                raise StopRequested("stopping: no further batch is begun")
            self._begin()
            self._work(frame, batch)
            self.last_batch = batch
        except IggySparkError as error:
            self.failure = error
            raise
        finally:
            self.running = False

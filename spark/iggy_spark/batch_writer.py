"""What Spark calls for every batch of a sink job."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame

from iggy_spark.carriers import Carrier
from iggy_spark.errors import IggySparkError
from iggy_spark.job_metrics import JobMetrics
from iggy_spark.limits import BadLimits
from iggy_spark.progress import ProgressListener
from iggy_spark.stop import Stop


class StopRequested(Exception):
    """Raised into Spark to keep it from starting another batch."""


class BatchWriter:
    """What Spark calls for every batch: the tasks write, the driver commits."""

    def __init__(
        self,
        carrier: Carrier,
        listener: ProgressListener,
        stop: Stop,
        *,
        begin: Callable[[], None],
        limits: BadLimits | None,
        metrics: JobMetrics,
    ) -> None:
        """`stop` is looked at before every batch; `begin` makes its plan durable."""
        self._carrier, self._listener, self._stop = carrier, listener, stop
        self._begin, self._limits, self._metrics = begin, limits, metrics
        self.running = False
        self.refused = False
        self.last_batch: int | None = None
        self.failure: IggySparkError | None = None

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Write one batch."""
        self.running = True
        try:
            self.refused = self._stop.asked
            if self.refused:
                raise StopRequested("stopping: no further batch is begun")
            self._begin()
            with self._metrics.writing():
                results = self._carrier.write(frame, batch)
                if self._limits is not None:
                    self._limits.check_batch(results or ())
                self._carrier.commit(results or ())
            self._listener.batch_written(batch, results)
            self.last_batch = batch
        except IggySparkError as error:
            self.failure = error
            raise
        finally:
            self.running = False

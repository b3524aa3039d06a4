"""The work of a job that carries a source into a topic, from the first look at both to the last.

The process is the only member of the consumer group with the source's name, from before the other
system is changed to the end: a second driver does not begin.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from iggy_spark import (
    connections,
    driver_mark,
    options,
    running_query,
    session,
    source_config,
    source_stream,
    state,
    stored_checkpoint,
    write_options,
)
from iggy_spark.absence import Absence
from iggy_spark.alive import Sign
from iggy_spark.batch_writer import BatchWriter
from iggy_spark.checkpoint import SOURCE_LIFE, Checkpoint
from iggy_spark.connections import Connection
from iggy_spark.job import CONTACT_MS, LISTENER_WAIT_S, RunSpark
from iggy_spark.progress import Reporter
from iggy_spark.retry import Retry
from iggy_spark.seat import Seat
from iggy_spark.source_config import SourceConfig
from iggy_spark.source_metrics import SourceMetrics
from iggy_spark.source_progress import SourceListener, SourceProgress, told
from iggy_spark.source_task import Carried
from iggy_spark.sources import registry
from iggy_spark.sources.base import Position
from iggy_spark.stop import Stop

IMPATIENT_S: Final = 1.0  # for the other system, while the job watches its query


@dataclass(frozen=True, slots=True)
class Run:
    """What is known of a query before Spark starts it."""

    checkpoint: Checkpoint
    mark: str
    seat: Seat
    start: Position  # of the first batch that ever was
    committed: Position | None


class SourceJob:
    """One run from start to end."""

    def __init__(
        self,
        config: SourceConfig,
        environ: Mapping[str, str],
        reporter: Reporter,
        *,
        stop: Stop,
        running: RunSpark = session.running,
    ) -> None:
        """Checks what can be checked without broker and source. `running` makes Spark.

        Raises:
            OptionError: the configuration is wrong.
        """
        self._config, self._reporter, self._stop, self._running = config, reporter, stop, running
        self._raw = source_config.writer_options(config, environ)
        write_options.parse(self._raw)
        reader = source_config.reader_options(config, environ)
        self._options = options.parse(reader, mode="stream")
        self._absence = Absence(reporter.event)
        retry = Retry(config.retry_policy, away=self._absence.tell)
        self._source = registry.build(config, retry=retry)
        self._metrics = SourceMetrics(config.name)
        self._sign = Sign(config.alive_file, interval_ms=config.interval_ms)

    def run(self) -> bool:
        """Run until there is nothing left (once), or until asked to stop. True: nothing is left,
        or nobody has asked for so much.

        Raises:
            IggySparkError: why it could not go on.
        """
        self._stop.install()
        if self._stop.asked:
            self._reporter.event("stopped", reason="signal", committed=None, behind=None)
            return not self._config.available_now
        if self._config.metrics_port is not None:
            self._metrics.serve(self._config.metrics_port)
        checkpoint = stored_checkpoint.of(self._config)
        patience = replace(
            self._config.retry_policy,
            timeout_s=min(IMPATIENT_S, self._config.retry_policy.timeout_s),
        )
        retry = Retry(patience)
        watched = registry.build(self._config, retry=retry)
        progress = SourceProgress(watched, retry, checkpoint, self._metrics)
        try:
            Connection(replace(self._options, retry_timeout_ms=CONTACT_MS)).topic_state()
            self._source.check()
            checkpoint.remember(self._config)
            with closing(Seat(self._options, should_stop=lambda: self._stop.asked)) as seat:
                if seat.take(contact_s=CONTACT_MS / 1000):
                    self._carry(checkpoint, seat, progress)
                return self._finish(checkpoint, progress)
        finally:
            watched.close()
            self._source.close()
            connections.close_all()
            checkpoint.close()

    def _carry(self, checkpoint: Checkpoint, seat: Seat, progress: SourceProgress) -> None:
        """Everything that changes the other system, or the topic."""
        mark = driver_mark.beside(self._config).take_over(should_stop=lambda: self._stop.asked)
        if mark is None:
            return
        committed = checkpoint.position(SOURCE_LIFE)
        start = self._first(checkpoint)
        self._source.close()  # what follows is asked by others
        progress.tell_committed()
        if not self._stop.asked:
            self._with_spark(Run(checkpoint, mark, seat, start, committed), progress)

    def _first(self, checkpoint: Checkpoint) -> Position:
        """Where the first batch begins, the same in every run. Written down before it is used."""
        path = checkpoint.state(SOURCE_LIFE) / state.INITIAL_NAME
        found = state.read_json(path)
        if found is None:
            found = state.write_once(path, self._source.first())
            checkpoint.keep(SOURCE_LIFE)
        known: Position = found
        return known

    def _with_spark(self, run: Run, progress: SourceProgress) -> None:
        driver = self._config.source.spark.driver
        with self._running(
            f"iggy-source-{self._config.name}",
            cores=driver.cores,
            memory=driver.memory,
            logs=run.checkpoint.logs,
            conf=self._config.source.spark.properties,
        ) as spark:
            self._stop.install()
            if not self._stop.asked:
                self._query(spark, run, progress)

    def _query(self, spark: SparkSession, run: Run, progress: SourceProgress) -> None:
        config = self._config
        listener = SourceListener(
            config.name, self._reporter, self._metrics, progress, moved=self._sign.moved
        )

        def carry(frame: DataFrame, batch: int) -> None:
            with progress.reading(batch):
                done = Carried()
                for row in frame.collect():  # which is what makes the tasks run
                    done = done.plus(Carried(**json.loads(row["result"])))
            listener.remember(batch, done)

        self._absence.clear(run.checkpoint.away)
        spark.streams.addListener(listener)
        writer = BatchWriter(carry, self._stop, begin=partial(self._begin, run))
        spark.dataSource.register(source_stream.SourceStream)
        given = self._raw | source_stream.own_options(
            config, run.start, run.mark, away=run.checkpoint.away
        )
        frame = spark.readStream.format(source_stream.FORMAT).options(**given).load()
        committed = None if run.committed is None else told(run.committed)
        self._reporter.event("started", source=config.name, committed=committed)
        query = running_query.start(
            frame,
            writer,
            name=config.name,
            place=run.checkpoint.spark(SOURCE_LIFE),
            interval_ms=None if config.available_now else config.interval_ms,
        )
        self._sign.moved()
        try:
            with self._metrics.running():
                self._watch(query, writer, run, progress)
        finally:
            listener.ended.wait(LISTENER_WAIT_S)
            spark.streams.removeListener(listener)

    def _begin(self, run: Run) -> None:
        """Before a batch."""
        self._absence.clear(run.checkpoint.away)
        run.checkpoint.keep(SOURCE_LIFE)

    def _watch(
        self, query: StreamingQuery, writer: BatchWriter, run: Run, progress: SourceProgress
    ) -> None:
        checkpoint = run.checkpoint

        def look() -> None:
            # A plan, before anybody takes the job for well.
            checkpoint.keep(SOURCE_LIFE)
            self._sign.write()
            self._metrics.answers(not self._absence.look())
            run.seat.keep()
            progress.tell(writer.last_batch)
            if progress.look(run.start):
                self._reporter.event("behind", behind=progress.behind)

        has_committed: Callable[[int], bool] = partial(checkpoint.has_committed, SOURCE_LIFE)
        running_query.watch(query, writer, self._stop, look=look, has_committed=has_committed)

    def _finish(self, checkpoint: Checkpoint, progress: SourceProgress) -> bool:
        """Tell the other system and whoever started us how far it went. True: as `run`."""
        committed = checkpoint.position(SOURCE_LIFE)
        behind: int | None = None
        if committed is not None:
            progress.tell_committed()  # else the next start tells it first of all
            behind = progress.behind_now(committed)
        self._reporter.event(
            "stopped",
            reason="signal" if self._stop.asked else "finished",
            committed=None if committed is None else told(committed),
            behind=behind,
        )
        return behind == 0 or not self._stop.asked or not self._config.available_now

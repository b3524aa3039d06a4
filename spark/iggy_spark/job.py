"""The work of the sink job, from the first look at the broker to the last.

The process is the only member of the consumer group with the sink's name, from before the target is
first touched to the end. It stores the group's offsets as soon as Spark has committed a batch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from iggy_spark import (
    carriers,
    connections,
    driver_mark,
    job_config,
    job_starts,
    options,
    running_query,
    session,
    stored_checkpoint,
)
from iggy_spark.absence import Absence
from iggy_spark.alive import Sign
from iggy_spark.batch_writer import BatchWriter
from iggy_spark.checkpoint import Checkpoint
from iggy_spark.connections import Connection
from iggy_spark.dead_letters import DeadLetters
from iggy_spark.errors import BrokerUnavailable, Fenced
from iggy_spark.job_config import JobConfig
from iggy_spark.job_metrics import JobMetrics
from iggy_spark.job_mirror import JobMirror
from iggy_spark.limits import bad_limits
from iggy_spark.offsets import Offsets, TopicState
from iggy_spark.options import ReadOptions
from iggy_spark.outlook import Lookout
from iggy_spark.progress import ProgressListener, Reporter, as_text_keys, lag
from iggy_spark.retry import Retry
from iggy_spark.selection import Selection, TopicName
from iggy_spark.sinks import registry
from iggy_spark.sinks.base import Spans
from iggy_spark.stop import Stop

CONTACT_MS = 10_000  # for the broker to be there when the job starts, and when it has ended
# The same when the job was asked to end: often the broker is, too, and the next start tells it all.
STOP_CONTACT_MS = 3_000
LISTENER_WAIT_S = 15.0  # for the last events of a query that has ended


RunSpark = Callable[..., AbstractContextManager[SparkSession]]


@dataclass(frozen=True, slots=True)
class Run:
    """What is known of a query before Spark starts it."""

    checkpoint: Checkpoint
    mark: str
    mirror: JobMirror
    options: ReadOptions  # of the topic that is read
    found: TopicState
    covered: Mapping[int, Spans]
    letters: bool = False  # the topic is that of the dead letters

    @property
    def incarnation(self) -> str:
        """As the checkpoint knows the topic."""
        return str(self.found.incarnation)


class Job:
    """One run from start to end."""

    def __init__(
        self,
        config: JobConfig,
        environ: Mapping[str, str],
        reporter: Reporter,
        *,
        stop: Stop,
        running: RunSpark = session.running,
    ) -> None:
        """Checks what can be checked without broker and target. `running` makes Spark.

        Raises:
            OptionError: the configuration is wrong.
        """
        self._config = config
        self._reporter = reporter
        self._stop = stop
        self._running = running
        self._raw = job_config.reader_options(config, environ)
        self._options = options.parse(self._raw, mode="stream")
        self._absence = Absence(reporter.event)
        self._sink = registry.build(
            config,
            show=reporter.show,
            retry=Retry(config.retry_policy, away=self._absence.tell),
            reach=self._options,
        )
        per_partition = config.sink.metrics.per_partition
        self._metrics = JobMetrics(config.name, per_partition=per_partition)
        self._sign = Sign(config.alive_file, interval_ms=config.interval_ms)

    def run(self) -> bool:
        """Run until there is nothing left (once), or until asked to stop. True: nothing is left,
        or nobody has asked for so much.

        Raises:
            IggySparkError: why it could not go on.
        """
        self._stop.install()
        if self._stop.asked:
            self._reporter.event("stopped", reason="signal", committed={}, end=None, lag=None)
            return not self._config.available_now
        if self._config.metrics_port is not None:
            self._metrics.serve(self._config.metrics_port)
        checkpoint = stored_checkpoint.of(self._config)
        try:
            impatient = replace(self._options, retry_timeout_ms=CONTACT_MS)
            found = Connection(impatient).topic_state()
            incarnation = str(found.incarnation)
            restart = self._config.sink.on_topic_recreated == "Restart"
            checkpoint.check_incarnation(incarnation, restart=restart)
            self._sink.check()
            if (letters := DeadLetters.of(self._config, self._options)) is not None:
                letters.make_topic()
            checkpoint.remember(self._config)
            mirror = JobMirror(
                self._options,
                checkpoint,
                incarnation,
                should_stop=lambda: self._stop.asked,
                failed=self._metrics.mirror_failed,
            )
            with closing(mirror):
                if mirror.join(contact_s=CONTACT_MS / 1000):
                    self._carry(checkpoint, mirror, found)
                left = self._finish(checkpoint, mirror, incarnation)
                return left == 0 or not self._stop.asked or not self._config.available_now
        finally:
            self._sink.close()
            connections.close_all()
            checkpoint.close()

    def _carry(self, checkpoint: Checkpoint, mirror: JobMirror, found: TopicState) -> None:
        """Everything that touches the target."""
        mark = driver_mark.of(self._config).take_over(should_stop=lambda: self._stop.asked)
        if mark is None:
            return
        covered = self._sink.prepare(str(found.incarnation))
        if not self._stop.asked:
            self._with_spark(Run(checkpoint, mark, mirror, self._options, found, covered))

    def _with_spark(self, run: Run) -> None:
        driver = self._config.sink.spark.driver
        with self._running(
            f"iggy-sink-{self._config.name}",
            cores=driver.cores,
            memory=driver.memory,
            logs=run.checkpoint.logs,
            conf=self._config.sink.spark.properties,
        ) as spark:
            self._stop.install()
            if not self._stop.asked:
                self._redrive(spark, run)
            if not self._stop.asked:
                self._query(spark, run)

    def _redrive(self, spark: SparkSession, run: Run) -> None:
        """Write dead letters again, if that was asked for and not done yet. The sink's own messages
        wait meanwhile: one driver works on a target at a time.
        """
        request, block = self._config.redrive, self._config.sink.errors.dead_letter
        if request is None or block is None or run.checkpoint.redriven() == request.request:
            return
        topic = TopicName(block.stream or self._config.stream, block.topic)
        options = replace(self._options, selection=Selection((topic,)))
        found = Connection(options).topic_state()
        covered = self._sink.prepare(str(found.incarnation))
        again = replace(run, options=options, found=found, covered=covered, letters=True)
        self._query(spark, again)
        if not self._stop.asked:
            run.checkpoint.remember_redriven(request.request)
            self._reporter.event("redriven", request=request.request)
            self._sink.prepare(run.incarnation)

    def _query(self, spark: SparkSession, run: Run) -> None:
        name, moved = self._config.name, self._sign.moved
        listener = ProgressListener(name, self._reporter, self._metrics, moved=moved)
        spark.streams.addListener(listener)
        incarnation = run.incarnation
        way = carriers.carrier(
            self._config,
            self._sink,
            run.covered,
            run.mark,
            letters=run.letters,
            away=run.checkpoint.away,
        )
        limits = None if run.letters else bad_limits(self._config)

        def carry(frame: DataFrame, batch: int) -> None:
            with self._metrics.writing():
                results = way.write(frame, batch)
                if limits is not None:
                    limits.check_batch(results or ())
                way.commit(results or ())
            listener.batch_written(batch, results)

        writer = BatchWriter(carry, self._stop, begin=partial(self._begin, run))
        done = run.checkpoint.committed(incarnation)
        starts = self._starts(run)
        given = self._raw | {
            "stream": run.options.stream,
            "topic": run.options.topic,
            "stateLocation": str(run.checkpoint.state(incarnation)),
            "startingOffsets": json.dumps(
                as_text_keys({number: at.position for number, at in starts.items()})
            ),
            "offsetMirror": "off",  # the source's helper would be a second member
        }
        if (begun := done or run.checkpoint.first_start(incarnation)) is not None:
            starts = job_starts.of_checkpoint(begun, run.found)
        frame = way.read(spark, given)
        ends = self._config.available_now or run.letters
        query = running_query.start(
            frame,
            writer,
            name=name,
            place=run.checkpoint.spark(incarnation),
            interval_ms=None if ends else self._config.interval_ms,
        )
        self._sign.moved()
        self._tell_start(run, done, starts)
        try:
            with self._metrics.running():
                self._watch(query, writer, run)
        finally:
            listener.ended.wait(LISTENER_WAIT_S)
            spark.streams.removeListener(listener)

    def _tell_start(
        self, run: Run, done: Offsets | None, starts: Mapping[int, job_starts.Start]
    ) -> None:
        if not run.letters:  # which come first, and are of another topic
            self._metrics.started(starts.values())
        self._reporter.event(
            "redriving" if run.letters else "started",
            sink=self._config.name,
            incarnation=run.incarnation,
            committed=as_text_keys(done.positions if done else {}),
            start={str(number): at.shown for number, at in sorted(starts.items())},
            by={str(number): at.source for number, at in sorted(starts.items())},
        )

    def _begin(self, run: Run) -> None:
        """Before a batch."""
        self._absence.clear(run.checkpoint.away)
        run.checkpoint.keep(run.incarnation)

    def _starts(self, run: Run) -> dict[int, job_starts.Start]:
        """For `startingOffsets`, which count where the checkpoint says nothing."""
        connection = Connection(run.options)
        return job_starts.find(
            self._config,
            run.found,
            run.covered,
            letters=run.letters,
            keeps_place=self._sink.keeps_place,
            stored=partial(connection.stored, self._config.name),
        )

    def _watch(self, query: StreamingQuery, writer: BatchWriter, run: Run) -> None:
        lookout = Lookout(self._options)

        def look() -> None:
            # The start of the first batch, before anybody takes the job for well.
            run.checkpoint.keep(run.incarnation)
            self._sign.write()
            self._metrics.answers(not self._absence.look())
            run.mirror.tell(None if run.letters else writer.last_batch)
            done = run.mirror.positions
            if done is not None and (seen := lookout.look(done)) is not None:
                self._metrics.seen(seen)

        has_committed = partial(run.checkpoint.has_committed, run.incarnation)
        running_query.watch(query, writer, self._stop, look=look, has_committed=has_committed)

    def _finish(self, checkpoint: Checkpoint, mirror: JobMirror, incarnation: str) -> int | None:
        """Tell the broker and whoever started us how far it went. Returns how many messages are
        left, None if nobody knows.
        """
        done = checkpoint.committed(incarnation)
        positions = dict(done.positions) if done else {}
        ends: Mapping[int, int] | None = None
        try:
            contact_ms = STOP_CONTACT_MS if self._stop.asked else CONTACT_MS
            mirror.finish(contact_s=contact_ms / 1000)
            impatient = replace(self._options, retry_timeout_ms=contact_ms)
            ends = Connection(impatient).topic_state().ends
        except (BrokerUnavailable, Fenced):
            if not self._stop.asked:
                raise
            # Broker and job are being stopped together: the next start tells it first of all.
        left = None if ends is None else lag(positions, ends)
        self._reporter.event(
            "stopped",
            reason="signal" if self._stop.asked else "finished",
            committed=as_text_keys(positions),
            end=None if ends is None else as_text_keys(ends),
            lag=left,
        )
        return left

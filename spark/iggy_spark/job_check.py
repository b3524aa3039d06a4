"""A look at a sink before or while its job runs: `check` and `explain-offsets` of `sink_job`. What
they say of a source is in `source_check`.

Joins no group, stores no offset and writes no message; starts Spark for a target that only Java
reaches, and else none.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from iggy_spark import connections, job_config, job_file, job_starts, options
from iggy_spark.checkpoint import check_lives
from iggy_spark.checkpoint_view import CheckpointView
from iggy_spark.connections import Connection
from iggy_spark.errors import EXIT_DONE, EXIT_FAILED, IggySparkError
from iggy_spark.job_config import JobConfig
from iggy_spark.job_starts import Start
from iggy_spark.offsets import TopicState
from iggy_spark.retry import Retry
from iggy_spark.sinks import registry
from iggy_spark.sinks.base import InJava, Spans, Telling
from iggy_spark.source_check import SourceInspection
from iggy_spark.source_config import SourceConfig

if TYPE_CHECKING:
    from iggy_spark.job import RunSpark

CONTACT_S: Final = 10.0  # for broker and target to be there: somebody waits for the answer


@dataclass(frozen=True, slots=True)
class Place:
    """One partition. Positions are the next offset to do; None: there is none, or nobody knows."""

    partition: int
    end: int
    """The offset that the next message gets."""
    checkpoint: int | None
    stored: int | None
    """By the broker, for the sink's group."""
    target: int | None
    start: int | str | None
    """Where a job that starts now begins: an offset, or earliest or latest."""
    by: str
    """Who says so: checkpoint, target, group or settings."""


@dataclass(frozen=True, slots=True)
class Found:
    """What was seen of the positions."""

    topic: str  # "stream/topic"
    incarnation: str
    target_tells: bool
    """Whether the target can be asked where it is without a change to it."""
    places: tuple[Place, ...]

    @property
    def lag(self) -> int:
        """Messages that the group has still to do, as the broker knows it."""
        return sum(max(0, place.end - (place.stored or 0)) for place in self.places)


class Inspection:
    """Looks for one job."""

    def __init__(
        self,
        config: JobConfig,
        environ: Mapping[str, str],
        *,
        running: RunSpark | None = None,
    ) -> None:
        """Checks the configuration, and asks nobody yet. `running` makes Spark where it is needed.

        Raises:
            OptionError: it is wrong.
        """
        self.config = config
        self._running = running
        raw = job_config.reader_options(config, environ)
        reach = replace(options.parse(raw, mode="stream"), retry_timeout_ms=int(CONTACT_S * 1000))
        self._connection = Connection(reach)
        policy = replace(
            config.retry_policy, timeout_s=min(CONTACT_S, config.retry_policy.timeout_s)
        )
        retry = Retry(policy)
        self.sink = registry.build(config, show=lambda line: None, retry=retry, reach=reach)

    def topic(self) -> TopicState:
        """What the broker says of the topic.

        Raises:
            IggySparkError: why not, as for the job.
        """
        found = self._connection.topic_state()
        restart = self.config.sink.on_topic_recreated == "Restart"
        known = CheckpointView(self.config).incarnations()
        check_lives(known, str(found.incarnation), restart=restart)
        return found

    def check_target(self) -> None:
        """The sink's own check, and the look that it has when Spark runs.

        Raises:
            IggySparkError: why not, as for the job.
        """
        self.sink.check()
        if not isinstance(self.sink, InJava):
            return
        from iggy_spark import session  # the only step that takes long to import

        running, settings = self._running or session.running, self.config.sink.spark
        with (
            tempfile.TemporaryDirectory(prefix="iggy-check-") as logs,
            running(
                f"iggy-check-{self.config.name}",
                cores=1,
                memory=settings.driver.memory,
                logs=Path(logs),
                conf=settings.properties,
            ) as spark,
        ):
            self.sink.look(spark)

    def positions(self, found: TopicState) -> Found:
        """All positions side by side.

        Raises:
            IggySparkError: why not, as for the job.
        """
        incarnation = str(found.incarnation)
        view = CheckpointView(self.config)
        done, first = view.committed(incarnation), view.first_start(incarnation)
        committed = done.positions if done is not None else {}
        begun = done or first
        tells = isinstance(self.sink, Telling)
        covered = self.sink.held(incarnation) if isinstance(self.sink, Telling) else {}
        stored = {
            number: self._connection.stored(self.config.name, number) for number in found.ends
        }
        starts = job_starts.find(
            self.config,
            found,
            covered,
            letters=False,
            keeps_place=self.sink.keeps_place,
            stored=stored.get,
        )
        if begun is not None:
            starts = job_starts.of_checkpoint(begun, found)
        place = partial(self._place, committed=committed, covered=covered, stored=stored)
        places = (place(number, end, starts[number]) for number, end in found.ends.items())
        return Found(found.name, incarnation, tells, tuple(places))

    def _place(
        self,
        number: int,
        end: int,
        start: Start,
        *,
        committed: Mapping[int, int],
        covered: Mapping[int, Spans],
        stored: Mapping[int, int | None],
    ) -> Place:
        begin: int | str | None = start.shown
        by = start.source
        is_hidden = self.sink.keeps_place and not isinstance(self.sink, Telling)
        if is_hidden and by != "checkpoint":
            begin, by = None, "target"
        spans, last = covered.get(number), stored[number]
        return Place(
            partition=number,
            end=end,
            checkpoint=committed.get(number),
            stored=None if last is None else last + 1,
            target=spans[-1][1] if spans else None,
            start=begin,
            by=by,
        )


def run(command: str, file: Path, environ: Mapping[str, str], *, output: str) -> int:
    """Carry out `check` or `explain-offsets`; the exit code is one of `errors`."""
    what = JobConfig.what  # unless the file says otherwise
    try:
        config = job_file.load(file)
        what = config.what
        for line in _lines(command, config, environ, output):
            sys.stdout.write(line + "\n")
            sys.stdout.flush()  # the next step may take a while
    except IggySparkError as error:
        return _failed(what, str(error), error.exit_code)
    except OSError as error:
        return _failed(what, str(error), EXIT_FAILED)
    finally:
        connections.close_all()
    return EXIT_DONE


def _failed(what: str, reason: str, code: int) -> int:
    sys.stderr.write(f"iggy {what} check failed: {reason}\n")
    return code


def _lines(
    command: str, config: JobConfig | SourceConfig, environ: Mapping[str, str], output: str
) -> Iterator[str]:
    if isinstance(config, SourceConfig):
        with closing(SourceInspection(config, environ)) as source:
            checks = command == "check"
            yield from _checked(source.steps(), output) if checks else source.explained(output)
        return
    inspection = Inspection(config, environ)
    if command == "check":
        yield from _checked(_steps(inspection), output)
    else:
        yield from _explain(inspection, output)


def _checked(steps: Iterable[tuple[str, str, dict[str, Any]]], output: str) -> Iterator[str]:
    """Each line when its step is done, so that an error stands behind what is well."""
    told: dict[str, Any] = {}
    for name, text, value in steps:
        told |= value
        if output == "text":
            yield f"{name:<14} {text}"
    if output == "json":
        yield json.dumps(told)


def _steps(inspection: Inspection) -> Iterator[tuple[str, str, dict[str, Any]]]:
    config, kind = inspection.config, inspection.config.sink.type
    name = {"sink": config.name, "type": kind}
    yield "configuration", f"{config.name}, type {kind}", name
    topic = inspection.topic()
    life = {"topic": topic.name, "incarnation": str(topic.incarnation)}
    count = len(topic.ends)
    text = f"{topic.name}, incarnation {topic.incarnation}, {count} partitions"
    yield "broker", text, life | {"partitions": count}
    inspection.check_target()
    yield "target", "can be written", {"target": "can be written"}
    found = inspection.positions(topic)
    yield "group", f"{config.name}, lag {found.lag}", {"lag": found.lag}
    if found.target_tells:
        held = {place.partition: place.target for place in found.places}
        yield "target holds", _by_partition(held, "nothing"), {"held": _json_keys(held)}
    begin = {place.partition: place.start for place in found.places}
    by = ", ".join(sorted({place.by for place in found.places}))
    start = {"start": _json_keys(begin), "startBy": by}
    yield "start", f"{_by_partition(begin, 'where the target is')}, by {by}", start


def _by_partition(values: Mapping[int, int | str | None], nothing: str) -> str:
    known = {number: value for number, value in values.items() if value is not None}
    told = ", ".join(f"partition {number}: {value}" for number, value in known.items())
    return told or nothing


def _json_keys(values: Mapping[int, Any]) -> dict[str, Any]:
    return {str(number): value for number, value in values.items()}


def _explain(inspection: Inspection, output: str) -> Iterator[str]:
    found = inspection.positions(inspection.topic())
    rows = [asdict(place) for place in found.places]
    if not found.target_tells:
        rows = [{name: row[name] for name in row if name != "target"} for row in rows]
    if output == "json":
        life = {"topic": found.topic, "incarnation": found.incarnation}
        yield json.dumps({**life, "lag": found.lag, "partitions": rows})
        return
    yield f"{found.topic}, incarnation {found.incarnation}"
    if rows:
        yield from _table([list(rows[0]), *(list(row.values()) for row in rows)])


def _table(rows: Sequence[Iterable[Any]]) -> Iterator[str]:
    texts = [[str(name).upper() for name in rows[0]]]
    texts += [["-" if cell is None else str(cell) for cell in row] for row in rows[1:]]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for row in texts:
        yield "  ".join(f"{text:>{width}}" for text, width in zip(row, widths, strict=True))

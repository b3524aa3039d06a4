"""A look at a source before or while its job runs: `check` and `explain-offsets` of `sink_job`.

Starts no Spark, joins no group, changes nothing in the other system and sends no message.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from iggy_spark import options, source_config
from iggy_spark.checkpoint import SOURCE_LIFE
from iggy_spark.checkpoint_view import CheckpointView
from iggy_spark.connections import Connection
from iggy_spark.offsets import TopicState
from iggy_spark.retry import Retry
from iggy_spark.source_config import SourceConfig
from iggy_spark.sources import registry
from iggy_spark.sources.base import Position

CONTACT_S: Final = 10.0  # for broker and source to be there: somebody waits for the answer


@dataclass(frozen=True, slots=True)
class Place:
    """How far a source is."""

    committed: Position | None
    """By Spark; None: no batch was."""
    start: Position | None
    """Where a job that starts now goes on; None: where the source begins when it is first read."""
    behind: int | None
    """Messages that wait beyond; None: there is no start yet, or nobody can tell."""

    @property
    def by(self) -> str:
        """Who says where to start."""
        return "source" if self.start is None else "checkpoint"


class SourceInspection:
    """Looks for one job."""

    def __init__(self, config: SourceConfig, environ: Mapping[str, str]) -> None:
        """Checks the configuration, and asks nobody yet.

        Raises:
            OptionError: it is wrong.
        """
        self.config = config
        reader = options.parse(source_config.reader_options(config, environ), mode="stream")
        self._connection = Connection(replace(reader, retry_timeout_ms=int(CONTACT_S * 1000)))
        policy = config.retry_policy
        policy = replace(policy, timeout_s=min(CONTACT_S, policy.timeout_s))
        self.source = registry.build(config, retry=Retry(policy))

    def topic(self) -> TopicState:
        """What the broker says of the topic.

        Raises:
            IggySparkError: why not, as for the job.
        """
        return self._connection.topic_state()

    def place(self) -> Place:
        """How far it is.

        Raises:
            IggySparkError: why not, as for the job.
        """
        view = CheckpointView(self.config)
        committed = view.position(SOURCE_LIFE)
        start = view.first_position(SOURCE_LIFE) if committed is None else committed
        behind = None if start is None else self.source.behind(start)
        return Place(committed, start, behind)

    def steps(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """What `check` goes through: of each step that is well its name, what to say, and the same
        as fields.
        """
        config, kind = self.config, self.config.source.type
        yield "configuration", f"{config.name}, type {kind}", {"source": config.name, "type": kind}
        topic = self.topic()
        count = len(topic.ends)
        life = {"topic": topic.name, "incarnation": str(topic.incarnation), "partitions": count}
        text = f"{topic.name}, incarnation {topic.incarnation}, {count} partitions"
        yield "broker", text, life
        self.source.check()
        yield "source", "can be read", {"readable": True}
        place = self.place()
        text = "where the source begins" if place.start is None else json.dumps(place.start)
        yield "start", f"{text}, by {place.by}", {"start": place.start, "startBy": place.by}
        yield "behind", _count(place.behind), {"behind": place.behind}

    def explained(self, output: str) -> Iterator[str]:
        """What `explain-offsets` says."""
        place = self.place()
        found = {
            "source": self.config.name,
            "type": self.config.source.type,
            "committed": place.committed,
            "start": place.start,
            "startBy": place.by,
            "behind": place.behind,
        }
        if output == "json":
            yield json.dumps(found)
            return
        yield f"{self.config.name}, type {self.config.source.type}"
        for name in ("committed", "start"):
            position = found[name]
            yield f"{name:<9}  {'-' if position is None else json.dumps(position)}"
        yield f"behind     {_count(place.behind)}"

    def close(self) -> None:
        """Let go of connections."""
        self.source.close()


def _count(behind: int | None) -> str:
    return "nobody can tell" if behind is None else str(behind)

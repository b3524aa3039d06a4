"""A source's job into a test's topic: in this process on the tests' Spark, or in one of its own."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import SparkSession

from iggy_spark import source_config
from iggy_spark.progress import Reporter
from iggy_spark.source_job import SourceJob
from iggy_spark.sources.base import ID_BYTES
from iggy_spark.stop import Stop
from sink_jobs import LOGIN
from stored import read_messages

if TYPE_CHECKING:
    from conftest import Topic


class Arrived(NamedTuple):
    """A message in a topic."""

    partition: int
    id: bytes
    payload: bytes


class SourceSetup:
    """A job into a test's topic."""

    def __init__(self, topic: Topic, folder: Path, **source: Any) -> None:
        self.checkpoint = folder / "checkpoint"
        self.value = {
            "name": "made",
            "broker": {"address": topic.address},
            "stream": topic.stream,
            "topic": topic.name,
            "source": {"trigger": {"interval": "100ms"}, **source},
            "checkpoint": str(self.checkpoint),
            "once": True,
        }
        self.file = folder / "job.json"
        self.login = LOGIN
        self.stop = Stop(signals=False)
        self.events: list[dict[str, Any]] = []

    def write(self) -> Path:
        """The job's file."""
        self.file.write_text(json.dumps(self.value))
        return self.file

    def run(self, spark: SparkSession) -> list[dict[str, Any]]:
        """The events of one run to its end, on a Spark that goes on."""
        out = io.StringIO()

        @contextmanager
        def running(*args: Any, **settings: Any) -> Iterator[SparkSession]:
            yield spark

        try:
            config = source_config.parse(self.write().read_bytes(), name=str(self.file))
            SourceJob(config, self.login, Reporter(out), stop=self.stop, running=running).run()
        finally:
            self.events = [json.loads(line) for line in out.getvalue().splitlines()]
        return self.events

    def progress(self) -> list[dict[str, Any]]:
        """Events of batches."""
        return [event for event in self.events if event["event"] == "progress"]


def arrived(topic: Topic) -> list[Arrived]:
    """All messages of a topic, in the order of partitions and offsets."""
    state = topic.client.get_topic(topic.stream, topic.name)
    assert state is not None
    return [
        Arrived(part.id, message.id.to_bytes(ID_BYTES, "big"), message.payload)
        for part in state.partitions
        for message in read_messages(topic.client, topic.stream, topic.name, part.id)
    ]

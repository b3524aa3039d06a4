"""A job that carries a source into a test's topic, and what has arrived there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from iggy_spark.sources.base import ID_BYTES
from sink_jobs import JobSetup
from stored import read_messages

if TYPE_CHECKING:
    from conftest import Topic


class Arrived(NamedTuple):
    """A message in a topic."""

    partition: int
    id: bytes
    payload: bytes


class SourceSetup(JobSetup):
    """See `JobSetup`."""

    def __init__(self, topic: Topic, folder: Path, **source: Any) -> None:
        given = {"trigger": {"interval": "100ms"}, **source}
        super().__init__(topic, folder, "made", source=given)


def arrived(topic: Topic) -> list[Arrived]:
    """All messages of a topic, in the order of partitions and offsets."""
    state = topic.client.get_topic(topic.stream, topic.name)
    assert state is not None
    return [
        Arrived(part.id, message.id.to_bytes(ID_BYTES, "big"), message.payload)
        for part in state.partitions
        for message in read_messages(topic.client, topic.stream, topic.name, part.id)
    ]


def once_each(found: list[Arrived]) -> list[Arrived]:
    """One of each id. What came again must equal what came first."""
    first: dict[bytes, Arrived] = {}
    for message in found:
        assert first.setdefault(message.id, message).payload == message.payload
    return list(first.values())

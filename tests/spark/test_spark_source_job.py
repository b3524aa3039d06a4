"""The job that carries a source into a topic: on a real broker and a real Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession

from iggy_spark.sources.base import message_id
from source_jobs import SourceSetup, arrived

if TYPE_CHECKING:
    from conftest import Topic

RANDOM = {"type": "Random", "random": {"rate": 1000, "messages": 500, "keys": 20}}


def numbers(topic: Topic) -> list[int]:
    return sorted(json.loads(found.payload)["number"] for found in arrived(topic))


@pytest.fixture
def setup(topic: Topic, tmp_path: Path) -> SourceSetup:
    return SourceSetup(topic, tmp_path, **RANDOM)


def test_every_message_is_in_the_topic_with_its_id(
    spark: SparkSession, topic: Topic, setup: SourceSetup
) -> None:
    setup.value["source"]["maxMessagesPerTrigger"] = 200

    events = setup.run(spark)

    found = arrived(topic)
    assert numbers(topic) == list(range(500))
    for message in found:
        number = json.loads(message.payload)["number"]
        assert message.id == message_id("random", 0, number)
    assert [event["event"] for event in events] == ["started", *["progress"] * 3, "stopped"]
    assert [event["messages"] for event in setup.progress()] == [200, 200, 100]
    assert [event["committed"]["next"] for event in setup.progress()] == [200, 400, 500]
    sizes = sum(len(message.payload) for message in found)
    assert sum(event["size_bytes"] for event in setup.progress()) == sizes
    assert (events[-1]["reason"], events[-1]["behind"]) == ("finished", 0)
    assert topic.members("made") == 0

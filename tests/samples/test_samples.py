"""What docs/samples holds is valid, and is what the demo and the documents say of it."""

from pathlib import Path

import pytest

from flights_demo.flights import load_flights
from iggy_operator.resources import load
from iggy_spark import schema

SAMPLES = Path(__file__).resolve().parents[2] / "docs" / "samples"


@pytest.mark.parametrize("sample", sorted(SAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_samples_pass_the_checks_of_the_resources(sample: Path) -> None:
    resources = load([sample])

    assert resources.documents
    assert resources.skipped == ()


def test_the_flights_sample_is_a_topic_with_a_lake() -> None:
    resources = load([SAMPLES / "flights.yaml"])

    (stream,) = resources.streams
    (topic,) = resources.topics
    (sink,) = topic.sinks
    assert stream.stream_name == "flights"
    assert (topic.topic_name, topic.partitions_count) == ("departures", 6)
    assert (sink.type, sink.spec["files"]["partitionBy"]) == ("Files", ["month"])


def test_the_flights_sample_declares_every_column_of_the_input() -> None:
    (topic,) = load([SAMPLES / "flights.yaml"]).topics

    fields = schema.parse(topic.sinks[0].spec["payload"]["schema"], name="schema")

    assert [field.name for field in fields] == load_flights(1).column_names

"""Copies of messages in another topic: with their bytes, headers and origin, at least once, or
exactly once into a topic in which the broker deduplicates.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from broker_process import BrokerProcess, running_broker
from dead_letter_topics import messages_in
from iggy_spark import connections, job_config, options
from iggy_spark.errors import BrokerRefused, BrokerUnavailable, OptionError, SinkError
from iggy_spark.messages import read_headers
from iggy_spark.sinks.iggy import IggySink
from iggy_wire.batch import Message
from iggy_wire.kernel_types import PAYLOAD_BYTES_MAX
from iggy_wire.options import Option, options_bytes
from iggy_wire.primitives import Partitioning
from sink_cases import SCHEMA, PlayedTask, document, portions, wanted
from sink_contract import REFUSED, Row, SinkContract, Target
from sink_jobs import Setup, documents

if TYPE_CHECKING:
    from conftest import Topic

TRACE = options_bytes((Option.of("trace", "abc"),))


@dataclass(frozen=True)
class Copy:
    """A topic beside the one that is read. `folder` is for what a test starts."""

    topic: Topic
    folder: Path
    made: Callable[[int], bytes] = document
    retry: str = "5s"
    name: str = "copy"
    delivery: str = "AtLeastOnce"

    def sink(self, *, retry: str = "", address: str = "", **more: Any) -> IggySink:
        given = self.topic.options(retryTimeoutMs="10m", servers=address or self.topic.address)
        reach = options.parse(given, mode="stream")
        block = {"stream": self.topic.stream, "topic": self.name, **more}
        value = {
            "name": "shop/copy",
            "broker": {"address": self.topic.address},
            "stream": self.topic.stream,
            "topic": self.topic.name,
            "sink": {
                "type": "Iggy",
                "iggy": block,
                "payload": {"format": "Json", "schema": SCHEMA},
                "errors": {"retry": {"timeout": retry or self.retry}},
                "delivery": self.delivery,
            },
            "checkpoint": "/nowhere",
        }
        config = job_config.parse(msgspec.json.encode(value), name="test")
        assert config.sink.iggy is not None
        return IggySink(config.sink.iggy, config, reach)

    def rows(self) -> list[Row]:
        found = [
            read_headers(memoryview(message.headers))
            for partition in range(2)
            for message in messages_in(self.topic.client, self.topic.stream, self.name, partition)
        ]
        places = ("partition", "offset")
        return sorted(tuple(int(one[f"iggy.origin.{name}"]) for name in places) for one in found)  # type: ignore[misc]

    def refusing(self) -> Target | str:
        return Copy(self.topic, self.folder, made=too_large)

    def away(self) -> Target | str:
        """A broker that has stopped, and was the target's before."""
        with running_broker(self.folder / "other", shards=1) as other:
            there = Copy(replace(self.topic, address=other.address), self.folder, retry="300ms")
            with other.client() as client:
                client.create_stream(self.topic.stream)
                client.create_topic(self.topic.stream, "copy", 2)
            there.sink().check()
        connections.close_all()
        return there


class CopyOnce(Copy):
    """One in which the broker deduplicates."""

    def refusing(self) -> Target | str:
        return "as without deduplication"

    def away(self) -> Target | str:
        return "as without deduplication"


def too_large(number: int) -> bytes:
    """A message that can be sent, and whose document has more than it: the columns that it lacks.
    Only one is.
    """
    if number != REFUSED:
        return document(number)
    text = json.dumps({"number": number, "customer": ""})
    return text.replace('""', f'"{"x" * (PAYLOAD_BYTES_MAX - len(text))}"').encode()


@pytest.fixture
def copy(topic: Topic, tmp_path: Path) -> Iterator[Copy]:
    topic.client.create_topic(topic.stream, "copy", 2)
    yield Copy(topic, tmp_path)
    connections.close_all()


class TestIggy(SinkContract):
    @pytest.fixture
    def target(self, copy: Copy) -> Target:
        return copy


class TestIggyThatDeduplicates(SinkContract):
    @pytest.fixture
    def target(self, topic: Topic, tmp_path: Path) -> Iterator[Target]:
        topic.client.create_topic(topic.stream, "once", 2)
        yield CopyOnce(topic, tmp_path, name="once", delivery="ExactlyOnce")
        connections.close_all()


def test_exactly_once_needs_a_partition_that_stays_the_same(copy: Copy) -> None:
    with pytest.raises(OptionError, match=r"sink\.delivery: .* needs iggy\.partitioning: Same"):
        replace(copy, delivery="ExactlyOnce").sink(partitioning="Balanced")


def test_a_copy_goes_to_the_partition_of_the_same_number(copy: Copy) -> None:
    span = wanted(0, 4, 1)
    copy.sink().write_task(span, portions(span), PlayedTask())

    found = messages_in(copy.topic.client, copy.topic.stream, "copy", 1)
    assert [json.loads(message.payload)["number"] for message in found] == [0, 1, 2, 3]
    assert "iggy_offset" not in json.loads(found[0].payload)
    with pytest.raises(SinkError, match=r"partition 2 has none of its number .* has 2: add"):
        beyond = wanted(0, 4, 2)
        copy.sink().write_task(beyond, portions(beyond), PlayedTask())
    copy.sink(partitioning="Balanced").write_task(beyond, portions(beyond), PlayedTask())


def test_a_sink_does_not_read_what_it_writes(topic: Topic, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"iggy\.topic: .* is the topic that the sink reads"):
        Copy(topic, tmp_path).sink(topic=topic.name)


def test_a_broker_that_is_away_is_tried_for_the_time_that_the_sink_says(copy: Copy) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    sink, span = copy.sink(retry="300ms", address=f"127.0.0.1:{port}"), wanted(0, 4)

    with pytest.raises(BrokerUnavailable):  # and not after the reader's ten minutes
        sink.write_task(span, portions(span), PlayedTask())


def test_a_missing_target_is_named(topic: Topic, tmp_path: Path) -> None:
    with pytest.raises(BrokerRefused, match=r"topic 'copy' in stream .* does not exist"):
        Copy(topic, tmp_path).sink().check()


def test_a_job_copies_bytes_and_headers(
    spark: SparkSession, broker: BrokerProcess, topic: Topic, copy: Copy, tmp_path: Path
) -> None:
    payload = b"\xff\x00 raw"
    sent = [Message(payload, id=9, headers=TRACE)]
    topic.client.send(topic.stream, topic.name, Partitioning.partition(1), sent)
    topic.send(0, documents(0, 20))
    setup = Setup(topic, tmp_path, type="Iggy", payload={"format": "Raw"})
    setup.value["sink"] |= {"iggy": {"stream": topic.stream, "topic": "copy"}}
    del setup.value["sink"]["files"]

    setup.run(spark)
    setup.run(spark)

    first = messages_in(topic.client, topic.stream, "copy", 0)
    (other,) = messages_in(topic.client, topic.stream, "copy", 1)
    assert [message.payload for message in first] == documents(0, 20)
    assert other.payload == payload
    headers = read_headers(memoryview(other.headers))
    assert headers["trace"] == "abc"
    assert headers["iggy.origin.id"] == f"{9:032x}"
    assert (headers["iggy.origin.stream"], headers["iggy.origin.topic"]) == (
        topic.stream,
        topic.name,
    )
    assert topic.stored("lake", 0) == 19

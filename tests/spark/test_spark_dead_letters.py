"""Dead letters of a sink job: nothing is lost, nothing is twice in the target, a limit stops it."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession

from dead_letter_topics import CONTEXT, letters, messages_in, told_of
from iggy_spark.errors import BrokerRefused, TooManyBadRecords
from iggy_spark.messages import read_headers
from iggy_spark.offsets import Offsets
from iggy_wire.batch import Message
from iggy_wire.options import Option, ValueKind, options_bytes
from iggy_wire.primitives import Partitioning
from sink_jobs import Setup, documents

if TYPE_CHECKING:
    from conftest import Topic

BAD = b'{"number": "three"}'
TRACE = options_bytes((Option.of("trace", "abc"),))


@pytest.fixture
def setup(topic: Topic, tmp_path: Path) -> Setup:
    errors = {"tolerance": "Data", "deadLetter": {"topic": "dead"}}
    return Setup(topic, tmp_path, errors=errors)


def counts(events: list[dict[str, Any]]) -> dict[str, int]:
    names = ("rows", "rejected", "dead", "skipped")
    batches = [event for event in events if event["event"] == "progress"]
    return {name: sum(event[name] for event in batches) for name in names}


def test_a_bad_message_becomes_a_dead_letter_and_its_neighbours_arrive(
    spark: SparkSession, topic: Topic, setup: Setup
) -> None:
    setup.value["uid"] = "5d1c"
    topic.send(0, documents(0, 3))
    where = Partitioning.partition(0)
    topic.client.send(topic.stream, topic.name, where, [Message(BAD, id=77, headers=TRACE)])
    topic.send(0, documents(4, 6))

    events = setup.run(spark)

    assert setup.rows() == [(0, n) for n in (0, 1, 2, 4, 5)]
    assert counts(events) == {"rows": 5, "rejected": 1, "dead": 1, "skipped": 0}
    ((letter, headers),) = letters(topic)
    assert letter.payload == BAD
    assert headers["trace"] == "abc"
    told = {
        name: headers[f"iggy.dlq.{name}"] for name in ("stream", "topic", "partition", "offset")
    }
    assert told == {"stream": topic.stream, "topic": topic.name, "partition": 0, "offset": 3}
    assert headers["iggy.dlq.id"] == f"{77:032x}"
    assert (headers["iggy.dlq.stage"], headers["iggy.dlq.sink"]) == ("decode", "lake")
    assert headers["iggy.dlq.error_class"] == "SchemaMismatch"
    assert "$.number" in str(headers["iggy.dlq.error"])
    assert headers["iggy.dlq.sink_uid"] == "5d1c"
    assert headers["iggy.dlq.batch"] == 0
    assert headers["iggy.dlq.job_version"] == version("iggykube")
    assert not (setup.lake / "_rejected").exists()


def test_a_letter_is_the_message_as_it_was_and_tells_all_that_is_known(
    spark: SparkSession, topic: Topic, setup: Setup
) -> None:
    setup.value["uid"] = "5d1c"
    cast = {"cast_fields": {"fields": [{"key": "month", "to": "integer"}]}}
    setup.value["sink"]["transforms"] = [{"delete_fields": {"fields": ["at"]}}, cast]
    bad = {
        "decode": b'\xff\x00 {"number": ',
        "transform": b' {"month":  "\\u0073oon", "number":1, "number":2 }\n',
    }
    own = Option.of("kept", 7, ValueKind.UINT32), Option("raw", ValueKind.RAW, b"\xff\x00")
    headers = options_bytes(own)
    sent = [Message(text, id=n + 1, headers=headers) for n, text in enumerate(bad.values())]
    topic.client.send(topic.stream, topic.name, Partitioning.partition(0), sent)

    setup.run(spark)

    known = messages_in(topic.client, topic.stream, topic.name)
    incarnation = Offsets.from_json(topic.at(0)).incarnation
    found = {str(told_of(headers)["stage"]): letter for letter, headers in letters(topic)}
    assert {stage: letter.payload for stage, letter in found.items()} == bad
    for stage, message in zip(bad, known, strict=True):
        assert found[stage].headers.startswith(headers)
        told = told_of(read_headers(memoryview(found[stage].headers)))
        more = {"sink_uid", "transform_index"} if stage == "transform" else {"sink_uid"}
        assert told.keys() == CONTEXT | more
        times = (told["timestamp"], told["origin_timestamp"])
        assert times == (message.timestamp_us, message.origin_timestamp_us)
        assert told["incarnation"] == incarnation
        assert told.get("transform_index") == (1 if stage == "transform" else None)


def test_the_topic_for_them_is_made_and_keeps_them_thirty_days(
    spark: SparkSession, topic: Topic, setup: Setup
) -> None:
    setup.run(spark)

    made = topic.client.get_topic(topic.stream, "dead")

    assert made is not None
    assert len(made.partitions) == 1
    assert made.topic.message_expiry_us == 30 * 24 * 3600 * 1_000_000


def test_a_batch_that_is_repeated_sends_the_same_letter(
    spark: SparkSession, topic: Topic, setup: Setup
) -> None:
    topic.send(0, [*documents(0, 3), BAD])
    setup.run(spark)
    for file in setup.lake.rglob("*.parquet"):
        file.unlink()  # as if the crash had come between the letters and the target's commit
    (commits,) = setup.checkpoint.glob("*/spark/commits")
    for file in commits.iterdir():
        file.unlink()

    setup.run(spark)

    assert setup.rows() == [(0, 0), (0, 1), (0, 2)]
    ids = [letter.id for letter, _ in letters(topic)]
    assert len(ids) == 2
    assert len(set(ids)) == 1


def test_a_wrong_schema_does_not_empty_the_topic_into_its_dead_letters(
    spark: SparkSession, topic: Topic, setup: Setup
) -> None:
    setup.value["sink"]["errors"]["deadLetter"]["maxRatio"] = 0.1
    topic.send(0, [*documents(0, 100), *[BAD] * 30])

    with pytest.raises(TooManyBadRecords, match=r"30 of 130 .*errors\.deadLetter\.maxRatio"):
        setup.run(spark)

    assert letters(topic) == []
    assert list(setup.lake.rglob("month=*")) == []
    assert topic.stored("lake", 0) is None


def test_letters_that_cannot_be_sent_fail_the_batch(
    spark: SparkSession, topic: Topic, setup: Setup
) -> None:
    login = topic.user(read_topic=True, poll_messages=True)
    setup.login = {"IGGY_USERNAME": login["username"], "IGGY_PASSWORD": login["password"]}
    topic.send(0, [*documents(0, 3), BAD])

    with pytest.raises(BrokerRefused, match="permission"):
        setup.run(spark)

    assert list(setup.lake.rglob("month=*")) == []

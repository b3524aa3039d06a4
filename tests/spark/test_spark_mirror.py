"""What the source's mirror does when the broker refuses, or the topic is not the one it was."""

from typing import TYPE_CHECKING

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from iggy_client import Client, ClientError
from iggy_spark import mirror
from iggy_spark.errors import BrokerRefused
from iggy_wire.errors import ErrorCode
from iggy_wire.primitives import Consumer

if TYPE_CHECKING:
    from conftest import Source, Topic

GROUP = "g"


def payloads(count: int) -> list[bytes]:
    return [b"m%d" % number for number in range(count)]


def test_progress_in_a_topic_that_is_gone_says_nothing_of_the_new_one(
    topic: "Topic", source: "Source"
) -> None:
    topic.send(0, payloads(10))
    reader = source(onTopicRecreated="restart")
    before = topic.at(10, 0)
    reader.latestOffset(before, ReadAllAvailable())
    topic.recreate(2)
    topic.send(0, payloads(20))

    end = reader.latestOffset(before, ReadMaxRows(5))

    assert (topic.stored(GROUP, 0), topic.members(GROUP)) == (None, 0)
    reader.latestOffset(end, ReadAllAvailable())
    assert (topic.stored(GROUP, 0), topic.members(GROUP)) == (4, 1)


def test_a_topic_that_is_recreated_between_two_looks_at_it(
    topic: "Topic", source: "Source"
) -> None:
    topic.send(0, payloads(10))
    reader = source(onTopicRecreated="restart", pollIntervalMs="1h")
    reader.latestOffset(topic.at(5, 0), ReadAllAvailable())
    later = topic.at(6, 0)
    topic.recreate(2)
    topic.send(0, payloads(20))

    reader.latestOffset(later, ReadAllAvailable())

    assert (topic.stored(GROUP, 0), topic.members(GROUP)) == (None, 0)


def test_an_offset_that_is_refused_is_told_once_and_tried_again(
    topic: "Topic",
    source: "Source",
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic.send(0, payloads(10))
    done = topic.at(10, 0)
    topic.client.purge_topic(topic.stream, topic.name)
    reader = source(failOnDataLoss="false")

    for _ in range(3):
        reader.latestOffset(done, ReadAllAvailable())

    assert caplog.text.count("progress in partition 0 cannot be stored") == 1
    topic.send(0, payloads(12))
    monkeypatch.setattr(mirror, "REFUSED_AGAIN_S", 0.0)
    reader.latestOffset(done, ReadAllAvailable())
    assert topic.stored(GROUP, 0) == 9


def test_where_nobody_may_join_a_plain_consumer_shows_the_progress(
    topic: "Topic",
    source: "Source",
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    state: str,
) -> None:
    def refuse(self: Client, *names: object) -> None:
        raise ClientError(ErrorCode.FEATURE_UNAVAILABLE, "join_consumer_group")

    monkeypatch.setattr(Client, "join_group", refuse)
    topic.send(0, payloads(10))
    reader = source()

    for position in (5, 6):
        reader.latestOffset(topic.at(position, 0), ReadAllAvailable())

    plain = topic.client.get_offset(Consumer.plain(GROUP), topic.stream, topic.name, 0)
    assert plain is not None
    assert plain.stored_offset == 5
    assert len(caplog.records) == 1
    assert "cannot join consumer group 'g'" in caplog.text
    again = source(startingOffsets="committed", stateLocation=state).initialOffset()
    assert again == topic.at(6, 0)
    with pytest.raises(BrokerRefused, match="cannot join consumer group 'g'"):
        source(offsetMirror="required").latestOffset(again, ReadAllAvailable())


def test_one_right_is_enough_and_a_missing_one_is_told(topic: "Topic", source: "Source") -> None:
    topic.send(0, payloads(10))
    start, end = topic.at(0, 0), topic.at(10, 0)

    allowed = source(**topic.user(read_topic=True), offsetMirror="required")
    assert allowed.latestOffset(start, ReadAllAvailable())["topics"] == end["topics"]
    (task,) = allowed.partitions(start, end)
    assert sum(rows.num_rows for rows in allowed.read(task)) == 10
    allowed.latestOffset(end, ReadAllAvailable())
    assert (topic.stored(GROUP, 0), topic.members(GROUP)) == (9, 1)
    allowed.stop()

    only_polls = source(**topic.user(poll_messages=True))
    with pytest.raises(BrokerRefused, match=r"get_topic .* this user lacks the permission"):
        only_polls.latestOffset(start, ReadAllAvailable())

"""Several topics in one query: selected, limited together, come and gone."""

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from iggy_spark import options, readers, topics
from iggy_spark.errors import (
    BrokerRefused,
    DataLoss,
    OffsetFormatError,
    OptionError,
    TopicRecreated,
)
from iggy_spark.offsets import QueryOffsets
from iggy_wire.permissions import GlobalPermissions, Permissions

if TYPE_CHECKING:
    from conftest import Topic

_numbers = itertools.count()


@pytest.fixture
def pair(topic: "Topic") -> tuple["Topic", "Topic"]:
    """Two topics of two partitions in a stream whose name has no slash: a and b."""
    stream = f"several{next(_numbers)}"
    topic.client.create_stream(stream)
    for name in ("a", "b"):
        topic.client.create_topic(stream, name, 2)
    return replace(topic, stream=stream, name="a"), replace(topic, stream=stream, name="b")


def payloads(count: int) -> list[bytes]:
    return [b"m%d" % number for number in range(count)]


def given(topic: "Topic", **ways: str) -> dict[str, str]:
    found = topic.options(**{"startingOffsets": "earliest", "pollIntervalMs": "0", **ways})
    return {k: v for k, v in found.items() if k not in ("stream", "topic")}


def reader(topic: "Topic", **ways: str) -> readers.IggyStreamReader:
    return readers.IggyStreamReader(options.parse(given(topic, **ways), mode="stream"))


def places(offset: dict[str, Any]) -> dict[tuple[str, int], int]:
    """By the topic's own name, which is a letter."""
    found = QueryOffsets.from_json(offset).places
    return {(name[-1], number): position for (name, number), position in found.items()}


def read(source: readers.IggyStreamReader, start: Any, end: Any) -> list[tuple[str, int, int]]:
    found = []
    for part in source.partitions(start, end):
        for rows in source.read(part):
            found += zip(
                *(rows[c].to_pylist() for c in ("topic", "partition", "offset")), strict=True
            )
    return sorted(found)


def everything(source: readers.IggyStreamReader) -> dict[str, Any]:
    return source.latestOffset(source.initialOffset(), ReadAllAvailable())


def test_all_ways_of_selecting_read_what_they_name(pair: tuple["Topic", "Topic"]) -> None:
    a, b = pair
    for topic in pair:
        topic.send(0, payloads(3))
        topic.send(1, payloads(2))
    both = [(t, p, n) for t in "ab" for p, count in ((0, 3), (1, 2)) for n in range(count)]
    stream = a.stream

    for ways, wanted in [
        ({"subscribe": f"{stream}/b,{stream}/a"}, both),
        ({"subscribe": json.dumps([[stream, "a"], [stream, "b"]])}, both),
        ({"subscribePattern": f"{stream}/."}, both),
        (
            {"assign": json.dumps({f"{stream}/a": [1], f"{stream}/b": [0, 1]})},
            [*both[3:5], *both[5:]],
        ),
        ({"subscribe": f"{stream}/b"}, both[5:]),
    ]:
        source = reader(a, **ways)
        assert read(source, source.initialOffset(), everything(source)) == wanted, ways
    rows = readers.IggyBatchReader(
        options.parse(given(b, subscribe=f"{stream}/a,{stream}/b") | {}, mode=None)
    )
    tasks = rows.partitions()
    assert sum(batch.num_rows for task in tasks for batch in rows.read(task)) == len(both)


def test_each_topic_has_its_own_start_and_end(pair: tuple["Topic", "Topic"]) -> None:
    a, b = pair
    for topic in pair:
        topic.send(0, payloads(5))
    start = {f"{a.stream}/a": {"0": 2, "1": 0}, f"{a.stream}/b": {"0": -2, "1": -2}}
    end = {f"{a.stream}/a": {"0": -1, "1": -1}, f"{a.stream}/b": {"0": 3, "1": 0}}
    ways = given(a, subscribePattern=f"{a.stream}/.", startingOffsets=json.dumps(start))
    ways |= {"endingOffsets": json.dumps(end)}
    del ways["pollIntervalMs"]

    def tasks(**more: str) -> list[tuple[str, int, int]]:
        source = readers.IggyBatchReader(options.parse({**ways, **more}, mode="batch"))
        return [(t.topic.topic, t.wanted.first, t.wanted.end) for t in source.partitions()]

    assert tasks() == [("a", 2, 5), ("b", 0, 3)]
    with pytest.raises(OptionError, match=r"startingOffsets: topic .*/c does not exist"):
        tasks(startingOffsets=json.dumps({f"{b.stream}/c": {"0": 0}}))
    with pytest.raises(OptionError, match=r"endingOffsets: partitions .0, 1. are missing"):
        tasks(endingOffsets=json.dumps({f"{b.stream}/b": {"0": 3, "1": 0}}))


def test_an_assigned_partition_must_exist_and_others_are_left_alone(
    pair: tuple["Topic", "Topic"],
) -> None:
    a, _ = pair
    source = reader(a, assign=json.dumps({f"{a.stream}/a": [1]}))
    start = source.initialOffset()
    a.client.create_partitions(a.stream, a.name, 1)
    a.send(2, payloads(3))

    assert source.latestOffset(start, ReadAllAvailable()) == start
    with pytest.raises(OptionError, match=r"assign: partition 7 of .*/a does not exist"):
        reader(a, assign=json.dumps({f"{a.stream}/a": [1, 7]})).initialOffset()


def test_names_with_slashes_are_told_apart(topic: "Topic") -> None:
    assert "/" in topic.stream
    topic.send(0, payloads(2))

    by_pattern = reader(topic, subscribePattern=f"{topic.stream}/.*")
    end = everything(by_pattern)
    # A restarted query is asked for the tasks of its pending batch before anything else.
    again = reader(topic, subscribePattern=f"{topic.stream}/.*")

    assert read(again, by_pattern.initialOffset(), end) == [("orders", 0, 0), ("orders", 0, 1)]


def test_a_limit_is_shared_by_all_partitions_of_all_topics(pair: tuple["Topic", "Topic"]) -> None:
    a, b = pair
    a.send(0, payloads(60))
    a.send(1, payloads(10))
    b.send(1, payloads(30))
    source = reader(a, subscribePattern=f"{a.stream}/.")

    end = source.latestOffset(source.initialOffset(), ReadMaxRows(50))

    assert places(end) == {("a", 0): 30, ("a", 1): 5, ("b", 0): 0, ("b", 1): 15}
    rest = source.latestOffset(end, ReadMaxRows(50))
    assert places(rest) == places(source.reportLatestOffset())


def test_a_topic_that_comes_later_is_read_from_its_beginning(
    pair: tuple["Topic", "Topic"], monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    a, _ = pair
    a.send(0, payloads(5))
    ways = {"subscribePattern": f"{a.stream}/[ac]", "startingOffsets": "latest"}
    source = reader(a, **ways, stateLocation=state)
    start = source.initialOffset()
    a.client.create_topic(a.stream, "c", 1)
    replace(a, name="c").send(0, payloads(4))

    assert source.latestOffset(start, ReadAllAvailable()) == start  # looks every few seconds
    monkeypatch.setattr(topics, "PATTERN_LOOK_S", 0.0)
    end = source.latestOffset(start, ReadAllAvailable())

    assert places(end) == {("a", 0): 5, ("a", 1): 0, ("c", 0): 4}
    assert read(source, start, end) == [("c", 0, n) for n in range(4)]
    assert reader(a, **ways, stateLocation=state).initialOffset() == start


def test_a_pattern_may_wait_for_its_first_topic(
    topic: "Topic", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "PATTERN_LOOK_S", 0.0)
    ways = {"subscribePattern": f"{topic.stream}/later"}
    source = reader(topic, **ways)
    start = source.initialOffset()
    assert start == source.latestOffset(start, ReadAllAvailable()) == {"v": 1, "topics": {}}
    assert source.partitions(start, start) == []

    topic.client.create_topic(topic.stream, "later", 1)
    replace(topic, name="later").send(0, payloads(2))

    assert read(source, start, source.latestOffset(start, ReadAllAvailable())) == [
        ("later", 0, 0), ("later", 0, 1),
    ]  # fmt: skip
    batch = given(topic, subscribePattern="nothing/.*")
    del batch["pollIntervalMs"]
    with pytest.raises(OptionError, match="there are no topics that match 'nothing/"):
        readers.IggyBatchReader(options.parse(batch, mode="batch")).partitions()


def test_a_topic_that_is_gone_is_a_loss_of_a_pattern_and_an_error_of_a_name(
    pair: tuple["Topic", "Topic"], caplog: pytest.LogCaptureFixture
) -> None:
    a, b = pair
    a.send(0, payloads(5))
    b.send(1, payloads(3))
    pattern, names = (
        {"subscribePattern": f"{a.stream}/."},
        {"subscribe": f"{a.stream}/a,{a.stream}/b"},
    )
    end = everything(reader(a, **pattern))
    b.client.delete_topic(b.stream, b.name)

    with pytest.raises(DataLoss, match=r"/b: the topic no longer exists.*0 up to 0, 1 up to 3"):
        reader(a, **pattern).latestOffset(end, ReadAllAvailable())
    with pytest.raises(BrokerRefused, match=r"topic 'b' in stream .* does not exist"):
        reader(a, **names).latestOffset(end, ReadAllAvailable())
    tolerant = reader(a, **pattern, failOnDataLoss="false")
    assert places(tolerant.latestOffset(end, ReadAllAvailable())) == {("a", 0): 5, ("a", 1): 0}
    assert caplog.text.count("the topic no longer exists") == 1


def test_a_query_outlives_a_topic_of_a_pattern(
    topic: "Topic", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "PATTERN_LOOK_S", 0.0)
    topic.client.create_topic(topic.stream, "brief", 1)
    replace(topic, name="brief").send(0, payloads(2))
    topic.send(0, payloads(2))
    ways = {"subscribePattern": f"{topic.stream}/.*", "consumerGroup": "g"}
    source = reader(topic, **ways, failOnDataLoss="false")
    end = everything(source)
    source.commit(end)
    topic.client.delete_topic(topic.stream, "brief")

    after = source.latestOffset(end, ReadAllAvailable())
    source.commit(end)  # as Spark does, one batch late
    source.commit(after)

    assert list(after["topics"]) == [f"{topic.stream}/orders"]
    assert topic.stored("g", 0) == 1
    source.stop()


def test_each_topic_has_its_own_life(pair: tuple["Topic", "Topic"]) -> None:
    a, b = pair
    a.send(0, payloads(5))
    b.send(0, payloads(5))
    ways = {"subscribe": f"{a.stream}/a,{a.stream}/b"}
    end = everything(reader(a, **ways))
    b.recreate(1)
    b.send(0, payloads(2))

    with pytest.raises(TopicRecreated, match=f"topic {a.stream}/b was deleted and created again"):
        reader(a, **ways).latestOffset(end, ReadAllAvailable())
    source = reader(a, **ways, onTopicRecreated="restart")
    fresh = source.latestOffset(end, ReadAllAvailable())
    assert places(fresh) == {("a", 0): 5, ("a", 1): 0, ("b", 0): 2}
    assert read(source, end, fresh) == [("b", 0, 0), ("b", 0, 1)]


def test_a_checkpoint_with_a_topic_that_is_not_selected_is_refused(
    pair: tuple["Topic", "Topic"],
) -> None:
    a, _ = pair
    a.send(0, payloads(5))
    end = everything(reader(a, subscribePattern=f"{a.stream}/."))

    with pytest.raises(OffsetFormatError, match="/b', which this one does not read"):
        reader(a, subscribe=f"{a.stream}/a").latestOffset(end, ReadAllAvailable())
    with pytest.raises(OffsetFormatError, match=r"of partition 1 of .*/a, which this one"):
        assign = json.dumps({f"{a.stream}/a": [0], f"{a.stream}/b": [0, 1]})
        reader(a, assign=assign).partitions(end, end)


def test_a_pattern_needs_to_see_all_topics(pair: tuple["Topic", "Topic"]) -> None:
    a, _ = pair
    a.send(0, payloads(2))
    login = {"username": f"sees-{a.stream}", "password": "all-of-it"}
    everywhere = GlobalPermissions(read_streams=True, poll_messages=True)
    a.client.create_user(**login, permissions=Permissions(everywhere))
    ways = {"subscribePattern": f"{a.stream}/."}

    source = reader(a, **ways, **login)
    assert read(source, source.initialOffset(), everything(source)) == [("a", 0, 0), ("a", 0, 1)]
    with pytest.raises(BrokerRefused, match="lacks the permission"):
        reader(a, **ways, **a.user(read_topic=True)).initialOffset()


def test_every_topic_has_a_mirror(pair: tuple["Topic", "Topic"]) -> None:
    a, b = pair
    a.send(0, payloads(5))
    b.send(1, payloads(3))
    source = reader(a, subscribe=f"{a.stream}/a,{a.stream}/b", consumerGroup="g")
    end = everything(source)

    source.latestOffset(end, ReadAllAvailable())

    assert (a.stored("g", 0), b.stored("g", 1)) == (4, 2)
    assert (a.members("g"), b.members("g")) == (1, 1)
    source.stop()
    assert (a.members("g"), b.members("g")) == (0, 0)


def test_spark_streams_several_topics_with_a_limit_by_bytes(
    spark: SparkSession, pair: tuple["Topic", "Topic"], tmp_path: Path
) -> None:
    a, b = pair
    a.send(0, [bytes(1_000)] * 900, batch=300)
    b.send(1, [bytes(1_000)] * 300, batch=300)
    more = {"maxOffsetsPerTrigger": "0", "maxBytesPerTrigger": "512KiB", "includeHeaders": "true"}
    ways = given(a, subscribePattern=f"{a.stream}/.", **more)
    batches: list[list[tuple[str, int, int]]] = []

    def keep(rows: DataFrame, number: int) -> None:
        columns = rows.select("topic", "partition", "offset")
        batches.append([(row.topic, row.partition, row.offset) for row in columns.collect()])

    def run() -> list[tuple[str, int, int]]:
        batches.clear()
        frame = spark.readStream.format("iggy").options(**ways).load()
        query = (
            frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True).start()
        )  # fmt: skip
        query.awaitTermination()
        return sorted(row for rows in batches for row in rows)

    assert run() == [*(("a", 0, n) for n in range(900)), *(("b", 1, n) for n in range(300))]
    assert max(len(rows) for rows in batches) < 700
    assert all({topic for topic, _, _ in rows} == {"a", "b"} for rows in batches)
    a.client.create_topic(a.stream, "c", 1)
    replace(a, name="c").send(0, payloads(2))
    assert run() == [("c", 0, 0), ("c", 0, 1)]

    del ways["pollIntervalMs"], ways["maxOffsetsPerTrigger"], ways["maxBytesPerTrigger"]
    rows = spark.read.format("iggy").options(**ways).load().groupBy("topic").count().collect()
    assert sorted(tuple(row) for row in rows) == [("a", 900), ("b", 300), ("c", 2)]

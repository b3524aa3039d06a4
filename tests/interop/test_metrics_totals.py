"""Totals are the sums of their parts, everywhere, and nothing of a deleted thing stays."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from pathlib import Path

from broker_process import BrokerProcess, running_broker
from http_client import http_client
from iggy_broker.net.http.sizes import size_text
from iggy_client import Client
from iggy_wire.batch import Message
from iggy_wire.primitives import Consumer, Partitioning
from iggy_wire.replies import Stats, StreamDetails, TopicDetails
from scraped import Scrape, scrape_until

STREAM = "sums"


def send(client: Client, topic: str, count: int, *, partitions: int) -> None:
    for number in range(count):
        target = Partitioning.partition(number % partitions)
        client.send(STREAM, topic, target, [Message(b"message %d" % number)])


def bytes_on_disk(broker: BrokerProcess) -> int:
    return sum(path.stat().st_size for path in broker.data.glob("streams/**/*.log"))


def check(broker: BrokerProcess, client: Client, *, topics: dict[str, int]) -> None:
    """Over TCP, HTTP and in the metrics: these topics with so many messages, and sums that fit."""
    found = Scrape(broker)
    for name, of in (("messages", "topic_messages"), ("segments_count", "topic_segments"),
                     ("messages_size_bytes", "topic_size_bytes"),
                     ("partitions", "topic_partitions")):  # fmt: skip
        assert found.value(f"iggy_{name}") == found.sum(f"iggy_{of}", stream=STREAM), name
    for name in ("messages", "size_bytes", "segments"):
        by_topic = found.series(f"iggy_topic_{name}")
        assert len(by_topic) == len(topics)
        for topic in topics:
            labels = {"stream": STREAM, "topic": topic}
            whole = found.value(f"iggy_topic_{name}", **labels)
            assert whole == found.sum(f"iggy_partition_{name}", **labels)
    stats = client.get_stats()
    stream = client.get_stream(STREAM)
    assert stream is not None
    listed = {topic.name: topic for topic in client.get_topics(STREAM)}
    assert {name: topic.messages_count for name, topic in listed.items()} == topics
    for name, count in topics.items():
        topic = listed[name]
        assert found.value("iggy_topic_messages", stream=STREAM, topic=name) == count
        details = client.get_topic(STREAM, name)
        assert details is not None
        assert sum(one.messages_count for one in details.partitions) == count
        assert sum(one.size_bytes for one in details.partitions) == topic.size_bytes
        size = found.value("iggy_topic_size_bytes", stream=STREAM, topic=name)
        assert size == topic.size_bytes
    whole = sum(topics.values())
    assert found.value("iggy_messages") == stats.messages_count == whole
    assert stream.stream.messages_count == whole
    sizes = sum(topic.size_bytes for topic in listed.values())
    assert found.value("iggy_messages_size_bytes") == stats.messages_size_bytes == sizes
    assert stream.stream.size_bytes == sizes
    assert found.value("iggy_segments_count") == stats.segments_count
    check_http(broker, stream, [client.get_topic(STREAM, name) for name in topics], stats)
    scrape_until(broker, lambda _: bytes_on_disk(broker) == sizes, "sizes are those of the files")
    sums = [value for line, value in values(found) if "bytes" in line or "messages" in line]
    assert all(0 <= value < 1 << 40 for value in sums), "nothing negative or huge"


def check_http(
    broker: BrokerProcess,
    stream: StreamDetails,
    topics: list[TopicDetails | None],
    stats: Stats,
) -> None:
    """HTTP says the same as the binary answers."""
    with http_client(broker) as http:
        shown = http.get(f"/streams/{STREAM}")
        whole = (stream.stream.messages_count, size_text(stream.stream.size_bytes))
        assert (shown["messages_count"], shown["size"]) == whole
        (listed,) = http.get("/streams")
        assert (listed["messages_count"], listed["size"]) == whole
        told = http.get("/stats")
        counts = (told["messages_count"], told["segments_count"], told["partitions_count"])
        assert counts == (stats.messages_count, stats.segments_count, stats.partitions_count)
        assert told["messages_size_bytes"] == size_text(stats.messages_size_bytes)
        for topic in topics:
            assert topic is not None
            name = topic.topic.name
            (one,) = [one for one in shown["topics"] if one["name"] == name]
            details = http.get(f"/streams/{STREAM}/topics/{name}")
            size = size_text(topic.topic.size_bytes)
            assert (one["messages_count"], one["size"]) == (topic.topic.messages_count, size)
            assert (details["messages_count"], details["size"]) == (one["messages_count"], size)
            assert [(part["messages_count"], part["size"]) for part in details["partitions"]] == [
                (part.messages_count, size_text(part.size_bytes)) for part in topic.partitions
            ]


def values(found: Scrape) -> list[tuple[str, float]]:
    lines = [line for line in found.text.splitlines() if not line.startswith("#")]
    return [(name, float(value)) for name, value in (line.rsplit(" ", 1) for line in lines)
            if not name.startswith("iggy_disk")]  # fmt: skip


def counting_broker(folder: Path) -> AbstractContextManager[BrokerProcess]:
    return running_broker(folder, monitoring=True, transports=["http"])


def test_totals_are_sums_after_purges_and_deletions(tmp_path: Path) -> None:
    with counting_broker(tmp_path) as broker, broker.client() as client:
        client.create_stream(STREAM)
        client.create_topic(STREAM, "a", 3)
        client.create_topic(STREAM, "b", 2)
        send(client, "a", 100, partitions=3)
        send(client, "b", 50, partitions=2)
        check(broker, client, topics={"a": 100, "b": 50})
        client.purge_topic(STREAM, "a")
        check(broker, client, topics={"a": 0, "b": 50})
        client.delete_partitions(STREAM, "b", 1)
        check(broker, client, topics={"a": 0, "b": 25})
        send(client, "a", 9, partitions=3)
        check(broker, client, topics={"a": 9, "b": 25})
    with counting_broker(tmp_path) as broker, broker.client() as client:
        check(broker, client, topics={"a": 9, "b": 25})
        client.delete_topic(STREAM, "b")
        check(broker, client, topics={"a": 9})
        client.purge_stream(STREAM)
        check(broker, client, topics={"a": 0})
    with counting_broker(tmp_path) as broker, broker.client() as client:
        check(broker, client, topics={"a": 0})


def test_series_of_deleted_topics_are_gone_and_a_recreated_one_starts_at_0(
    tmp_path: Path,
) -> None:
    with running_broker(tmp_path, monitoring=True) as broker, broker.client() as client:
        client.create_stream(STREAM)
        before = names(Scrape(broker))
        for number in range(40):
            topic = f"t{number}"
            client.create_topic(STREAM, topic, 2)
            client.create_group(STREAM, topic, "g")
            client.join_group(STREAM, topic, "g")
            client.send(STREAM, topic, Partitioning.partition(1), [Message(b"m")] * 3)
            client.store_offset(Consumer.group("g"), STREAM, topic, 1, 1)
            client.store_offset(Consumer.plain("c"), STREAM, topic, 1, 2)
        between = Scrape(broker)
        assert len(between.series("iggy_topic_messages")) == 40
        assert len(between.series("iggy_partition_messages")) == 80
        assert between.sum("iggy_group_lag_messages") == 40
        assert between.sum("iggy_consumer_group_members") == 40
        for number in range(40):
            client.delete_topic(STREAM, f"t{number}")

        assert names(Scrape(broker)) == before
        client.create_topic(STREAM, "t7", 2)
        client.create_group(STREAM, "t7", "g")
        after = Scrape(broker)
        assert [line.rsplit(" ", 1)[1] for line in after.about(STREAM)] == [
            "2", "0", "0", "2", *["0", "0"] * 2, "1", "1", "0", "0", "0", "0", "0", "0"
        ]  # fmt: skip


def names(found: Scrape) -> list[str]:
    """All series that belong to a stream, and how many there are of each metric."""
    series = [re.sub(r" \S+$", "", line) for line in found.text.splitlines() if line[0] != "#"]
    return sorted(one for one in series if not one.startswith("iggy_refusals"))

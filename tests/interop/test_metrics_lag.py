"""Lag of a group: what polls of "next" could still return to it, whatever happened to the log."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_process import BrokerProcess, running_broker
from group_cases import GROUP, TOPIC, fill, make_topic, read
from iggy_client import Client, ClientError
from iggy_wire.batch import Message
from iggy_wire.errors import ErrorCode
from iggy_wire.primitives import Partitioning
from scraped import Scrape

MEBIBYTE = 1 << 20
EVERYTHING = 1_000_000


@pytest.fixture
def member(broker: BrokerProcess) -> Iterator[Client]:
    with broker.client() as client:
        yield client


def lag(broker: BrokerProcess, stream: str, *, topic: str = TOPIC) -> float | None:
    """The lag of group `g`, which must be that of its partitions together."""
    found = Scrape(broker)
    whole = found.value("iggy_group_lag_messages", stream=stream, topic=topic, group="g")
    parts = found.sum("iggy_group_partition_lag_messages", stream=stream, topic=topic, group="g")
    assert whole is None or whole == parts
    assert found.sum("iggy_lag_messages") >= (whole or 0)
    assert min(found.series("iggy_group_partition_lag_messages").values(), default=0) >= 0
    return whole


def left(client: Client, stream: str, *, partitions: int = 1) -> int:
    """What polls of next return to the only member of group `g`."""
    client.join_group(stream, TOPIC, "g")
    found = [read(client, stream, number, count=EVERYTHING) for number in range(partitions)]
    return sum(polled.count for polled in found)


def test_a_group_behind_removed_segments_has_no_lag(broker: BrokerProcess, member: Client) -> None:
    stream = make_topic(member, partitions=0)
    member.delete_topic(stream, TOPIC)
    member.create_topic(stream, TOPIC, 1, {"segment_size": MEBIBYTE})
    member.create_group(stream, TOPIC, "g")
    for _ in range(10):  # each batch fills a segment
        member.send(stream, TOPIC, Partitioning.partition(0), [Message(bytes(11_000))] * 100)
    assert lag(broker, stream) == 1000, "no offset is stored: all that is there"
    member.join_group(stream, TOPIC, "g")
    member.store_offset(GROUP, stream, TOPIC, 0, 499)
    member.delete_segments(stream, TOPIC, 0, 5)
    assert lag(broker, stream) == left(member, stream) == 500
    member.delete_offset(GROUP, stream, TOPIC, 0)
    assert lag(broker, stream) == left(member, stream) == 500, "none is stored: from the oldest"

    member.store_offset(GROUP, stream, TOPIC, 0, 999)
    member.delete_segments(stream, TOPIC, 0, 100)
    member.store_offset(GROUP, stream, TOPIC, 0, 10)

    assert (
        Scrape(broker).value("iggy_partition_next_offset", stream=stream, topic=TOPIC, partition=0)
        == 1000
    )
    assert lag(broker, stream) == left(member, stream) == 0
    fill(member, stream, 0, 3)
    assert lag(broker, stream) == left(member, stream) == 3
    member.delete_stream(stream)


def test_lag_falls_as_the_group_commits_and_is_0_at_the_end(
    broker: BrokerProcess, member: Client
) -> None:
    stream = make_topic(member, partitions=4, per_partition=25)
    assert lag(broker, stream) == left(member, stream, partitions=4) == 100
    for partition in range(4):
        assert read(member, stream, partition, count=10, auto_commit=True).count == 10
    assert lag(broker, stream) == left(member, stream, partitions=4) == 60
    found = Scrape(broker)
    for partition in range(4):
        labels = {"stream": stream, "topic": TOPIC, "group": "g", "partition": partition}
        assert found.value("iggy_group_partition_lag_messages", **labels) == 15
    assert found.value("iggy_group_members", stream=stream, topic=TOPIC, group="g") == 1

    for partition in range(4):
        member.store_offset(GROUP, stream, TOPIC, partition, 24)

    assert lag(broker, stream) == left(member, stream, partitions=4) == 0
    member.delete_stream(stream)


def test_a_purge_takes_the_lag_and_the_offsets(broker: BrokerProcess, member: Client) -> None:
    stream = make_topic(member, partitions=2, per_partition=20)
    member.join_group(stream, TOPIC, "g")
    member.store_offset(GROUP, stream, TOPIC, 0, 19)
    assert lag(broker, stream) == 20

    member.purge_topic(stream, TOPIC)
    assert lag(broker, stream) == left(member, stream, partitions=2) == 0

    fill(member, stream, 0, 5)
    assert lag(broker, stream) == left(member, stream, partitions=2) == 5
    member.delete_stream(stream)


def test_series_go_with_the_group_and_with_the_topic(broker: BrokerProcess, member: Client) -> None:
    stream = make_topic(member, partitions=2, groups=("g", "h"), per_partition=3)
    assert lag(broker, stream) == 6

    member.delete_group(stream, TOPIC, "g")
    assert lag(broker, stream) is None
    assert 'group="g"' not in "\n".join(Scrape(broker).about(stream))
    assert Scrape(broker).sum("iggy_group_lag_messages", stream=stream) == 6

    member.delete_topic(stream, TOPIC)
    assert Scrape(broker).about(stream) == []
    member.delete_stream(stream)


def test_a_recreated_topic_starts_without_lag(broker: BrokerProcess, member: Client) -> None:
    stream = make_topic(member, partitions=2, per_partition=30)
    member.join_group(stream, TOPIC, "g")
    member.store_offset(GROUP, stream, TOPIC, 0, 29)
    member.delete_topic(stream, TOPIC)
    member.create_topic(stream, TOPIC, 2)
    member.create_group(stream, TOPIC, "g")

    assert lag(broker, stream) == left(member, stream, partitions=2) == 0
    with pytest.raises(ClientError) as refused:
        member.store_offset(GROUP, stream, TOPIC, 0, 29)
    assert refused.value.code == ErrorCode.INVALID_OFFSET
    fill(member, stream, 0, 4)
    assert lag(broker, stream) == left(member, stream, partitions=2) == 4
    member.delete_stream(stream)


def test_an_offset_above_the_end_is_no_negative_lag(tmp_path: Path) -> None:
    with running_broker(tmp_path, monitoring=True) as broker, broker.client() as client:
        stream = make_topic(client, partitions=2, per_partition=10)
        client.join_group(stream, TOPIC, "g")
        for partition in range(2):
            client.store_offset(GROUP, stream, TOPIC, partition, 4)
        assert lag(broker, stream) == 10
    for offsets in (tmp_path / "data").glob("streams/*/topics/*/partitions/*/offsets/groups/0"):
        offsets.write_bytes((5000).to_bytes(8, "little"))  # as a copy of another topic's would be

    with running_broker(tmp_path, monitoring=True) as broker, broker.client() as client:
        assert lag(broker, stream) == left(client, stream, partitions=2) == 0
        fill(client, stream, 1, 7)
        assert lag(broker, stream) == left(client, stream, partitions=2) == 7


def test_lag_is_there_after_a_restart_without_anybody_asking_first(tmp_path: Path) -> None:
    with running_broker(tmp_path, monitoring=True) as broker, broker.client() as client:
        stream = make_topic(client, partitions=4, per_partition=10)
        client.join_group(stream, TOPIC, "g")
        for partition in range(4):
            client.store_offset(GROUP, stream, TOPIC, partition, partition)
        broker.kill()

    with running_broker(tmp_path, monitoring=True) as broker:
        assert lag(broker, stream) == 9 + 8 + 7 + 6
    shutil.rmtree(tmp_path / "data" / "streams")
    with running_broker(tmp_path, monitoring=True) as broker:
        assert lag(broker, stream) == 0, "its files are gone, and nothing can be read"

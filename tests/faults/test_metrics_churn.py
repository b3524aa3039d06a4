"""Many topics come and go: their series go with them, memory stays, and a scrape stays quick."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path

import pytest

from broker_process import BrokerProcess, running_broker
from iggy_client import Client
from iggy_wire.batch import Message
from iggy_wire.primitives import Consumer, Partitioning
from scraped import Scrape

STREAM = "churn"
SCRAPE_S_MAX = 1.0
MEMORY_GROWTH_MAX = 1.10


def resident_bytes(broker: BrokerProcess) -> float:
    return Scrape(broker).sum("iggy_resident_memory_bytes")


def make(client: Client, topic: str) -> None:
    """A topic with a group that has a member, a message, and offsets of group and consumer."""
    client.create_topic(STREAM, topic, 1)
    client.create_group(STREAM, topic, "g")
    client.join_group(STREAM, topic, "g")
    client.send(STREAM, topic, Partitioning.partition(0), [Message(b"m")] * 2)
    client.store_offset(Consumer.group("g"), STREAM, topic, 0, 0)
    client.store_offset(Consumer.plain("c"), STREAM, topic, 0, 1)


def churn(broker: BrokerProcess, count: int) -> float:
    """Create and delete so many topics; the seconds of a scrape while all are there."""
    with broker.client() as client:
        for number in range(count):
            make(client, f"t{number}")
        full = Scrape(broker)
        assert full.sum("iggy_group_lag_messages") == count
        assert len(full.series("iggy_topic_messages")) == count
        for number in range(count):
            client.delete_topic(STREAM, f"t{number}")
        return full.seconds


def check_churn(folder: Path, count: int, measured: Callable[[str], None]) -> None:
    with running_broker(folder, monitoring=True) as broker, broker.client() as client:
        client.create_stream(STREAM)
        churn(broker, count)  # what is allocated once is allocated now
        empty, before = Scrape(broker), resident_bytes(broker)

        seconds = churn(broker, count)

        after = resident_bytes(broker)
        measured(f"{count} topics: scrape {seconds * 1000:.0f} ms, {before:.0f} → {after:.0f} B")
        assert after <= before * MEMORY_GROWTH_MAX
        assert seconds < SCRAPE_S_MAX
        assert Scrape(broker).about(STREAM) == empty.about(STREAM) == []
        make(client, "t7")
        again = Scrape(broker)
        assert again.value("iggy_topic_messages", stream=STREAM, topic="t7") == 2
        assert again.sum("iggy_group_lag_messages") == 1


def test_some_topics_come_and_go(tmp_path: Path, measured: Callable[[str], None]) -> None:
    check_churn(tmp_path, 25, measured)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_two_thousand_topics_come_and_go(tmp_path: Path, measured: Callable[[str], None]) -> None:
    check_churn(tmp_path, 2000, measured)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_beyond_the_limits_things_are_counted_and_not_shown(tmp_path: Path) -> None:
    with running_broker(tmp_path, monitoring=True) as broker, broker.client() as client:
        client.create_stream(STREAM)
        for topic in ("a", "b", "c"):
            client.create_topic(STREAM, topic, 900)
            for group in range(5):
                client.create_group(STREAM, topic, f"g{group}")
        client.send(STREAM, "c", Partitioning.partition(899), [Message(b"m")] * 5)

        found = Scrape(broker)

        assert found.value("iggy_partitions") == 2700
        assert found.value("iggy_messages") == found.sum("iggy_topic_messages") == 5
        assert len(found.series("iggy_partition_messages")) == 2000
        assert found.value("iggy_series_omitted", of="partition") == 700
        assert found.value("iggy_series_omitted", of="topic") == 0
        assert len(found.series("iggy_group_lag_messages")) == 11, "of 900 partitions each"
        assert found.value("iggy_series_omitted", of="group") == 4
        assert found.value("iggy_consumer_groups") == 15


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_scrape_of_1000_partitions_holds_nobody_up(
    tmp_path: Path, measured: Callable[[str], None]
) -> None:
    with running_broker(tmp_path, monitoring=True) as broker, broker.client() as client:
        client.create_stream(STREAM)
        client.create_topic(STREAM, "t", 1000)
        client.create_group(STREAM, "t", "g")
        Scrape(broker)  # reads the offsets' folders once
        before = Scrape(broker)

        scrapes = [Scrape(broker) for _ in range(30)]

        cpu_s = scrapes[-1].sum("iggy_cpu_seconds_total") - before.sum("iggy_cpu_seconds_total")
        took_s = [found.value("iggy_scrape_seconds") or 0.0 for found in scrapes]
        whole_s = [found.seconds for found in scrapes]
        measured(
            f"collected in {statistics.median(took_s) * 1000:.0f} ms, answered in"
            f" {statistics.median(whole_s) * 1000:.0f} ms, {cpu_s / 30 * 1000:.0f} ms of processor"
        )
        assert statistics.median(whole_s) < SCRAPE_S_MAX
        assert len(scrapes[-1].series("iggy_partition_messages")) == 1000

"""Segments that are begun, synced, read and deleted all at once, and what is left is right."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.client import HTTPException
from pathlib import Path

import pytest

from broker_process import BrokerProcess
from http_client import http_client
from iggy_client.client import Client
from iggy_client.errors import LinkError
from iggy_wire.batch import messages
from iggy_wire.primitives import PollingStrategy
from stored import logs, partition_folder, read_all, send, warnings

SEGMENT_BYTES = 1 << 20
PRODUCERS = 8
PAYLOAD_BYTES = 100_000
CLEAN_S = 0.1
HTTP_PRODUCERS = 2  # of them, where HTTP is on
EACH_MESSAGE = {"messages_required_to_save": "1", "enforce_fsync": "true"}  # is synced


def new_broker(folder: Path, **settings: str) -> BrokerProcess:
    names = {f"IGGY_SYSTEM_PARTITION_{name.upper()}": value for name, value in settings.items()}
    return BrokerProcess(folder, settings=names)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = new_broker(tmp_path, messages_required_to_save="10000", enforce_fsync="true")
    broker.start()
    try:
        yield broker
        assert broker.stop() == 0, broker.text()
        assert not warnings(broker)
    finally:
        broker.end()


def test_thousands_of_tiny_batches_are_flushed_at_a_stop(broker: BrokerProcess) -> None:
    counts = (1025, 2049, 5000)
    with broker.client() as client:
        client.create_stream("s")
        client.create_topic("s", "t", len(counts))
        for partition, count in enumerate(counts):
            for number in range(count):
                assert send(client, "s", "t", b"x", partition=partition) == number
    assert broker.stop() == 0
    broker.start()
    with broker.client() as client:
        for partition, count in enumerate(counts):
            assert read_all(client, "s", "t", partition) == [b"x"] * count


def test_the_end_stays_when_the_head_is_deleted(broker: BrokerProcess) -> None:
    with broker.client() as client:
        client.create_stream("s")
        client.create_topic("s", "t", 1, {"segment_size": SEGMENT_BYTES})
        for number in range(25):
            assert send(client, "s", "t", bytes(SEGMENT_BYTES // 5)) == number
        assert len(logs(partition_folder(broker))) == 6, "five are sealed, the last is empty"
        client.store_offset("c", "s", "t", 0, 5)

        client.delete_segments("s", "t", 0, 1)

        assert ends(client) == (24, 5, 20)
    assert broker.stop() == 0
    broker.start()
    with broker.client() as client:
        assert ends(client) == (24, 5, 20)
        assert send(client, "s", "t", b"next") == 25
        client.store_offset("c", "s", "t", 0, 24)
        assert ends(client) == (25, 24, 21)
        first = client.poll("s", "t", 0, strategy=PollingStrategy.first(), count=1)
        assert [message.offset for message in messages(first.region)] == [5]


def ends(client: Client) -> tuple[int, int, int]:
    """Current offset, stored offset, messages of the topic."""
    stored = client.get_offset("c", "s", "t", 0)
    topic = client.get_topic("s", "t")
    assert stored is not None and topic is not None
    (partition,) = topic.partitions
    assert partition.current_offset == stored.current_offset
    assert partition.messages_count == topic.topic.messages_count
    return stored.current_offset, stored.stored_offset, partition.messages_count


class Traffic:
    """Producers, one consumer and a cleaner on one partition, until the broker is killed."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.over_http = HTTP_PRODUCERS if broker.ports else 0
        self.acknowledged: dict[int, bytes] = {}  # beginnings of payloads, by offset
        self.read = 0  # so many, from offset 0 on
        self.is_over = False

    def produce(self, producer: int) -> None:
        with self.broker.client() as client:
            for number in itertools.count():
                label = f"{producer}/{number}/".encode()
                offset = send(client, "s", "t", label.ljust(PAYLOAD_BYTES, b"."))
                assert self.acknowledged.setdefault(offset, label) == label

    def produce_over_http(self, producer: int) -> None:
        with http_client(self.broker) as http:
            for number in itertools.count():
                label = f"{producer}/{number}/".encode()
                sent = http.send("/streams/s/topics/t", label.ljust(PAYLOAD_BYTES, b"."))
                offset = sent["confirmations"][0]["base_offset"]
                assert self.acknowledged.setdefault(offset, label) == label

    def consume(self) -> None:
        with self.broker.client() as client:
            while True:
                polled = client.poll("s", "t", 0, consumer="c", count=50, auto_commit=True)
                for message in messages(polled.region):
                    assert message.offset == self.read, "what one consumer sees has no gap"
                    self.read += 1

    def clean(self) -> None:
        with self.broker.client() as client:
            while True:
                time.sleep(CLEAN_S)
                client.delete_segments("s", "t", 0, 1000)

    def until_killed(self, work: Callable[[], None]) -> None:
        try:
            work()
        except (LinkError, OSError, HTTPException):
            assert self.is_over

    def run(self, is_enough: Callable[[], bool]) -> None:
        with ThreadPoolExecutor(PRODUCERS + 2) as pool:
            parts = [
                partial(self.produce_over_http if n < self.over_http else self.produce, n)
                for n in range(PRODUCERS)
            ]
            works = [
                pool.submit(self.until_killed, part) for part in (*parts, self.consume, self.clean)
            ]
            try:
                while not is_enough() and not any(work.done() for work in works):
                    time.sleep(CLEAN_S)
            finally:
                self.is_over = True
                self.broker.kill()
            for work in works:
                work.result()


def roll_and_delete(
    broker: BrokerProcess, is_enough: Callable[[Traffic], bool], measured: Callable[[str], None]
) -> None:
    try:
        broker.start()
        with broker.client() as client:
            client.create_stream("s")
            client.create_topic("s", "t", 1, {"segment_size": SEGMENT_BYTES})
            send(client, "s", "t", b"0")
            client.store_offset("c", "s", "t", 0, 0)
        traffic = Traffic(broker)
        traffic.acknowledged[0], traffic.read = b"0", 1
        traffic.run(lambda: is_enough(traffic))
        broker.start()
        assert_whole(broker, traffic)
        first = int(logs(partition_folder(broker))[0].name[:20])
        assert first > 0, "segments were deleted"
        assert broker.stop() == 0
        assert "Traceback" not in broker.text()
        measured(f"{len(traffic.acknowledged)} messages, {traffic.read} read, {first} deleted")
    finally:
        broker.end()


def assert_whole(broker: BrokerProcess, traffic: Traffic) -> None:
    """What is left is dense, is what was acknowledged, and has the size of its files."""
    files = logs(partition_folder(broker))
    first = int(files[0].name[:20])
    with broker.client() as client:
        found = read_all(client, "s", "t", first=first)
        assert first + len(found) > max(traffic.acknowledged)
        for offset, payload in enumerate(found, first):
            assert payload.startswith(traffic.acknowledged.get(offset, b""))
        stored = client.get_offset("c", "s", "t", 0)
        assert stored is not None and first <= stored.stored_offset + 1
        assert traffic.read <= stored.stored_offset + 1
        topic = client.get_topic("s", "t")
        assert topic is not None
        (partition,) = topic.partitions
        size_bytes = sum(file.stat().st_size for file in files)
        assert (partition.messages_count, partition.size_bytes) == (len(found), size_bytes)
        assert partition.segments_count == len(files)
        assert client.get_stats().messages_size_bytes == size_bytes


def test_segments_change_while_they_are_synced_and_deleted(
    tmp_path: Path, measured: Callable[[str], None]
) -> None:
    broker = new_broker(tmp_path, **EACH_MESSAGE)
    roll_and_delete(broker, lambda traffic: traffic.read > 1000, measured)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_three_minutes_of_segments_that_change(
    tmp_path: Path, measured: Callable[[str], None]
) -> None:
    end_s = time.monotonic() + 180
    broker = new_broker(tmp_path, **EACH_MESSAGE)
    broker.ports["http"] = 0
    roll_and_delete(broker, lambda traffic: time.monotonic() > end_s, measured)

"""Messages that get old while they are read and written: nobody waits, and all else is read."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from broker_process import BrokerProcess
from group_cases import wait_for
from iggy_client.client import Client
from iggy_wire.batch import messages
from iggy_wire.primitives import PollingStrategy
from stored import logs, partition_folder, read_all, send, warnings

SEGMENT_BYTES = 1 << 20
PAYLOAD_BYTES = 50_000
READ_S_MAX = 5.0
SLOW_S = 0.3
EXPIRY_US = 1_000_000
SETTINGS = {"IGGY_DATA_MAINTENANCE_MESSAGES_INTERVAL": "100ms"}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path, settings=SETTINGS)
    broker.start()
    try:
        yield broker
        assert broker.stop() == 0, broker.text()
        assert not warnings(broker)
    finally:
        broker.end()


def make(client: Client, *, partitions: int = 1, **options: int) -> None:
    client.create_stream("s")
    client.create_topic("s", "t", partitions, {"segment_size": SEGMENT_BYTES, **options})


def first_offset(client: Client, partition: int = 0) -> int | None:
    polled = client.poll("s", "t", partition, strategy=PollingStrategy.first(), count=1)
    return next((message.offset for message in messages(polled.region)), None)


def fill(client: Client, segments: int, partition: int = 0) -> None:
    for _ in range(segments * 3):
        send(client, "s", "t", bytes(SEGMENT_BYTES // 3 + 1), partition=partition)


def test_old_segments_go_and_offsets_go_on_also_after_a_restart(broker: BrokerProcess) -> None:
    with broker.client() as client:
        make(client, message_expiry=EXPIRY_US)
        fill(client, 4)
        wait_for(lambda: first_offset(client) is None, within_s=30)
        topic = client.get_topic("s", "t")
        assert topic is not None
        (partition,) = topic.partitions
        assert (partition.current_offset, partition.messages_count) == (11, 0)
        assert (partition.segments_count, partition.size_bytes, topic.topic.size_bytes) == (1, 0, 0)
        polled = client.poll("s", "t", 0, strategy=PollingStrategy.timestamp(0), count=10)
        assert (polled.count, polled.current_offset) == (0, 11)
        wait_for(lambda: len(logs(partition_folder(broker))) == 1)  # in the background
    broker.kill()
    broker.start()
    with broker.client() as client:
        assert send(client, "s", "t", b"next") == 12
        assert first_offset(client) == 12
        client.update_topic("s", "t", "t", {"message_expiry": (1 << 64) - 1})
        fill(client, 2)
        assert read_all(client, "s", "t", first=12)[0] == b"next"


def test_a_topic_gets_no_larger_than_it_may_wherever_its_messages_are(
    broker: BrokerProcess,
) -> None:
    limit = 16 << 20

    def size_bytes() -> int:
        topic = client.get_topic("s", "t")
        assert topic is not None
        return topic.topic.size_bytes

    with broker.client() as client:
        make(client, partitions=4, max_topic_size=limit)
        fill(client, 38)
        wait_for(lambda: size_bytes() <= limit, within_s=30)
        assert size_bytes() > limit - 2 * SEGMENT_BYTES, "no more than has to go"
        for partition in range(4):
            fill(client, 10, partition)
        wait_for(lambda: size_bytes() <= limit, within_s=30)
        assert all(first_offset(client, number) is not None for number in range(4))
        assert (first_offset(client, 0) or 0) > 38 * 3, "the oldest of all went"


class Readers:
    """Readers of every kind on one partition that loses its oldest segments all the time."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.is_over = False
        self.sent = 0
        self.jumps = 0
        self.reads = 0

    def produce(self) -> None:
        with self.broker.client() as client:
            while not self.is_over:
                self.sent = send(client, "s", "t", *[bytes(PAYLOAD_BYTES)] * 4) + 4

    def read(self, number: int) -> None:
        """One reader's offsets only rise; a gap is one that was removed before it was read."""
        kinds = (self._first, self._offset, self._next, self._time)
        poll, pause_s = kinds[number % 4], SLOW_S if number % 4 == 1 else 0.01
        expected = at_us = 0
        with self.broker.client() as client:
            while not self.is_over:
                began_s = time.monotonic()
                found = list(messages(poll(client, number, expected, at_us)))
                assert time.monotonic() - began_s < READ_S_MAX
                offsets = [message.offset for message in found]
                assert (
                    offsets == list(range(offsets[0], offsets[0] + len(found))) if found else True
                )
                if found and poll != self._first:
                    assert offsets[0] >= expected
                    self.jumps += offsets[0] > expected
                    expected, at_us = offsets[-1] + 1, found[-1].timestamp_us + 1
                self.reads += 1
                time.sleep(pause_s)

    def _poll(self, client: Client, strategy: PollingStrategy, consumer: int = 1) -> bytes:
        polled = client.poll(
            "s", "t", 0,
            consumer=f"c{consumer}", strategy=strategy, count=20,
            auto_commit=strategy == PollingStrategy.next(),
        )  # fmt: skip
        return bytes(polled.region)

    def _first(self, client: Client, number: int, expected: int, at_us: int) -> bytes:
        return self._poll(client, PollingStrategy.first())

    def _offset(self, client: Client, number: int, expected: int, at_us: int) -> bytes:
        return self._poll(client, PollingStrategy.offset(expected))

    def _next(self, client: Client, number: int, expected: int, at_us: int) -> bytes:
        return self._poll(client, PollingStrategy.next(), number)

    def _time(self, client: Client, number: int, expected: int, at_us: int) -> bytes:
        return self._poll(client, PollingStrategy.timestamp(at_us))

    def run(self, seconds: float, readers: int) -> None:
        with ThreadPoolExecutor(readers + 1) as pool:
            works = [pool.submit(partial(self.read, number)) for number in range(readers)]
            works.append(pool.submit(self.produce))
            deadline_s = time.monotonic() + seconds
            try:
                while time.monotonic() < deadline_s and not any(work.done() for work in works):
                    time.sleep(0.05)
            finally:
                self.is_over = True
            for work in works:
                work.result()


def open_and_deleted(broker: BrokerProcess) -> int:
    """Descriptors of the broker's processes whose files are gone."""
    count = 0
    children = Path(f"/proc/{broker.pid}/task/{broker.pid}/children").read_text().split()
    for pid in (str(broker.pid), *children):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            count += os.readlink(descriptor).endswith(".log (deleted)")
    return count


def read_what_goes(
    folder: Path, seconds: float, readers: int, measured: Callable[[str], None]
) -> None:
    settings = SETTINGS | {"IGGY_DATA_MAINTENANCE_MESSAGES_CONSUMER_BARRIER": "false"}
    broker = BrokerProcess(folder, settings=settings)
    try:
        broker.start()
        with broker.client() as client:
            make(client, message_expiry=EXPIRY_US)
            load = Readers(broker)
            load.run(seconds, readers)
            removed = first_offset(client) or load.sent
            assert removed > 0
            wait_for(lambda: open_and_deleted(broker) == 0, within_s=30)
            measured(
                f"{load.sent} messages, {removed} removed, {load.reads} reads, {load.jumps} jumps"
            )
        assert broker.stop() == 0
        assert not warnings(broker)
    finally:
        broker.end()


def test_readers_of_every_kind_go_on_while_segments_go(
    tmp_path: Path, measured: Callable[[str], None]
) -> None:
    read_what_goes(tmp_path, 5, 8, measured)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_two_minutes_of_reading_what_goes(tmp_path: Path, measured: Callable[[str], None]) -> None:
    read_what_goes(tmp_path, 120, 20, measured)

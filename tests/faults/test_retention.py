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
from http_client import TOPIC, HttpClient, http_client
from iggy_broker.net.http.sizes import size_text
from iggy_client.client import Client
from iggy_wire.batch import Message, build, messages
from iggy_wire.primitives import PollingStrategy
from stored import logs, partition_folder, read_all, send, warnings

SEGMENT_BYTES = 1 << 20
PAYLOAD_BYTES = 50_000
READ_S_MAX = 5.0
SLOW_S = 0.3
EXPIRY_US = 1_000_000
TEN_YEARS_US = 10 * 365 * 86_400 * 1_000_000
U64_MAX = (1 << 64) - 1
PATH = "/streams/s/topics/t"
SETTINGS = {"IGGY_DATA_MAINTENANCE_MESSAGES_INTERVAL": "100ms"}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path, settings=SETTINGS, transports=["http"])
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


def send_with_time(client: Client, origin_us: int, payload: bytes) -> int:
    """One message that its producer gives this time."""
    batch = build([Message(payload)], origin_timestamp_us=origin_us)
    return client.send_batch("s", "t", 0, batch)


def test_old_segments_go_and_offsets_go_on_also_after_a_restart(broker: BrokerProcess) -> None:
    ahead_us = time.time_ns() // 1000 + TEN_YEARS_US
    with broker.client() as client:
        make(client, message_expiry=EXPIRY_US)
        for number in range(12):  # what producers say of the time counts for nothing
            origin_us = (ahead_us, U64_MAX, 0)[number % 3]
            send_with_time(client, origin_us, bytes(SEGMENT_BYTES // 3 + 1))
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
        check_times(broker, client, ahead_us)
        client.update_topic("s", "t", "t", {"message_expiry": (1 << 64) - 1})
        fill(client, 2)
        assert read_all(client, "s", "t", first=12)[0] == b"next"


def check_times(broker: BrokerProcess, client: Client, ahead_us: int) -> None:
    """A time leads to the message that came then, whatever the messages beside it say."""
    for origin_us in (ahead_us, U64_MAX, 1):
        send_with_time(client, origin_us, b"odd")
    with http_client(broker) as http:
        http.send(PATH, b"over http")
        polled = client.poll("s", "t", 0, strategy=PollingStrategy.offset(12), count=10)
        found = list(messages(polled.region))
        assert [message.offset for message in found] == [12, 13, 14, 15, 16]
        assert [message.origin_timestamp_us for message in found[1:4]] == [ahead_us, U64_MAX, 1]
        for message in found:
            time_us = message.timestamp_us
            at = PollingStrategy.timestamp(time_us)
            (one,) = messages(client.poll("s", "t", 0, strategy=at, count=1).region)
            query = f"kind=timestamp&value={time_us}&count=1"
            (other,) = http.get(f"{PATH}/messages?{query}")["messages"]
            assert one.offset == other["header"]["offset"] == message.offset


def test_a_topic_gets_no_larger_than_it_may_wherever_its_messages_are(
    broker: BrokerProcess,
) -> None:
    limit = 16 << 20

    def size_bytes() -> int:
        topic = client.get_topic("s", "t")
        assert topic is not None
        return topic.topic.size_bytes

    def shrink(limit_bytes: int) -> None:
        assert http.ask("PUT", PATH, {"name": "t", "max_topic_size": limit_bytes}).status == 204

    with broker.client() as client, http_client(broker) as http:
        http.post("/streams", {"name": "s"})
        options = {"options": {"segment_size": str(SEGMENT_BYTES)}, "max_topic_size": limit}
        http.post("/streams/s/topics", {**TOPIC, **options, "name": "t", "partitions_count": 4})
        fill(client, 38)
        wait_for(lambda: size_bytes() <= limit, within_s=30)
        assert size_bytes() > limit - 2 * SEGMENT_BYTES, "no more than has to go"
        for partition in range(4):
            fill(client, 10, partition)
        wait_for(lambda: size_bytes() <= limit, within_s=30)
        assert all(first_offset(client, number) is not None for number in range(4))
        assert (first_offset(client, 0) or 0) > 38 * 3, "the oldest of all went"
        shrink(SEGMENT_BYTES)
        wait_for(lambda: size_bytes() < 5 * SEGMENT_BYTES, within_s=30)
        for partition in range(4):
            assert len(http.payloads(PATH, f"partition_id={partition}&kind=first")) == 3
        shrink(U64_MAX)
        before = size_bytes()
        fill(client, 2)
        whole = before + 2 * before // 4
        assert http.get(PATH)["size"] == size_text(size_bytes()) == size_text(whole)


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
        kind = ("first", "offset", "next", "timestamp")[number % 4]
        pause_s = SLOW_S if kind == "offset" else 0.01
        poll = self._over_http if number % 8 < 4 else self._over_tcp
        expected = at_us = 0
        with self.broker.client() as client, http_client(self.broker) as http:
            while not self.is_over:
                began_s = time.monotonic()
                value = {"offset": expected, "timestamp": at_us}.get(kind, 0)
                found = poll(client, http, number, kind, value)
                assert time.monotonic() - began_s < READ_S_MAX
                offsets = [offset for offset, _ in found]
                if found:
                    assert offsets == list(range(offsets[0], offsets[0] + len(found)))
                if found and kind != "first":
                    assert offsets[0] >= expected
                    if offsets[0] > expected:
                        self.jumps += 1
                        oldest = first_offset(client)
                        assert oldest is None or oldest >= offsets[0], "what is there is read"
                    expected, at_us = offsets[-1] + 1, found[-1][1] + 1
                self.reads += 1
                time.sleep(pause_s)

    def _over_tcp(
        self, client: Client, http: HttpClient, number: int, kind: str, value: int
    ) -> list[tuple[int, int]]:
        """Offsets and times."""
        strategies = {
            "first": PollingStrategy.first(), "offset": PollingStrategy.offset(value),
            "next": PollingStrategy.next(), "timestamp": PollingStrategy.timestamp(value),
        }  # fmt: skip
        polled = client.poll(
            "s", "t", 0,
            consumer=f"c{number}", strategy=strategies[kind], count=20, auto_commit=kind == "next",
        )  # fmt: skip
        return [(message.offset, message.timestamp_us) for message in messages(polled.region)]

    def _over_http(
        self, client: Client, http: HttpClient, number: int, kind: str, value: int
    ) -> list[tuple[int, int]]:
        commits = str(kind == "next").lower()
        query = f"consumer_id=c{number}&kind={kind}&value={value}&count=20&auto_commit={commits}"
        heads = [one["header"] for one in http.get(f"{PATH}/messages?{query}")["messages"]]
        return [(head["offset"], head["timestamp"]) for head in heads]

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
    broker = BrokerProcess(folder, settings=settings, transports=["http"])
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
        told = [line for line in warnings(broker) if "'retention_removed' were not" not in line]
        assert not told, "but that lines about so many removals are left out"
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

"""Connections that move to the shard of their partition: nothing changes for the client."""

from __future__ import annotations

import itertools
import os
import time
import urllib.request
import uuid
from collections.abc import Iterator

import pytest

from broker_process import BrokerProcess
from iggy_client.client import Client, messages
from iggy_wire.batch import Message, build
from iggy_wire.header import ReplyHeader
from iggy_wire.primitives import Consumer, Identifier, Partitioning, PollingStrategy
from iggy_wire.replies import Confirmations
from iggy_wire.requests import CreateStream, PollMessages, SendMessages
from iggy_wire.results import split_result
from raw_frames import RawClient

PARTITIONS = 4  # 0 to 3: both shards own some
REQUESTS = 40  # more than it takes to move


@pytest.fixture
def stream(broker: BrokerProcess) -> str:
    name = f"moving-{uuid.uuid4().hex[:8]}"
    with broker.client() as client:
        client.create_stream(name)
        client.create_topic(name, "t", PARTITIONS)
    return name


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[Client]:
    with broker.client() as made:
        yield made


def total(broker: BrokerProcess, metric: str) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{broker.monitoring_port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return sum(int(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"{metric}{{"))


def wait_until(broker: BrokerProcess, metric: str, more_than: int) -> None:
    """Counters are published once a second."""
    deadline = time.monotonic() + 20
    while total(broker, metric) <= more_than:
        assert time.monotonic() < deadline, f"{metric} does not pass {more_than}"
        time.sleep(0.05)


def test_producers_and_consumers_of_one_partition_move(broker: BrokerProcess, stream: str) -> None:
    before = total(broker, "iggy_handovers_total")
    sent: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
    clients = [broker.client() for _ in range(8)]
    for number, (place, client) in itertools.product(range(REQUESTS), enumerate(clients)):
        partition = place % PARTITIONS
        payload = b"%d/%d" % (place, number)
        target = Partitioning.partition(partition)
        confirmation = client.send(stream, "t", target, [Message(payload)])
        assert confirmation.base_offset == len(sent[partition])
        sent[partition].append(payload)
    for place, client in enumerate(clients):
        partition = place % PARTITIONS
        found = []
        for _ in range(REQUESTS):
            polled = client.poll(
                stream, "t", partition, consumer=f"c{place}", count=2, auto_commit=True
            )
            found += [message.payload for message in messages(polled)]
        assert found == sent[partition]
        assert client.get_me().client.client_id > 0
        client.create_stream(f"{stream}-{place}")
        client.close()

    # Half of the eight clients start on the wrong shard, or all of them once they switch.
    wait_until(broker, "iggy_handovers_total", before)


def test_a_client_that_changes_its_partition_goes_on(client: Client, stream: str) -> None:
    for partition in (0, 1, 2, 3, 0, 2):
        target = Partitioning.partition(partition)
        first = client.send(stream, "t", target, [Message(b"m")]).base_offset
        for number in range(1, REQUESTS):
            sent = client.send(stream, "t", target, [Message(b"m")])
            assert sent.base_offset == first + number


def test_large_frames_move_sooner_and_arrive_whole(client: Client, stream: str) -> None:
    for partition in range(PARTITIONS):
        target = Partitioning.partition(partition)
        payloads = [os.urandom(1_000_000) for _ in range(8)]
        for payload in payloads:
            client.send(stream, "t", target, [Message(payload)])
        polled = client.poll(
            stream, "t", partition, strategy=PollingStrategy.first(), count=len(payloads)
        )
        assert [message.payload for message in messages(polled)] == payloads


def test_the_session_moves_with_its_retries(broker: BrokerProcess, stream: str) -> None:
    batch = bytes(build([Message(b"m")], origin_timestamp_us=1))
    name, topic = Identifier(stream), Identifier("t")
    with RawClient(broker.tcp_port) as client:
        client.login()
        session = client.session
        change = client.frame(CreateStream(f"{stream}-retried"))
        client.send(change)
        first = client.receive()
        for partition in range(PARTITIONS):
            for _ in range(REQUESTS):
                request = SendMessages(name, topic, Partitioning.partition(partition), 1, batch)
                header, _ = client.ask(request)
                assert isinstance(header, ReplyHeader) and header.status == 0
        client.send(change)
        assert client.receive() == first
        assert split_result(first[1])[0] == 0
        client.session = 0
        client.login()
        assert client.session == session


def test_bursts_are_answered_in_order_on_the_way(broker: BrokerProcess, stream: str) -> None:
    batch = bytes(build([Message(b"m")], origin_timestamp_us=1))
    name, topic = Identifier(stream), Identifier("t")
    with RawClient(broker.tcp_port) as client:
        client.login()
        for partition, burst in itertools.product(range(PARTITIONS), range(1, 30)):
            target = Partitioning.partition(partition)
            poll = PollMessages(
                Consumer.plain(1), name, topic, partition, PollingStrategy.last(), 1
            )
            frames = [client.frame(SendMessages(name, topic, target, 1, batch))] * burst
            client.send(b"".join([*frames, client.frame(poll)]))
            offsets = []
            for _ in frames:
                header, body = client.receive()
                assert isinstance(header, ReplyHeader) and header.status == 0
                offsets.append(Confirmations.decode(body).confirmations[0].base_offset)
            assert offsets == list(range(offsets[0], offsets[0] + burst))
            _, body = client.receive()
            assert int.from_bytes(body[4:12], "little") == offsets[-1]

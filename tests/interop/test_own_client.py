"""What the official Python client cannot say, by our own: offsets, balancing by the server."""

from __future__ import annotations

import threading
import uuid
from collections import Counter

import pytest

from broker_process import BrokerProcess
from iggy_client.client import Client
from iggy_client.errors import ClientError
from iggy_wire.batch import Message
from iggy_wire.errors import ErrorCode
from iggy_wire.primitives import Consumer, Partitioning, PollingStrategy, partition_of_key

PARTITIONS = 6


@pytest.fixture
def stream(broker: BrokerProcess) -> str:
    name = f"own-{uuid.uuid4().hex[:8]}"
    with broker.client() as client:
        client.create_stream(name)
        client.create_topic(name, "t", PARTITIONS)
    return name


def code_of(error: pytest.ExceptionInfo[ClientError]) -> int:
    return error.value.code


def test_offsets_are_stored_read_and_deleted_on_both_shards(
    broker: BrokerProcess, stream: str
) -> None:
    with broker.client() as client:
        for partition in range(PARTITIONS):
            target = Partitioning.partition(partition)
            assert client.get_offset("c", stream, "t", partition) is None
            with pytest.raises(ClientError) as error:
                client.store_offset("c", stream, "t", partition, 0)
            assert code_of(error) == ErrorCode.INVALID_OFFSET

            client.send(stream, "t", target, [Message(b"m")] * 5)
            for offset in (2, 4, 1):
                client.store_offset("c", stream, "t", partition, offset)
                stored = client.get_offset("c", stream, "t", partition)
                assert stored is not None
                assert (stored.partition_id, stored.current_offset) == (partition, 4)
                assert stored.stored_offset == offset
            for beyond in (5, 1 << 63, (1 << 64) - 1):
                with pytest.raises(ClientError) as error:
                    client.store_offset("c", stream, "t", partition, beyond)
                assert code_of(error) == ErrorCode.INVALID_OFFSET
            assert client.poll(stream, "t", partition, consumer="c", count=9).count == 3

            client.delete_offset("c", stream, "t", partition)
            with pytest.raises(ClientError) as error:
                client.delete_offset("c", stream, "t", partition)
            assert code_of(error) == ErrorCode.CONSUMER_OFFSET_NOT_FOUND


def test_a_groups_offset_is_not_for_those_outside(broker: BrokerProcess, stream: str) -> None:
    group = Consumer.group("g")
    with broker.client() as client:
        client.create_group(stream, "t", "g")
        client.send(stream, "t", Partitioning.partition(0), [Message(b"m")])
        with pytest.raises(ClientError) as error:
            client.store_offset(group, stream, "t", 0, 0)
        assert code_of(error) == ErrorCode.RESOURCE_NOT_FOUND
        assert client.get_offset(group, stream, "t", 0) is None
        polled = client.poll(stream, "t", 0, consumer=group, count=1)
        assert (polled.partition_id, polled.count) == (0xFFFFFFFF, 0)


def test_the_server_balances_and_hashes_by_itself(broker: BrokerProcess, stream: str) -> None:
    with broker.client() as client:
        balanced = Counter(
            client.send(stream, "t", Partitioning.balanced(), [Message(b"b")]).partition_id
            for _ in range(3 * PARTITIONS)
        )
        assert balanced == dict.fromkeys(range(PARTITIONS), 3)
        for key in ("user_123", "order-42", "iggy", "x" * 255):
            confirmation = client.send(stream, "t", Partitioning.key(key), [Message(b"k")])
            assert confirmation.partition_id == partition_of_key(key.encode(), PARTITIONS)


def test_a_deleted_topic_takes_its_offsets_along(broker: BrokerProcess, stream: str) -> None:
    with broker.client() as client:
        for partition in range(PARTITIONS):
            client.send(stream, "t", Partitioning.partition(partition), [Message(b"m")] * 3)
            client.store_offset("c", stream, "t", partition, 2)
        client.delete_topic(stream, "t")
        client.create_topic(stream, "t", PARTITIONS)
        for partition in range(PARTITIONS):
            assert client.get_offset("c", stream, "t", partition) is None
            target = Partitioning.partition(partition)
            assert client.send(stream, "t", target, [Message(b"new")]).base_offset == 0


def test_sends_that_race_a_delete_end_well_or_with_not_found(
    broker: BrokerProcess, stream: str
) -> None:
    stop = threading.Event()
    outcomes: list[set[int]] = []

    def produce() -> None:
        codes = set()
        with broker.client() as client:
            while not stop.is_set():
                for partition in range(PARTITIONS):
                    target = Partitioning.partition(partition)
                    try:
                        client.send(stream, "t", target, [Message(b"race")])
                    except ClientError as error:
                        codes.add(error.code)
        outcomes.append(codes)

    producers = [threading.Thread(target=produce) for _ in range(3)]
    for producer in producers:
        producer.start()
    try:
        with broker.client() as client:
            for _ in range(20):
                client.delete_topic(stream, "t")
                client.create_topic(stream, "t", PARTITIONS)
    finally:
        stop.set()
        for producer in producers:
            producer.join()
    assert len(outcomes) == len(producers)
    assert set().union(*outcomes) <= {ErrorCode.RESOURCE_NOT_FOUND}


def test_a_change_is_seen_by_every_shard_before_its_answer(broker: BrokerProcess) -> None:
    clients = [broker.client() for _ in range(8)]  # the kernel spreads them over the shards
    try:
        for number in range(20):
            name = f"seen-{uuid.uuid4().hex[:8]}"
            clients[number % 8].create_stream(name)
            assert all(client.get_stream(name) is not None for client in clients)
    finally:
        for client in clients:
            client.close()


def test_a_poll_of_more_than_the_socket_takes_arrives_whole(
    broker: BrokerProcess, stream: str
) -> None:
    payload = bytes(1_000_000)
    with broker.client() as client:
        for partition in range(4):
            for _ in range(20):
                target = Partitioning.partition(partition)
                client.send(stream, "t", target, [Message(payload)])
            polled = client.poll(
                stream, "t", partition, strategy=PollingStrategy.first(), count=100
            )
            assert polled.count == 20
            assert len(polled.region) == 20 * (256 + 48 + len(payload))


def test_get_me_names_this_connection(broker: BrokerProcess) -> None:
    with broker.client() as client, Client(broker.address) as other:
        me = client.get_me()
        other.login("iggy", "secret-of-tests")
        assert me.client.user_id == 0 and me.client.client_id > 0
        assert other.get_me().client.client_id != me.client.client_id

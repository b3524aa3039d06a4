"""Deleting segments and purging, through our client: what goes, what stays, what comes later."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_process import BrokerProcess
from group_cases import GROUP, TOPIC, code_of, make_topic, offsets, read, wait_for
from iggy_client import Client, ClientError
from iggy_wire.batch import Message
from iggy_wire.codes import Operation
from iggy_wire.errors import ErrorCode
from iggy_wire.header import ReplyHeader
from iggy_wire.primitives import Consumer, Identifier, Partitioning, PollingStrategy
from iggy_wire.requests import DeleteSegments
from raw_frames import RawClient

PARTITIONS = 4
SEGMENT_BYTES = 1 << 20
READER = Consumer.plain(1)


@pytest.fixture
def admin(broker: BrokerProcess) -> Iterator[Client]:
    with broker.client() as client:
        yield client


def filled(client: Client, *, partitions: int = PARTITIONS, batches: int = 10) -> str:
    """A stream whose partitions have three batches of 10 messages in a segment of 1 MiB."""
    stream = make_topic(client, partitions=0, groups=())
    client.delete_topic(stream, TOPIC)
    client.create_topic(stream, TOPIC, partitions, {"segment_size": SEGMENT_BYTES})
    client.create_group(stream, TOPIC, "g")
    for partition in range(partitions):
        for _ in range(batches):
            sent = [Message(bytes(40_000))] * 10
            client.send(stream, TOPIC, Partitioning.partition(partition), sent)
    return stream


def first_offset(client: Client, stream: str, partition: int) -> int:
    strategy = PollingStrategy.first()
    polled = client.poll(stream, TOPIC, partition, consumer=READER, strategy=strategy, count=1)
    return offsets(polled)[0]


def test_the_oldest_closed_segments_go(admin: Client) -> None:
    stream = filled(admin)
    for partition in range(PARTITIONS):
        admin.delete_segments(stream, TOPIC, partition, 0)
        assert first_offset(admin, stream, partition) == 0
        admin.delete_segments(stream, TOPIC, partition, 2)
        assert first_offset(admin, stream, partition) == 60
        admin.delete_segments(stream, TOPIC, partition, 100)
        assert first_offset(admin, stream, partition) == 90, "the active one stays"
        admin.delete_segments(stream, TOPIC, partition, 1)
    topic = admin.get_topic(stream, TOPIC)
    assert topic is not None
    assert topic.topic.messages_count == 10 * PARTITIONS
    for info in topic.partitions:
        assert (info.segments_count, info.messages_count, info.current_offset) == (1, 10, 99)
    confirmation = admin.send(stream, TOPIC, Partitioning.partition(1), [Message(b"next")])
    assert confirmation.base_offset == 100


def test_what_is_not_read_yet_goes_later(admin: Client) -> None:
    stream = filled(admin)
    admin.join_group(stream, TOPIC, "g")
    for partition in range(PARTITIONS):
        admin.store_offset(READER, stream, TOPIC, partition, 99)
        admin.store_offset(GROUP, stream, TOPIC, partition, 29)
        admin.delete_segments(stream, TOPIC, partition, 2)
        assert first_offset(admin, stream, partition) == 30, "one was read by all"
    for partition in range(PARTITIONS):
        assert read(admin, stream, partition, count=70, auto_commit=True).count == 70
    for partition in range(PARTITIONS):
        wait_for(lambda at=partition: first_offset(admin, stream, at) == 60)


def test_the_wish_survives_a_restart_and_not_a_purge(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, shards=2).start()
    try:
        with broker.client() as admin:
            stream = filled(admin)
            for partition in range(PARTITIONS):
                admin.store_offset(READER, stream, TOPIC, partition, 0)
                admin.delete_segments(stream, TOPIC, partition, 3)
        broker.kill()
        broker.start()
        with broker.client() as admin:
            assert [first_offset(admin, stream, at) for at in range(PARTITIONS)] == [0] * 4
            for partition in range(2):
                admin.store_offset(READER, stream, TOPIC, partition, 99)
            for partition in range(2):
                wait_for(lambda at=partition: first_offset(admin, stream, at) == 90)
            admin.purge_topic(stream, TOPIC)
            for partition in range(PARTITIONS):
                assert admin.get_offset(READER, stream, TOPIC, partition) is None
                sent = admin.send(stream, TOPIC, Partitioning.partition(partition), [Message(b"0")])
                assert sent.base_offset == 0
        assert broker.stop() == 0, broker.text()
        assert not list(broker.data.glob("streams/*/topics/*/partitions/*/trim"))
    finally:
        broker.end()


def test_missing_things_are_the_outcome_of_a_change(broker: BrokerProcess, admin: Client) -> None:
    stream = make_topic(admin, partitions=1)
    for target, code in (
        (("nothing", TOPIC, 0), ErrorCode.STREAM_ID_NOT_FOUND),
        ((stream, "nothing", 0), ErrorCode.TOPIC_ID_NOT_FOUND),
        ((stream, TOPIC, 1), ErrorCode.PARTITION_NOT_FOUND),
    ):
        with pytest.raises(ClientError) as error:
            admin.delete_segments(*target, 1)
        assert code_of(error) == code
    with RawClient(broker.tcp_port) as raw:
        raw.login()
        for partition, code in ((0, 0), (1, ErrorCode.PARTITION_NOT_FOUND)):
            request = DeleteSegments(Identifier.of(stream), Identifier.of(TOPIC), partition, 1)
            header, body = raw.ask(request)
            assert isinstance(header, ReplyHeader)
            assert (header.status, header.operation) == (0, Operation.TRUNCATE_PARTITION)
            count = int.from_bytes(body[:4], "little")
            assert (count, int.from_bytes(body[8:12], "little")) == (1 if code else 0, code)

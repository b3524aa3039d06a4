"""A full disk under a real broker: refusals with a reason, and nothing else happens to anybody."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from iggy_client.client import Client
from iggy_client.errors import ClientError
from iggy_wire.batch import Message, messages
from iggy_wire.errors import ErrorCode
from iggy_wire.primitives import Partitioning, PollingStrategy
from small_disk import BrokerOnSmallDisk, SmallDisk, small_disk, wait_until

FIRST = Partitioning.partition(0)
NO_ROOM = (ErrorCode.CANNOT_APPEND_MESSAGE, ErrorCode.CANNOT_OPEN_PARTITION_LOG_FILE)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path) as mounted:
        yield mounted


@pytest.fixture
def broker(tmp_path: Path, disk: SmallDisk) -> Iterator[BrokerOnSmallDisk]:
    broker = BrokerOnSmallDisk(tmp_path, disk)
    broker.start()
    try:
        yield broker
        assert broker.stop() == 0, broker.text()
    finally:
        broker.end()


def send_until_refused(client: Client, topic: str, *, payload_bytes: int = 100_000) -> int:
    """Send batches of one message; how many were acknowledged."""
    sent = 0
    while True:
        payload = f"{topic}/{sent}/".encode().ljust(payload_bytes, b".")
        try:
            confirmed = client.send("s", topic, FIRST, [Message(payload)])
        except ClientError as refused:
            assert refused.code in NO_ROOM
            return sent
        assert confirmed.base_offset == sent
        sent += 1


def read_all(client: Client, topic: str, partition: int = 0) -> list[bytes]:
    found: list[bytes] = []
    while True:
        strategy = PollingStrategy.offset(len(found))
        polled = client.poll("s", topic, partition, strategy=strategy, count=100)
        if not polled.count:
            return found
        for message in messages(polled.region):
            assert message.offset == len(found)
            found.append(message.payload)


def send_until_taken(client: Client, topic: str, payload: bytes) -> int:
    """Send until the disk has room; the offset."""
    offsets: list[int] = []

    def taken() -> bool:
        try:
            offsets.append(client.send("s", topic, FIRST, [Message(payload)]).base_offset)
        except ClientError as refused:
            assert refused.code in NO_ROOM
            return False
        return True

    wait_until(taken)
    return offsets[0]


def test_topics_made_on_a_full_disk_are_refused_or_work_later(
    broker: BrokerOnSmallDisk, disk: SmallDisk
) -> None:
    made = []
    with broker.client() as client:
        client.create_stream("s")
        disk.fill()

        for number in range(200):
            try:
                client.create_topic("s", f"t{number}", 3)
                made.append(f"t{number}")
            except ClientError as refused:
                assert refused.code == ErrorCode.ERROR
        assert made, "the journal's last page has room for some"
        for topic in made:
            assert client.poll("s", topic, 0, count=10).count == 0
            with pytest.raises(ClientError) as no_room:
                client.send("s", topic, FIRST, [Message(b"early")])
            assert no_room.value.code in NO_ROOM

        disk.free()
        for topic in made:
            assert send_until_taken(client, topic, b"late") == 0
        assert [topic.name for topic in client.get_topics("s")] == made
    broker.kill()
    broker.start()
    with broker.client() as client:
        assert [topic.name for topic in client.get_topics("s")] == made
        assert all(read_all(client, topic) == [b"late"] for topic in made)

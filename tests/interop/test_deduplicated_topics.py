"""Messages that were sent before are left out: with the released client and ours, on any shard."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from apache_iggy import IggyClient, SendMessage

from broker_process import PASSWORD, USERNAME, BrokerProcess
from iggy_wire.batch import Message
from iggy_wire.primitives import Partitioning
from stored import read_all, warnings

PARTITIONS = 4  # each shard owns some
SETTINGS = {
    "IGGY_SYSTEM_MESSAGE_DEDUPLICATION_ENABLED": "true",
    "IGGY_SYSTEM_MESSAGE_DEDUPLICATION_TOPICS": "other/*, s/once",
    "IGGY_SYSTEM_MESSAGE_DEDUPLICATION_EXPIRY": "0",
    "IGGY_SYSTEM_MESSAGE_DEDUPLICATION_WINDOWS": json.dumps(
        [{"topics": "s/few", "max_entries": 3}, {"topics": "s/brief", "expiry": "1 us"}]
    ),
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path, settings=SETTINGS)
    broker.start()
    try:
        with broker.client() as client:
            client.create_stream("s")
            client.create_topic("s", "once", PARTITIONS)
            for topic in ("all", "few", "brief"):
                client.create_topic("s", topic, 1)
        yield broker
        assert broker.stop() == 0, broker.text()
        assert not warnings(broker)
    finally:
        broker.end()


def test_the_released_client_sends_again_and_nothing_is_there_twice(broker: BrokerProcess) -> None:
    async def work() -> None:
        client = IggyClient(broker.address)
        await client.connect()
        await client.login_user(USERNAME, PASSWORD)
        for partition in range(PARTITIONS):
            for first in (1, 1, 6):  # anew, all of it again, half of it again
                ids = range(first, first + 10)
                batch = [SendMessage(f"{number}", id=number) for number in ids]
                answer = await client.send_messages("s", "once", partition, batch)
                offsets = [one.base_offset for one in answer.confirmations]
                assert offsets in ([0], [], [10])
            batch = [SendMessage("1", id=1)] * 2
            await client.send_messages("s", "all", 0, batch)

    asyncio.run(work())
    with broker.client() as client:
        expected = [f"{number}".encode() for number in range(1, 16)]
        for partition in range(PARTITIONS):
            assert read_all(client, "s", "once", partition) == expected
        assert len(read_all(client, "s", "all")) == 2 * PARTITIONS


def test_our_client_says_when_nothing_was_new_also_after_a_kill(broker: BrokerProcess) -> None:
    sent = [Message(b"a", id=7), Message(b"b", id=8)]
    with broker.client() as client:
        for partition in range(PARTITIONS):
            target = Partitioning.partition(partition)
            landed = client.send("s", "once", target, sent)
            assert landed is not None and landed.base_offset == 0
            assert client.send("s", "once", target, sent) is None
    broker.kill()
    broker.start()
    with broker.client() as client:
        for partition in range(PARTITIONS):
            target = Partitioning.partition(partition)
            assert client.send("s", "once", target, sent) is None
            assert client.send("s", "once", target, [Message(b"c", id=9)]) is not None
            assert read_all(client, "s", "once", partition) == [b"a", b"b", b"c"]


def test_each_topic_has_its_window_also_after_a_kill(broker: BrokerProcess) -> None:
    def again(topic: str, *ids: int) -> bool:
        """Whether all of them were known."""
        batch = [Message(b"x", id=id_) for id_ in ids]
        with broker.client() as client:
            return client.send("s", topic, Partitioning.partition(0), batch) is None

    for topic in ("once", "few", "brief"):
        assert not again(topic, 1, 2, 3, 4)
    for _ in range(2):
        assert again("once", 1, 2, 3, 4)
        assert again("few", 2, 3, 4)
        assert not again("brief", 4), "a microsecond ago"
        broker.kill()
        broker.start()
    assert not again("few", 1), "the fourth newest"
    assert not again("few", 2), "1 has taken its place"

"""Very many topics: made, sent to, polled, restarted and deleted; descriptors stay few."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from broker_process import BrokerProcess
from iggy_broker.storage.disk import OPEN_FILES_MAX
from iggy_client.client import Client
from iggy_wire.batch import Message
from iggy_wire.primitives import Partitioning, PollingStrategy
from process_memory import MIB, descriptors, proportional_bytes
from waiting import wait_until

PARTITIONS = 8  # of each topic
BESIDE_FILES = 64  # descriptors of a shard that are no logs
BYTES_A_PARTITION_MAX = 32 * 1024  # of memory
BESIDE_BYTES = 16 * MIB


def send_to_all(client: Client, topics: int, expected_offset: int) -> None:
    for topic in range(topics):
        for partition in range(PARTITIONS):
            target = Partitioning.partition(partition)
            sent = client.send("s", topic, target, [Message(b"%d/%d" % (topic, partition))])
            assert sent.base_offset == expected_offset


def poll_all(client: Client, topics: int, expected_count: int) -> None:
    for topic in range(topics):
        for partition in range(PARTITIONS):
            polled = client.poll("s", topic, partition, strategy=PollingStrategy.first(), count=10)
            assert polled.count == expected_count
            assert bytes(polled.region).endswith(b"%d/%d" % (topic, partition))


def most_descriptors(broker: BrokerProcess) -> int:
    return max(descriptors(pid) for pid in broker.shard_pids())


def memory(broker: BrokerProcess) -> int:
    return proportional_bytes([broker.pid, *broker.shard_pids()])


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "topics", [40, pytest.param(1000, marks=pytest.mark.long)], ids=["40", "1000"]
)
def test_many_topics_come_and_go(
    tmp_path: Path, topics: int, measured: Callable[[str], None]
) -> None:
    broker = BrokerProcess(tmp_path, shards=2).start()
    try:
        empty = memory(broker)
        with broker.client(timeout_s=60) as client:
            client.create_stream("s")
            for topic in range(topics):
                client.create_topic("s", f"topic-{topic}", PARTITIONS)
            send_to_all(client, topics, 0)
            poll_all(client, topics, 1)
        used, files = memory(broker) - empty, most_descriptors(broker)
        assert broker.stop() == 0, broker.text()

        began_s = time.monotonic()
        broker.start()
        start_s = time.monotonic() - began_s
        restarted = memory(broker) - empty
        with broker.client(timeout_s=60) as client:
            send_to_all(client, topics, 1)
            poll_all(client, topics, 2)
            files = max(files, most_descriptors(broker))
            for topic in range(topics):
                client.delete_topic("s", f"topic-{topic}")
            found = client.get_stream("s")
            assert found is not None and not found.topics
        measured(
            f"{topics} topics of {PARTITIONS} partitions: {used / MIB:.1f} MiB, after a restart "
            f"{restarted / MIB:.1f}; a start takes {start_s:.2f} s; {files} descriptors"
        )
        assert files <= OPEN_FILES_MAX + BESIDE_FILES
        assert used <= topics * PARTITIONS * BYTES_A_PARTITION_MAX + BESIDE_BYTES
        wait_until(lambda: most_descriptors(broker) <= BESIDE_FILES, "logs are closed")
        streams = broker.data / "streams" / "0" / "topics"
        wait_until(lambda: not streams.exists() or not any(streams.iterdir()), "folders are gone")
        assert broker.stop() == 0, broker.text()
    finally:
        broker.end()

"""What a client finds in a partition, and where its files are."""

from __future__ import annotations

from pathlib import Path

from broker_process import BrokerProcess
from iggy_client.client import Client
from iggy_wire.batch import Message, messages
from iggy_wire.primitives import Partitioning, PollingStrategy

FIRST = Partitioning.partition(0)


def partition_folder(broker: BrokerProcess, *, topic: int = 0, partition: int = 0) -> Path:
    """Of stream 0."""
    return broker.data / f"streams/0/topics/{topic}/partitions/{partition}"


def logs(folder: Path) -> list[Path]:
    """Its segments, the newest last."""
    return sorted(folder.glob("*.log"))


def read_all(
    client: Client, stream: str, topic: str, partition: int = 0, *, first: int = 0
) -> list[bytes]:
    """The payloads from offset `first` on; offsets must be dense."""
    found = read_messages(client, stream, topic, partition, first=first)
    return [message.payload for message in found]


def read_messages(
    client: Client, stream: str, topic: str, partition: int = 0, *, first: int = 0
) -> list[Message]:
    """The same with all that belongs to a message."""
    found: list[Message] = []
    while True:
        strategy = PollingStrategy.offset(first + len(found))
        polled = client.poll(stream, topic, partition, strategy=strategy, count=1000)
        if not polled.count:
            return found
        for message in messages(polled.region):
            assert message.offset == first + len(found)
            found.append(message)


def send(client: Client, stream: str, topic: str, *payloads: bytes, partition: int = 0) -> int:
    """One batch; its first offset."""
    target = Partitioning.partition(partition)
    sent = [Message(payload) for payload in payloads]
    landed = client.send(stream, topic, target, sent)
    assert landed is not None
    return landed.base_offset


def warnings(broker: BrokerProcess) -> list[str]:
    """What its log says at warning or worse."""
    levels = ("warning", "error", "critical")
    return [str(r["message"]) for r in broker.records() if r["level"] in levels]

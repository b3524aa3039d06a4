"""A broker that is killed under load: nothing acknowledged is lost, no offset is given twice."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from broker_process import BrokerProcess
from iggy_client.client import Client, messages
from iggy_client.errors import ClientError, LinkError
from iggy_wire.batch import Message
from iggy_wire.primitives import Partitioning, PollingStrategy

KILLS = 10
PARTITIONS = 4
PRODUCERS = 4
ACKNOWLEDGED_BEFORE_KILL = 200  # over all producers, since the broker started


@dataclass
class History:
    """What clients were told: which payload has which offset. One lock, since many tell it."""

    acknowledged: dict[tuple[int, int], bytes] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    since_start: int = 0
    enough: threading.Event = field(default_factory=threading.Event)

    def add(self, partition: int, base_offset: int, payloads: list[bytes]) -> None:
        with self.lock:
            for place, payload in enumerate(payloads):
                key = (partition, base_offset + place)
                assert self.acknowledged.setdefault(key, payload) == payload, f"{key} twice"
            self.since_start += 1
            if self.since_start >= ACKNOWLEDGED_BEFORE_KILL:
                self.enough.set()

    def begin(self) -> None:
        self.since_start = 0
        self.enough.clear()


def produce(broker: BrokerProcess, history: History, *, producer: int, life: int) -> None:
    """Send batches of one to three messages until the broker is gone."""
    number = 0
    try:
        with broker.client() as client:
            while True:
                payloads = [
                    f"{life}/{producer}/{number}/{place}".encode() * (1 + number % 50)
                    for place in range(1 + number % 3)
                ]
                partition = (producer + number) % PARTITIONS
                confirmation = client.send(
                    "s",
                    "t",
                    Partitioning.partition(partition),
                    [Message(payload) for payload in payloads],
                )
                history.add(partition, confirmation.base_offset, payloads)
                number += 1
    except (LinkError, OSError):
        return  # killed


def read_all(client: Client) -> dict[tuple[int, int], bytes]:
    """Everything that is stored; offsets must be dense."""
    found = {}
    for partition in range(PARTITIONS):
        offset = 0
        while True:
            strategy = PollingStrategy.offset(offset)
            polled = client.poll("s", "t", partition, strategy=strategy, count=1000)
            if not polled.count:
                break
            for message in messages(polled):
                assert message.offset == offset, "offsets are dense"
                found[partition, offset] = message.payload
                offset += 1
    return found


@pytest.mark.timeout(240)
@pytest.mark.parametrize("durability", ["replicated", "persisted"])
def test_ten_kills_lose_nothing_acknowledged_and_reuse_no_offset(
    tmp_path: Path, durability: str
) -> None:
    broker = BrokerProcess(tmp_path, shards=2).start()
    history = History()
    try:
        with broker.client() as client:
            client.create_stream("s")
            client.create_topic("s", "t", PARTITIONS, {"durability": durability})
        for life in range(KILLS):
            history.begin()
            producers = [
                threading.Thread(
                    target=produce, args=(broker, history), kwargs={"producer": n, "life": life}
                )
                for n in range(PRODUCERS)
            ]
            for producer in producers:
                producer.start()
            assert history.enough.wait(60), broker.text()
            broker.kill()
            for producer in producers:
                producer.join()
            broker.start()
            with broker.client() as client:
                stored = read_all(client)
            lost = {
                key for key, payload in history.acknowledged.items() if stored.get(key) != payload
            }
            assert not lost, f"after kill {life}"
        assert len(history.acknowledged) >= KILLS * ACKNOWLEDGED_BEFORE_KILL
        assert broker.stop() == 0
    finally:
        broker.end()


def test_acknowledged_changes_and_offsets_survive_a_kill(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, shards=2).start()
    try:
        with broker.client() as client:
            for number in range(20):
                client.create_stream(f"s{number}")
                client.create_topic(f"s{number}", "t", 2)
                client.send(f"s{number}", "t", Partitioning.partition(1), [Message(b"m")] * 5)
                client.store_offset("c", f"s{number}", "t", 1, 3)
                client.create_group(f"s{number}", "t", "g")
            client.delete_stream("s7")
        broker.kill()
        broker.start()
        with broker.client() as client:
            names = {stream.name for stream in client.get_streams()}
            assert names == {f"s{number}" for number in range(20) if number != 7}
            for name in names:
                stored = client.get_offset("c", name, "t", 1)
                assert stored is not None and (stored.current_offset, stored.stored_offset) == (
                    4,
                    3,
                )
                assert [group.name for group in client.get_groups(name, "t")] == ["g"]
            with pytest.raises(ClientError):
                client.send("s7", "t", Partitioning.partition(1), [Message(b"m")])
        assert broker.stop() == 0
    finally:
        broker.end()

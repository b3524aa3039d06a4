"""The broker is killed again and again under producers and a group of two: the group resumes."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from pathlib import Path

from broker_process import BrokerProcess
from group_cases import GROUP, TOPIC, make_topic, members, offsets, owned, read, wait_for
from iggy_client import Client, ClientError, LinkError
from iggy_wire.batch import Message
from iggy_wire.errors import ErrorCode
from iggy_wire.primitives import Partitioning

PARTITIONS = 4
KILLS = 5


class Work:
    """What producers were told, and what members have read."""

    def __init__(self, broker: BrokerProcess, stream: str) -> None:
        self.broker = broker
        self.stream = stream
        self.lock = threading.Lock()
        self.produced = threading.Event()  # set: producers stop
        self.over = threading.Event()  # set: members stop
        self.acknowledged: list[set[int]] = [set() for _ in range(PARTITIONS)]
        self.seen: set[tuple[int, int]] = set()

    def connect(self) -> Client | None:
        """A client, or None if the broker is down now."""
        try:
            return self.broker.client(timeout_s=5)
        except LinkError:
            time.sleep(0.01)
            return None

    def produce(self, partition: int) -> None:
        target = Partitioning.partition(partition)
        while not self.produced.is_set():
            client = self.connect()
            if client is None:
                continue
            with client, contextlib.suppress(LinkError):
                while not self.produced.is_set():
                    sent = client.send(self.stream, TOPIC, target, [Message(b"m")] * 3)
                    first = sent.base_offset
                    with self.lock:
                        self.acknowledged[partition].update(range(first, first + 3))

    def consume(self) -> None:
        while not self.over.is_set():
            client = self.connect()
            if client is None:
                continue
            with client, contextlib.suppress(LinkError):
                client.join_group(self.stream, TOPIC, "g")
                while not self.over.is_set():
                    for partition in owned(client, self.stream) or ():
                        self._step(client, partition)

    def _step(self, client: Client, partition: int) -> None:
        got = offsets(read(client, self.stream, partition, count=50))
        if not got:
            return
        with self.lock:  # before the commit: whether that is done, a kill may leave open
            self.seen.update((partition, offset) for offset in got)
        try:
            client.store_offset(GROUP, self.stream, TOPIC, partition, got[-1])
        except ClientError as error:
            assert error.code == ErrorCode.RESOURCE_NOT_FOUND, "the partition went to the other one"

    def counts(self) -> list[int]:
        """Messages acknowledged in each partition, and read by the group."""
        with self.lock:
            return [*map(len, self.acknowledged), len(self.seen)]

    def is_beyond(self, before: list[int]) -> bool:
        """Whether every partition and the group went on."""
        return all(now > then for now, then in zip(self.counts(), before, strict=True))

    def missing(self) -> int:
        """How many acknowledged messages no member has read yet."""
        with self.lock:
            return sum(
                (partition, offset) not in self.seen
                for partition, known in enumerate(self.acknowledged)
                for offset in known
            )


def test_a_group_resumes_after_every_kill(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, shards=2).start()
    chance = random.Random(4)
    try:
        with broker.client() as admin:
            stream = make_topic(admin, partitions=PARTITIONS)
        work = Work(broker, stream)
        producers = [threading.Thread(target=work.produce, args=(at,)) for at in range(PARTITIONS)]
        consumers = [threading.Thread(target=work.consume) for _ in range(2)]
        for thread in (*producers, *consumers):
            thread.start()
        try:
            for _ in range(KILLS):
                before = work.counts()
                wait_for(lambda at=before: work.is_beyond(at), within_s=30)
                time.sleep(chance.uniform(0.0, 0.3))
                broker.kill()
                broker.start()
            work.produced.set()
            for thread in producers:
                thread.join()
            wait_for(lambda: work.missing() == 0, within_s=30)
            with broker.client() as admin:
                wait_for(lambda: len(members(admin, stream)) == 2)
        finally:
            work.produced.set()
            work.over.set()
            for thread in (*producers, *consumers):
                thread.join()
        with broker.client() as admin:
            wait_for(lambda: members(admin, stream) == {})
            for partition in range(PARTITIONS):
                stored = admin.get_offset(GROUP, stream, TOPIC, partition)
                assert stored is not None
                assert stored.stored_offset == stored.current_offset
        assert broker.stop() == 0, broker.text()
    finally:
        broker.end()

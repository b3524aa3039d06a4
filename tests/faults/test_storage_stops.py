"""SIGTERM or SIGINT, twice, at any moment under load: a quick, clean end, and nothing to repair."""

from __future__ import annotations

import itertools
import random
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from broker_process import BrokerProcess, wait_for_exit
from iggy_client.errors import ClientError, LinkError
from iggy_wire.errors import ErrorCode
from stored import logs, partition_folder, read_all, send, warnings

STOPS = 10
PARTITIONS = 3
PRODUCERS = 3
ACKNOWLEDGED = 30  # in each life, before the stop
LATER_MAX_S = 0.1
STARTING_S = 0.5  # about as long as a start takes
PAYLOAD_BYTES_MAX = 30_000
TOPICS_MAX = 5
STOPS_WITHIN_S = 10.0
SIGNALS = (signal.SIGTERM, signal.SIGINT)  # the first one; another SIGTERM follows at once


class Lives:
    """What clients were told, over all lives of one broker."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.sent: dict[tuple[int, int], bytes] = {}  # beginnings of payloads, by partition, offset
        self.topics: set[str] = set()
        self.stored = [-1] * PARTITIONS
        self.told = 0
        self.is_over = threading.Event()

    def produce(self, life: int, producer: int) -> None:
        with self.broker.client() as client:
            for number in itertools.count():
                partition = (producer + number) % PARTITIONS
                label = f"{life}/{producer}/{number}/".encode()
                payload = label.ljust(number * 7919 % PAYLOAD_BYTES_MAX, b".")
                offset = send(client, "s", "t", payload, partition=partition)
                assert self.sent.setdefault((partition, offset), label) == label
                if number % 5 == producer == 0:
                    client.store_offset("c", "s", "t", partition, offset)
                    self.stored[partition] = offset
                self.told += 1

    def make_topics(self, life: int) -> None:
        with self.broker.client() as client:
            for number in itertools.count():
                if len(self.topics) >= TOPICS_MAX:
                    client.delete_topic("s", self.topics.pop())
                client.create_topic("s", f"t-{life}-{number}", 2)
                self.topics.add(f"t-{life}-{number}")

    def until_stopped(self, work: Callable[[], None]) -> None:
        try:
            work()
        except (LinkError, OSError):
            assert self.is_over.is_set()
        except ClientError as refusal:
            assert self.is_over.is_set() and refusal.code in STOPPING

    def run(self, life: int, later_s: float) -> float:
        """Load, and two signals in the middle of it; how long the end took."""
        self.is_over.clear()
        enough = self.told + ACKNOWLEDGED
        works = [partial(self.produce, life, number) for number in range(PRODUCERS)]
        works.append(partial(self.make_topics, life))
        with ThreadPoolExecutor(len(works)) as pool:
            futures = [pool.submit(self.until_stopped, work) for work in works]
            while self.told < enough and not any(future.done() for future in futures):
                time.sleep(0.002)
            time.sleep(later_s)  # any moment
            self.is_over.set()
            began_s = time.monotonic()
            assert self.broker.process is not None
            self.broker.process.send_signal(SIGNALS[life % len(SIGNALS)])
            assert self.broker.stop() == 0, self.broker.text()
            took_s = time.monotonic() - began_s
            for future in futures:
                future.result()
        return took_s

    def check(self) -> None:
        """All that was acknowledged is there."""
        with self.broker.client() as client:
            for partition in range(PARTITIONS):
                found = read_all(client, "s", "t", partition)
                for offset, payload in enumerate(found):
                    assert payload.startswith(self.sent.get((partition, offset), b""))
                assert len(found) > max(o for p, o in self.sent if p == partition)
                stored = client.get_offset("c", "s", "t", partition)
                last = self.stored[partition]
                assert last < 0 or (stored is not None and stored.stored_offset >= last)
            names = {topic.name for topic in client.get_topics("s")}
            assert self.topics <= names


STOPPING = (ErrorCode.DISCONNECTED, ErrorCode.TRANSIENT_NOT_ACCEPTED)


def test_ten_stops_under_load_lose_nothing_and_need_no_repair(
    tmp_path: Path, measured: Callable[[str], None]
) -> None:
    chance = random.Random(6)
    broker = BrokerProcess(tmp_path)
    lives = Lives(broker)
    took_s = []
    try:
        broker.start()
        with broker.client() as client:
            client.create_stream("s")
            client.create_topic("s", "t", PARTITIONS, {"segment_size": 1 << 20})
        for life in range(STOPS):
            took_s.append(lives.run(life, chance.uniform(0, LATER_MAX_S)))
            for partition in range(PARTITIONS):
                folder = partition_folder(broker, partition=partition)
                assert (folder / "clean").exists() or not logs(folder)
            broker.start()
            lives.check()
        assert broker.stop() == 0
        assert not warnings(broker), "nothing had to be repaired"
        assert max(took_s) < STOPS_WITHIN_S
        measured(f"{lives.told} sends, {len(lives.topics)} topics, stops {max(took_s):.2f} s")
    finally:
        broker.end()


def test_a_stop_while_starting_is_a_stop(tmp_path: Path) -> None:
    chance = random.Random(7)
    broker = BrokerProcess(tmp_path)
    try:
        broker.start()
        with broker.client() as client:
            client.create_stream("s")
            for number in range(20):
                client.create_topic("s", f"t{number}", 8)
        assert broker.stop() == 0
        for _ in range(STOPS // 2):
            known = len(broker.records())
            process = broker.launch()
            while not [one for one in broker.records()[known:] if one["event"] == "starting"]:
                assert broker.is_running, broker.text()
                time.sleep(0.001)
            time.sleep(chance.uniform(0, STARTING_S))  # any moment
            process.send_signal(signal.SIGTERM)
            assert wait_for_exit(process) == 0, broker.text()
        broker.start()
        assert broker.stop() == 0
        assert not warnings(broker)
    finally:
        broker.end()

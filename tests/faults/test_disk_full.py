"""A full disk under a real broker: refusals with a reason, and nothing else happens to anybody."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import signal
import threading
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from broker_process import BrokerProcess, wait_for_exit
from iggy_client.client import Client
from iggy_client.errors import ClientError
from iggy_wire.batch import Message, messages
from iggy_wire.errors import ErrorCode
from iggy_wire.primitives import Partitioning, PollingStrategy
from small_disk import BrokerOnSmallDisk, SmallDisk, small_disk, small_ext4, wait_until

FIRST = Partitioning.partition(0)
M = Message(b"m")
NO_ROOM_FOR_AN_OFFSET = ErrorCode.CANNOT_OPEN_CONSUMER_OFFSETS_FILE
NO_ROOM = (ErrorCode.CANNOT_APPEND_MESSAGE, ErrorCode.CANNOT_OPEN_PARTITION_LOG_FILE)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path) as mounted:
        yield mounted


@pytest.fixture
def broker(tmp_path: Path, disk: SmallDisk) -> Iterator[BrokerOnSmallDisk]:
    broker = BrokerOnSmallDisk(tmp_path, disk)
    broker.monitoring = True
    broker.start()
    try:
        yield broker
        assert broker.stop() == 0, broker.text()
    finally:
        broker.end()


def send_until_refused(
    client: Client, topic: str, *, payload_bytes: int = 100_000, first: int = 0
) -> int:
    """Send batches of one message; how many were acknowledged, the first at offset `first`."""
    sent = 0
    while True:
        payload = f"{topic}/{sent}/".encode().ljust(payload_bytes, b".")
        try:
            confirmed = client.send("s", topic, FIRST, [Message(payload)])
        except ClientError as refused:
            assert refused.code in NO_ROOM
            return sent
        assert confirmed.base_offset == first + sent
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


def metrics(broker: BrokerOnSmallDisk) -> dict[str, float]:
    address = f"http://127.0.0.1:{broker.monitoring_port}/metrics"
    with urllib.request.urlopen(address, timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    shown = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in shown}


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


def make_topic(client: Client, *names: str) -> None:
    client.create_stream("s")
    for name in names:
        client.create_topic("s", name, 1, {"segment_size": 1 << 20})


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_full_disk_costs_nothing_but_the_refused_sends(
    broker: BrokerOnSmallDisk, disk: SmallDisk, how: str
) -> None:
    with broker.client() as client:
        make_topic(client, "big", "small")
        for number in range(10):
            client.send("s", "small", FIRST, [Message(b"small %d" % number)])
        client.store_offset("c", "s", "small", 0, 4)
        sent = send_until_refused(client, "big")
        disk.fill()
        assert sent > 400, "most of 64 MiB"
        assert send_until_refused(client, "big", payload_bytes=1 << 20, first=sent) == 0
        assert len(read_all(client, "big")) == sent
    assert metrics(broker)["iggy_disk_free_bytes"] == 0
    refused = 'iggy_refusals_total{code="cannot_append_message"}'
    wait_until(lambda: metrics(broker).get(refused, 0) >= 2)

    assert how == "kill" or broker.stop() == 0
    broker.end()
    broker.start()

    assert disk.free_bytes == 0
    with broker.client() as client:
        stored = client.get_offset("c", "s", "small", 0)
        assert stored is not None and stored.stored_offset == 4
        assert read_all(client, "small") == [b"small %d" % number for number in range(10)]
        assert len(read_all(client, "big")) == sent
        with pytest.raises(ClientError) as no_room:
            client.send("s", "big", FIRST, [Message(bytes(1 << 20))])
        assert no_room.value.code in NO_ROOM
        client.store_offset("c", "s", "small", 0, 7)

        client.purge_topic("s", "big")

        assert send_until_taken(client, "big", b"again") == 0
        assert send_until_taken(client, "small", b"more") == 10
        disk.fill()
        client.delete_topic("s", "big")
        wait_until(lambda: disk.free_bytes > 0, say=broker.text)
        stored = client.get_offset("c", "s", "small", 0)
        assert stored is not None and stored.stored_offset == 7


def test_a_first_start_on_a_full_disk_says_so(tmp_path: Path, disk: SmallDisk) -> None:
    disk.fill()
    broker = BrokerOnSmallDisk(tmp_path, disk)

    code = wait_for_exit(broker.launch())

    assert code == 1
    (record,) = [one for one in broker.records() if one["level"] == "critical"]
    assert record["level"] == "critical"
    assert f"{disk.inside}/data" in str(record["message"])
    assert "free some space" in str(record["message"])
    assert "Traceback" not in broker.text()
    disk.free()
    broker.start()
    assert broker.stop() == 0


def test_without_room_for_another_file_all_that_needs_none_goes_on(
    broker: BrokerOnSmallDisk, disk: SmallDisk
) -> None:
    settings = broker.data / "runtime" / "current_config.toml"
    with broker.client() as client:
        make_topic(client, "t")
        client.store_offset("c", "s", "t", 0, client.send("s", "t", FIRST, [M]).base_offset)
    assert broker.stop() == 0
    shutil.rmtree(broker.data / "runtime")
    disk.fill_names()

    broker.start()

    assert not settings.exists()
    with broker.client() as client:
        assert client.send("s", "t", FIRST, [M]).base_offset == 1
        client.store_offset("c", "s", "t", 0, 1)
        client.create_topic("s", "u", 1)
        assert client.poll("s", "u", 0, count=1).count == 0
        for refused, code in (
            (lambda: client.send("s", "u", FIRST, [M]), ErrorCode.CANNOT_OPEN_PARTITION_LOG_FILE),
            (lambda: client.store_offset("d", "s", "t", 0, 1), NO_ROOM_FOR_AN_OFFSET),
            (lambda: client.get_snapshot([4], 1), ErrorCode.SNAPSHOT_FILE_COMPLETION_FAILED),
        ):
            with pytest.raises(ClientError) as refusal:
                refused()
            assert refusal.value.code == code

        disk.free()

        assert send_until_taken(client, "u", b"late") == 0
        client.store_offset("d", "s", "t", 0, 1)
        client.get_snapshot([4], 1)
        wait_until(lambda: settings.exists() and str(broker.tcp_port) in settings.read_text())


class History:
    """What was acknowledged and what was refused, over all threads of one run."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.names: dict[str, set[str]] = {kind: set() for kind in KINDS}
        self.sent: dict[str, list[bytes]] = {}
        self.offsets: dict[tuple[str, str], int] = {}
        self.acknowledged = 0
        self.refused = 0
        self.stop = threading.Event()

    def try_to(self, work: Callable[[], object]) -> bool:
        """Whether it was done; a refusal must say that the disk is full."""
        try:
            work()
        except ClientError as refused:
            assert refused.code in REFUSALS, refused
            self.refused += 1
            return False
        self.acknowledged += 1
        return True


KINDS = ("stream", "topic", "group", "user", "token")
REFUSALS = (*NO_ROOM, ErrorCode.ERROR, NO_ROOM_FOR_AN_OFFSET)


def change_metadata(broker: BrokerOnSmallDisk, history: History) -> None:
    """Make and remove things of every kind until told to stop."""
    with broker.client() as client:
        make: dict[str, Callable[[str], object]] = {
            "stream": client.create_stream,
            "topic": lambda name: client.create_topic("s", name, 2, {"segment_size": 1 << 20}),
            "group": lambda name: client.create_group("s", "t", name),
            "user": lambda name: client.create_user(name, "secret", permissions=None),
            "token": client.create_access_token,
        }
        remove: dict[str, Callable[[str], object]] = {
            "stream": client.delete_stream,
            "topic": lambda name: client.delete_topic("s", name),
            "group": lambda name: client.delete_group("s", "t", name),
            "user": client.delete_user,
            "token": client.delete_access_token,
        }
        for number in itertools.count():
            if history.stop.is_set():
                return
            kind = KINDS[number % len(KINDS)]
            name, there = f"{kind}-{number}", history.names[kind]
            if len(there) > 12:
                old = min(there)
                if history.try_to(partial(remove[kind], old)):
                    there.remove(old)
            if history.try_to(partial(make[kind], name)):
                there.add(name)


def send_and_store(broker: BrokerOnSmallDisk, history: History) -> None:
    """Send to a topic and store offsets of new and old consumers until told to stop."""
    with broker.client() as client:
        sent = history.sent["t"]
        for number in itertools.count():
            if history.stop.is_set():
                return
            payload = f"{number}/".encode().ljust(1 + number * 7919 % 120_000, b".")
            if history.try_to(partial(client.send, "s", "t", FIRST, [Message(payload)])):
                sent.append(payload)
            consumer = f"c{number % 97}"
            offset = len(sent) - 1
            if sent and history.try_to(partial(client.store_offset, consumer, "s", "t", 0, offset)):
                history.offsets["t", consumer] = offset


def assert_all_there(client: Client, history: History) -> None:
    found = {
        "stream": {one.name for one in client.get_streams()} - {"s"},
        "topic": {one.name for one in client.get_topics("s")} - {"t"},
        "group": {one.name for one in client.get_groups("s", "t")},
        "user": {one.name for one in client.get_users()} - {"iggy"},
        "token": {one.name for one in client.get_access_tokens()},
    }
    assert found == history.names
    assert read_all(client, "t") == history.sent["t"]
    for (topic, consumer), offset in history.offsets.items():
        stored = client.get_offset(consumer, "s", topic, 0)
        assert stored is not None and stored.stored_offset == offset


def test_a_disk_that_fills_up_at_any_moment(tmp_path: Path, disk: SmallDisk) -> None:
    fill_at_any_moment(tmp_path, disk, seed=1)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(2, 12))
def test_ten_disks_that_fill_up_at_any_moment(tmp_path: Path, seed: int) -> None:
    with small_ext4(tmp_path) if seed % 2 else small_disk(tmp_path) as disk:
        fill_at_any_moment(tmp_path, disk, seed=seed)


def fill_at_any_moment(tmp_path: Path, disk: SmallDisk, *, seed: int) -> None:
    settings = {"IGGY_METADATA_JOURNAL_SLOTS": "16"}
    broker = BrokerOnSmallDisk(tmp_path, disk, settings=settings)
    history = History(seed)
    broker.start()
    try:
        with broker.client() as client:
            make_topic(client, "t")
            history.sent["t"] = []
            with ThreadPoolExecutor(2) as pool:
                works = [pool.submit(w, broker, history) for w in (change_metadata, send_and_store)]
                try:
                    for _ in range(8):
                        fill_and_free(disk, history, works)
                finally:
                    history.stop.set()
                for work in works:
                    work.result()
            assert_all_there(client, history)
        assert history.refused > 50
        broker.kill()
        broker.start()
        with broker.client() as client:
            assert_all_there(client, history)
            assert history.try_to(lambda: client.create_topic("s", "after", 3))
            assert send_until_taken(client, "after", b"after") == 0
        assert broker.stop() == 0
        assert "Traceback" not in broker.text()
    finally:
        broker.end()


def fill_and_free(disk: SmallDisk, history: History, works: list[Future[None]]) -> None:
    """Let clients work, fill the disk up to some bytes, let them be refused, give room again."""

    def go_on(name: str, count: int) -> None:
        enough = getattr(history, name) + count
        wait_until(lambda: getattr(history, name) >= enough or any(w.done() for w in works))

    go_on("acknowledged", history.chance.randint(5, 60))
    if history.chance.random() < 0.3:
        disk.fill_names(leave=history.chance.randint(0, 9))
    else:
        disk.fill(leave_bytes=history.chance.choice((0, 0, 4096, 50_000, 300_000)))
    go_on("refused", history.chance.randint(5, 40))
    disk.free()


def test_a_log_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    broker.wrapper = ["sh", "-c", 'exec "$@" >/dev/full 2>&1', "sh"]
    broker.start()
    try:
        with broker.client() as client:
            make_topic(client, "t")
            assert client.send("s", "t", FIRST, [M]).base_offset == 0
        assert broker.stop() == 0
        broker.start()
        with broker.client() as client:
            assert read_all(client, "t") == [b"m"]
        os.kill(broker.shard_pids()[0], signal.SIGKILL)
        assert broker.process is not None
        assert wait_for_exit(broker.process) == 70
    finally:
        broker.end()

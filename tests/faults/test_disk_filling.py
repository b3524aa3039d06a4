"""A disk that fills up and is freed at any moment, while everything is made and removed."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from full_disk import NO_ROOM, NO_ROOM_FOR_AN_OFFSET, make_topic, send_until_taken
from iggy_client.client import Client
from iggy_client.errors import ClientError
from iggy_wire.batch import Message
from iggy_wire.errors import ErrorCode
from small_disk import BrokerOnSmallDisk, SmallDisk, small_disk, small_ext4, wait_until
from stored import FIRST, read_all


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
    assert read_all(client, "s", "t") == history.sent["t"]
    for (topic, consumer), offset in history.offsets.items():
        stored = client.get_offset(consumer, "s", topic, 0)
        assert stored is not None and stored.stored_offset == offset


def test_a_disk_that_fills_up_at_any_moment(tmp_path: Path) -> None:
    with small_disk(tmp_path) as disk:
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

"""One data directory through the lives of brokers that encrypt, with other keys, or not at all."""

from __future__ import annotations

import asyncio
import base64
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from apache_iggy import Consumer, IggyClient, PollingStrategy, SendMessage

from archive_content import manifests_of, objects_of
from broker_process import PASSWORD, USERNAME, BrokerProcess, wait_for_exit
from iggy_broker.archive.folder import FolderStore
from iggy_broker.archive.store import ArchiveError
from iggy_client.client import Client, ClientError
from iggy_wire.archive import Manifest
from iggy_wire.primitives import PollingStrategy as Strategy
from iggy_wire.sealing import id_of
from restored import run_restore
from stored import partition_folder, read_all, send
from waiting import wait_until

ONE, TWO = os.urandom(32), os.urandom(32)
PARTITIONS = 2  # one of each shard
SECRET = "the recipe is"
NAME = "IGGY_SYSTEM_ENCRYPTION_"
ARCHIVE = "IGGY_DATA_MAINTENANCE_ARCHIVER_"


def text_of(key: bytes) -> str:
    return base64.b64encode(key).decode()


class Lives:
    """The data directory, and what every partition must hold."""

    def __init__(self, folder: Path) -> None:
        self.broker = BrokerProcess(folder)
        self.archive = folder / "archive"
        self.sent: list[bytes] = []

    def settings(self, **encryption: str) -> None:
        self.broker.settings = {
            f"{ARCHIVE}ENABLED": "true",
            f"{ARCHIVE}CONTINUOUS": "true",
            f"{ARCHIVE}INTERVAL": "50ms",
            f"{ARCHIVE}DISK_PATH": str(self.archive),
            "IGGY_SYSTEM_PARTITION_MESSAGE_SAVER_INTERVAL": "50ms",
            "IGGY_SYSTEM_SEGMENT_VALIDATE_CHECKSUM": "true",
            **{NAME + name.upper(): value for name, value in encryption.items()},
        }

    @contextmanager
    def life(self, *, killed: bool = False, **encryption: str) -> Iterator[Client]:
        """Start with these settings; the end is a clean one, or none."""
        self.settings(**encryption)
        self.broker.start()
        try:
            with self.broker.client() as client:
                yield client
            if killed:
                self.broker.kill()
            else:
                assert self.broker.stop() == 0, self.broker.text()
        finally:
            self.broker.end()
        assert not self.events("segment_damaged")

    def send(self, client: Client, count: int = 20) -> None:
        for _ in range(count):
            self.sent.append(f"{SECRET} {len(self.sent)}".encode() * 20)
            for partition in range(PARTITIONS):
                send(client, "s", "t", self.sent[-1], partition=partition)

    def check(self, client: Client, *, first: int = 0) -> None:
        for partition in range(PARTITIONS):
            assert read_all(client, "s", "t", partition, first=first) == self.sent[first:]

    def events(self, name: str) -> list[dict[str, object]]:
        return [record for record in self.broker.records() if record["event"] == name]

    def places_of(self, words: bytes) -> set[str]:
        """Files below data directory and archive that have these bytes."""
        return {
            str(path)
            for root in (self.broker.data, self.archive)
            for path in root.rglob("*")
            if path.is_file() and words in path.read_bytes()
        }


async def through_the_released_client(address: str) -> None:
    client = IggyClient(address)
    await client.connect()
    await client.login_user(USERNAME, PASSWORD)
    sent = [f"{SECRET} {number}" * number for number in range(1, 40)]
    for partition in range(PARTITIONS):
        batch = [SendMessage(text, id=number + 1) for number, text in enumerate(sent)]
        await client.send_messages("s", "official", partition, batch)
        for first, count in ((0, 100), (0, 1), (17, 5), (38, 100)):
            polled = await client.poll_messages(
                "s",
                "official",
                consumer=Consumer.Single("reader"),
                partition_id=partition,
                polling_strategy=PollingStrategy.Offset(first),
                count=count,
                auto_commit=False,
            )
            texts = [message.payload().decode() for message in polled]
            assert texts == sent[first : first + count]
            numbers = range(first, first + len(texts))
            assert [message.offset() for message in polled] == [*numbers]
            assert [message.id() for message in polled] == [number + 1 for number in numbers]


@pytest.mark.timeout(180)  # eight starts of a process, on a busy machine
def test_one_directory_through_all_lives(tmp_path: Path) -> None:
    lives, one, two = Lives(tmp_path), text_of(ONE), text_of(TWO)
    key_file = tmp_path / "key"
    key_file.write_text(one + "\n")
    with lives.life() as client:
        client.create_stream("s")
        client.create_topic("s", "t", PARTITIONS)
        client.create_topic("s", "official", PARTITIONS)
        lives.send(client)
    version = lives.broker.data / "format_version"
    assert version.read_text() == "1\n"
    in_the_clear = lives.places_of(SECRET.encode())
    assert in_the_clear, "it can be found"

    with lives.life(killed=True, enabled="true", key_file=str(key_file)) as client:
        assert version.read_text() == "2\n", "an older broker must not take it for damage"
        lives.send(client)
        asyncio.run(through_the_released_client(lives.broker.address))
        lives.check(client)
        store = FolderStore(lives.archive)
        wait_until(lambda: keys_of(store) == {"", id_of(ONE)}, "an archive of it", 30)
    with lives.life(killed=True, enabled="true", key=two, old_keys=one) as client:
        lives.check(client)
        lives.send(client)
        lives.check(client)
        wait_until(lambda: keys_of(store) == {"", id_of(ONE), id_of(TWO)}, "and of that", 30)
    assert lives.places_of(SECRET.encode()) <= in_the_clear | copies_of_the_first(lives)
    with lives.life(key=two, old_keys=one) as client:
        lives.check(client)
        lives.send(client)
        lives.check(client)
        wait_until(lambda: is_archived(store, len(lives.sent)), "all of it", 30)
    assert version.read_text() == "2\n"

    restored_without_keys(lives, key=two, old_keys=one)
    without_keys(lives)
    for key in (one, two):
        assert lives.places_of(key.encode()) == set()
        assert key not in lives.broker.text()
    assert {record["key_id"] for record in lives.events("encryption")} == {id_of(ONE), id_of(TWO)}


def copies(store: FolderStore) -> list[Manifest]:
    """Manifests of the topic; none while the archive changes as it is read."""
    try:
        found = manifests_of(objects_of(store)).values()
    except (AssertionError, ArchiveError, FileNotFoundError):
        return []
    return [manifest for manifest in found if manifest.topic == "t"]


def keys_of(store: FolderStore) -> set[str]:
    """What the archived segments are encrypted with."""
    return {manifest.key_id or "" for manifest in copies(store)}


def is_archived(store: FolderStore, count: int) -> bool:
    """Whether it has so many messages of both partitions."""
    found = Counter[int]()
    for manifest in copies(store):
        found[manifest.partition_id] += manifest.messages
    return [*found.values()] == [count] * PARTITIONS


def restored_without_keys(lives: Lives, **encryption: str) -> None:
    """Into another directory, which is read with them."""
    other = Lives(lives.broker.folder / "restored")
    other.broker.folder.mkdir()
    done = run_restore(other.broker, "--from", str(lives.archive), "--full")
    assert done.returncode == 0, done.stderr
    assert (other.broker.data / "format_version").read_text() == "2\n"
    other.sent = lives.sent
    with other.life(**encryption) as client:
        other.check(client)


def copies_of_the_first(lives: Lives) -> set[str]:
    """The segments of the first life, sealed and copied since."""
    name = "00000000000000000000.log"
    return {str(path) for path in lives.archive.rglob(name) if "topics/0/" in str(path)}


def without_keys(lives: Lives) -> None:
    """What is in the clear is read, the rest is refused; checks and backups need no key."""
    backup = lives.broker.folder / "backup"
    with lives.life() as client:
        for partition in range(PARTITIONS):
            polled = client.poll("s", "t", partition, strategy=Strategy.offset(0), count=100)
            assert polled.count == 20
            for first, key in ((20, ONE), (45, TWO)):
                with pytest.raises(ClientError, match="CANNOT_DECRYPT_DATA"):
                    client.poll("s", "t", partition, strategy=Strategy.offset(first), count=1)
                told = lives.events("not_decrypted")[-1]
                assert (told["key_id"], told["offset"]) == (id_of(key), first)
                assert told["folder"] == str(partition_folder(lives.broker, partition=partition))
        lives.send(client, 1)
        lives.check(client, first=80)
        for arguments in (["--to", str(backup)], ["--check", str(backup)]):
            done = subprocess.run(
                [sys.executable, "-m", "iggy_broker", "backup", *arguments],
                env=lives.broker.environment(), capture_output=True, text=True, timeout=60,
                check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
    assert (backup / "format_version").read_text() == "2\n"


def test_a_start_without_its_key_file_says_which_setting(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    broker.settings = {f"{NAME}ENABLED": "true", f"{NAME}KEY_FILE": str(tmp_path / "none")}
    assert wait_for_exit(broker.launch()) == 1
    (*_, last) = broker.records()
    assert last["event"] == "cannot_start"
    assert "system.encryption.key_file" in str(last["message"])
    assert not (tmp_path / "data").exists(), "nothing was touched"

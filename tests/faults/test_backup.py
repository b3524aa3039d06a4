"""`iggy-broker backup` beside a broker under load, and a broker that starts on what it made."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from broker_process import BrokerProcess, running_broker
from iggy_client.client import Client
from iggy_wire.primitives import Consumer
from stored import logs, partition_folder, read_all, send

READER = Consumer.plain(7)
SETTINGS = {"IGGY_DATA_MAINTENANCE_MESSAGES_INTERVAL": "50 ms"}
PARTITIONS = 3
BATCH = 20


def run_backup(broker: BrokerProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "iggy_broker", "backup", *arguments],
        env=os.environ | {"IGGY_SYSTEM_PATH": str(broker.data)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def lines(done: subprocess.CompletedProcess[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in done.stderr.splitlines()]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with running_broker(tmp_path / "one", settings=SETTINGS) as broker:
        yield broker


def payloads(first: int) -> list[bytes]:
    return [f"{number:08d}".encode() * 500 for number in range(first, first + BATCH)]


class Load:
    """Sends to partitions of one topic, stores offsets, and makes and removes other topics."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.sent = [0] * PARTITIONS  # acknowledged
        self.stop = threading.Event()
        self.pool = ThreadPoolExecutor(2)
        self.running: list[Future[None]] = []

    def run(self, work: Callable[[Load, Client], None]) -> None:
        with self.broker.client() as client:
            while not self.stop.is_set():
                work(self, client)

    def __enter__(self) -> Load:
        self.running = [self.pool.submit(self.run, work) for work in (send_all, churn)]
        return self

    def __exit__(self, *error: object) -> None:
        self.stop.set()
        for one in self.running:
            one.result()
        self.pool.shutdown()


def send_all(load: Load, client: Client) -> None:
    for partition in range(PARTITIONS):
        first = load.sent[partition]
        assert send(client, "s", "t", *payloads(first), partition=partition) == first
        load.sent[partition] = first + BATCH
        client.store_offset(READER, "s", "t", partition, first)


def churn(load: Load, client: Client) -> None:
    client.create_topic("s", "short", 2, {})
    send(client, "s", "short", *payloads(0))
    client.purge_topic("s", "short")
    send(client, "s", "short", *payloads(0))
    client.delete_topic("s", "short")


@pytest.mark.parametrize("link", [False, True])
def test_what_was_acknowledged_before_is_there_and_all_that_is_there_is_right(
    broker: BrokerProcess, tmp_path: Path, *, link: bool
) -> None:
    with broker.client() as client:
        client.create_stream("s")
        client.create_topic("s", "t", PARTITIONS, {"segment_size": 1 << 20})
        client.create_topic("s", "trimmed", 1, {"segment_size": 1 << 20, "max_topic_size": 2 << 20})
        client.create_group("s", "t", "billing")
        for first in range(0, 60 * BATCH, BATCH):
            send(client, "s", "trimmed", *payloads(first))
    acknowledged: list[list[int]] = []
    with Load(broker) as load:
        for number in range(4):
            before = list(load.sent)
            where = tmp_path / f"backup-{number}" / "data"
            done = run_backup(broker, "--to", str(where), *(["--link"] if link else []))
            assert done.returncode == 0, done.stderr
            assert lines(done)[-1]["event"] == "backup_made"
            acknowledged.append(before)

    for number, before in enumerate(acknowledged):
        where = tmp_path / f"backup-{number}"
        checked = run_backup(broker, "--check", str(where / "data"))
        assert checked.returncode == 0, checked.stderr
        if link:  # shared files are not for another broker
            shutil.copytree(where / "data", where / "copy" / "data")
            where /= "copy"
        with running_broker(where, settings=SETTINGS) as copy, copy.client() as client:
            for partition in range(PARTITIONS):
                found = read_all(client, "s", "t", partition)
                assert len(found) >= before[partition]
                expected = [one for first in range(0, len(found), BATCH) for one in payloads(first)]
                assert found == expected[: len(found)]
                stored = client.get_offset(READER, "s", "t", partition)
                at_least = before[partition] - BATCH
                assert at_least < BATCH or stored is not None
                assert stored is None or at_least - BATCH <= stored.stored_offset < len(found)
            assert [group.name for group in client.get_groups("s", "t")] == ["billing"]
            assert send(client, "s", "trimmed", b"next") == 60 * BATCH
            levels = ("warning", "error", "critical")
            told = {one["event"] for one in copy.records() if one["level"] in levels}
            assert told <= {"folder_missing"}, told  # a topic that was deleted meanwhile


def test_a_backup_with_a_broken_batch_or_a_missing_file_is_told(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    with broker.client() as client:
        client.create_stream("s")
        client.create_topic("s", "t", 1, {"segment_size": 1 << 20})
        for first in range(0, 30 * BATCH, BATCH):
            send(client, "s", "t", *payloads(first))
    where = tmp_path / "backup"
    assert run_backup(broker, "--to", str(where)).returncode == 0
    log = logs(where / partition_folder(broker).relative_to(broker.data))[1]
    data = bytearray(log.read_bytes())
    data[100_000] ^= 1
    log.write_bytes(data)
    done = run_backup(broker, "--check", str(where))
    assert done.returncode == 1
    problems = [one["message"] for one in lines(done) if one["event"] == "backup_damaged"]
    assert any(f"{log}: checksum error at offset" in str(one) for one in problems)
    log.unlink()
    assert run_backup(broker, "--check", str(where)).returncode == 1


def test_what_is_in_the_way_is_left_alone(broker: BrokerProcess, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    done = run_backup(broker, "--to", str(taken))
    assert done.returncode == 1
    assert "is there already" in str(lines(done)[-1]["message"])
    other = tmp_path / "b.unfinished"
    other.mkdir()
    (other / "mine").write_text("kept")
    assert run_backup(broker, "--to", str(tmp_path / "b")).returncode == 1
    assert (other / "mine").read_text() == "kept"
    (other / "mine").unlink()
    (other / "format_version").write_text("1\n")  # a backup that was killed
    assert run_backup(broker, "--to", str(tmp_path / "b")).returncode == 0
    assert run_backup(broker, "--check", str(tmp_path)).returncode == 1
    assert run_backup(broker).returncode == 2
    broker_of_nothing = BrokerProcess(tmp_path / "nothing")
    done = run_backup(broker_of_nothing, "--to", str(tmp_path / "c"))
    assert "is no data directory" in str(lines(done)[-1]["message"])


def test_a_backup_of_a_killed_broker(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "one").start()
    with broker.client() as client:
        client.create_stream("s")
        client.create_topic("s", "t", 1)
        send(client, "s", "t", *payloads(0))
    broker.kill()
    assert run_backup(broker, "--to", str(tmp_path / "two" / "data")).returncode == 0
    with running_broker(tmp_path / "two") as copy, copy.client() as client:
        assert read_all(client, "s", "t") == payloads(0)

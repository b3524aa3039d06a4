"""A full disk under a real broker: refusals with a reason, and nothing else happens to anybody."""

from __future__ import annotations

import os
import shutil
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_process import BrokerProcess, wait_for_exit
from full_disk import NO_ROOM, NO_ROOM_FOR_AN_OFFSET, make_topic, send_until_taken
from http_client import http_client, sending
from iggy_client.client import Client
from iggy_client.errors import ClientError
from iggy_wire.batch import Message
from iggy_wire.errors import ErrorCode
from small_disk import BrokerOnSmallDisk, SmallDisk, small_disk, wait_until
from stored import FIRST, read_all

M = Message(b"m")
TOPICS = "/streams/s/topics"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path) as mounted:
        yield mounted


@pytest.fixture
def broker(
    tmp_path: Path, disk: SmallDisk, request: pytest.FixtureRequest
) -> Iterator[BrokerOnSmallDisk]:
    transports = getattr(request, "param", ())
    broker = BrokerOnSmallDisk(tmp_path, disk, transports=transports)
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


def refused_over_http(broker: BrokerOnSmallDisk) -> int:
    """The number of the refusal of a send that is too large for what is left, and not seen."""
    with http_client(broker) as http:
        before = http.get(f"{TOPICS}/big")["messages_count"]
        answer = http.ask("POST", f"{TOPICS}/big/messages", sending(bytes(1 << 20)))
        assert answer.status == 400
        assert http.get(f"{TOPICS}/big")["messages_count"] == before
        return answer.error[1]


def metrics(broker: BrokerOnSmallDisk) -> dict[str, float]:
    address = f"http://127.0.0.1:{broker.monitoring_port}/metrics"
    with urllib.request.urlopen(address, timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    shown = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in shown}


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
        assert all(read_all(client, "s", topic) == [b"late"] for topic in made)


@pytest.mark.parametrize("broker", [["http"]], ids=["http"], indirect=True)
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
        assert len(read_all(client, "s", "big")) == sent
    assert refused_over_http(broker) in NO_ROOM
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
        assert read_all(client, "s", "small") == [b"small %d" % number for number in range(10)]
        assert len(read_all(client, "s", "big")) == sent
        with pytest.raises(ClientError) as no_room:
            client.send("s", "big", FIRST, [Message(bytes(1 << 20))])
        assert no_room.value.code in NO_ROOM
        client.store_offset("c", "s", "small", 0, 7)

        assert refused_over_http(broker) in NO_ROOM
        with http_client(broker) as http:
            found = http.payloads(f"{TOPICS}/small", "count=100")
            assert found == [b"small %d" % number for number in range(10)]
            assert http.ask("DELETE", f"{TOPICS}/big/purge").status == 204

        assert send_until_taken(client, "big", b"again") == 0
        assert send_until_taken(client, "small", b"more") == 10
        disk.fill()
        with http_client(broker) as http:
            assert http.ask("DELETE", f"{TOPICS}/big").status == 204
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
            assert read_all(client, "s", "t") == [b"m"]
        os.kill(broker.shard_pids()[0], signal.SIGKILL)
        assert broker.process is not None
        assert wait_for_exit(broker.process) == 70
    finally:
        broker.end()

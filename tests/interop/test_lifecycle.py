"""Start and stop of a real broker: what it says, what it leaves, what it refuses."""

from __future__ import annotations

import itertools
import os
import re
import signal
import socket
import threading
import urllib.request
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError

import pytest

from broker_process import PASSWORD, USERNAME, BrokerProcess, running_broker, wait_for_exit
from iggy_client.client import Client
from iggy_client.errors import ClientError, LinkError
from iggy_wire.batch import Message
from iggy_wire.primitives import Partitioning, PollingStrategy


def fill(client: Client) -> None:
    client.create_stream("s")
    client.create_topic("s", "t", 4)
    for partition in range(4):
        client.send("s", "t", Partitioning.partition(partition), [Message(b"m")] * 10)
        client.store_offset("c", "s", "t", partition, 4)


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_stop_and_a_start_keep_everything(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker, broker.client() as client:
        fill(client)
    with running_broker(tmp_path) as broker, broker.client() as client:
        for partition in range(4):
            polled = client.poll("s", "t", partition, consumer="c", count=100)
            assert polled.count == 5
            target = Partitioning.partition(partition)
            assert client.send("s", "t", target, [Message(b"m")]).base_offset == 10
        assert not [r for r in broker.records() if r["level"] in ("warning", "error", "critical")]


def test_another_number_of_shards_finds_the_same_data(tmp_path: Path) -> None:
    with running_broker(tmp_path, shards=1) as broker, broker.client() as client:
        fill(client)
    with running_broker(tmp_path, shards=3) as broker, broker.client() as client:
        for partition in range(4):
            assert client.poll("s", "t", partition, consumer="c", count=100).count == 5


def test_requests_in_flight_are_answered_before_a_stop(tmp_path: Path) -> None:
    acknowledged: list[int] = []
    enough = threading.Event()

    def produce(broker: BrokerProcess) -> None:
        with suppress(LinkError, OSError), broker.client() as client:
            for number in itertools.count():
                partition = number % 4
                client.send("s", "t", Partitioning.partition(partition), [Message(b"m")])
                acknowledged.append(partition)
                if len(acknowledged) >= 100:
                    enough.set()

    with running_broker(tmp_path) as broker:
        with broker.client() as client:
            client.create_stream("s")
            client.create_topic("s", "t", 4, {"durability": "persisted"})
        producers = [threading.Thread(target=produce, args=(broker,)) for _ in range(4)]
        for producer in producers:
            producer.start()
        assert enough.wait(60)
        assert broker.stop() == 0
        for producer in producers:
            producer.join()
    with running_broker(tmp_path) as broker, broker.client() as client:
        for partition in range(4):
            strategy = PollingStrategy.last()
            polled = client.poll("s", "t", partition, strategy=strategy, count=1)
            assert polled.current_offset + 1 >= acknowledged.count(partition)


def test_a_second_broker_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    with running_broker(tmp_path) as first:
        second = BrokerProcess(tmp_path, settings={"IGGY_TCP_ADDRESS": "127.0.0.1:0"})
        second.log = tmp_path / "second.log"
        second.monitoring_port = 0
        assert wait_for_exit(second.launch()) == 1
        assert f"in use by process {first.pid}" in second.text()
        with first.client() as client:
            client.ping()


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with running_broker(tmp_path / "first") as first:
        second = BrokerProcess(tmp_path / "second")
        second.folder.mkdir()
        second.tcp_port = first.tcp_port
        assert wait_for_exit(second.launch()) == 1
        assert f"cannot listen on 127.0.0.1:{first.tcp_port}" in second.text()
        assert "tcp.address" in second.text()


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        data = broker.data
    (data / "format_version").write_text("99\n")
    broker = BrokerProcess(tmp_path)
    assert wait_for_exit(broker.launch()) == 1
    assert "newer broker (format 99" in broker.text()


def test_an_unknown_setting_warns_with_the_nearest_name(tmp_path: Path) -> None:
    settings = {"IGGY_SYSTEM_PARTITION_ENFORCE_FSYNCC": "true"}
    with running_broker(tmp_path, settings=settings) as broker:
        warnings = [str(record["message"]) for record in broker.records()]
        assert any(
            "IGGY_SYSTEM_PARTITION_ENFORCE_FSYNCC" in warning
            and "did you mean IGGY_SYSTEM_PARTITION_ENFORCE_FSYNC?" in warning
            for warning in warnings
        )


def test_a_wrong_setting_ends_with_exit_code_2(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, settings={"IGGY_TCP_ADDRESS": "nowhere"})
    assert wait_for_exit(broker.launch()) == 2
    assert "IGGY_TCP_ADDRESS" in broker.text()


def test_a_random_root_password_is_shown_once_and_works(tmp_path: Path) -> None:
    settings = {"IGGY_ROOT_USERNAME": "", "IGGY_ROOT_PASSWORD": ""}
    with running_broker(tmp_path, settings=settings) as broker:
        (password,) = re.findall(r"password: (\S+)", broker.text())
        Client.connect(broker.address, "iggy", password).close()
        with pytest.raises(ClientError):
            broker.client()
    with running_broker(tmp_path, settings=settings) as broker:
        assert broker.text().count("password: ") == 1
        Client.connect(broker.address, "iggy", password).close()


def test_a_dead_shard_stops_the_broker(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, shards=3).start()
    try:
        os.kill(broker.shard_pids()[1], signal.SIGKILL)
        assert broker.process is not None
        assert wait_for_exit(broker.process) == 70
    finally:
        broker.end()


def test_shards_follow_a_killed_supervisor(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path).start()
    try:
        with broker.client() as client:
            fill(client)
        assert broker.process is not None
        broker.process.kill()
        wait_for_exit(broker.process)
        broker.start()  # waits for the lock that the shards still held
        with broker.client() as client:
            assert client.poll("s", "t", 0, consumer="c", count=100).count == 5
        assert broker.stop() == 0
    finally:
        broker.end()


def test_more_clients_than_descriptors_are_closed_and_the_rest_is_served(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, shards=1)
    broker.wrapper = ["prlimit", "--nofile=600:600"]
    broker.start()
    try:
        with broker.client() as early:
            crowd = [socket.create_connection(("127.0.0.1", broker.tcp_port)) for _ in range(700)]
            early.create_stream("s")
            closed = 0
            for sock in crowd[-100:]:
                sock.settimeout(10)
                with suppress(ConnectionError):
                    assert sock.recv(1) == b"", "too many connections are closed"
                closed += 1
            assert closed == 100
            for sock in crowd:
                sock.close()
            early.create_topic("s", "t", 1)
        with broker.client() as late:
            assert late.send("s", "t", Partitioning.partition(0), [Message(b"m")]).base_offset == 0
        assert broker.stop() == 0
    finally:
        broker.end()


def test_monitoring_answers_without_login(tmp_path: Path) -> None:
    with running_broker(tmp_path, monitoring=True) as broker:
        with broker.client() as client:
            fill(client)
            status, text = get(broker.monitoring_port, "/metrics")
            assert status == 200
            lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")
            assert lines["iggy_messages"] == "40"
            assert lines["iggy_partitions"] == "4"
            assert lines['iggy_partition_segments{stream="s",topic="t",partition="3"}'] == "1"
            assert int(lines["iggy_disk_total_bytes"]) > 0
            assert lines['iggy_fsync_seconds_bucket{shard="0",le="+Inf"}'].isdecimal()
        assert get(broker.monitoring_port, "/ping") == (200, "pong\n")
        assert get(broker.monitoring_port, "/ready") == (200, "ready\n")
        assert get(broker.monitoring_port, "/elsewhere")[0] == 404


def test_the_runtime_file_names_the_ports_and_no_secret(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        text = (broker.data / "runtime" / "current_config.toml").read_text()
        assert f'"127.0.0.1:{broker.tcp_port}"' in text
        assert PASSWORD not in text
        assert PASSWORD not in broker.text()
        with socket.create_connection(("127.0.0.1", broker.tcp_port)):
            pass
        Client.connect(broker.address, USERNAME, PASSWORD).close()
    assert not (broker.data / "runtime" / "current_config.toml").exists()

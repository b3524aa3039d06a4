"""Refusals that an operator wants to know are in the log, up to a limit, and no secret is."""

from __future__ import annotations

import json
import os
import signal
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from broker_process import PASSWORD, USERNAME, BrokerProcess, running_broker, wait_for_exit
from iggy_broker.logs import LINES_MAX
from iggy_client import Client, ClientError
from iggy_wire.batch import Message
from iggy_wire.codes import Operation
from iggy_wire.errors import ErrorCode
from iggy_wire.header import HEADER_BYTES
from iggy_wire.primitives import Partitioning
from raw_frames import RawClient
from scraped import Scrape, scrape_until

WRONG = "a-wrong-password-of-tests"
TOO_MANY = LINES_MAX + 15


def told(broker: BrokerProcess, event: str) -> list[dict[str, object]]:
    return [record for record in broker.records() if record["event"] == event]


def written(broker: BrokerProcess) -> int:
    return sum(len(told(broker, event)) for event in ("login_refused", "connection_closed"))


def suppressed(found: Scrape) -> int:
    return int(found.sum("iggy_log_lines_suppressed_total"))


def test_refused_logins_and_frames_are_logged_up_to_a_limit(tmp_path: Path) -> None:
    with running_broker(tmp_path, shards=1, monitoring=True) as broker:
        for _ in range(TOO_MANY):
            with RawClient(broker.tcp_port) as raw:
                raw.exchange(Operation.REGISTER, b"no login at all")
        for _ in range(TOO_MANY):
            with socket.create_connection(("127.0.0.1", broker.tcp_port)) as sock:
                sock.settimeout(10)
                sock.sendall(bytes(HEADER_BYTES))  # a frame of 0 bytes
                with suppress(ConnectionError):
                    assert sock.recv(1) == b""
        with RawClient(broker.tcp_port) as raw:  # a change before any login
            raw.exchange(Operation.CREATE_STREAM, b"")
        found = scrape_until(
            broker,
            lambda found: written(broker) + suppressed(found) == 2 * TOO_MANY,
            "lines that are not written are counted",
        )

        assert suppressed(found) > 0
        refused, closed = told(broker, "login_refused"), told(broker, "connection_closed")
        assert min(len(refused), len(closed)) >= LINES_MAX
        assert all("incompatible_protocol" in str(one["message"]) for one in refused)
        assert all(str(one["address"]).startswith("127.0.0.1:") for one in refused)
        assert [type(one["client"]) for one in told(broker, "evicted")] == [int]
        assert found.value("iggy_logins_failed_total", method="unknown") == TOO_MANY
        assert found.value("iggy_connections_closed_total", reason="bad_length") == TOO_MANY


def test_limits_of_connections_and_of_the_disk_are_logged(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, shards=1, monitoring=True)
    broker.wrapper = ["prlimit", "--nofile=600:600", f"--fsize={2 << 20}"]
    broker.start()
    try:
        with broker.client() as client:
            client.create_stream("s")
            client.create_topic("s", "t", 1)
            full = [Message(bytes(100_000))] * 10
            with pytest.raises(ClientError) as refused:
                for _ in range(4):
                    client.send("s", "t", Partitioning.partition(0), full)
            assert refused.value.code == ErrorCode.CANNOT_APPEND_MESSAGE
            for _ in range(3):
                with pytest.raises(ClientError):
                    client.send("s", "t", Partitioning.partition(0), full)
            crowd = [socket.create_connection(("127.0.0.1", broker.tcp_port)) for _ in range(400)]
            found = scrape_until(
                broker,
                lambda found: found.sum("iggy_connections_refused_total") > 0,
                "connections are refused",
            )
            for sock in crowd:
                sock.close()
        assert len(told(broker, "sends_refused")) == 1, "once, until something was written"
        assert 1 <= len(told(broker, "connection_refused")) <= LINES_MAX
        assert found.value("iggy_refusals_total", code="cannot_append_message") == 4
        assert broker.stop() == 0
    finally:
        broker.end()


def test_every_line_is_json_and_none_has_a_secret(tmp_path: Path) -> None:
    settings = {"IGGY_SYSTEM_LOGGING_LEVEL": "trace", "IGGY_UNKNOWN_THING": "1"}
    with running_broker(tmp_path, settings=settings) as broker:
        with broker.client() as client:
            for _ in range(2):
                with pytest.raises(ClientError):
                    Client.connect(broker.address, USERNAME, WRONG)
            client.create_stream("s")
            with pytest.raises(ClientError):
                client.create_stream("s")
            client.create_topic("s", "t", 1)
            client.send("s", "t", Partitioning.partition(0), [Message(b"a-secret-payload")])
            client.create_user("alice", "alices-password")
            client.change_password("alice", "alices-password", "alices-new-password")
            token = client.create_access_token("mine")
            with Client.connect(broker.address, "alice", "alices-new-password"):
                pass
            client.delete_user("alice")
        text = broker.text()
    records = [json.loads(line) for line in broker.text().splitlines()]
    assert all(
        list(record)[:6] == ["ts", "level", "event", "shard", "logger", "message"]
        for record in records
    )
    events = [str(record["event"]) for record in records]
    assert {"starting", "setting_warning", "recovered", "ready", "refused", "login_refused",
            "user_changed", "stopping", "stopped"} <= set(events)  # fmt: skip
    for secret in (
        PASSWORD,
        WRONG,
        "alices-password",
        "alices-new-password",
        str(token),
        "a-secret",
    ):
        assert secret not in text
    (start,) = [record for record in records if record["event"] == "starting"]
    assert start["settings"]["system.logging.level"] == "trace"
    assert start["settings"]["system.path"] == str(broker.data)
    assert {"version", "protocol", "python", "system", "kernel"} <= set(start)


def test_a_shard_that_dies_and_what_follows_are_logged(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path).start()
    try:
        (first, _) = broker.shard_pids()
        os.kill(first, signal.SIGABRT)
        assert broker.process is not None
        assert wait_for_exit(broker.process) == 70
    finally:
        broker.end()
    (ended,) = told(broker, "shard_ended")  # the other one follows, and may be seen first
    assert ended["code"] in (-signal.SIGABRT, 70)
    assert (ended["level"], ended["shard"]) == ("critical", None)
    assert "is gone" in str(told(broker, "shard_failed")[0]["message"])
    assert told(broker, "stopped")[0]["code"] == 70

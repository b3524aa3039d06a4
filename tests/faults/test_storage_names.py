"""Names that look like paths, or like nothing at all: kept exactly, and never part of a path."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from broker_process import running_broker
from iggy_client.client import Client
from iggy_client.errors import ClientError
from iggy_wire.errors import ErrorCode, WireError
from iggy_wire.primitives import Identifier
from iggy_wire.request_base import Request
from iggy_wire.requests import CreateConsumerGroup, CreateStream, CreateTopic, CreateUser
from iggy_wire.results import split_result
from raw_frames import RawClient
from stored import read_all, send

NAMES = [
    "../../../tmp/iggykube-x", "..", ".", "a/b", "a\\b", "/abs", "~", "CON", "x\0y", "a b", "-rf",
    "漢" * 84 + "abc", "🚀", "Foo", "foo", "%2e%2e%2f", "0", "lock", "0.deleted-0",
]  # fmt: skip
USERNAME_BYTES_MIN, USERNAME_BYTES_MAX = 3, 50
OURS = re.compile(r"\d+|\d{20}\.(log|index)|[a-z_]+|[a-z_]+\.(wal|bin|toml)", re.ASCII)


def is_username(name: str) -> bool:
    return USERNAME_BYTES_MIN <= len(name.encode()) <= USERNAME_BYTES_MAX


def make(client: Client, name: str) -> None:
    """A stream, topic, group, consumer and user of that name, and a message that has it."""
    client.create_stream(name)
    client.create_topic(name, name, 1)
    client.create_group(name, name, name)
    send(client, name, name, name.encode(), b"second")
    client.store_offset(name, name, name, 0, 0)
    if is_username(name):
        client.create_user(name, "secret", permissions=None)
        return
    with pytest.raises((ClientError, WireError)) as refusal:
        client.create_user(name, "secret", permissions=None)
    assert refusal.value.code == ErrorCode.INVALID_USERNAME


def assert_usable(client: Client, name: str) -> None:
    assert read_all(client, name, name) == [name.encode(), b"second"]
    polled = client.poll(name, name, 0, consumer=name, count=10)
    assert polled.count == 1, "the consumer's offset is known by its name"
    client.join_group(name, name, name)


def test_any_name_is_kept_exactly_and_leads_nowhere(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker, broker.client() as client:
        for name in NAMES:
            make(client, name)
        before = {path.name for path in tmp_path.iterdir()}
    with running_broker(tmp_path) as broker:
        with broker.client() as client:
            for name in NAMES:
                assert_usable(client, name)
            assert {stream.name for stream in client.get_streams()} == set(NAMES)
            users = {user.name for user in client.get_users()}
            assert users == {"iggy", *filter(is_username, NAMES)}
            for stream, name in ((0, NAMES[0]), ("0", "0")):
                found = client.get_stream(stream)
                assert found is not None and found.stream.name == name
        for name in filter(is_username, NAMES):
            Client.connect(broker.address, name, "secret").close()
        strange = [p for p in broker.data.rglob("*") if not OURS.fullmatch(p.name)]
        assert not strange
        assert {path.name for path in tmp_path.iterdir()} == before
    assert not Path("/tmp/iggykube-x").exists()


def test_a_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    topic = (Identifier("s"), Identifier("t"))
    requests: list[Request] = [
        CreateStream("qqq"),
        CreateTopic(topic[0], 1, "qqq"),
        CreateConsumerGroup(*topic, "qqq"),
        CreateUser("qqq", "secret"),
    ]
    with running_broker(tmp_path) as broker, broker.client() as client:
        client.create_stream("s")
        client.create_topic("s", "t", 1)
        before = client.get_streams(), client.get_users(), client.get_stream("s")
        with RawClient(broker.tcp_port) as raw:
            raw.login()
            for request in requests:
                body = request.encode()
                assert body.count(b"qqq") == 1

                header, answer = raw.exchange(request.operation(), body.replace(b"qqq", b"q\xc3q"))

                code = getattr(header, "status", 0) or split_result(answer)[0]
                assert code in (ErrorCode.INVALID_UTF8, ErrorCode.INVALID_COMMAND)
        assert (client.get_streams(), client.get_users(), client.get_stream("s")) == before
        client.ping()

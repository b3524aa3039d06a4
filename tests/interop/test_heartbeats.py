"""Silent clients: members of groups are sent away, others are left alone."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import pytest

from broker_process import BrokerProcess, readable, running_broker
from iggy_client import Client
from iggy_wire.errors import ErrorCode
from iggy_wire.header import EvictionHeader, EvictionReason, ReplyHeader
from iggy_wire.primitives import Identifier
from iggy_wire.requests import CreateStream, GetStreams, JoinConsumerGroup, Ping
from iggy_wire.results import split_result
from p12_client import P12Client
from raw_frames import RawClient
from waiting import wait_until

INTERVAL_S = 0.25
LONG_S = 6 * INTERVAL_S


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {"IGGY_HEARTBEAT_INTERVAL": f"{int(INTERVAL_S * 1000)}ms"}
    with running_broker(tmp_path_factory.mktemp("quick"), settings=settings) as broker:
        yield broker


@pytest.fixture
def root(quick: BrokerProcess) -> Iterator[Client]:
    with quick.client() as client:
        yield client


@pytest.fixture
def stream(root: Client) -> str:
    name = f"heart-{uuid.uuid4().hex[:8]}"
    root.create_stream(name)
    root.create_topic(name, "t", 2)
    root.create_group(name, "t", "g")
    return name


def members_count(root: Client, stream: str) -> int:
    group = root.get_group(stream, "t", "g")
    assert group is not None
    return group.group.members_count


def member(broker: BrokerProcess, stream: str) -> RawClient:
    raw = RawClient(broker.tcp_port)
    raw.login()
    request = JoinConsumerGroup(Identifier(stream), Identifier("t"), Identifier("g"))
    _, body = raw.ask(request)
    assert split_result(body)[0] == 0
    return raw


def p12_member_that_is_gone(broker: BrokerProcess, stream: str) -> None:
    request = JoinConsumerGroup(Identifier(stream), Identifier("t"), Identifier("g"))
    with P12Client(broker.tcp_port) as client:
        client.login()
        client.read(request)


def test_a_session_of_p12_ends_when_its_connection_was_gone_for_long(
    quick: BrokerProcess, root: Client, stream: str
) -> None:
    began = time.monotonic()
    p12_member_that_is_gone(quick, stream)
    wait_until(lambda: members_count(root, stream) == 0, "the member leaves")
    assert time.monotonic() - began >= INTERVAL_S


def test_a_silent_member_is_sent_away_and_may_log_in_again(
    quick: BrokerProcess, root: Client, stream: str
) -> None:
    with member(quick, stream) as raw:
        began = time.monotonic()
        header, _ = raw.receive()  # unasked
        took_s = time.monotonic() - began
        assert isinstance(header, EvictionHeader)
        assert header.reason == EvictionReason.STALE_CLIENT
        assert took_s >= INTERVAL_S  # and not at the first look
        group = root.get_group(stream, "t", "g")
        assert group is not None
        header, _ = raw.ask(GetStreams())
        assert isinstance(header, ReplyHeader) and header.status == ErrorCode.UNAUTHENTICATED
        header, _ = raw.ask(CreateStream("nobody's"))
        assert isinstance(header, EvictionHeader) and header.reason == EvictionReason.NO_SESSION
        raw.session = 0
        raw.login()
        header, _ = raw.ask(GetStreams())
        assert isinstance(header, ReplyHeader) and header.status == 0


def test_half_a_frame_that_does_not_grow_is_no_sign_of_life(
    quick: BrokerProcess, root: Client, stream: str
) -> None:
    with member(quick, stream) as raw:
        frame = raw.frame(CreateStream("x" * 200))
        began = time.monotonic()
        for byte in frame[:10]:  # as long as it grows it is one
            raw.send(bytes((byte,)))
            assert not readable(raw.socket.fileno(), INTERVAL_S / 2)
        assert time.monotonic() - began > 3 * INTERVAL_S
        header, _ = raw.receive()  # and then unasked
        assert isinstance(header, EvictionHeader)
        assert header.reason == EvictionReason.STALE_CLIENT
        wait_until(lambda: not members_count(root, stream), "it is no member any more")
        raw.send(frame[10:])
        header, _ = raw.receive()
        assert isinstance(header, EvictionHeader) and header.reason == EvictionReason.NO_SESSION


def test_its_partitions_go_to_the_others(quick: BrokerProcess, root: Client, stream: str) -> None:
    with member(quick, stream) as silent, member(quick, stream) as lively:
        deadline = time.monotonic() + 20 * LONG_S
        while True:
            assert time.monotonic() < deadline, "the silent member stays"
            lively.ask(Ping())
            group = root.get_group(stream, "t", "g")
            assert group is not None
            if group.group.members_count == 1:
                break
        assert [one.partitions for one in group.members] == [(0, 1)]
        header, _ = silent.receive()
        assert isinstance(header, EvictionHeader)


def test_any_request_is_a_sign_of_life(quick: BrokerProcess, stream: str) -> None:
    with member(quick, stream) as raw:
        deadline = time.monotonic() + LONG_S
        while time.monotonic() < deadline:
            header, _ = raw.ask(GetStreams())
            assert isinstance(header, ReplyHeader) and header.status == 0
            assert not readable(raw.socket.fileno(), INTERVAL_S / 4)


def test_who_is_no_member_may_be_silent(quick: BrokerProcess) -> None:
    with RawClient(quick.tcp_port) as raw:
        raw.login()
        assert not readable(raw.socket.fileno(), LONG_S)
        header, _ = raw.ask(GetStreams())
        assert isinstance(header, ReplyHeader) and header.status == 0


def test_heartbeats_can_be_switched_off(tmp_path_factory: pytest.TempPathFactory) -> None:
    settings = {
        "IGGY_HEARTBEAT_INTERVAL": f"{int(INTERVAL_S * 1000)}ms",
        "IGGY_HEARTBEAT_ENABLED": "false",
    }
    folder = tmp_path_factory.mktemp("off")
    with running_broker(folder, settings=settings) as broker, broker.client() as client:
        client.create_stream("s")
        client.create_topic("s", "t", 1)
        client.create_group("s", "t", "g")
        with member(broker, "s") as raw:
            assert not readable(raw.socket.fileno(), LONG_S)
        p12_member_that_is_gone(broker, "s")
        wait_until(lambda: members_count(client, "s") == 0, "both leave with their connections")

"""WebSocket clients of a real broker: the released client, and one that cuts frames as it likes."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from apache_iggy import WebSocketConfig

from broker_process import BrokerProcess, running_broker
from iggy_client import messages
from iggy_wire import replies
from iggy_wire.batch import Message, build
from iggy_wire.codes import Command, Operation
from iggy_wire.header import ReplyHeader
from iggy_wire.primitives import Consumer as WireConsumer
from iggy_wire.primitives import Identifier, Partitioning
from iggy_wire.primitives import PollingStrategy as Strategy
from iggy_wire.requests import GetClients, GetMe, PollMessages, SendMessages
from official_round import sent_and_polled
from raw_frames import ANSWER_S
from raw_websocket import CLOSE, PING, PONG, TEXT, RawWebSocket, frame, upgrade
from scraped import scrape_until

PARTITIONS = 4  # both shards own some
LARGE = 3 << 20
FRAME_BYTES_MAX = 8 << 20
WEBSOCKET = 4  # in lists of clients
POLLS = 40


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {"IGGY_WEBSOCKET_MAX_FRAME_SIZE": f"{FRAME_BYTES_MAX}"}
    folder, transports = tmp_path_factory.mktemp("broker"), ["websocket"]
    with running_broker(
        folder, settings=settings, monitoring=True, transports=transports
    ) as running:
        yield running


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[RawWebSocket]:
    with RawWebSocket(broker.ports["websocket"]) as made:
        made.login()
        yield made


@pytest.fixture
def stream(broker: BrokerProcess) -> str:
    name = f"stream-{uuid.uuid4().hex[:8]}"
    with broker.client() as admin:
        admin.create_stream(name)
        admin.create_topic(name, "t", PARTITIONS)
    return name


def sending(stream: str, partition: int, payload: bytes) -> SendMessages:
    batch = bytes(build([Message(payload)], origin_timestamp_us=1))
    target = Partitioning.partition(partition)
    return SendMessages(Identifier(stream), Identifier("t"), target, 1, batch)


def polling(stream: str, partition: int) -> PollMessages:
    consumer, where = WireConsumer.plain(1), (Identifier(stream), Identifier("t"))
    return PollMessages(consumer, *where, partition, Strategy.offset(0), 10)


def test_the_official_client_sends_and_polls(broker: BrokerProcess, stream: str) -> None:
    texts = ["small", "x" * LARGE, "last"]

    config = WebSocketConfig(server_address=f"127.0.0.1:{broker.ports['websocket']}")
    assert sent_and_polled(config, stream, PARTITIONS, texts) == [texts] * PARTITIONS
    with broker.client() as admin:
        polled = admin.poll(stream, "t", 0, strategy=Strategy.offset(0), count=10)
        assert [message.payload.decode() for message in messages(polled)] == texts


def test_frames_come_in_any_cut_of_messages(client: RawWebSocket, stream: str) -> None:
    frames = [client.frame(sending(stream, 0, bytes([n]) * 5000)) for n in range(6)]

    client.send_cut(frames[0], 1, 255, 256, 300)  # one, in parts of a message
    client.send(frames[1][:100])  # one, over messages
    client.send(frames[1][100:])
    client.send(b"".join(frames[2:5]))  # several in one
    client.socket.sendall(frame(frames[5][:9]) + frame(b"", PING) + frame(frames[5][9:]))

    for _ in frames:
        assert_served(client)
    assert client.pongs == [b""]
    polled = client.ask(polling(stream, 0))[1]
    assert [bytes([n]) * 100 in polled for n in range(6)] == [True] * 6


def assert_served(client: RawWebSocket) -> bytes:
    header, body = client.receive()
    assert isinstance(header, ReplyHeader)
    assert header.status == 0
    return body


def test_replies_wait_for_a_client_that_does_not_read(client: RawWebSocket, stream: str) -> None:
    payload = os.urandom(LARGE)
    for partition in range(PARTITIONS):
        client.send(client.frame(sending(stream, partition, payload)))
        assert_served(client)

    for number in range(POLLS):
        client.send(client.frame(polling(stream, number % PARTITIONS)))
        client.socket.sendall(frame(b"%d" % number, PING))

    for _ in range(POLLS):
        assert payload in assert_served(client)
    assert client.exchange(Operation.NON_REPLICATED, code=Command.PING)[0].status == 0
    assert client.pongs == [b"%d" % number for number in range(POLLS)]


def test_clients_are_listed_and_counted_with_their_transport(
    broker: BrokerProcess, client: RawWebSocket
) -> None:
    me = client.ask(GetMe())[1]
    with broker.client():
        rows = replies.Clients.decode(client.ask(GetClients())[1]).clients

    assert me[8] == WEBSOCKET
    assert {row.transport for row in rows} == {1, WEBSOCKET}
    scrape_until(
        broker,
        lambda found: found.value("iggy_transport_connections", transport="websocket") == 1,
        "one client by WebSocket",
    )


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(b"hello", TEXT), 1003),
        (frame(b"x", is_masked=False), 1002),
        (frame(b"")[:1] + b"\xff" + (1 << 40).to_bytes(8, "big") + bytes(4), 1009),
        (frame(bytes(FRAME_BYTES_MAX + 1))[:1000], 1009),
    ],
    ids=["text", "no mask", "a terabyte", "above the limit"],
)
def test_who_breaks_the_protocol_is_told_and_closed(
    client: RawWebSocket, data: bytes, code: int
) -> None:
    client.socket.sendall(data)

    opcode, payload = client.message()
    assert (opcode, payload[:2]) == (CLOSE, code.to_bytes(2, "big"))
    assert client.is_closed()


def test_a_close_is_answered_with_its_code(client: RawWebSocket) -> None:
    client.socket.sendall(frame(b"\x03\xe8bye", CLOSE))

    assert client.message() == (CLOSE, b"\x03\xe8bye")
    assert client.is_closed()


def test_a_frame_of_the_protocol_that_cannot_be_ends_the_connection(client: RawWebSocket) -> None:
    client.send(bytes(256))

    assert client.is_closed()


def test_what_is_no_upgrade_is_answered_and_closed(broker: BrokerProcess) -> None:
    for request in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"x" * 20_000):
        with socket.create_connection(("127.0.0.1", broker.ports["websocket"]), ANSWER_S) as sock:
            sock.sendall(request)
            with sock.makefile("rb") as reader:
                assert reader.readline().startswith(b"HTTP/1.1 4")


def test_the_answer_to_an_upgrade_comes_before_that_to_a_frame_behind_it(
    broker: BrokerProcess,
) -> None:
    with socket.create_connection(("127.0.0.1", broker.ports["websocket"]), ANSWER_S) as sock:
        for byte in upgrade("dGhlIHNhbXBsZSBub25jZQ==")[:-1]:
            sock.sendall(bytes([byte]))
        sock.sendall(b"\n" + frame(b"early", PING))
        with sock.makefile("rb") as reader:
            assert reader.readline().startswith(b"HTTP/1.1 101 ")
            while reader.readline() != b"\r\n":
                pass
            assert reader.read(7) == bytes([0x80 | PONG, 5]) + b"early"


def test_nothing_is_left_of_clients_that_went(broker: BrokerProcess, stream: str) -> None:
    with RawWebSocket(broker.ports["websocket"]) as client:
        client.login()
        for _ in range(8):
            client.send(client.frame(sending(stream, 0, os.urandom(LARGE // 2))))
            assert_served(client)
        for _ in range(8):
            client.send(client.frame(polling(stream, 0)))
        client.socket.sendall(frame(client.frame(sending(stream, 1, bytes(LARGE))))[:-1])

    gauges = ("buffers_in_use_bytes", "unread_replies_bytes", "client_queued_bytes")
    scrape_until(
        broker,
        lambda found: (
            found.value("iggy_transport_connections", transport="websocket") == 0
            and not any(found.sum(f"iggy_{name}") for name in gauges)
        ),
        "no connection, no memory",
    )


def test_a_stop_says_that_it_goes_away(tmp_path: Path) -> None:
    with (
        running_broker(tmp_path, shards=1, transports=["websocket"]) as broker,
        RawWebSocket(broker.ports["websocket"]) as client,
    ):
        client.login()
        assert broker.stop() == 0
        assert client.message() == (CLOSE, (1001).to_bytes(2, "big"))

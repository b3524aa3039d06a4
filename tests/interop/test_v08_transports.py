"""Clients of servers up to 0.8 by WebSocket and by QUIC, told apart by their first bytes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker_process import BrokerProcess, running_broker
from iggy_client.client import Client, Message
from iggy_wire.codes import Command
from iggy_wire.cursor import name_bytes
from iggy_wire.errors import ErrorCode
from iggy_wire.primitives import Consumer, Identifier, Partitioning, PollingStrategy
from iggy_wire.replies import ClientDetails
from iggy_wire.v08 import frames
from scraped import scrape_until
from v08_client import V08Client, V08Error, send_payload
from v08_transports import V08Quic, V08WebSocket, v08_client

NUMBERS = {"websocket": 4, "quic": 2}  # in lists of clients
PARTITIONS = 4  # both shards own some
LARGE = 300_000  # more than one landing buffer, and than a window of QUIC begins with
FIRST = PollingStrategy.first()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("broker")
    with running_broker(folder, monitoring=True, transports=list(NUMBERS)) as running:
        yield running


@pytest.fixture(scope="module")
def new(broker: BrokerProcess) -> Iterator[Client]:
    with broker.client() as client:
        yield client


@pytest.fixture(params=list(NUMBERS))
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def old(broker: BrokerProcess, transport: str) -> Iterator[V08Client]:
    with v08_client(broker, transport) as client:
        client.login()
        yield client


def made(client: Client, stream: str) -> bytes:
    """A stream with a topic, and their names as a request has them."""
    client.create_stream(stream)
    client.create_topic(stream, "t", PARTITIONS)
    return Identifier(stream).encode() + Identifier("t").encode()


def test_a_round_of_it_all(old: V08Client, new: Client, transport: str) -> None:
    stream = f"round-{transport}"
    where = made(new, stream)
    texts = [b"small", b"x" * LARGE, b"last"]
    for partition in range(PARTITIONS):
        to = Partitioning.partition(partition)
        old.send(stream, "t", to, texts)
        new.send(stream, "t", to, [Message(b"of the new")])
        polled = old.poll(stream, "t", partition, strategy=FIRST)
        assert [one.payload for one in polled.messages] == [*texts, b"of the new"]

    group = Consumer.group("billing")
    who = where + Identifier("billing").encode()
    old.ask(Command.CREATE_CONSUMER_GROUP, where + name_bytes("billing", "group"))
    old.ask(Command.JOIN_CONSUMER_GROUP, who)
    read = [
        old.poll(stream, "t", None, consumer=group, count=9, auto_commit=True)
        for _ in range(PARTITIONS)
    ]
    assert sorted((one.partition, len(one.messages)) for one in read) == [
        (partition, 4) for partition in range(PARTITIONS)
    ]

    me = ClientDetails.decode(old.ask(Command.GET_ME))
    assert me.client.transport == NUMBERS[transport]
    assert old.ask(Command.DELETE_STREAM, Identifier(stream).encode()) == b""
    with pytest.raises(V08Error) as refused:
        old.ask(Command.DELETE_STREAM, Identifier(stream).encode())
    assert refused.value.code == ErrorCode.STREAM_ID_NOT_FOUND
    assert old.ask(Command.LOGOUT) == b""
    with pytest.raises(V08Error) as refused:
        old.ask(Command.GET_ME)
    assert refused.value.code == ErrorCode.UNAUTHENTICATED
    assert old.login() == 0


@pytest.mark.parametrize("step", [1, 3, 100])
def test_messages_of_websocket_are_a_stream_of_bytes(
    broker: BrokerProcess, new: Client, step: int
) -> None:
    stream = f"drip-{step}"
    made(new, stream)
    sent = send_payload(stream, "t", Partitioning.partition(0), [b"a", b"b"])
    data = frames.encode_request(Command.PING) + frames.encode_request(Command.SEND_MESSAGES, sent)
    with v08_client(broker, "websocket") as old:
        assert isinstance(old, V08WebSocket)
        old.below.send(frames.encode_request(Command.PING)[:2])  # does not tell anything yet
        old.below.send(frames.encode_request(Command.PING)[2:])
        assert old.answer() == b""
        old.login()
        for at in range(0, len(data), step):
            old.below.send(data[at : at + step])
        assert (old.answer(), old.answer()) == (b"", b"")
        assert len(old.poll(stream, "t", 0, strategy=FIRST).messages) == 2


def test_requests_on_many_streams_of_quic_are_all_answered(
    broker: BrokerProcess, new: Client
) -> None:
    stream = "many"
    made(new, stream)
    sends = [
        send_payload(stream, "t", Partitioning.partition(n % PARTITIONS), [b"%d" % n])
        for n in range(12)
    ]
    with v08_client(broker, "quic") as old:
        assert isinstance(old, V08Quic)
        old.login()
        answers = old.many([(Command.SEND_MESSAGES, one) for one in sends])
        assert answers == [frames.encode_reply(b"")] * len(sends)
        found = [
            one.payload
            for partition in range(PARTITIONS)
            for one in old.poll(stream, "t", partition, strategy=FIRST).messages
        ]
    assert sorted(found) == sorted(b"%d" % n for n in range(12))


def test_nonsense_ends_the_connection_and_nothing_stays(
    broker: BrokerProcess, transport: str
) -> None:
    for data in (b"\x03\0\0\0\1\0\0\0", b"GET / HTTP/1.1\r\n\r\n"):
        with v08_client(broker, transport) as old:
            with pytest.raises(ConnectionError):
                old.write(data)
                old.answer()
            if isinstance(old, V08Quic):
                assert old.is_closed()
    with v08_client(broker, transport) as old:
        assert old.login() == 0
    gauges = ("buffers_in_use_bytes", "unread_replies_bytes", "client_queued_bytes")
    scrape_until(
        broker,
        lambda found: (
            found.value("iggy_transport_connections", transport=transport) == 0
            and not any(found.sum(f"iggy_{name}") for name in gauges)
        ),
        "no connection, no memory",
    )

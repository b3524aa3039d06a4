"""Clients of the protocol up to 0.8, on the same port as all others."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from struct import Struct

import pytest

from broker_process import PASSWORD, BrokerProcess, running_broker
from iggy_client import messages
from iggy_client.client import Client, Message
from iggy_wire.codes import Command
from iggy_wire.cursor import name_bytes, text8_bytes
from iggy_wire.errors import ErrorCode
from iggy_wire.primitives import (
    EXPIRY_NEVER,
    Consumer,
    Identifier,
    Partitioning,
    PollingStrategy,
)
from iggy_wire.replies import GroupDetails, Stats
from iggy_wire.requests import PollMessages
from iggy_wire.v08 import frames
from v08_client import INDEX, V06_HEADER, V08Client, V08Error, decode_poll, send_payload

FIRST = PollingStrategy.first()
TOPIC = Struct("<IQIQBQBQQ")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running_broker(tmp_path_factory.mktemp("v08"), shards=2) as running:
        yield running


@pytest.fixture
def old(broker: BrokerProcess) -> Iterator[V08Client]:
    with V08Client(broker.address) as client:
        client.login()
        yield client


@pytest.fixture
def new(broker: BrokerProcess) -> Iterator[Client]:
    with broker.client() as client:
        yield client


def place(stream: str, topic: str) -> bytes:
    return Identifier(stream).encode() + Identifier(topic).encode()


def payloads(count: int, word: str = "m") -> list[bytes]:
    return [f"{word}{number}".encode() for number in range(count)]


def test_before_a_login_there_is_only_a_ping(broker: BrokerProcess) -> None:
    with V08Client(broker.address) as client:
        assert client.ask(Command.PING) == b""
        for code in (Command.GET_STREAMS, Command.GET_ME, Command.LOGOUT, Command.CREATE_STREAM):
            with pytest.raises(V08Error) as refused:
                client.ask(code, name_bytes("s", "name"))
            assert refused.value.code == ErrorCode.UNAUTHENTICATED
        with pytest.raises(V08Error) as refused:
            client.login(password="another password")
        assert refused.value.code == ErrorCode.INVALID_CREDENTIALS
        assert client.login() == 0
        assert client.ask(Command.LOGOUT) == b""
        with pytest.raises(V08Error):
            client.ask(Command.GET_ME)
        assert client.login() == 0


def test_streams_and_topics_have_no_options(old: V08Client, new: Client) -> None:
    made = old.ask(Command.CREATE_STREAM, name_bytes("plain", "name"))
    stream = new.get_stream("plain")
    assert stream is not None
    assert int.from_bytes(made[:4], "little") == stream.stream.id
    assert made[32:] == b"\x05plain"
    limits = Struct("<BQQB").pack(2, 3_600_000_000, 0, 1)
    count = (3).to_bytes(4, "little")
    body = Identifier("plain").encode() + count + limits + name_bytes("orders", "name")
    made = old.ask(Command.CREATE_TOPIC, body)
    topic = new.get_topic("plain", "orders")
    assert topic is not None
    assert topic.topic.message_expiry_us == 3_600_000_000
    assert topic.topic.compression == 2
    head = TOPIC.unpack_from(made)
    assert head[2:5] == (3, 3_600_000_000, 2)
    assert head[6] == 1, "the replication factor"
    assert made[TOPIC.size : TOPIC.size + 7] == b"\x06orders"
    assert len(made) == TOPIC.size + 7 + 3 * 40
    assert old.ask(Command.GET_TOPIC, place("plain", "orders")) == made
    listed = old.ask(Command.GET_TOPICS, Identifier("plain").encode())
    assert listed == made[: TOPIC.size + 7]
    limits = Struct("<BQQB").pack(1, EXPIRY_NEVER, 0, 1)
    body = place("plain", "orders") + limits + name_bytes("sales", "name")
    assert old.ask(Command.UPDATE_TOPIC, body) == b""
    topic = new.get_topic("plain", "sales")
    assert topic is not None
    assert topic.topic.message_expiry_us == EXPIRY_NEVER
    assert old.ask(Command.GET_TOPIC, place("plain", "orders")) == b""
    assert old.ask(Command.DELETE_TOPIC, place("plain", "sales")) == b""
    assert old.ask(Command.DELETE_STREAM, Identifier("plain").encode()) == b""
    with pytest.raises(V08Error) as refused:
        old.ask(Command.DELETE_STREAM, Identifier("plain").encode())
    assert refused.value.code == ErrorCode.STREAM_ID_NOT_FOUND


@pytest.mark.parametrize("partition", range(4))
def test_both_generations_read_what_either_sends(
    old: V08Client, new: Client, partition: int
) -> None:
    """With two shards, so that half of the partitions are another's."""
    if new.get_stream("both") is None:
        new.create_stream("both")
        new.create_topic("both", "orders", 4)
    to = Partitioning.partition(partition)
    old.send("both", "orders", to, payloads(20, "old"))
    new.send("both", "orders", to, [Message(one) for one in payloads(20, "new")])
    expected = list(enumerate(payloads(20, "old") + payloads(20, "new")))
    polled = old.poll("both", "orders", partition, strategy=FIRST)
    assert (polled.partition, polled.current_offset) == (partition, 39)
    assert [tuple(one) for one in polled.messages] == expected
    cut = old.poll("both", "orders", partition, strategy=PollingStrategy.offset(15), count=10)
    assert [tuple(one) for one in cut.messages] == expected[15:25]
    read = old.poll("both", "orders", partition, auto_commit=True, count=7)
    assert [one.offset for one in read.messages] == list(range(7))
    stored = new.get_offset(Consumer.plain(1), "both", "orders", partition)
    assert stored is not None
    assert stored.stored_offset == 6


def test_balanced_and_keyed_sends_find_their_partitions(old: V08Client, new: Client) -> None:
    new.create_stream("spread")
    new.create_topic("spread", "orders", 3)
    for number in range(6):
        old.send("spread", "orders", Partitioning.balanced(), payloads(1, f"b{number}-"))
    counts = [one.messages_count for one in new.get_topic("spread", "orders").partitions]  # type: ignore[union-attr]
    assert counts == [2, 2, 2]
    for _ in range(3):
        old.send("spread", "orders", Partitioning.key("ada"), payloads(1))
    counts = [one.messages_count for one in new.get_topic("spread", "orders").partitions]  # type: ignore[union-attr]
    assert sorted(counts) == [2, 2, 5]


def test_a_member_is_given_its_partitions_in_turn(
    broker: BrokerProcess, old: V08Client, new: Client
) -> None:
    new.create_stream("group")
    new.create_topic("group", "orders", 3)
    for partition in range(3):
        new.send("group", "orders", Partitioning.partition(partition), [Message(b"x")] * 4)
    made = old.ask(Command.CREATE_CONSUMER_GROUP, place("group", "orders") + b"\x07billing")
    assert GroupDetails.decode(made).group.name == "billing"
    group = Consumer.group("billing")
    who = place("group", "orders") + Identifier("billing").encode()
    assert old.poll("group", "orders", None, consumer=group).messages == []
    assert old.ask(Command.JOIN_CONSUMER_GROUP, who) == b""

    def turn(client: V08Client) -> tuple[int, int]:
        polled = client.poll("group", "orders", None, consumer=group, count=2, auto_commit=True)
        return polled.partition, len(polled.messages)

    assert [turn(old) for _ in range(6)] == [(0, 2), (1, 2), (2, 2)] * 2
    assert {turn(old)[1] for _ in range(3)} == {0}
    target = group.encode() + place("group", "orders") + bytes(5)
    body = old.ask(Command.GET_CONSUMER_OFFSET, target)
    assert Struct("<IQQ").unpack(body) == (2, 3, 3), "of the partition that was read last"
    assert old.ask(Command.STORE_CONSUMER_OFFSET, target + (3).to_bytes(8, "little")) == b""
    assert turn(old) == (0, 0)
    with V08Client(broker.address) as other:
        other.login()
        other.ask(Command.JOIN_CONSUMER_GROUP, who)
        theirs = {turn(other)[0] for _ in range(3)}
        mine = {turn(old)[0] for _ in range(3)}
        assert theirs | mine == {0, 1, 2}
        assert not theirs & mine
    assert old.ask(Command.LEAVE_CONSUMER_GROUP, who) == b""


def test_users_and_tokens(broker: BrokerProcess, old: V08Client, new: Client) -> None:
    ada = name_bytes("ada", "name") + text8_bytes("a password", "password") + b"\x01\x00"
    made = old.ask(Command.CREATE_USER, ada)
    assert made[13:17] == b"\x03ada"
    assert old.ask(Command.GET_USER, Identifier("ada").encode()) == made
    assert old.ask(Command.GET_USERS).endswith(made[:17])
    token = old.ask(Command.CREATE_PERSONAL_ACCESS_TOKEN, name_bytes("ci", "name") + bytes(8))
    assert token[1:].decode() not in broker.text()
    with V08Client(broker.address) as other:
        assert other.ask(Command.LEGACY_LOGIN_WITH_TOKEN, token) == bytes(4)
        assert other.ask(Command.GET_ME)[4:8] == bytes(4)
    with V08Client(broker.address) as other:
        assert other.login("ada", "a password") == int.from_bytes(made[:4], "little")
        with pytest.raises(V08Error) as refused:
            other.ask(Command.GET_STREAMS)
        assert refused.value.code == ErrorCode.UNAUTHORIZED
    new.delete_access_token("ci")
    new.delete_user("ada")


def test_what_there_was_not_is_refused(old: V08Client) -> None:
    for code in (Command.LOGIN, Command.SYNC_CONSUMER_GROUP, Command.DESCRIBE_OPTIONS, 9999):
        with pytest.raises(V08Error) as refused:
            old.ask(code)
        assert refused.value.code == ErrorCode.INVALID_COMMAND
    with pytest.raises(V08Error) as refused:
        old.ask(Command.GET_CLUSTER_METADATA)
    assert refused.value.code == ErrorCode.FEATURE_UNAVAILABLE
    assert Stats.decode(old.ask(Command.GET_STATS)).process_id


def test_flushing_promises_no_more_than_it_does(old: V08Client, new: Client) -> None:
    new.create_stream("flush")
    new.create_topic("flush", "orders", 1)
    where = place("flush", "orders") + bytes(4)
    assert old.ask(Command.FLUSH_UNSAVED_BUFFER, where + b"\x00") == b""
    with pytest.raises(V08Error) as refused:
        old.ask(Command.FLUSH_UNSAVED_BUFFER, where + b"\x01")
    assert refused.value.code == ErrorCode.FEATURE_UNAVAILABLE


def test_clients_up_to_0_6_have_shorter_headers_and_no_kinds_of_keys(
    broker: BrokerProcess, new: Client
) -> None:
    new.create_stream("v06")
    new.create_topic("v06", "orders", 1)
    pair = b"\x03\0\0\0key" + b"\x02\x05\0\0\0value"
    newer = b"\x04\x01\0\0\0\x07" + b"\x02\x01\0\0\0n"  # a key that is a number
    to = Partitioning.partition(0)
    sent = place("v06", "orders") + to.encode() + (1).to_bytes(4, "little")
    message = V06_HEADER.pack(0, bytes(16), 0, 0, 9, len(pair), 3) + b"old" + pair
    data = len(sent).to_bytes(4, "little") + sent + INDEX.pack(0, len(message), 0) + message
    with V08Client(broker.address) as old:
        old.login(version="0.8.0")
        old.ask(Command.SEND_MESSAGES, data)
        new.send("v06", "orders", to, [Message(b"new", headers=b"\x02" + pair + newer)])
        with pytest.raises(V08Error):
            old.ask(Command.SEND_MESSAGES, data.replace(b"\x05\0\0\0v", b"\x06\0\0\0v"))
    with V08Client(broker.address) as old:
        old.login(version="0.8.0")
        polling = PollMessages(
            Consumer.plain(1), Identifier("v06"), Identifier("orders"), 0, FIRST, 9, False
        )
        polled = old.ask(Command.POLL_MESSAGES, polling.encode())[16:]
        for offset, payload in enumerate((b"old", b"new")):
            fields = V06_HEADER.unpack_from(polled)
            assert fields[2] == offset
            assert fields[5:] == (len(pair), 3)
            assert polled[V06_HEADER.size :].startswith(payload + pair)
            polled = polled[len(message) :]
        assert polled == b""
    stored = messages(new.poll("v06", "orders", 0, strategy=FIRST, count=1))
    assert [one.headers for one in stored] == [b"\x02" + pair]


@pytest.mark.parametrize("step", [1, 3, 100])
def test_bytes_come_as_they_like(old: V08Client, new: Client, step: int) -> None:
    name = f"drip{step}"
    new.create_stream(name)
    new.create_topic(name, "orders", 1)
    sent = send_payload(name, "orders", Partitioning.partition(0), payloads(5))
    data = frames.encode_request(Command.SEND_MESSAGES, sent) + frames.encode_request(Command.PING)
    for at in range(0, len(data), step):
        old.socket.sendall(data[at : at + step])
    assert (old.answer(), old.answer()) == (b"", b"")
    assert len(old.poll(name, "orders", 0, strategy=FIRST).messages) == 5


def test_requests_that_come_together_are_answered_in_order(old: V08Client, new: Client) -> None:
    new.create_stream("line")
    new.create_topic("line", "orders", 1)
    sends = [
        frames.encode_request(
            Command.SEND_MESSAGES,
            send_payload("line", "orders", Partitioning.partition(0), payloads(1, f"{number}-")),
        )
        for number in range(50)
    ]
    old.socket.sendall(b"".join(sends) + frames.encode_request(Command.GET_STREAMS))
    assert [old.answer() for _ in sends] == [b""] * 50
    assert b"\x04line" in old.answer()
    found = old.poll("line", "orders", 0, strategy=FIRST).messages
    assert [one.payload for one in found] == [f"{number}-0".encode() for number in range(50)]


@pytest.mark.parametrize(
    "data",
    [
        (3).to_bytes(4, "little") + bytes(4),  # a length that cannot be
        (1 << 30).to_bytes(4, "little") + int(Command.PING).to_bytes(4, "little"),
        b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
    ],
)
def test_nonsense_ends_the_connection(broker: BrokerProcess, data: bytes) -> None:
    with V08Client(broker.address) as client:
        client.socket.sendall(data)
        assert client.socket.recv(100) == b""
    with V08Client(broker.address) as client:
        assert client.login() == 0


def test_malformed_bodies_are_refused_and_the_connection_lives(old: V08Client) -> None:
    for code in (
        Command.SEND_MESSAGES,
        Command.POLL_MESSAGES,
        Command.CREATE_TOPIC,
        Command.STORE_CONSUMER_OFFSET,
        Command.LEGACY_LOGIN,
        Command.LEGACY_LOGIN_WITH_TOKEN,
        Command.FLUSH_UNSAVED_BUFFER,
    ):
        for body in (b"", b"\x02", b"\xff" * 40):
            with pytest.raises(V08Error):
                old.ask(code, body)
    assert old.ask(Command.PING) == b""


def test_a_large_send_and_its_poll(old: V08Client, new: Client) -> None:
    new.create_stream("large")
    new.create_topic("large", "orders", 1)
    large = [bytes([number]) * 1_000_000 for number in range(12)]
    old.send("large", "orders", Partitioning.partition(0), large)
    found = old.poll("large", "orders", 0, strategy=FIRST).messages
    assert [one.payload for one in found] == large


def test_a_client_that_goes_is_forgotten(broker: BrokerProcess, new: Client) -> None:
    before = len(new.get_clients())
    with V08Client(broker.address) as client:
        client.login(password=PASSWORD)
        client.socket.sendall(frames.encode_request(Command.GET_STREAMS)[:6])
        assert len(new.get_clients()) == before + 1
        client.socket.shutdown(socket.SHUT_WR)
        assert client.socket.recv(10) == b""
    while len(new.get_clients()) != before:
        pass


def test_an_empty_poll_is_a_head() -> None:
    assert decode_poll(bytes(16)).messages == []

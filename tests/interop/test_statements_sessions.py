"""Answers, connections and sessions, statement by statement: see docs/semantics.md."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator

import pytest
from apache_iggy import IggyClient

from access_cases import code_of
from broker_process import PASSWORD, USERNAME, BrokerProcess
from iggy_client import Client
from iggy_wire.batch import Message
from iggy_wire.codes import Command, Operation, is_metadata, is_partition
from iggy_wire.dialect import P11
from iggy_wire.errors import ErrorCode
from iggy_wire.header import EvictionReason, ReplyHeader
from iggy_wire.kernel import xxh3_64
from iggy_wire.primitives import Consumer, Identifier, Partitioning
from iggy_wire.requests import (
    CreateStream,
    DeleteStream,
    GetStream,
    SendMessages,
    StoreConsumerOffset,
    UpdateStream,
)
from iggy_wire.results import split_result
from raw_frames import RawClient
from statement_cases import (
    TOPIC,
    Outcome,
    asked,
    batch_of,
    denied,
    evicted,
    new_name,
    new_stream,
    outcome,
    rejected,
)

READS = (
    Command.GET_STATS, Command.GET_SNAPSHOT, Command.GET_CLUSTER_METADATA,
    Command.DESCRIBE_OPTIONS, Command.GET_ME, Command.GET_CLIENT, Command.GET_CLIENTS,
    Command.GET_USER, Command.GET_USERS, Command.GET_PERSONAL_ACCESS_TOKENS,
    Command.POLL_MESSAGES, Command.GET_CONSUMER_OFFSET, Command.GET_STREAM, Command.GET_STREAMS,
    Command.GET_TOPIC, Command.GET_TOPICS, Command.GET_CONSUMER_GROUP,
    Command.GET_CONSUMER_GROUPS, Command.SYNC_CONSUMER_GROUP, Command.FLUSH_UNSAVED_BUFFER,
)  # fmt: skip
# 150 replaces updates in a later protocol and is refused as unknown.
CHANGES = [one for one in Operation if (is_metadata(one) or is_partition(one)) and one != 150]
NODES_ONLY = (
    Command.ATTACH_CONSUMER_SESSION, Command.GET_POLL_ROUTING, Command.POLL_ON_PRIMARY,
    Command.GET_OFFSET_ROUTING,
)  # fmt: skip


@pytest.fixture
def raw(broker: BrokerProcess) -> Iterator[RawClient]:
    with RawClient(broker.tcp_port) as client:
        client.login()
        yield client


def read(raw: RawClient, code: int, body: bytes = b"") -> Outcome:
    return outcome(*raw.exchange(Operation.NON_REPLICATED, body, code=code))


def test_before_login_there_is_ping_and_nothing_else(broker: BrokerProcess) -> None:
    with RawClient(broker.tcp_port) as raw:
        header, body = raw.exchange(Operation.NON_REPLICATED, code=Command.PING)
        assert (outcome(header, body), body) == (denied(0), b"")
        for command in READS:
            assert read(raw, command) == denied(ErrorCode.UNAUTHENTICATED), command
        for operation in CHANGES:
            answer = outcome(*raw.exchange(operation, session=1))
            assert answer == evicted(EvictionReason.NO_SESSION), operation
        assert read(raw, Command.PING) == denied(0)
        raw.session = raw.request = 0
        raw.login()
        assert read(raw, Command.GET_STREAMS) == denied(0), "the connection survived all that"


def test_commands_that_are_not_served(raw: RawClient) -> None:
    for code in (60_000, 9999, *NODES_ONLY):
        assert read(raw, code) == denied(ErrorCode.INVALID_COMMAND), code
    flush = bytes.fromhex("0104" + "00" * 4) * 2 + bytes(5)
    for body in (b"", flush):
        found = read(raw, Command.FLUSH_UNSAVED_BUFFER, body)
        assert found == denied(ErrorCode.FEATURE_UNAVAILABLE)
    assert read(raw, Command.PING) == denied(0)


def test_bodies_that_do_not_decode_are_denied(raw: RawClient) -> None:
    no_body = (Operation.LOGOUT, Operation.REGISTER)
    for operation in (one for one in CHANGES if one not in no_body):
        for body in (b"", b"\xff", b"\xff" * 40):
            expected = ErrorCode.INVALID_COMMAND
            if is_partition(operation):  # here it is the target that nobody finds
                expected = ErrorCode.RESOURCE_NOT_FOUND
            assert outcome(*raw.exchange(operation, body)) == denied(expected), operation
    for command in (Command.GET_STREAM, Command.GET_TOPIC, Command.GET_CONSUMER_GROUP):
        assert read(raw, command, b"\xff") == denied(ErrorCode.INVALID_COMMAND)


def test_outcomes_are_where_clients_look(broker: BrokerProcess, raw: RawClient) -> None:
    name = new_name()
    assert asked(raw, CreateStream(name)) == rejected(0)
    header, body = raw.ask(CreateStream(name))
    assert outcome(header, body) == rejected(ErrorCode.STREAM_NAME_ALREADY_EXISTS)
    assert isinstance(header, ReplyHeader) and header.status == 0
    assert len(body) == 12 and body[:8] == b"\1\0\0\0" + bytes(4), "one entry with index 0"
    header, body = raw.ask(UpdateStream(Identifier(name), name))
    assert body == bytes(4), "no payload: only the count"
    header, body = raw.ask(GetStream(Identifier("nothing")))
    assert body == b"", "what is absent is no error"
    with broker.client() as client:
        client.create_topic(name, TOPIC, 1)
        client.send(name, TOPIC, Partitioning.partition(0), [Message(b"x")])
    for ack in (0, 1):
        target = (Consumer.plain(1), Identifier(name), Identifier(TOPIC), 0)
        request = StoreConsumerOffset(*target, 0)
        header, body = raw.exchange(request.operation(), request.encode()[:-1] + bytes((ack,)))
        assert (outcome(header, body), body) == (rejected(0), bytes(4))


def test_a_checksum_that_does_not_match_changes_nothing(raw: RawClient) -> None:
    name = new_name()
    body = CreateStream(name).encode()
    right = xxh3_64(body).to_bytes(16, "little")
    for checksum, expected in (
        (bytes(15) + b"\1", denied(ErrorCode.INVALID_FORMAT)),
        (bytes(reversed(right)), denied(ErrorCode.INVALID_FORMAT)),
    ):
        header, answer = raw.exchange(Operation.CREATE_STREAM, body, request_checksum=checksum)
        assert outcome(header, answer) == expected
        _, found = raw.ask(GetStream(Identifier(name)))
        assert found == b""
    for checksum in (right, bytes(16)):
        answer = outcome(*raw.exchange(Operation.CREATE_STREAM, body, request_checksum=checksum))
        assert answer.where == "result"
        assert asked(raw, DeleteStream(Identifier(name))) == rejected(0)


@pytest.mark.parametrize(
    ("username", "password"),
    [
        ("nobody here", PASSWORD),
        (USERNAME, "wrong password"),
        ("ab", PASSWORD),
        ("x" * 51, PASSWORD),
        (USERNAME, "ab"),
        (USERNAME, "x" * 101),
    ],
)
def test_whoever_cannot_log_in_is_told_the_same(
    broker: BrokerProcess, username: str, password: str
) -> None:
    with RawClient(broker.tcp_port) as raw:
        header = raw.login(username, password)
        assert outcome(header, b"") == evicted(EvictionReason.INVALID_CREDENTIALS)
        refused = code_of(lambda: Client.connect(broker.address, username, password))
        assert refused == ErrorCode.INVALID_CREDENTIALS
        raw.login()
        assert raw.session > 0


def test_a_logout_is_a_success_and_ends_everything(broker: BrokerProcess) -> None:
    with broker.client() as admin, broker.client() as member, RawClient(broker.tcp_port) as raw:
        header, body = raw.exchange(Operation.LOGOUT, session=1)
        assert (outcome(header, body), body) == (denied(0), b""), "without a session, too"
        stream = new_stream(admin)
        admin.create_group(stream, TOPIC, "g")
        member.join_group(stream, TOPIC, "g")
        number = member.get_me().client.client_id
        member.logout()
        assert admin.get_client(number) is None
        group = admin.get_group(stream, TOPIC, "g")
        assert group is not None and group.members == ()
        assert code_of(member.get_streams) == ErrorCode.UNAUTHENTICATED
        raw.login()
        header, body = raw.exchange(Operation.LOGOUT)
        assert (outcome(header, body), body) == (denied(0), b"")
        assert read(raw, Command.GET_ME) == denied(ErrorCode.UNAUTHENTICATED)


def test_a_login_says_who_and_what(broker: BrokerProcess) -> None:
    with Client(broker.address) as client:
        told = client.login(USERNAME, PASSWORD)
        assert told.user_id == 0 and told.session > 0
        assert told.protocol_version == P11.version
        assert told.server_version.count(".") >= 2
        with Client(broker.address) as other:
            assert other.login(USERNAME, PASSWORD).session > told.session


def test_sends_and_offsets_have_no_memory(raw: RawClient, broker: BrokerProcess) -> None:
    with broker.client() as client:
        stream = new_stream(client)
        client.send(stream, TOPIC, Partitioning.partition(1), [Message(b"x")] * 3)
        target = (Consumer.plain(9), Identifier(stream), Identifier(TOPIC), 1)
        frames = [raw.frame(StoreConsumerOffset(*target, stored)) for stored in (2, 1)]
        for frame in (*frames, frames[0]):
            raw.send(frame)
            assert outcome(*raw.receive()) == rejected(0)
            stored = client.get_offset(9, stream, TOPIC, 1)
            assert stored is not None
            assert stored.stored_offset == (1 if frame is frames[1] else 2)
        where = (Identifier(stream), Identifier(TOPIC), Partitioning.partition(1))
        again = raw.frame(SendMessages(*where, 1, batch_of(b"sent twice")))
        for _ in range(2):
            raw.send(again)
            assert outcome(*raw.receive()) == denied(0)
        assert client.poll(stream, TOPIC, 1, count=10).count == 3 + 2


def test_the_official_client_keeps_session_codes_to_itself(broker: BrokerProcess) -> None:
    async def work() -> None:
        client = IggyClient(broker.address)
        await client.connect()
        await client.login_user(USERNAME, PASSWORD)
        for code in (Command.LEGACY_LOGIN, Command.LOGOUT, Command.LEGACY_LOGIN_WITH_TOKEN):
            with pytest.raises(RuntimeError, match="Invalid command"):
                await client.send_binary_request(code, b"")
        await client.get_streams()  # still logged in

    asyncio.run(work())


def test_ids_of_streams_begin_at_0_and_are_given_again(raw: RawClient) -> None:
    def made() -> int:
        _, body = raw.ask(CreateStream(f"numbered-{uuid.uuid4().hex[:8]}"))
        return int.from_bytes(split_result(body)[1][:4], "little")

    first, second, third = made(), made(), made()
    assert first < second < third
    for gone in (second, first):
        assert asked(raw, DeleteStream(Identifier(gone))) == rejected(0)
    assert [made(), made()] == [first, second], "the lowest free one first"

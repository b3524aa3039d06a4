"""Retries of changes, several logins, and requests that do not wait for each other's answers."""

from __future__ import annotations

import uuid

import pytest

from broker_process import BrokerProcess
from iggy_wire.batch import Message, build
from iggy_wire.codes import Command, Operation
from iggy_wire.errors import ErrorCode
from iggy_wire.header import EvictionHeader, EvictionReason, ReplyHeader
from iggy_wire.primitives import Consumer, Identifier, Partitioning, PollingStrategy
from iggy_wire.replies import Confirmations
from iggy_wire.requests import CreateStream, PollMessages, SendMessages
from iggy_wire.results import split_result
from raw_frames import RawClient


def new_name() -> str:
    return f"retry-{uuid.uuid4().hex[:8]}"


@pytest.fixture(params=["replicated", "persisted"])
def stream(broker: BrokerProcess, request: pytest.FixtureRequest) -> str:
    name = new_name()
    with broker.client() as client:
        client.create_stream(name)
        client.create_topic(name, "t", 4, {"durability": request.param})
    return name


def test_a_retry_gets_the_same_bytes_and_changes_nothing(broker: BrokerProcess) -> None:
    with RawClient(broker.tcp_port) as client:
        client.login()
        frame = client.frame(CreateStream(new_name()))
        client.send(frame)
        first = client.receive()
        client.send(frame)
        assert client.receive() == first
        assert split_result(first[1])[0] == 0


def test_a_retry_after_five_others_is_told_so(broker: BrokerProcess) -> None:
    with RawClient(broker.tcp_port) as client:
        client.login()
        old = client.frame(CreateStream(new_name()))
        client.send(old)
        client.receive()
        for _ in range(5):
            client.ask(CreateStream(new_name()))
        client.send(old)
        _, body = client.receive()
        assert split_result(body)[0] == ErrorCode.REQUEST_ALREADY_APPLIED


def test_numbers_may_have_gaps(broker: BrokerProcess) -> None:
    with RawClient(broker.tcp_port) as client:
        client.login()
        for number in (5, 7, 1000):
            body = CreateStream(new_name()).encode()
            header, answer = client.exchange(Operation.CREATE_STREAM, body, request=number)
            assert isinstance(header, ReplyHeader)
            assert (header.request, split_result(answer)[0]) == (number, 0)


def test_the_second_login_of_a_connection_keeps_its_session(broker: BrokerProcess) -> None:
    with RawClient(broker.tcp_port) as client:
        client.login()
        session = client.session
        client.session = 0
        client.login()
        assert client.session == session
        client.session = 0
        refused = client.login(password="wrong-password")
        assert isinstance(refused, EvictionHeader)
        assert refused.reason == EvictionReason.INVALID_CREDENTIALS
        header, _ = client.exchange(
            Operation.NON_REPLICATED, code=Command.GET_STREAMS, session=session
        )
        assert isinstance(header, ReplyHeader) and header.status == 0


def test_logins_count_upwards(broker: BrokerProcess) -> None:
    numbers = []
    for _ in range(5):
        with RawClient(broker.tcp_port) as client:
            client.login()
            numbers.append(client.session)
    assert numbers == sorted(set(numbers)) and numbers[0] > 0


def test_sends_in_one_burst_are_answered_in_order(broker: BrokerProcess, stream: str) -> None:
    name, topic = Identifier(stream), Identifier("t")
    with RawClient(broker.tcp_port) as client:
        client.login()
        frames, targets = [], []
        for number in range(600):
            partition = number % 4  # both shards, so answers are ready in another order
            batch = bytes(build([Message(b"%d" % number)], origin_timestamp_us=1))
            target = Partitioning.partition(partition)
            frames.append(client.frame(SendMessages(name, topic, target, 1, batch)))
            targets.append((partition, number // 4))
        poll = PollMessages(Consumer.plain(1), name, topic, 3, PollingStrategy.last(), 1)
        client.send(b"".join(frames) + client.frame(poll))
        for request, (partition, offset) in enumerate(targets, start=1):
            header, body = client.receive()
            assert isinstance(header, ReplyHeader)
            assert (header.status, header.request) == (0, request)
            (confirmation,) = Confirmations.decode(body).confirmations
            assert (confirmation.partition_id, confirmation.base_offset) == (partition, offset)
        header, body = client.receive()
        assert int.from_bytes(body[4:12], "little") == 149  # the poll saw all sends before it


def test_requests_of_all_kinds_in_one_burst_are_answered_in_order(
    broker: BrokerProcess, stream: str
) -> None:
    name, topic = Identifier(stream), Identifier("t")
    batch = bytes(build([Message(b"x" * 50_000)] * 10, origin_timestamp_us=1))
    with RawClient(broker.tcp_port) as client:
        client.login()
        operations = []
        data = b""
        for number in range(20):
            target = Partitioning.partition(number % 4)
            for request in (
                SendMessages(name, topic, target, 10, batch),
                CreateStream(new_name()),
                PollMessages(Consumer.plain(1), name, topic, 1, PollingStrategy.last(), 10),
            ):
                data += client.frame(request)
                operations.append(request.operation())
        client.send(data[: len(data) // 2])
        half = len(operations) // 3
        received = [client.receive() for _ in range(half)]
        client.send(data[len(data) // 2 :])
        received += [client.receive() for _ in range(len(operations) - half)]
        assert [
            header.operation for header, _ in received if isinstance(header, ReplyHeader)
        ] == operations


def test_a_reader_that_is_slow_gets_everything(broker: BrokerProcess, stream: str) -> None:
    name, topic = Identifier(stream), Identifier("t")
    batch = bytes(build([Message(b"x" * 100_000)] * 10, origin_timestamp_us=1))
    with RawClient(broker.tcp_port) as client:
        client.login()
        for partition in range(4):
            client.ask(SendMessages(name, topic, Partitioning.partition(partition), 10, batch))
        polls = [
            PollMessages(Consumer.plain(1), name, topic, number % 4, PollingStrategy.first(), 10)
            for number in range(40)
        ]
        client.send(b"".join(client.frame(poll) for poll in polls))  # 40 MB, of which none is read
        for number in range(40):
            header, body = client.receive()
            assert isinstance(header, ReplyHeader) and header.status == 0
            assert int.from_bytes(body[:4], "little") == number % 4
            assert len(body) == 16 + len(batch)

"""Polls that wait at a real broker until messages are there, on whichever shard (P12)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from broker_process import BrokerProcess, running_broker
from iggy_client.client import Client
from iggy_wire.dialect import P12_0
from iggy_wire.errors import ErrorCode
from iggy_wire.header import PartitionContext
from iggy_wire.permissions import GlobalPermissions, Permissions
from iggy_wire.primitives import Consumer, Identifier, PollingStrategy
from iggy_wire.replies_waiting import ReadyPartitions
from iggy_wire.requests import CreateConsumerGroup, JoinConsumerGroup, Logout, Ping
from iggy_wire.requests_waiting import GetPartitionRoute, WaitForMessages, WaitTarget
from p12_client import P12Client
from p12_waiting import (
    LONG_US,
    PARTITIONS,
    SHORT_US,
    TOPIC,
    WaitingClient,
    new_stream,
    payloads_of,
)
from scraped import Scrape, scrape_until

EVERY = range(PARTITIONS)


@pytest.fixture
def stream(admin: Client) -> str:
    return new_stream(admin)


@pytest.fixture
def reader(broker: BrokerProcess, stream: str) -> Iterator[WaitingClient]:
    with WaitingClient(broker.tcp_port, stream) as client:
        yield client


@pytest.fixture
def writer(broker: BrokerProcess, stream: str) -> Iterator[WaitingClient]:
    with WaitingClient(broker.tcp_port, stream) as client:
        yield client


def none_waits(found: Scrape) -> bool:
    return found.sum("iggy_polls_waiting") == 0


def test_a_route_names_the_life_of_a_partition(reader: WaitingClient) -> None:
    route = reader.read(GetPartitionRoute(reader.stream, TOPIC, 3))

    assert (route.partitions_count, route.replica_id, route.view) == (PARTITIONS, 0, 0)
    assert route.incarnation and route.metadata_op
    for wrong, code in (
        (GetPartitionRoute(reader.stream, TOPIC, PARTITIONS), ErrorCode.PARTITION_NOT_FOUND),
        (GetPartitionRoute(reader.stream, Identifier("x"), 0), ErrorCode.TOPIC_ID_NOT_FOUND),
        (GetPartitionRoute(Identifier("x"), TOPIC, 0), ErrorCode.STREAM_ID_NOT_FOUND),
    ):
        assert reader.ask(wrong).code == code


def test_a_route_is_for_who_may_send_or_poll(
    broker: BrokerProcess, admin: Client, stream: str
) -> None:
    name = f"user-{uuid4().hex[:8]}"
    admin.create_user(name, "secret")
    route = GetPartitionRoute(Identifier(stream), TOPIC, 0)
    with P12Client(broker.tcp_port) as client:
        client.login(name, "secret")
        assert client.ask(route).code == ErrorCode.UNAUTHORIZED
        admin.update_permissions(name, Permissions(GlobalPermissions(send_messages=True)))
        assert client.ask(route).code == 0


def test_what_is_there_comes_at_once(reader: WaitingClient, writer: WaitingClient) -> None:
    for number in EVERY:
        writer.append(number, b"a", b"b")
        reader.poll(number, least=2, auto_commit=True)
        assert payloads_of(reader.answer()) == [b"a", b"b"]

        reader.poll(number, wait_us=0)
        assert payloads_of(reader.answer()) == []


def test_it_comes_when_another_client_has_sent_enough(
    reader: WaitingClient, writer: WaitingClient
) -> None:
    for number in EVERY:
        waiting = reader.poll(number, least=3)
        writer.append(number, b"a")
        writer.append(number, b"b")
        assert reader.ask(Ping()).header.request != waiting  # answered meanwhile, and only that

        writer.append(number, b"c", b"d")

        answer = reader.answer()
        assert answer.header.request == waiting
        assert answer.incarnation == reader.life(number)
        assert payloads_of(answer) == [b"a", b"b", b"c", b"d"]


def test_time_that_is_up_is_an_empty_poll_or_what_there_is(
    reader: WaitingClient, writer: WaitingClient
) -> None:
    for number in EVERY:
        reader.poll(number, wait_us=SHORT_US)
        assert payloads_of(reader.answer()) == []

        writer.append(number, b"a")
        reader.poll(number, wait_us=SHORT_US, least=2)
        assert payloads_of(reader.answer()) == [b"a"]


def test_all_who_wait_for_a_message_get_it(reader: WaitingClient, writer: WaitingClient) -> None:
    waiting = {reader.poll(n, consumer=Consumer.plain(who)) for n in (0, 1) for who in range(5)}
    writer.append(0, b"a")
    writer.append(1, b"a")

    answers = reader.answers(10)

    assert answers.keys() == waiting
    assert all(payloads_of(answer) == [b"a"] for answer in answers.values())


def test_a_cancelled_poll_is_answered_once_and_commits_nothing(
    reader: WaitingClient, writer: WaitingClient
) -> None:
    for number in EVERY:
        waiting = reader.poll(number, auto_commit=True)
        reader.cancel(waiting)
        answer = reader.answer()
        assert answer.header.request == waiting
        assert answer.code == ErrorCode.TRANSIENT_NOT_ACCEPTED

        reader.cancel(waiting)  # it is over: nobody answers
        writer.append(number, b"a")
        reader.poll(number, auto_commit=True)
        assert payloads_of(reader.answer()) == [b"a"]


def test_a_closed_connection_leaves_nothing(
    broker: BrokerProcess, stream: str, reader: WaitingClient
) -> None:
    with WaitingClient(broker.tcp_port, stream) as gone:
        for number in EVERY:
            gone.poll(number, auto_commit=True)
        gone.ask(Ping())
        scrape_until(broker, lambda found: not none_waits(found), "polls wait")

    scrape_until(broker, none_waits, "no poll waits")
    reader.append(0, b"a")
    reader.poll(0, wait_us=0)
    assert payloads_of(reader.answer()) == [b"a"]  # not committed by who is gone


def test_a_wait_ends_when_the_partition_or_its_life_is_gone(
    reader: WaitingClient, admin: Client
) -> None:
    waiting = {reader.poll(number) for number in EVERY}
    admin.delete_topic(str(reader.stream), str(TOPIC))

    answers = reader.answers(PARTITIONS)
    assert answers.keys() == waiting
    assert {answer.code for answer in answers.values()} == {ErrorCode.TOPIC_ID_NOT_FOUND}

    admin.create_topic(str(reader.stream), str(TOPIC), PARTITIONS)
    for number in EVERY:
        reader.poll(number)
        assert reader.answer().code == ErrorCode.HISTORY_UNAVAILABLE


def test_a_session_that_ends_lets_nothing_wait(broker: BrokerProcess, stream: str) -> None:
    with WaitingClient(broker.tcp_port, stream) as client:
        waiting = {client.poll(number) for number in EVERY}

        first = client.ask(Logout())
        found = client.answers(PARTITIONS) | {first.header.request: first}

        assert {found[number].code for number in waiting} == {ErrorCode.UNAUTHENTICATED}


def test_who_waits_for_too_much_is_told(reader: WaitingClient) -> None:
    waiting = {reader.poll(number % PARTITIONS) for number in range(64)}
    late = reader.poll(0)

    answer = reader.answer()
    assert answer.header.request == late
    assert answer.code == ErrorCode.DEFERRED_POLL_CAPACITY_EXCEEDED
    for number in waiting:
        reader.cancel(number)
    assert reader.answers(64).keys() == waiting


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"wait_us": 600_000_001}, ErrorCode.INVALID_COMMAND),
        ({"least": 0}, ErrorCode.INVALID_MESSAGES_COUNT),
        ({"least": 101}, ErrorCode.INVALID_MESSAGES_COUNT),
        ({"max_bytes": 343}, ErrorCode.INVALID_SIZE_BYTES),
    ],
    ids=["wait", "no messages", "more than all", "bytes"],
)
def test_a_limit_is_named(reader: WaitingClient, changes: dict[str, int], code: ErrorCode) -> None:
    reader.poll(0, **changes)  # type: ignore[arg-type]

    assert reader.answer().code == code


def test_only_the_member_who_owns_a_partition_waits_for_it(
    reader: WaitingClient, writer: WaitingClient
) -> None:
    group = Consumer.group("g")
    assert not reader.ask(CreateConsumerGroup(reader.stream, TOPIC, "g")).code
    assert not reader.ask(JoinConsumerGroup(reader.stream, TOPIC, group.id)).code
    for number in EVERY:
        waiting = reader.poll(number, consumer=group, auto_commit=True)
        writer.poll(number, consumer=group)
        assert writer.answer().code == ErrorCode.CONSUMER_GROUP_PARTITION_NOT_OWNED

        writer.append(number, b"a")

        answer = reader.answer()
        assert answer.header.request == waiting and payloads_of(answer) == [b"a"]


def test_a_reply_stays_below_its_bytes_but_for_the_first_batch(
    reader: WaitingClient, writer: WaitingClient
) -> None:
    for number in EVERY:
        for _ in range(4):
            writer.append(number, bytes(100_000))
        reader.poll(number, strategy=PollingStrategy.first(), max_bytes=250_000)
        assert len(payloads_of(reader.answer())) == 2
        reader.poll(number, strategy=PollingStrategy.first(), max_bytes=1_000)
        assert len(payloads_of(reader.answer())) == 1


def test_the_first_step_of_p12_waits_for_several_partitions(
    broker: BrokerProcess, stream: str, writer: WaitingClient
) -> None:
    with WaitingClient(broker.tcp_port, stream, P12_0) as client:
        targets = tuple(WaitTarget(number, PollingStrategy.next()) for number in EVERY)

        def begin(wait_us: int) -> None:
            topic = (Consumer.plain(1), client.stream, TOPIC)
            client.begin(WaitForMessages(*topic, wait_us, wait_us + 1_000_000, targets))

        begin(SHORT_US)
        assert ReadyPartitions.decode(client.answer().payload) == ReadyPartitions()
        for number in EVERY:
            begin(LONG_US)
            writer.append(number, b"a")
            found = ReadyPartitions.decode(client.answer().payload).partition_ids
            assert found and set(found) <= set(range(number + 1))


def test_a_shard_that_stops_answers_who_waits(tmp_path: Path) -> None:
    with running_broker(tmp_path, shards=1) as broker:
        with broker.client() as admin:
            stream = new_stream(admin)
        with WaitingClient(broker.tcp_port, stream) as client:
            client.append(0, b"a")
            waiting = client.poll(0, least=2)
            assert client.ask(Ping(), PartitionContext()).header.request != waiting

            assert broker.stop() == 0

            assert payloads_of(client.answer()) == [b"a"]
            assert client.raw.is_closed()

"""Fetches of several partitions from a real broker, whichever shards own them (P12)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker_process import BrokerProcess
from iggy_client.client import Client
from iggy_wire.dialect import P12_0
from iggy_wire.errors import ErrorCode
from iggy_wire.primitives import PollingStrategy
from iggy_wire.requests import Ping
from p12_waiting import (
    PARTITIONS,
    SHORT_US,
    WaitingClient,
    fetched,
    new_stream,
)

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


def test_it_comes_when_all_partitions_together_have_enough(
    reader: WaitingClient, writer: WaitingClient
) -> None:
    targets = [reader.target(number) for number in EVERY]
    waiting = reader.fetch(targets, least=6, auto_commit=True)
    for _ in range(5):
        writer.append(2, b"a")
    assert reader.ask(Ping()).header.request != waiting

    writer.append(3, b"b")

    reply, found = fetched(reader.answer())
    assert found == {0: [], 1: [], 2: [b"a"] * 5, 3: [b"b"]}
    by_partition = {section.partition_id: section for section in reply.sections}
    assert [by_partition[number].next_offset for number in EVERY] == [0, 0, 5, 1]
    assert [by_partition[number].incarnation for number in EVERY] == [
        reader.life(number) for number in EVERY
    ]

    reader.fetch(targets, wait_us=SHORT_US)
    reply, found = fetched(reader.answer())
    assert not any(found.values())
    by_partition = {section.partition_id: section for section in reply.sections}
    assert [by_partition[number].next_offset for number in EVERY] == [0, 0, 5, 1]


def test_no_limit_is_exceeded(reader: WaitingClient, writer: WaitingClient) -> None:
    for number in EVERY:
        for _ in range(3):
            writer.append(number, bytes(30_000), bytes(30_000))
    targets = [
        reader.target(number, strategy=PollingStrategy.offset(0), max_bytes=150_000)
        for number in EVERY
    ]
    firsts = set()

    for max_bytes, count in ((400_000, 100), (160_000, 100), (1 << 20, 5), (150_000, 1)):
        reader.fetch(targets, max_bytes=max_bytes, count=count)
        reply, found = fetched(reader.answer())
        assert len(reply.records) <= max_bytes
        assert 1 <= sum(map(len, found.values())) <= count
        assert all(section.records_bytes <= 150_000 for section in reply.sections)
        firsts.add(reply.sections[0].partition_id)

    assert firsts == set(EVERY)  # another one is first each time


def test_a_message_that_does_not_fit_is_told_and_not_committed(
    reader: WaitingClient, writer: WaitingClient
) -> None:
    for number in EVERY:
        writer.append(number, bytes(5_000))
        small = reader.target(number, max_bytes=4_000)
        reader.fetch([small], max_bytes=4_000, auto_commit=True)
        (section,) = fetched(reader.answer())[0].sections
        assert section.status == ErrorCode.INVALID_SIZE_BYTES

        reader.fetch([reader.target(number)], auto_commit=True)
        assert fetched(reader.answer())[1] == {number: [bytes(5_000)]}


def test_a_batch_that_does_not_fit_comes_in_parts(
    reader: WaitingClient, writer: WaitingClient
) -> None:
    sent = [bytes([n]) * 1_000 for n in range(10)]
    writer.append(1, *sent)
    found: list[bytes] = []

    while len(found) < len(sent):
        reader.fetch([reader.target(1, max_bytes=4_000)], max_bytes=4_000, auto_commit=True)
        reply, by_partition = fetched(reader.answer())
        assert by_partition[1] and len(reply.records) <= 4_000
        found += by_partition[1]

    assert found == sent


def test_an_error_is_its_partition_s_alone(reader: WaitingClient, writer: WaitingClient) -> None:
    for number in EVERY:
        writer.append(number, b"a")
    targets = [reader.target(number) for number in EVERY[:-1]]
    targets += [reader.target(3, incarnation=1), reader.target(PARTITIONS, incarnation=1)]

    reader.fetch(targets, least=100)  # not waited for: there is something to tell

    reply, found = fetched(reader.answer())
    assert found == {0: [b"a"], 1: [b"a"], 2: [b"a"], 3: [], PARTITIONS: []}
    assert {one.partition_id: one.status for one in reply.sections if one.status} == {
        3: ErrorCode.HISTORY_UNAVAILABLE,
        PARTITIONS: ErrorCode.PARTITION_NOT_FOUND,
    }


def test_a_cancelled_fetch_is_answered_once(reader: WaitingClient) -> None:
    waiting = reader.fetch([reader.target(number) for number in EVERY], auto_commit=True)
    reader.cancel(waiting)

    answer = reader.answer()

    assert (answer.header.request, answer.code) == (waiting, ErrorCode.TRANSIENT_NOT_ACCEPTED)


def test_a_topic_that_is_not_there_is_no_partition_s_error(
    reader: WaitingClient, admin: Client
) -> None:
    target = reader.target(0)
    admin.delete_stream(str(reader.stream))

    reader.fetch([target])

    assert reader.answer().code == ErrorCode.STREAM_ID_NOT_FOUND


def test_the_first_step_of_p12_has_no_fetch(broker: BrokerProcess, stream: str) -> None:
    with WaitingClient(broker.tcp_port, stream, P12_0) as client:
        client.fetch([client.target(0)])

        assert client.answer().code == ErrorCode.INVALID_COMMAND

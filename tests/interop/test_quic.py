"""QUIC clients of a real broker: the released client, and one that cuts frames as it likes."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import struct
import uuid
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from apache_iggy import QuicConfig

from broker_process import PASSWORD, USERNAME, BrokerProcess, running_broker
from iggy_client import messages
from iggy_wire import replies
from iggy_wire.batch import Message, build
from iggy_wire.codes import Operation
from iggy_wire.dialect import P11
from iggy_wire.header import EvictionHeader, ReplyHeader
from iggy_wire.primitives import Consumer as WireConsumer
from iggy_wire.primitives import Identifier, Partitioning
from iggy_wire.primitives import PollingStrategy as Strategy
from iggy_wire.request_base import Request
from iggy_wire.requests import (
    CreateStream,
    GetClients,
    GetStreams,
    Login,
    PollMessages,
    SendMessages,
)
from iggy_wire.results import split_result
from official_round import sent_and_polled
from raw_frames import RawClient
from raw_quic import RawQuic, raw_quic
from scraped import scrape_until

T = TypeVar("T")

QUIC = 2  # in lists of clients
ONE, ALL = WireConsumer.plain(1), Strategy.offset(0)
PARTITIONS = 4  # both shards own some
LARGE = 3 << 20


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder, transports = tmp_path_factory.mktemp("broker"), ["quic"]
    with running_broker(folder, monitoring=True, transports=transports) as running:
        yield running


@pytest.fixture
def stream(broker: BrokerProcess) -> str:
    name = f"stream-{uuid.uuid4().hex[:8]}"
    with broker.client() as admin:
        admin.create_stream(name)
        admin.create_topic(name, "t", PARTITIONS)
    return name


def test_the_official_client_sends_and_polls(broker: BrokerProcess, stream: str) -> None:
    texts = ["small", "x" * LARGE, "last"]

    config = QuicConfig(server_address=f"127.0.0.1:{broker.ports['quic']}")
    assert sent_and_polled(config, stream, PARTITIONS, texts) == [texts] * PARTITIONS
    with broker.client() as admin:
        polled = admin.poll(stream, "t", 0, strategy=Strategy.offset(0), count=10)
        assert [message.payload.decode() for message in messages(polled)] == texts


class Frames:
    """Right frames of one client, which log in first."""

    def __init__(self, client: RawQuic) -> None:
        self._client = client
        self._maker = RawClient.__new__(RawClient)
        self._maker.client, self._maker.session, self._maker.request = secrets.token_bytes(16), 0, 0

    async def log_in(self) -> None:
        header, body = await self._client.exchange(self.login())
        assert isinstance(header, ReplyHeader) and header.status == 0
        self._maker.session = struct.unpack_from("<Q", split_result(body)[1], 4)[0]

    def login(self, username: str = USERNAME) -> bytes:
        body = Login(P11.version, "tests", "1", username, PASSWORD).encode()
        return self._maker.header(Operation.REGISTER, body).encode() + body

    def of(self, request: Request) -> bytes:
        return self._maker.frame(request)


def served(broker: BrokerProcess, work: Callable[[RawQuic, Frames], Awaitable[T]]) -> T:
    """What `work` finds, given a client that is logged in."""

    async def run() -> T:
        async with raw_quic(broker.ports["quic"]) as client:
            frames = Frames(client)
            await frames.log_in()
            return await work(client, frames)

    return asyncio.run(run())


def sending(stream: str, partition: int, payload: bytes) -> SendMessages:
    batch = bytes(build([Message(payload)], origin_timestamp_us=1))
    target = Partitioning.partition(partition)
    return SendMessages(Identifier(stream), Identifier("t"), target, 1, batch)


def test_a_frame_in_any_pieces_is_answered_on_its_stream(
    broker: BrokerProcess, stream: str
) -> None:
    async def work(client: RawQuic, frames: Frames) -> list[int]:
        statuses = []
        for number, piece in enumerate((1, 100, 255, 256, 5000)):
            frame = frames.of(sending(stream, number % PARTITIONS, b"x" * 600))
            header, _ = await client.exchange(frame, piece=piece)
            statuses.append(header.status)
        return statuses

    assert served(broker, work) == [0] * 5


def test_an_answer_does_not_wait_for_the_end_and_a_second_frame_is_ignored(
    broker: BrokerProcess, stream: str
) -> None:
    async def work(client: RawQuic, frames: Frames) -> int:
        reader, writer = await client.open()
        writer.write(frames.of(sending(stream, 0, b"first")) + frames.of(CreateStream("never")))
        header, _ = await client.answer(reader)
        assert header.status == 0
        writer.write_eof()
        rows = replies.Streams.decode((await client.exchange(frames.of(GetStreams())))[1])
        return sum(row.name == "never" for row in rows.streams)

    assert served(broker, work) == 0


def test_clients_are_listed_and_counted_with_their_transport(broker: BrokerProcess) -> None:
    async def work(client: RawQuic, frames: Frames) -> set[int]:
        rows = replies.Clients.decode((await client.exchange(frames.of(GetClients())))[1]).clients
        scrape_until(
            broker,
            lambda found: found.value("iggy_transport_connections", transport="quic") == 1,
            "one client by QUIC",
        )
        return {row.transport for row in rows}

    assert served(broker, work) == {QUIC}


def test_a_wrong_login_is_answered_and_the_connection_stays(broker: BrokerProcess) -> None:
    async def run() -> None:
        async with raw_quic(broker.ports["quic"]) as client:
            frames = Frames(client)
            header, _ = await client.exchange(frames.login("nobody"))
            assert isinstance(header, EvictionHeader)
            await frames.log_in()

    asyncio.run(run())


@pytest.mark.parametrize(
    "start",
    [bytes(256), bytes(48) + (1 << 20).to_bytes(4, "little") + bytes(204)],
    ids=["no frame", "a megabyte of a stranger"],
)
def test_a_stranger_who_sends_what_cannot_be_is_closed(broker: BrokerProcess, start: bytes) -> None:
    async def run() -> bool:
        async with raw_quic(broker.ports["quic"]) as client:
            client.send(start)
            return await client.is_closed()

    assert asyncio.run(run())


def test_gaps_cost_a_stranger_the_connection(broker: BrokerProcess) -> None:
    async def run() -> bool:
        async with raw_quic(broker.ports["quic"]) as client:
            quic = client.protocol._quic
            stream = quic.get_next_available_stream_id()
            quic.send_stream_data(stream, b"x")
            sender = quic._streams[stream].sender
            sender._buffer_start = sender._buffer_stop = 200_000
            sender._buffer.clear()
            quic.send_stream_data(stream, b"y")
            client.protocol.transmit()
            return await client.is_closed()

    assert asyncio.run(run())


def test_datagrams_of_nobody_are_left_alone(broker: BrokerProcess, stream: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for size in (0, 1, 20, 1200, 1500, 60_000):
            sock.sendto(bytes([0xC0]) + os.urandom(size), ("127.0.0.1", broker.ports["quic"]))

    async def work(client: RawQuic, frames: Frames) -> int:
        header, _ = await client.exchange(frames.of(sending(stream, 0, b"still there")))
        return header.status

    assert served(broker, work) == 0


def test_nothing_is_left_of_clients_that_went(broker: BrokerProcess, stream: str) -> None:
    async def work(client: RawQuic, frames: Frames) -> None:
        for _ in range(4):
            await client.exchange(frames.of(sending(stream, 0, os.urandom(500_000))))
        half = frames.of(sending(stream, 0, os.urandom(100_000)))[:-1]
        client.send(half)
        client.send(frames.of(PollMessages(ONE, Identifier(stream), Identifier("t"), 0, ALL, 10)))

    served(broker, work)

    gauges = ("buffers_in_use_bytes", "unread_replies_bytes", "client_queued_bytes")
    found = scrape_until(
        broker,
        lambda found: not any(found.sum(f"iggy_{name}") for name in gauges),
        "no memory",
    )
    assert found.value("iggy_transport_connections", transport="quic") == 0


def test_a_stop_ends_connections_that_have_their_answers(tmp_path: Path) -> None:
    with running_broker(tmp_path, shards=1, transports=["quic"]) as broker:

        async def work(client: RawQuic, frames: Frames) -> bool:
            code = await asyncio.to_thread(broker.stop)
            return code == 0 and await client.is_closed()

        assert served(broker, work)

"""A P12 client over QUIC: the answer to what waits goes back on the stream that asked for it."""

from __future__ import annotations

import asyncio
import secrets
import struct
from collections.abc import Iterator

import pytest

from broker_process import PASSWORD, USERNAME, BrokerProcess, running_broker
from iggy_wire.codes import Operation
from iggy_wire.dialect import P12_2
from iggy_wire.errors import ErrorCode
from iggy_wire.header import PartitionContext, ReplyHeader
from iggy_wire.primitives import Consumer, Identifier, PollingStrategy
from iggy_wire.replies_waiting import PartitionRoute
from iggy_wire.request_base import Request
from iggy_wire.requests import Ping, PollMessages
from iggy_wire.requests_p12 import Login
from iggy_wire.requests_waiting import CancelDeferred, GetPartitionRoute, PollMessagesDeferred
from iggy_wire.results import split_result
from p12_waiting import LONG_US, PARTITIONS, TOPIC, WaitingClient, new_stream
from raw_frames import ANSWER_S, RawClient
from raw_quic import RawQuic, raw_quic
from scraped import Scrape, scrape_until


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("broker")
    with running_broker(folder, monitoring=True, transports=["quic"]) as running:
        yield running


class Frames:
    """Right frames of one client."""

    def __init__(self, client: RawQuic) -> None:
        self._client = client
        self._maker = RawClient.__new__(RawClient)
        self._maker.client, self._maker.session, self._maker.request = secrets.token_bytes(16), 0, 0

    async def log_in(self) -> None:
        secret = secrets.token_bytes(32)
        body = Login(P12_2.version, "tests", "1", secret, USERNAME, PASSWORD).encode()
        frame = self._maker.header(Operation.REGISTER, body).encode() + body
        reply = (await self._client.exchange(frame))[1]
        self._maker.session = struct.unpack_from("<Q", split_result(reply)[1], 4)[0]

    def of(self, request: Request, number: int, life: int = 0) -> bytes:
        body = request.encode()
        fields = {"code": int(request.command), "request": number}
        header = self._maker.header(Operation.NON_REPLICATED, body, **fields)
        return header.encode()[:200] + PartitionContext(life).encode() + bytes(32) + body


def waiting(stream: str, partition: int) -> PollMessagesDeferred:
    topic = (Consumer.plain(1), Identifier(stream), TOPIC)
    poll = PollMessages(*topic, partition, PollingStrategy.next(), 10)
    return PollMessagesDeferred(poll, LONG_US, 1, 1 << 20, LONG_US + 1_000_000)


def nobody_waits(found: Scrape) -> bool:
    return found.sum("iggy_polls_waiting") == 0


def test_answers_find_their_streams_in_any_order(broker: BrokerProcess) -> None:
    with broker.client() as admin:
        stream = new_stream(admin)

    async def run() -> None:
        async with raw_quic(broker.ports["quic"]) as client:
            frames = Frames(client)
            await frames.log_in()
            lives, readers = [], []
            for partition in range(PARTITIONS):
                route = GetPartitionRoute(Identifier(stream), TOPIC, partition)
                _, body = await client.exchange(frames.of(route, 1 + partition))
                lives.append(PartitionRoute.decode(body).incarnation)
            for partition, life in enumerate(lives):
                reader, writer = await client.open()
                writer.write(frames.of(waiting(stream, partition), 10 + partition, life))
                writer.write_eof()
                readers.append(reader)
            header, _ = await client.exchange(frames.of(Ping(), 20))
            assert isinstance(header, ReplyHeader) and header.request == 20

            with WaitingClient(broker.tcp_port, stream) as sender:
                for partition in (2, 0, 3):
                    sender.append(partition, b"a")
            for partition in (3, 0, 2):
                header, body = await client.answer(readers[partition])
                assert isinstance(header, ReplyHeader) and header.request == 10 + partition
                assert struct.unpack_from("<I", body)[0] == partition

            reader, writer = await client.open()
            writer.write(frames.of(CancelDeferred(), 11))
            writer.write_eof()
            assert await asyncio.wait_for(reader.read(), ANSWER_S) == b""
            header, _ = await client.answer(readers[1])
            assert isinstance(header, ReplyHeader)
            assert (header.request, header.status) == (11, ErrorCode.TRANSIENT_NOT_ACCEPTED)

            reader, writer = await client.open()
            writer.write(frames.of(waiting(stream, 1), 30, lives[1]))
            writer.write_eof()
            header, _ = await client.exchange(frames.of(Ping(), 31))
            assert isinstance(header, ReplyHeader) and header.request == 31
            client.protocol._quic.stop_stream(writer.get_extra_info("stream_id"), 0)
            client.protocol.transmit()
            await asyncio.to_thread(scrape_until, broker, nobody_waits, "nobody waits")

            quic = client.protocol._quic  # a cancellation whose end the client does not wait for
            unread, cancel = quic.get_next_available_stream_id(), frames.of(CancelDeferred(), 30)
            quic.send_stream_data(unread, cancel[:100])
            quic.stop_stream(unread, 0)
            for number in (32, 33):
                header, _ = await client.exchange(frames.of(Ping(), number))
                assert isinstance(header, ReplyHeader) and header.request == number
                quic.send_stream_data(unread, cancel[100:])
                cancel = b""
                client.protocol.transmit()

    asyncio.run(run())
    assert broker.stop() == 0

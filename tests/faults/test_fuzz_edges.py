"""Inputs at an edge that ended servers elsewhere: cut bodies, largest messages, long listings."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from apache_iggy import IggyClient

from batches import Body, make_batch
from broker_process import PASSWORD, USERNAME, BrokerProcess, running_broker
from fuzz_frames import Frames
from http_client import http_client
from iggy_client.client import Client, messages
from iggy_client.errors import ClientError
from iggy_wire.batch import Message
from iggy_wire.codes import Operation
from iggy_wire.dialect import P11
from iggy_wire.errors import ErrorCode
from iggy_wire.header import HEADER_BYTES, EvictionHeader
from iggy_wire.primitives import Identifier, Partitioning, PollingStrategy
from iggy_wire.request_base import Request
from iggy_wire.requests import CreateStream, CreateTopic, GetStreams, GetTopics
from raw_frames import Header, RawClient

PARTITIONS = 6  # both shards own some
LISTED = 1000
NAMES = [chr(0x4E00 + number) + "語" * 84 for number in range(LISTED)]  # 255 bytes each


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("edges")
    with running_broker(folder, shards=2, transports=["http"]) as running:
        with running.client() as client:
            client.create_stream("edges")
            client.create_topic("edges", "t", PARTITIONS)
        yield running


def assert_alive(broker: BrokerProcess, shards: list[int]) -> None:
    """The same processes, and a new connection sends to and polls from each partition."""
    assert broker.shard_pids() == shards
    with broker.client() as client:
        for partition in range(PARTITIONS):
            target = Partitioning.partition(partition)
            sent = client.send("edges", "t", target, [Message(b"alive")])
            at = PollingStrategy.offset(sent.base_offset)
            assert client.poll("edges", "t", partition, strategy=at, count=1).count == 1


def everything(client: Client) -> list[object]:
    """What there is, except for messages."""
    return [
        [client.get_stream(stream.id) for stream in client.get_streams()],
        client.get_users(),
        client.get_access_tokens(),
    ]


def whole_requests() -> list[Request]:
    """One request of each command that has a body, and no options, which may be left off."""
    found = {type(one): one for one in Frames(0, "token").requests()}
    with_body = [one for one in found.values() if one.encode() and not getattr(one, "options", ())]
    assert len(with_body) >= len(P11.requests) - 15
    return with_body


@pytest.mark.parametrize("request_", whole_requests(), ids=lambda one: type(one).__name__)
def test_every_cut_body_is_refused_in_time_and_changes_nothing(
    broker: BrokerProcess, request_: Request
) -> None:
    shards = broker.shard_pids()
    operation, body = request_.operation(), bytes(request_.encode())
    code = request_.command if operation == Operation.NON_REPLICATED else 0
    with broker.client() as client:
        before = everything(client)

    with RawClient(broker.tcp_port) as raw:
        raw.login()
        session = 0 if operation == Operation.REGISTER else raw.session
        for length in range(len(body)):
            header, answer = raw.exchange(operation, body[:length], code=code, session=session)
            assert is_refusal(header, answer), f"{length} of {len(body)} bytes were taken"

    with broker.client() as client:
        assert everything(client) == before
    assert_alive(broker, shards)


def is_refusal(header: Header, answer: bytes) -> bool:
    """An eviction, a status, or a result section with one entry."""
    if isinstance(header, EvictionHeader) or header.status:
        return True
    return len(answer) == 12 and answer[:4] == b"\1\0\0\0" and answer[8:] != bytes(4)


@pytest.mark.parametrize("partition", [0, 4])  # of different shards
def test_the_largest_message_comes_back_from_every_shard(
    broker: BrokerProcess, partition: int
) -> None:
    payload = bytes(range(256)) * 250_000
    with broker.client(timeout_s=60) as client:
        target = Partitioning.partition(partition)
        sent = client.send("edges", "t", target, [Message(payload)])
        with pytest.raises(ClientError) as refused:
            batch = client_batch(payload + b"x")
            client.send_batch("edges", "t", partition, batch)
        assert refused.value.code == ErrorCode.TOO_BIG_MESSAGE_PAYLOAD
        at = PollingStrategy.offset(sent.base_offset)
        (found,) = messages(client.poll("edges", "t", partition, strategy=at, count=10))
        assert found.payload == payload
        with http_client(broker) as http:
            query = f"partition_id={partition}&value={sent.base_offset}"
            assert http.payloads("/streams/edges/topics/t", query) == [payload]
        client.purge_topic("edges", "t")


def client_batch(payload: bytes) -> bytes:
    """A batch of one message that our own client would not build."""
    return bytes(make_batch([Body(payload)]))


def create_all(raw: RawClient, requests: list[Request]) -> None:
    """Many creations at once."""
    raw.send(b"".join(raw.frame(request) for request in requests))
    for _ in requests:
        header, answer = raw.receive()
        assert not is_refusal(header, answer)


def listing_bytes(raw: RawClient, request: Request) -> int:
    """Length of a whole listing; the header says the same as what arrives."""
    header, body = raw.ask(request)
    assert not isinstance(header, EvictionHeader)
    assert header.size == HEADER_BYTES + len(body)
    raw.exchange(Operation.NON_REPLICATED, code=1)  # nothing stands behind it
    return len(body)


def test_a_thousand_long_names_are_listed_whole(broker: BrokerProcess) -> None:
    async def official(stream: str | None = None) -> list[tuple[int, str]]:
        client = IggyClient(broker.address)
        await client.connect()
        await client.login_user(USERNAME, PASSWORD)
        found = await (client.get_streams() if stream is None else client.get_topics(stream))
        return [(one.id, one.name) for one in found]

    def over_http(path: str) -> list[tuple[int, str]]:
        return [(one["id"], one["name"]) for one in http.get(path)]

    with RawClient(broker.tcp_port) as raw, http_client(broker) as http:
        raw.login()
        create_all(raw, [CreateStream(name) for name in NAMES])
        assert listing_bytes(raw, GetStreams()) > LISTED * 255
        with broker.client() as client:
            ours = [(stream.id, stream.name) for stream in client.get_streams()]
            assert sorted(asyncio.run(official())) == sorted(ours)
            assert over_http("/streams") == ours
            assert {name for _, name in ours} == {*NAMES, "edges"}

            create_all(raw, [CreateTopic(Identifier(NAMES[0]), 0, name) for name in NAMES])
            assert listing_bytes(raw, GetTopics(Identifier(NAMES[0]))) > LISTED * 255
            topics = [(topic.id, topic.name) for topic in client.get_topics(NAMES[0])]
            assert topics == list(enumerate(NAMES))
            assert asyncio.run(official(NAMES[0])) == topics
            assert over_http(f"/streams/{quote(NAMES[0])}/topics") == topics
            found = client.get_stream(NAMES[0])
            assert found is not None and len(found.topics) == LISTED

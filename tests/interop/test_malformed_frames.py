"""Bytes that no proper client sends: each is refused or ends the connection, never the broker."""

from __future__ import annotations

import itertools
import uuid

import pytest

from broker_process import BrokerProcess
from iggy_client.client import Client
from iggy_client.errors import ClientError
from iggy_wire.batch import Message, build
from iggy_wire.codes import Command, Operation
from iggy_wire.errors import ErrorCode
from iggy_wire.header import EvictionHeader, EvictionReason, ReplyHeader
from iggy_wire.kernel import xxh3_64
from iggy_wire.options import make_options
from iggy_wire.primitives import Consumer, Identifier, Partitioning, PollingStrategy
from iggy_wire.request_base import Request
from iggy_wire.requests import (
    CreateConsumerGroup,
    CreatePartitions,
    CreateStream,
    CreateTopic,
    DeleteConsumerGroup,
    DeleteConsumerOffset,
    DeletePartitions,
    DeleteStream,
    DeleteTopic,
    GetConsumerGroup,
    GetConsumerGroups,
    GetConsumerOffset,
    GetStream,
    GetTopic,
    GetTopics,
    GetUser,
    PollMessages,
    SendMessages,
    StoreConsumerOffset,
    UpdateStream,
    UpdateTopic,
)
from raw_frames import Header, RawClient


@pytest.fixture
def stream(broker: BrokerProcess) -> str:
    """A stream with a topic `t` of four partitions, on both shards."""
    name = f"malformed-{uuid.uuid4().hex[:8]}"
    with broker.client() as client:
        client.create_stream(name)
        client.create_topic(name, "t", 4)
    return name


def assert_alive(broker: BrokerProcess, stream: str) -> None:
    """A new connection logs in, sends one message to each partition and polls it back."""
    assert broker.is_running and len(broker.shard_pids()) == 2
    with broker.client() as client:
        for partition in range(4):
            sent = client.send(stream, "t", Partitioning.partition(partition), [Message(b"alive")])
            polled = client.poll(
                stream, "t", partition, strategy=PollingStrategy.offset(sent.base_offset), count=1
            )
            assert polled.count == 1


def refusal(header: Header) -> int:
    assert isinstance(header, ReplyHeader)
    return header.status


def requests_of(stream: str) -> list[Request]:
    """One valid request of every command with a body."""
    name, topic = Identifier(stream), Identifier("t")
    batch = bytes(build([Message(b"payload", headers=b"")], origin_timestamp_us=1))
    consumer = Consumer.plain("c")
    options = make_options({"durability": "replicated"})
    return [
        GetUser(Identifier("iggy")),
        GetStream(name),
        CreateStream("never"),
        UpdateStream(name, "never"),
        DeleteStream(name),
        GetTopic(name, topic),
        GetTopics(name),
        CreateTopic(name, 1, "never", options),
        UpdateTopic(name, topic, "t", options),
        DeleteTopic(name, topic),
        CreatePartitions(name, topic, 1),
        DeletePartitions(name, topic, 1),
        CreateConsumerGroup(name, topic, "never"),
        DeleteConsumerGroup(name, topic, Identifier("never")),
        GetConsumerGroup(name, topic, Identifier("g")),
        GetConsumerGroups(name, topic),
        SendMessages(name, topic, Partitioning.partition(1), 1, batch),
        PollMessages(consumer, name, topic, 1, PollingStrategy.first(), 1),
        StoreConsumerOffset(consumer, name, topic, 1, 0),
        DeleteConsumerOffset(consumer, name, topic, 1),
        GetConsumerOffset(consumer, name, topic, 1),
    ]


NAMES = [type(request).__name__ for request in requests_of("s")]
# A shorter body of these is another whole request: options are what is left of the body.
OPEN_ENDED = {"CreateTopic", "UpdateTopic"}


@pytest.mark.parametrize("place", range(len(NAMES)), ids=NAMES)
def test_every_cut_body_is_answered_and_changes_nothing(
    broker: BrokerProcess, stream: str, place: int
) -> None:
    request = requests_of(stream)[place]
    body = request.encode()
    operation = request.operation()
    code = request.command if operation == Operation.NON_REPLICATED else 0
    with broker.client() as client:
        before = client.get_stats()

    client_of_cuts = RawClient(broker.tcp_port)
    client_of_cuts.login()
    for length in range(len(body)):
        try:
            header, answer = client_of_cuts.exchange(operation, body[:length], code=code)
        except ConnectionError:
            client_of_cuts = RawClient(broker.tcp_port)
            client_of_cuts.login()
            continue
        if type(request).__name__ not in OPEN_ENDED:
            refused = isinstance(header, EvictionHeader) or header.status != 0
            rejected = len(answer) == 12 and answer[:4] == b"\1\0\0\0"
            assert refused or rejected, f"{length} of {len(body)} bytes were taken"
    client_of_cuts.socket.close()

    with broker.client() as client:
        after = client.get_stats()
        found = client.get_stream(stream)
    assert found is not None
    assert after.messages_count == before.messages_count
    if type(request).__name__ not in OPEN_ENDED:
        assert after.partitions_count == before.partitions_count
        assert after.streams_count == before.streams_count
    assert_alive(broker, stream)


@pytest.mark.parametrize("command", [0, 1, 6, 30, 99, 255])
def test_another_frame_kind_than_request_is_refused(
    broker: BrokerProcess, stream: str, command: int
) -> None:
    with RawClient(broker.tcp_port) as client:
        client.login()
        header, _ = client.exchange(Operation.NON_REPLICATED, command=command, code=Command.PING)
        assert refusal(header) == ErrorCode.INVALID_COMMAND
        header, _ = client.exchange(Operation.NON_REPLICATED, code=Command.PING)
        assert refusal(header) == 0
    assert_alive(broker, stream)


@pytest.mark.parametrize("operation", [0, 4, 63, 127, 151, 159, 163, 255])
def test_unknown_operations_are_refused(broker: BrokerProcess, stream: str, operation: int) -> None:
    with RawClient(broker.tcp_port) as client:
        client.login()
        header, _ = client.exchange(operation, b"")
        if operation == 127:
            assert isinstance(header, EvictionHeader)
            assert header.reason == EvictionReason.INVALID_OPERATION
        else:
            assert refusal(header) == ErrorCode.INVALID_COMMAND
        header, _ = client.exchange(Operation.NON_REPLICATED, code=Command.PING)
        assert refusal(header) == 0
    assert_alive(broker, stream)


@pytest.mark.parametrize("operation", [64, 68, 100, 127])
def test_internal_operations_are_evicted(broker: BrokerProcess, operation: int) -> None:
    with RawClient(broker.tcp_port) as client:
        client.login()
        header, _ = client.exchange(operation)
        assert isinstance(header, EvictionHeader)
        assert header.reason == EvictionReason.INVALID_OPERATION


def test_a_client_id_of_0_is_refused(broker: BrokerProcess) -> None:
    with RawClient(broker.tcp_port) as client:
        header, _ = client.exchange(Operation.NON_REPLICATED, client=bytes(16), code=Command.PING)
        assert refusal(header) == ErrorCode.INVALID_COMMAND


def test_an_unknown_code_is_refused_before_and_after_login(broker: BrokerProcess) -> None:
    with RawClient(broker.tcp_port) as client:
        header, _ = client.exchange(Operation.NON_REPLICATED, code=9999)
        assert refusal(header) == ErrorCode.UNAUTHENTICATED
        client.login()
        header, _ = client.exchange(Operation.NON_REPLICATED, code=9999)
        assert refusal(header) == ErrorCode.INVALID_COMMAND
        header, _ = client.exchange(Operation.NON_REPLICATED, code=Command.PING)
        assert refusal(header) == 0


@pytest.mark.parametrize("code", [38, 44, Command.BIND_SESSION])  # the last one without a body
def test_old_logins_are_evicted(broker: BrokerProcess, code: int) -> None:
    with RawClient(broker.tcp_port) as client:
        header, _ = client.exchange(Operation.NON_REPLICATED, code=code)
        assert isinstance(header, EvictionHeader)
        assert header.reason == EvictionReason.MALFORMED_LOGIN


@pytest.mark.parametrize("code", sorted(set(Command) - {15, 38, 39, 40, 44, 45, 100, 120}))
def test_every_known_code_is_answered(broker: BrokerProcess, code: int) -> None:
    with RawClient(broker.tcp_port) as client:
        client.login()
        header, _ = client.exchange(Operation.NON_REPLICATED, code=code)
        assert isinstance(header, ReplyHeader)
        header, _ = client.exchange(Operation.NON_REPLICATED, code=Command.PING)
        assert refusal(header) == 0


@pytest.mark.parametrize("size", [0, 1, 255, (64 << 20) + 1, (1 << 32) - 1])
def test_an_impossible_length_closes_the_connection(broker: BrokerProcess, size: int) -> None:
    with RawClient(broker.tcp_port) as client:
        client.login()
        header = client.header(Operation.NON_REPLICATED, b"", size=size, code=Command.PING)
        client.send(header.encode())
        assert client.is_closed()


def test_nobody_knows_a_client_before_login(broker: BrokerProcess) -> None:
    with RawClient(broker.tcp_port) as client:
        for operation in (Operation.CREATE_STREAM, Operation.SEND_MESSAGES, 100):
            header, _ = client.exchange(operation, session=1)
            assert isinstance(header, EvictionHeader)
            assert header.reason == EvictionReason.NO_SESSION
        header, _ = client.exchange(Operation.NON_REPLICATED, code=Command.POLL_MESSAGES)
        assert refusal(header) == ErrorCode.UNAUTHENTICATED


def test_a_wrong_request_checksum_is_refused(broker: BrokerProcess) -> None:
    body = CreateStream(f"checked-{uuid.uuid4().hex[:8]}").encode()
    right = xxh3_64(body).to_bytes(16, "little")
    with RawClient(broker.tcp_port) as client:
        client.login()
        wrong = bytes((right[0] ^ 1,)) + right[1:]
        header, _ = client.exchange(Operation.CREATE_STREAM, body, request_checksum=wrong)
        assert refusal(header) == ErrorCode.INVALID_FORMAT
        header, _ = client.exchange(Operation.CREATE_STREAM, body, request_checksum=right)
        assert refusal(header) == 0


def test_other_versions_are_evicted_with_the_window(broker: BrokerProcess) -> None:
    with RawClient(broker.tcp_port) as client:
        for version in (0, 1, 99 << 20):
            header, _ = client.exchange(Operation.REGISTER, version.to_bytes(4, "little"))
            assert isinstance(header, EvictionHeader)
            assert header.reason == EvictionReason.INCOMPATIBLE_PROTOCOL
            assert 0 < header.version_min <= header.version_max
        header, _ = client.exchange(Operation.REGISTER, b"\0")
        assert isinstance(header, EvictionHeader)
        assert header.reason == EvictionReason.MALFORMED_LOGIN


def broken_batches() -> dict[str, tuple[bytes, ErrorCode]]:
    """What a producer may get wrong in a batch of three, and the refusal."""
    batch = bytes(build([Message(b"abc")] * 3, origin_timestamp_us=1))

    def with_byte(at: int, value: int) -> bytes:
        return batch[:at] + bytes((value,)) + batch[at + 1 :]

    return {
        "batch checksum": (with_byte(40, batch[40] ^ 1), ErrorCode.INVALID_BATCH_CHECKSUM),
        "frame checksum": (with_byte(256, batch[256] ^ 1), ErrorCode.INVALID_MESSAGE_CHECKSUM),
        "payload": (with_byte(256 + 48, 0), ErrorCode.INVALID_MESSAGE_CHECKSUM),
        "reserved byte": (with_byte(100, 1), ErrorCode.INVALID_RESERVED_FIELD),
        "length": (batch + b"\0", ErrorCode.INVALID_FORMAT),
        "no frames": (batch[:256], ErrorCode.INVALID_FORMAT),
        "half a header": (batch[:100], ErrorCode.INVALID_FORMAT),
    }


@pytest.mark.parametrize("partition", range(4))
@pytest.mark.parametrize("what", broken_batches())
def test_a_broken_batch_is_refused_and_not_stored(
    broker: BrokerProcess, stream: str, what: str, partition: int
) -> None:
    batch, code = broken_batches()[what]
    target = Partitioning.partition(partition)
    with RawClient(broker.tcp_port) as client:
        client.login()
        name, topic = Identifier(stream), Identifier("t")
        header, body = client.ask(SendMessages(name, topic, target, 3, batch))
        assert (refusal(header), body) == (code, b"")
    with broker.client() as ours:
        assert ours.send(stream, "t", target, [Message(b"next")]).base_offset == 0


def test_a_wrong_message_count_is_refused(broker: BrokerProcess, stream: str) -> None:
    batch = bytes(build([Message(b"abc")] * 3, origin_timestamp_us=1))
    with RawClient(broker.tcp_port) as client:
        client.login()
        for count in (0, 2, 4):
            request = SendMessages(
                Identifier(stream), Identifier("t"), Partitioning.partition(0), count, batch
            )
            header, _ = client.ask(request)
            assert refusal(header) == ErrorCode.INVALID_MESSAGES_COUNT


def test_missing_targets_have_their_own_errors(broker: BrokerProcess, stream: str) -> None:
    batch = bytes(build([Message(b"abc")], origin_timestamp_us=1))
    name, topic, missing = Identifier(stream), Identifier("t"), Identifier("missing")
    consumer, first = Consumer.plain(1), PollingStrategy.first()
    expected: list[tuple[Request, ErrorCode]] = [
        (
            SendMessages(missing, topic, Partitioning.balanced(), 1, batch),
            ErrorCode.RESOURCE_NOT_FOUND,
        ),
        (
            SendMessages(name, missing, Partitioning.balanced(), 1, batch),
            ErrorCode.RESOURCE_NOT_FOUND,
        ),
        (
            SendMessages(name, topic, Partitioning.partition(4), 1, batch),
            ErrorCode.RESOURCE_NOT_FOUND,
        ),
        (PollMessages(consumer, missing, topic, 0, first, 1), ErrorCode.STREAM_ID_NOT_FOUND),
        (PollMessages(consumer, name, missing, 0, first, 1), ErrorCode.TOPIC_ID_NOT_FOUND),
        (PollMessages(consumer, name, topic, 4, first, 1), ErrorCode.PARTITION_NOT_FOUND),
        (StoreConsumerOffset(consumer, name, topic, 4, 0), ErrorCode.RESOURCE_NOT_FOUND),
        (StoreConsumerOffset(consumer, name, topic, None, 0), ErrorCode.RESOURCE_NOT_FOUND),
        (DeleteConsumerOffset(consumer, missing, topic, 0), ErrorCode.RESOURCE_NOT_FOUND),
        (GetConsumerOffset(consumer, name, topic, 4), ErrorCode.PARTITION_NOT_FOUND),
    ]
    with RawClient(broker.tcp_port) as client:
        client.login()
        for request, code in expected:
            header, body = client.ask(request)
            assert (refusal(header), body) == (code, b""), request
        header, body = client.ask(GetConsumerOffset(consumer, missing, topic, 0))
        assert (refusal(header), body) == (0, b"")


def test_a_slow_sender_of_half_frames_holds_up_nobody(broker: BrokerProcess, stream: str) -> None:
    frame_of = RawClient(broker.tcp_port)
    frame_of.login()
    batch = bytes(build([Message(b"x" * 100_000)] * 10, origin_timestamp_us=1))
    frame = frame_of.frame(
        SendMessages(Identifier(stream), Identifier("t"), Partitioning.partition(0), 10, batch)
    )
    cuts = [0, 1, 100, 256, 300, 500_000, len(frame)]
    for start, end in itertools.pairwise(cuts):
        frame_of.send(frame[start:end])
        assert_alive(broker, stream)
    header, _ = frame_of.receive()
    assert refusal(header) == 0
    frame_of.socket.close()


def test_clients_of_our_own_see_the_same_codes(broker: BrokerProcess) -> None:
    with Client(broker.address) as client:
        client.ping()
        with pytest.raises(ClientError) as refused:
            client.get_streams()
        assert refused.value.code == ErrorCode.UNAUTHENTICATED
        client.login("iggy", "secret-of-tests")
        client.ping()

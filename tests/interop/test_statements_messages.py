"""Sending and polling, statement by statement: see docs/semantics.md."""

from __future__ import annotations

import struct

import pytest

from batches import Body, make_batch
from broker_process import BrokerProcess
from group_cases import wait_for
from iggy_client import Client, messages
from iggy_wire.batch import Message
from iggy_wire.codes import Command, Operation
from iggy_wire.errors import ErrorCode
from iggy_wire.header import ReplyHeader
from iggy_wire.primitives import Consumer, Identifier, Partitioning, PollingStrategy
from iggy_wire.replies import Confirmations, Polled
from iggy_wire.requests import PollMessages, SendMessages
from raw_frames import RawClient
from statement_cases import (
    PARTITIONS,
    TOPIC,
    asked,
    batch_of,
    denied,
    new_name,
    new_stream,
    outcome,
    send,
)

FIRST, LAST, NEXT = PollingStrategy.first(), PollingStrategy.last(), PollingStrategy.next()
offset, timestamp = PollingStrategy.offset, PollingStrategy.timestamp
T = Identifier(TOPIC)
EMPTY_POLL = bytes(16)
BATCHES = 4
TENS = 10 * BATCHES


@pytest.fixture
def stream(admin: Client) -> str:
    return new_stream(admin)


@pytest.fixture
def tens(admin: Client, stream: str) -> str:
    """Every partition has four batches of ten messages."""
    for partition in range(PARTITIONS):
        for batch in range(BATCHES):
            sent = [f"{partition}/{10 * batch + number}".encode() for number in range(10)]
            assert send(admin, stream, partition, *sent) == 10 * batch
    return stream


def offsets(polled: Polled) -> list[int]:
    return [message.offset for message in messages(polled)]


# -- sending ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bodies", "code"),
    [
        ([], ErrorCode.INVALID_MESSAGES_COUNT),
        ([Body(b"x"), Body(b"")], ErrorCode.EMPTY_MESSAGE_PAYLOAD),
        ([Body(bytes(64_000_001))], ErrorCode.TOO_BIG_MESSAGE_PAYLOAD),
        ([Body(b"x", headers=bytes(100_001))], ErrorCode.TOO_BIG_USER_HEADERS),
        ([Body(bytes(64_000_000))], 0),
        ([Body(b"x", headers=bytes(100_000))], 0),
    ],
    ids=["none", "empty", "payload", "headers", "largest payload", "largest headers"],
)
def test_limits_of_one_message(
    raw: RawClient, admin: Client, stream: str, bodies: list[Body], code: int
) -> None:
    for partition in range(PARTITIONS if len(bodies) != 1 else 1):
        target = (Identifier(stream), T, Partitioning.partition(partition))
        request = SendMessages(*target, len(bodies), bytes(make_batch(bodies)))

        assert asked(raw, request) == denied(code)

        polled = admin.poll(stream, TOPIC, partition, strategy=FIRST, count=10)
        assert polled.count == (0 if code else len(bodies)), "a refused batch is not stored"
        if not code:
            (found,) = messages(polled)
            assert (found.payload, found.headers) == (bodies[0].payload, bodies[0].headers)


def test_what_is_not_there_cannot_be_sent_to(raw: RawClient, admin: Client, stream: str) -> None:
    admin.create_topic(stream, "bare", 0)
    missing, batch, bare = Identifier("missing"), batch_of(b"x"), Identifier("bare")
    not_found = denied(ErrorCode.RESOURCE_NOT_FOUND)
    s = Identifier(stream)
    ways = (Partitioning.balanced(), Partitioning.key(b"k"), Partitioning.partition(0))
    for way in ways:
        for where in ((missing, T), (s, missing), (s, bare)):
            assert asked(raw, SendMessages(*where, way, 1, batch)) == not_found
    beyond = Partitioning.partition(PARTITIONS)
    assert asked(raw, SendMessages(s, T, beyond, 1, batch)) == not_found


def test_balanced_begins_at_partition_0_also_for_a_namesake(admin: Client, stream: str) -> None:
    for _ in range(2):
        landed = [
            admin.send(stream, TOPIC, Partitioning.balanced(), [Message(b"x")]).partition_id
            for _ in range(PARTITIONS + 1)
        ]
        assert landed == [0, 1, 2, 3, 0]
        admin.delete_topic(stream, TOPIC)
        admin.create_topic(stream, TOPIC, PARTITIONS)


@pytest.mark.parametrize(
    ("key", "hash_"),
    [
        (b"user_123", 0xFD6BEDC2),
        ("żółć".encode(), 0x8C4FA824),
        ((1337).to_bytes(4, "little"), 0x1C4D6FB5),
        ((1).to_bytes(8, "little"), 0x08ED6331),
        ((1).to_bytes(16, "little"), 0xB675D3C5),
    ],
)
def test_a_key_leads_to_the_partition_of_its_hash(
    admin: Client, stream: str, key: bytes, hash_: int
) -> None:
    for count in (PARTITIONS, PARTITIONS + 1):
        for _ in range(2):
            landed = admin.send(stream, TOPIC, Partitioning.key(key), [Message(b"k")])
            assert landed.partition_id == hash_ % count
        admin.create_partitions(stream, TOPIC, 1)


def test_a_confirmation_says_where_the_batch_is(raw: RawClient, admin: Client, stream: str) -> None:
    described = admin.get_stream(stream)
    assert described is not None
    for partition in range(PARTITIONS):
        for base in (0, 3):
            target = (Identifier(stream), T, Partitioning.partition(partition))
            header, body = raw.ask(SendMessages(*target, 3, batch_of(b"a", b"b", b"c")))
            assert isinstance(header, ReplyHeader) and header.status == 0
            (told,) = Confirmations.decode(body).confirmations
            at = (told.stream_id, told.topic_id, told.partition_id, told.base_offset)
            assert at == (described.stream.id, 0, partition, base)


def test_messages_come_back_as_they_were_sent(raw: RawClient, admin: Client, stream: str) -> None:
    headers = bytes(range(256))
    bodies = [Body(b"first", id=0), Body(b"\0\xff", headers=headers, id=7, time_delta=5)]
    s, way = Identifier(stream), Partitioning.partition(1)
    for _ in range(2):  # the same ids again: they are not looked at
        assert asked(raw, SendMessages(s, T, way, 2, bytes(make_batch(bodies)))) == denied(0)

    found = list(messages(admin.poll(stream, TOPIC, 1, strategy=FIRST, count=10)))

    assert [one.offset for one in found] == [0, 1, 2, 3]
    assert [one.payload for one in found] == [b"first", b"\0\xff"] * 2
    assert [one.headers for one in found] == [b"", headers] * 2
    assert [one.id for one in found] == [0, 7] * 2
    origin_us = 77  # of `make_batch`
    assert [one.origin_timestamp_us for one in found] == [origin_us, origin_us + 5] * 2
    first, second = found[0].timestamp_us, found[2].timestamp_us
    assert [one.timestamp_us for one in found] == [first, first, second, second]
    assert first < second, "the broker's time rises from batch to batch"


def test_what_was_acknowledged_is_seen_by_everybody(broker: BrokerProcess, stream: str) -> None:
    with broker.client() as producer, broker.client() as one, broker.client() as other:
        for number in range(30):
            topic = new_name()
            producer.create_topic(stream, topic, PARTITIONS)
            for client in (one, other):  # the topic is there for all at once, and so is a message
                base = send(client, stream, number % PARTITIONS, b"x", topic=topic)
                polled = producer.poll(stream, topic, number % PARTITIONS, strategy=LAST, count=1)
                assert offsets(polled) == [base]


# -- polling ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "count", "expected"),
    [
        (offset(0), 5, range(5)),
        (offset(8), 4, range(8, 12)),
        (offset(19), 1, range(19, 20)),
        (offset(9), 22, range(9, 31)),
        (offset(35), 100, range(35, TENS)),
        (offset(TENS), 5, range(0)),
        (offset((1 << 64) - 1), 5, range(0)),
        (offset(5), 0, range(0)),
        (FIRST, 3, range(3)),
        (FIRST, 0, range(0)),
        (LAST, 3, range(TENS - 3, TENS)),
        (LAST, 1000, range(TENS)),
        (LAST, 0, range(0)),
        (NEXT, 7, range(7)),
        (timestamp(0), 2, range(2)),
        (timestamp((1 << 64) - 1), 2, range(0)),
        (FIRST, (1 << 32) - 1, range(TENS)),
    ],
    ids=str,
)
def test_a_poll_gives_exactly_these(
    admin: Client, tens: str, strategy: PollingStrategy, count: int, expected: range
) -> None:
    for partition in range(PARTITIONS):
        for _ in range(2):  # nothing is committed: the same again
            polled = admin.poll(tens, TOPIC, partition, strategy=strategy, count=count)
            found = list(messages(polled))
            assert [one.offset for one in found] == list(expected)
            assert [one.payload.decode() for one in found] == [
                f"{partition}/{number}" for number in expected
            ]
            assert (polled.partition_id, polled.current_offset) == (partition, TENS - 1)
        assert admin.get_offset(0, tens, TOPIC, partition) is None


def test_a_time_leads_to_the_first_message_of_a_batch(admin: Client, tens: str) -> None:
    for partition in (0, 1, 2, 3):
        polled = admin.poll(tens, TOPIC, partition, strategy=FIRST, count=TENS)
        times = [one.timestamp_us for one in messages(polled)][::10]
        assert times == sorted(set(times)) and len(times) == BATCHES
        for place, time_us in enumerate(times):
            for at_us, batch in ((time_us, place), (time_us + 1, place + 1)):
                found = offsets(
                    admin.poll(tens, TOPIC, partition, strategy=timestamp(at_us), count=1)
                )
                assert found == ([10 * batch] if batch < BATCHES else [])


@pytest.mark.parametrize("strategy", [FIRST, LAST, NEXT, offset(0), offset(9), timestamp(0)])
def test_an_empty_partition_answers_at_once_with_nothing(
    admin: Client, stream: str, strategy: PollingStrategy
) -> None:
    for partition in range(PARTITIONS):
        polled = admin.poll(stream, TOPIC, partition, strategy=strategy, count=5, auto_commit=True)
        assert (polled.partition_id, polled.current_offset, polled.count) == (partition, 0, 0)
        assert admin.get_offset(0, stream, TOPIC, partition) is None


@pytest.mark.parametrize(
    "strategy", [FIRST, LAST, NEXT, offset(3), timestamp(0)], ids=lambda one: one.kind.name
)
def test_auto_commit_stores_the_last_that_was_given(
    admin: Client, tens: str, strategy: PollingStrategy
) -> None:
    for partition in range(PARTITIONS):
        polled = admin.poll(
            tens, TOPIC, partition, consumer="c", strategy=strategy, count=5, auto_commit=True
        )
        last = offsets(polled)[-1]
        stored = admin.get_offset("c", tens, TOPIC, partition)
        assert stored is not None and stored.stored_offset == last
        following = admin.poll(tens, TOPIC, partition, consumer="c", count=1)
        assert offsets(following) == ([last + 1] if last + 1 < TENS else [])
        for again, count in ((offset(0), 1), (offset(TENS), 1), (FIRST, 0)):
            admin.poll(
                tens, TOPIC, partition, consumer="c", strategy=again, count=count, auto_commit=True
            )
        stored = admin.get_offset("c", tens, TOPIC, partition)
        assert stored is not None and stored.stored_offset == last, "never back"
        admin.store_offset("c", tens, TOPIC, partition, 0)
        stored = admin.get_offset("c", tens, TOPIC, partition)
        assert stored is not None and stored.stored_offset == 0, "but a store may"


def test_a_consumer_is_a_number_or_the_hash_of_a_name(broker: BrokerProcess, tens: str) -> None:
    numbers = {"test-consumer": 3577999708, "my-consumer": 2115191887, "consumer-1": 1338303147}
    with broker.client() as one, broker.client() as other:
        for place, (name, number) in enumerate(numbers.items()):
            one.store_offset(name, tens, TOPIC, 1, 10 + place)
            stored = other.get_offset(number, tens, TOPIC, 1)
            assert stored is not None and stored.stored_offset == 10 + place
            assert offsets(other.poll(tens, TOPIC, 1, consumer=number, count=1)) == [11 + place]
        # A group of the same number has an offset of its own.
        made = one.create_group(tens, TOPIC, "g")
        one.join_group(tens, TOPIC, "g")
        one.store_offset(made.group.id, tens, TOPIC, 1, 5)
        assert one.get_offset(Consumer.group("g"), tens, TOPIC, 1) is None


def test_without_a_partition_a_consumer_reads_partition_0(admin: Client, tens: str) -> None:
    polled = admin.poll(tens, TOPIC, None, strategy=FIRST, count=1)

    assert polled.partition_id == 0
    assert [one.payload for one in messages(polled)] == [b"0/0"]


def test_what_is_not_there_cannot_be_polled(raw: RawClient, stream: str) -> None:
    s, missing, consumer = Identifier(stream), Identifier("missing"), Consumer.plain(1)
    for where, partition, code in (
        ((missing, T), 0, ErrorCode.STREAM_ID_NOT_FOUND),
        ((s, missing), 0, ErrorCode.TOPIC_ID_NOT_FOUND),
        ((s, T), PARTITIONS, ErrorCode.PARTITION_NOT_FOUND),
    ):
        request = PollMessages(consumer, *where, partition, FIRST, 1)
        assert asked(raw, request) == denied(code)


def test_a_poll_of_an_unknown_kind_is_answered_with_an_empty_one_and_a_cut_one_refused(
    raw: RawClient, admin: Client, tens: str
) -> None:
    good = PollMessages(Consumer.plain(1), Identifier(tens), T, 1, FIRST, 1).encode()
    wrong_strategies = [good[:-14] + bytes((kind,)) + good[-13:] for kind in (0, 6, 255)]
    wrong_kinds = [bytes((kind,)) + good[1:] for kind in (0, 3, 255)]
    for body in (b"", good[:-1], good[:20]):
        header, answer = raw.exchange(Operation.NON_REPLICATED, body, code=Command.POLL_MESSAGES)
        assert outcome(header, answer) == denied(ErrorCode.INVALID_COMMAND)
    cases = [*wrong_strategies, *wrong_kinds, good[:-1] + b"\2"]
    for body in (good, *cases, good):  # also where the connection remembers the target
        header, answer = raw.exchange(Operation.NON_REPLICATED, body, code=Command.POLL_MESSAGES)
        assert outcome(header, answer) == denied(0)
        assert (answer == EMPTY_POLL) is (body != good)
    assert admin.get_offset(1, tens, TOPIC, 1) is None


def test_below_the_oldest_message_a_poll_starts_at_the_oldest(admin: Client) -> None:
    stream = new_stream(admin, segment_size=1 << 20)
    for _ in range(4):
        send(admin, stream, 2, bytes(600_000), bytes(600_000))
    admin.delete_segments(stream, TOPIC, 2, 2)

    def oldest(strategy: PollingStrategy) -> list[int]:
        return offsets(admin.poll(stream, TOPIC, 2, strategy=strategy, count=1))

    wait_for(lambda: oldest(FIRST) == [4])
    assert [oldest(one) for one in (offset(0), offset(3), NEXT, timestamp(0))] == [[4]] * 4
    found = admin.get_topic(stream, TOPIC)
    assert found is not None
    told = found.partitions[2]
    assert (told.current_offset, told.messages_count, told.segments_count) == (7, 4, 3)
    assert send(admin, stream, 2, b"next") == 8


def test_a_cut_batch_is_a_valid_batch(raw: RawClient, tens: str) -> None:
    request = PollMessages(Consumer.plain(1), Identifier(tens), T, 3, offset(8), 4)
    _, body = raw.ask(request)

    polled = Polled.decode(body)
    assert (polled.count, offsets(polled)) == (4, [8, 9, 10, 11])
    lengths = []
    region = bytes(polled.region)
    while region:
        length, count = struct.unpack_from("<Q", region, 32)[0], region[48]
        lengths.append(count)
        region = region[length:]
    assert lengths == [2, 2]
